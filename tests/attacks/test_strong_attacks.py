"""APGD, FAB, Square and their ensembles: against what is known exactly, and against their own definitions."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from layers import Layer, seeded
from scipy.optimize import linprog, minimize
from torch import nn

from classwise.attacks import ATTACKS, CW, PGD, NAttack
from classwise.attacks.autoattack import APGD, FAB, APGDThenSquare, AutoAttack, Strong, onto_plane, windows
from classwise.attacks.balls import L2, Linf
from classwise.attacks.losses import dlr, margin_loss, targeted_dlr
from classwise.attacks.relaxation import CR, ConstraintRelaxation
from classwise.attacks.square import Square
from classwise.core.errors import UserError


def linear(kind, classes=3):
    """A linear classifier, images well inside [0, 1], their labels and exact distances to the next class.

    The distance is the margin over the dual norm of the difference of weights.
    """
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, classes))
    x = 0.5 + 0.05 * torch.randn(40, 3, 2, 2, generator=seeded(1))
    with torch.no_grad():
        logits, weight = model(x), model[1].weight
        y = logits.argmax(1)
        gaps = logits.gather(1, y[:, None]) - logits
        widths = (weight[y][:, None] - weight[None]).norm(1 if kind is Linf else 2, dim=2)
        distance = torch.where(torch.arange(classes) == y[:, None], torch.inf, gaps / widths).amin(1)
    reach = distance.view(-1, 1, 1, 1)
    assert kind is L2 or ((x > reach) & (x + reach < 1)).all(), "no distance reaches the edge of the box"
    return model, x, y, distance


# The untargeted ratio is left out: even a linear classifier of three classes gives it local optima.
ATTACKERS = {
    "pgd": (PGD(steps=20), Linf, 1.02),
    "apgd-ce": (APGD(), Linf, 1.02),
    "apgd-t": (APGD(loss="dlr-targeted"), Linf, 1.02),
    "apgd-t in l2": (APGD(loss="dlr-targeted"), L2, 1.03),
    "strong": (Strong(), Linf, 1.02),
    "autoattack": (AutoAttack(queries=20), Linf, 1.02),
    "autoattack in l2": (AutoAttack(queries=20), L2, 1.03),
    "relaxation": (ConstraintRelaxation(), Linf, 1.02),
    "cr": (CR(queries=20), Linf, 1.02),
}


@pytest.mark.parametrize("name", ATTACKERS)
def test_a_linear_classifier_is_broken_exactly_within_its_distance(name):
    attack, kind, above = ATTACKERS[name]
    model, x, y, distance = linear(kind, 2 if name == "pgd" else 3)  # of two classes the gradient of PGD points at the other
    for factor, broken in ((0.98, False), (above, True)):
        attacked = attack(model, x, y, kind(distance * factor), seeded())
        assert ((model(attacked).argmax(1) != y) == broken).all()


@pytest.mark.parametrize("kind", [Linf, L2])
def test_fab_finds_the_exact_distance_of_a_linear_classifier(kind):
    model, x, y, distance = linear(kind)
    found = FAB(steps=20)(model, x, y, kind(0.0), seeded())
    assert (model(found).argmax(1) != y).all()
    ratio = kind(0.0).distance(found, x) / distance
    assert 1 - 1e-3 <= ratio.min() <= ratio.max() <= 1.02


def test_a_pixel_that_says_nothing_is_left_alone():
    for pace in (torch.ones(1, 3), torch.tensor([[0.0, 1.0, 0.0]])):
        found = onto_plane(torch.tensor([[0.3, 0.6, 0.1]]), torch.tensor([[0.0, -1.0, 0.0]]), torch.tensor([-0.9]), pace)
        assert found[0].tolist() == pytest.approx([0.3, 0.9, 0.1])


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_plane_is_reached_by_the_shortest_way(norm):
    """Against solvers; a pixel that says nothing stays, and of a plane outside the box the nearest corner is reached."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        x, normal, inner = rng.random(5), rng.normal(size=5) * [0, 1, 1, 1, 1], rng.random(5)
        offset, pace = float(normal @ inner), np.ones(5) if norm == "linf" else np.abs(normal)
        point, slope, planes, speed = (torch.tensor(one)[None] for one in (x, normal, np.array([offset, 100.0]), pace))
        found, corner = (onto_plane(point, slope, planes[:, place], speed)[0].numpy() for place in (0, 1))
        assert normal @ found == pytest.approx(offset, abs=1e-9)
        assert 0 <= found.min() <= found.max() <= 1
        assert found[0] == x[0]
        assert corner.tolist() == pytest.approx([x[0], *(normal[1:] > 0).astype(float)], abs=1e-9)
        if norm == "linf":
            # The least t with |z - x| <= t, normal . z = offset and z in [0, 1], by linear programming.
            above = np.hstack([np.vstack([np.eye(5), -np.eye(5)]), -np.ones((10, 1))])
            bounds = [(0, 1)] * 5 + [(0, None)]
            best = linprog([0] * 5 + [1], above, np.concatenate([x, -x]), [[*normal, 0]], [offset], bounds).fun
            assert np.abs(found - x).max() == pytest.approx(best, abs=1e-7)
        else:
            plane = {"type": "eq", "fun": lambda z, normal=normal, offset=offset: normal @ z - offset}
            best = minimize(lambda z, x=x: ((z - x) ** 2).sum(), inner, bounds=[(0, 1)] * 5, constraints=plane, tol=1e-12).fun
            assert ((found - x) ** 2).sum() == pytest.approx(best, abs=1e-6)


