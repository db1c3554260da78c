"""APGD, FAB, Square and their ensembles: against what is known exactly, and against their own definitions."""

import numpy as np
import pytest
import torch
from scipy.optimize import linprog, minimize
from torch import nn

from classwise.attacks import ATTACKS
from classwise.attacks.apgd import APGD, dlr, dlr_towards, windows
from classwise.attacks.ensemble import AutoAttack, Strong
from classwise.attacks.fab import FAB, onto_plane
from classwise.attacks.square import Square
from classwise.balls import Linf
from classwise.errors import UserError


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def linear():
    """A linear classifier of three classes, images well inside [0, 1], their labels and exact distances to the next class."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    x = 0.5 + 0.05 * torch.randn(40, 3, 2, 2, generator=seeded(1))
    with torch.no_grad():
        logits, weight = model(x), model[1].weight
        y = logits.argmax(1)
        gaps = logits.gather(1, y[:, None]) - logits
        widths = (weight[y][:, None] - weight[None]).abs().sum(2)
        distance = torch.where(torch.arange(3) == y[:, None], torch.inf, gaps / widths).amin(1)
    assert distance.max() < 0.25
    return model, x, y, distance


# The untargeted ratio is left out: even a linear classifier of three classes gives it local optima.
ATTACKERS = {
    "apgd-ce": APGD(),
    "apgd-t": APGD(loss="dlr-targeted"),
    "strong": Strong(),
    "autoattack": AutoAttack(queries=20),
}


@pytest.mark.parametrize("name", ATTACKERS)
def test_a_linear_classifier_is_broken_exactly_within_its_distance(linear, name):
    model, x, y, distance = linear
    for factor, broken in ((0.98, False), (1.02, True)):
        attacked = ATTACKERS[name](model, x, y, Linf(distance * factor), seeded())
        assert ((model(attacked).argmax(1) != y) == broken).all()


def test_fab_finds_the_exact_distance_of_a_linear_classifier(linear):
    model, x, y, distance = linear
    found = FAB(steps=20)(model, x, y, Linf(0.0), seeded())
    assert (model(found).argmax(1) != y).all()
    ratio = Linf(0.0).distance(found, x) / distance
    assert ratio.min() >= 1 - 1e-3
    assert ratio.max() <= 1.02


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_plane_is_reached_by_the_shortest_way(norm):
    rng = np.random.default_rng(0)
    for _ in range(30):
        x, normal, inner = rng.random(5), rng.normal(size=5), rng.random(5)
        offset = float(normal @ inner)
        pace = np.ones(5) if norm == "linf" else np.abs(normal)
        rows = [torch.tensor(one)[None] for one in (x, normal)]
        found = onto_plane(*rows, torch.tensor([offset], dtype=torch.float64), torch.tensor(pace)[None])[0].numpy()
        assert normal @ found == pytest.approx(offset, abs=1e-9)
        assert found.min() >= 0
        assert found.max() <= 1
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


@pytest.mark.parametrize("pace", [torch.ones(1, 2), torch.tensor([[1.0, 2.0]])])
def test_a_plane_outside_the_box_gives_the_nearest_corner(pace):
    found = onto_plane(torch.tensor([[0.3, 0.6]]), torch.tensor([[1.0, -2.0]]), torch.tensor([5.0]), pace)
    assert found.tolist() == [[1.0, 0.0]]


def test_a_pixel_that_says_nothing_is_left_alone():
    for pace in (torch.ones(1, 3), torch.tensor([[0.0, 1.0, 0.0]])):
        found = onto_plane(torch.tensor([[0.3, 0.6, 0.1]]), torch.tensor([[0.0, -1.0, 0.0]]), torch.tensor([-0.9]), pace)
        assert found[0].tolist() == pytest.approx([0.3, 0.9, 0.1])


def test_the_checks_come_ever_closer():
    assert windows(100) == [22, 41, 57, 70, 80, 87, 93, 99]
    assert windows(1) == [1]
    assert windows(37) == sorted(set(windows(37)))


def test_difference_of_logits_ratios_are_their_formulas():
    logits, y = torch.tensor([[4.0, 1.0, 3.0, -2.0, 0.0]]), torch.tensor([0])
    assert dlr(logits, y).item() == pytest.approx(-(4 - 3) / (4 - 1))
    assert dlr_towards(torch.tensor([3]))(logits, y).item() == pytest.approx((-2 - 4) / (4 - (1 + 0) / 2))
    assert dlr(10 * logits, y).item() == pytest.approx(dlr(logits, y).item())


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_few_classes_are_no_crash(classes):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, classes))
    x = torch.rand(20, 3, 2, 2, generator=seeded())
    y = model(x).argmax(1)
    attacked = AutoAttack(steps=10, queries=20)(model, x, y, Linf(0.3), seeded())
    assert (model(attacked).argmax(1) != y).any()


def curved():
    """A small network whose boundaries bend, with images and their answers as labels."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 6))
    x = torch.rand(60, 3, 4, 4, generator=seeded(4))
    return model, x, model(x).argmax(1)


def broken(model, x, y, attack, radius=0.02):
    ball = Linf(radius)
    attacked = attack(model, x, y, ball, seeded())
    return (model(attacked).argmax(1) != y) & ball.contains(attacked, x)


def test_an_ensemble_breaks_what_each_member_in_its_place_breaks():
    model, x, y = curved()
    found = broken(model, x, y, AutoAttack(steps=20, queries=200))
    first = broken(model, x, y, APGD(steps=20))
    assert not (first & ~found).any()
    assert 0 < first.sum() <= found.sum() < len(x)
    assert not (broken(model, x, y, Strong(steps=20)) & ~found).any()


def test_restarts_and_targets_never_help_the_defender():
    model, x, y = curved()
    pairs = [(APGD(steps=10), APGD(steps=10, restarts=3))]
    pairs += [(APGD(10, "dlr-targeted", few), APGD(10, "dlr-targeted", few + 2)) for few in (1, 3)]
    for weaker, stronger in pairs:
        assert not (broken(model, x, y, weaker) & ~broken(model, x, y, stronger)).any()


def test_more_queries_never_help_the_defender_of_square():
    model, x, y = curved()
    found = [broken(model, x, y, Square(queries=queries), 0.03) for queries in (1, 30, 300)]
    assert not (found[0] & ~found[1]).any()
    assert not (found[1] & ~found[2]).any()
    assert found[2].sum() > found[0].sum()


def test_square_uses_no_gradient_and_moves_to_the_edge_of_the_ball():
    model, x, y = curved()
    x = x.clamp(0.2, 0.8)
    y = model(x).argmax(1)
    for parameter in model.parameters():
        parameter.register_hook(lambda _: pytest.fail("a gradient was asked for"))
    moved = (Square(queries=50)(model, x, y, Linf(0.1), seeded()) - x).abs()
    assert torch.allclose(moved, torch.tensor(0.1), atol=1e-6)


def test_squares_shrink_on_schedule():
    assert [Square().side(query, 32, 32) for query in (1, 11, 51, 9000)] == [29, 20, 14, 1]
    assert Square(queries=5000, rescale=True).side(26, 32, 32) == Square().side(52, 32, 32)


def test_a_clean_mistake_is_not_attacked():
    model, x, y = curved()
    wrong = (y + 1) % 6
    for name in ("apgd-ce", "apgd-t", "fab-t", "square", "strong"):
        assert torch.equal(ATTACKS[name](model, x, wrong, Linf(0.1), seeded()), x), name


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: APGD(loss="cw"), "unknown loss 'cw'"),
        (lambda: APGD(steps=0), "steps must be 1 or more"),
        (lambda: FAB(targets=0), "targets must be 1 or more"),
        (lambda: Square(share=0), "share must be above 0"),
        (lambda: Square(queries=0), "queries must be 1 or more"),
        (lambda: Strong(steps=0), "steps must be 1 or more"),
        (lambda: APGD(loss="dlr")(curved()[0], curved()[1], torch.rand(60, 6), Linf(0.1), seeded()), "needs labels"),
    ],
)
def test_slips_are_named(call, says):
    with pytest.raises(UserError, match=says):
        call()