def test_the_checks_come_ever_closer():
    assert windows(100) == [22, 41, 57, 70, 80, 87, 93, 99]
    assert windows(1) == [1]
    assert windows(37) == sorted(set(windows(37)))


def test_losses_are_their_formulas():
    logits, y = torch.tensor([[4.0, 1.0, 3.0, -2.0, 0.0]]), torch.tensor([0])
    assert [margin_loss(logits, torch.tensor([own])).item() for own in (0, 2)] == [3 - 4, 4 - 3]
    with pytest.raises(UserError, match="needs labels"):
        margin_loss(logits, logits.softmax(1))
    assert dlr(logits, y).item() == pytest.approx(-(4 - 3) / (4 - 1))
    assert targeted_dlr(torch.tensor([3]))(logits, y).item() == pytest.approx((-2 - 4) / (4 - (1 + 0) / 2))
    assert dlr(10 * logits, y).item() == pytest.approx(dlr(logits, y).item())


def curved():
    """A small network whose boundaries bend, with images and their answers as labels."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 6))
    x = torch.rand(60, 3, 4, 4, generator=seeded(4))
    return model, x, model(x).argmax(1)


NEAR = Linf(0.02)


def broken(model, x, y, attack, ball=NEAR):
    attacked = attack(model, x, y, ball, seeded())
    return (model(attacked).argmax(1) != y) & ball.contains(attacked, x)


def test_an_ensemble_breaks_what_each_member_in_its_place_breaks_and_tells_which():
    model, x, y = curved()
    attack = AutoAttack(steps=20, queries=200)
    found = attack.run(model, x, y, NEAR, seeded())
    wrong = model(found.images).argmax(1) != y
    first, strong = (broken(model, x, y, one) for one in (APGD(steps=20), Strong(steps=20)))
    assert list(attack.members()) == ["apgd-ce", "apgd-t", "fab-t", "square"]
    assert torch.equal(found.member >= 0, wrong)
    assert torch.equal(found.member == 0, first)
    assert not (strong & ~wrong).any()
    assert 0 < first.sum() <= wrong.sum() < len(x)


def test_square_attacks_only_what_apgd_leaves(monkeypatch):
    asked, own = [], Square.search
    monkeypatch.setattr(Square, "search", lambda attack, model, x, *rest: (asked.append(len(x)), own(attack, model, x, *rest))[1])
    model, x, y = curved()
    found = APGDThenSquare(queries=200).run(model, x, y, NEAR, seeded())
    first = broken(model, x, y, APGD(steps=20))
    assert torch.equal(found.member == 0, first)
    assert torch.equal(found.member >= 0, model(found.images).argmax(1) != y)
    assert asked == [int((~first).sum())]
    assert 0 < asked[0] < len(x)


# Attacks of which each is the one before with more steps, restarts, targets or queries, and a ball for them.
FORMS = ((1, 1), (3, 1), (10, 1), (10, 2), (10, 4))
LESS = ({"targets": 1, "restarts": 0}, {"restarts": 0}, {})
STRONGER = {
    "steps and restarts of PGD": ([PGD(steps, 0.005, success="any", restarts=often) for steps, often in FORMS], NEAR),
    "restarts of APGD": ([APGD(steps=10), APGD(steps=10, restarts=3)], NEAR),
    "targets of APGD": ([APGD(10, "dlr-targeted", targets) for targets in (1, 3, 5)], NEAR),
    "queries of Square": ([Square(queries=queries) for queries in (1, 30, 300)], Linf(0.03)),
    "queries of Square in L2": ([Square(queries=queries) for queries in (1, 50, 400)], L2(0.1)),
    "relaxation": ([ConstraintRelaxation(30, **less) for less in LESS], Linf(0.015)),
}


@pytest.mark.parametrize("which", STRONGER)
def test_more_of_an_attack_never_helps_the_defender(which):
    series, ball = STRONGER[which]
    model, x, y = curved()
    found = [broken(model, x, y, attack, ball) for attack in series]
    assert not any((weaker & ~stronger).any() for weaker, stronger in pairwise(found))
    assert found[-1].any()
    assert found[-1].sum() > found[0].sum() or not {"Square", "PGD"} & set(which.split())


FEW = [*((name, 2) for name in ("apgd-ce", "apgd-dlr", "apgd-t", "strong", "cr")), *(("autoattack", n) for n in (2, 3, 4))]


@pytest.mark.parametrize(("name", "classes"), FEW)
def test_few_classes_are_attacked_although_targeted_losses_need_four(name, classes):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, classes))
    x = 0.5 + 0.05 * torch.randn(20, 3, 2, 2, generator=seeded())
    y = model(x).argmax(1)
    attack = replace(ATTACKS[name], queries=20) if name in ("autoattack", "cr") else ATTACKS[name]
    # The margin is linear, and so wide a ball reaches the other side.
    assert (model(attack(model, x, y, Linf(0.45), seeded())).argmax(1) != y).all()


@pytest.mark.parametrize("ball", [Linf(0.05), L2(0.1)])
def test_square_uses_no_gradient_and_the_whole_radius_and_counts_what_it_asks(ball):
    model, x, _ = curved()
    x = x.clamp(0.3, 0.7)
    y, asked = model(x).argmax(1), []
    for parameter in model.parameters():
        parameter.register_hook(lambda _: pytest.fail("a gradient was asked for"))
    model.register_forward_hook(lambda module, inputs, output: asked.append(len(inputs[0])))
    found = Square(queries=50).run(model, x, y, ball, seeded())
    moved = (found.images - x).abs() if ball.name == "linf" else ball.distance(found.images, x)
    assert torch.allclose(moved, torch.tensor(ball.radius), atol=1e-4)
    at_the_door, clean = asked[:2]
    assert found.queries.sum() == sum(asked) - at_the_door - clean
    assert found.queries.min() < found.queries.max() == 50


def test_squares_shrink_on_schedule():
    assert [Square().side(query, 32, 32) for query in (1, 11, 51, 9000)] == [29, 20, 14, 1]
    assert Square(queries=5000, rescale=True).side(26, 32, 32) == Square().side(52, 32, 32)


@pytest.fixture
def loud():
    """The same classifier with logits thirty times as large: no boundary moves, but descents have something to go down."""
    model, *rest = linear(Linf)
    with torch.no_grad():
        model[1].weight *= 30
        model[1].bias *= 30
    return model, *rest


def test_cw_comes_near_the_exact_distance_of_a_linear_classifier_and_never_below_it(loud):
    """The published search does not end at the closest image: where tau is near it, Adam's steps overshoot the boundary."""
    model, x, y, distance = loud
    found = CW(steps=300)(model, x, y, Linf(0.0), seeded())
    assert (model(found).argmax(1) != y).all()
    ratio = Linf(0.0).distance(found, x) / distance
    assert 1 - 1e-3 <= ratio.min() <= ratio.max() <= 1.4


def test_cw_gives_the_same_verdict_whether_it_goes_on_or_stops_in_the_ball(loud):
    model, x, y, distance = loud
    for radius in (0.16, 0.18):
        ball, verdicts = Linf(radius), []
        for goal in ("closest", "inside"):
            found = CW(steps=100, goal=goal)(model, x, y, ball, seeded())
            verdicts.append((model(found).argmax(1) != y) & ball.contains(found, x))
        assert torch.equal(*verdicts)
        assert 0 < verdicts[0].sum() < len(x)
        assert not verdicts[0][distance > radius + 1e-6].any()


def reference_cw(model, x, y, rounds, steps, rate=0.005, c=0.01, gamma=0.9):
    """The loops of methods.md 1.4, one image at a time, with torch's own Adam; the least distance of a misclassified query."""
    origin = (0.999999 * (2 * x - 1)).atanh()
    still, best = (origin.tanh() + 1) / 2, torch.inf
    lower, upper, start_tau = 0.0, torch.inf, 1.0
    for _ in range(rounds):
        warm, tau, found = origin, start_tau, True
        while tau > 1 / 256:
            delta = torch.zeros_like(x, requires_grad=True)
            adam, found, last = torch.optim.Adam([delta], lr=rate, eps=1e-7), False, torch.inf
            for step in range(steps):
                now = ((warm + delta).tanh() + 1) / 2
                logits = model(now)[0]
                if logits.argmax() != y:
                    found, best = True, min(best, float((now - x).detach().abs().max()))
                lead = logits[y] - torch.cat([logits[:y], logits[y + 1 :]]).max()
                loss = ((now - still).abs() - tau).clamp_min(0).sum() + c * lead.clamp_min(0)
                adam.zero_grad()
                loss.backward()
                adam.step()
                if step % -(-steps // 10) == 0:
                    if not last - loss.item() > 1e-4:
                        break
                    last = loss.item()
            now = (((warm + delta).tanh() + 1) / 2).detach()
            if not found:
                found, start_tau = tau < start_tau, tau
                break
            tau = min(tau, float((now - still).abs().max())) * gamma
            warm = (0.999999 * (2 * now - 1)).atanh()
        lower, upper = (lower, c) if found else (c, upper)
        c = 10 * c if upper == torch.inf else (lower + upper) / 2
    return best


def test_cw_is_the_published_search_run_for_all_images_at_once():
    model, x, y = curved()
    x = x.clamp(0.05, 0.95)
    y = model(x).argmax(1)
    found = CW(rounds=3, steps=40)(model, x[:8], y[:8], Linf(0.0), seeded())
    ours = Linf(0.0).distance(found, x[:8])
    theirs = torch.tensor([reference_cw(model, x[i : i + 1], y[i], 3, 40) for i in range(8)])
    assert torch.allclose(ours, theirs, atol=2e-3)


def test_n_attack_breaks_a_linear_classifier_inside_its_distance_only():
    model, x, y, distance = linear(Linf)
    attack = NAttack(steps=100, population=60, sigma=0.1, rate=0.1)
    for factor in (0.98, 1.5):
        found = attack.run(model, x, y, Linf(distance * factor), seeded())
        broken = model(found.images).argmax(1) != y
        assert Linf(distance * factor).contains(found.images, x).all()
        assert broken.float().mean() > 0.7 if factor > 1 else not broken.any()
    # A broken image stops at the trial that found it: one more query every ten steps of 60.
    tries = found.queries[broken]
    assert ((tries - 1) % (10 * 60 + 1) == 0).all()
    assert (found.queries[~broken] == 100 * 60 + 11).all()


def test_n_attack_moves_its_mean_by_the_standardised_rewards():
    model, x, y, _ = linear(Linf)
    ball, mean = Linf(0.3), torch.zeros_like(x)
    for reward in ("paper", "code"):
        attack = NAttack(population=7, reward=reward)
        moved = attack._step(model, x, y, mean, ball, seeded(5))
        noise = torch.randn(len(x), 7, *x.shape[1:], generator=seeded(5))
        for i in range(4):
            tried = ball.project((torch.tanh(0.1 * noise[i]) + 1) / 2, x[i : i + 1].expand(7, -1, -1, -1))
            logs = model(tried).log_softmax(1)
            other = logs.clone()
            other[:, y[i]] = -torch.inf
            rival = other.amax(1) if reward == "paper" else other.amax(1)[0]
            gained = -0.5 * (logs[:, y[i]] - rival).clamp_min(0)
            weight = (gained - gained.mean()) / (gained.std(correction=0) + 1e-7)
            expected = 0.02 / (7 * 0.1) * (weight.view(-1, 1, 1, 1) * noise[i]).sum(0)
            assert torch.allclose(moved[i], expected, atol=1e-4)


def test_the_ball_grows_shrinks_and_returns_while_its_slack_halves():
    attack = ConstraintRelaxation(steps=150, cycle=30)
    assert [attack._slack(30 * cycle) for cycle in range(5)] == pytest.approx([0.8, 0.4, 0.2, 0.1, 0.05])
    assert [attack._third(step) for step in (0, 9, 10, 19, 20, 29, 30)] == [0, 0, 1, 1, 2, 2, 0]
    assert [attack._share(step) for step in (0, 5, 10, 30)] == pytest.approx([1, 0.5, 1, 0.5])


def test_relaxation_does_not_depend_on_the_scale_of_the_logits():
    """The cross-entropy of such logits has no gradient in float32, and a gap of probabilities would be 1 everywhere."""
    model, x, y = curved()
    loud = nn.Sequential(model, Layer(lambda logits: 1e5 * logits))
    once, again = (ConstraintRelaxation(steps=60)(network, x, y, Linf(0.03), seeded()) for network in (model, loud))
    broken, still = (model(images).argmax(1) != y for images in (once, again))
    assert broken.any()
    assert (broken != still).float().mean() <= 0.1


def test_square_finds_what_masked_gradients_hide():
    model, x, y = curved()
    masked = nn.Sequential(Layer(lambda x: (x * 32).round() / 32), model)  # whose gradient exists and is zero
    y = masked(x).argmax(1)
    found = CR().run(masked, x, y, Linf(0.1), seeded())
    assert list(CR().members()) == ["relaxation", "square"]
    assert (found.member == 1).float().mean() > 0.01
    assert torch.equal(found.member >= 0, masked(found.images).argmax(1) != y)


@pytest.mark.parametrize("options", [{"slack": 1.0}, {"least_slack": 0.9}, {"least_slack": 0}])
def test_relaxation_names_slacks_that_do_not_fit(options):
    with pytest.raises(UserError, match="0 < least_slack <= slack < 1 is needed"):
        ConstraintRelaxation(**options)
