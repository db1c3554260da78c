import copy
import math
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from layers import counts

from classwise import attacks, defences, images, models
from classwise.attacks import PGD, evaluate
from classwise.attacks.balls import Linf
from classwise.core.spec import Spec
from classwise.defences import DEFENCES, objectives
from classwise.defences.averaging import AVERAGINGS, EMA, FAWA, Sham, averaging_of, copy_weights
from classwise.defences.calibrations import Calibration
from classwise.defences.objectives import Adversarial, Adversary, FreeAT, SingleClassAT, Standard
from classwise.defences.training import OPTIMISERS, SCHEDULES, Diverged, TrainConfig, _order, _step, begin, checkpoints, train
from classwise.defences.training.optimisation import factor, gates, groups
from classwise.models.inference import BFloat16Autocast
from classwise.runs.compute import validate


@pytest.fixture(scope="module")
def data():
    return images.load("digits", "train")


@pytest.fixture(scope="module")
def valid():
    return images.load("digits", "valid")


def start(data, defence="pgd-at", lr=0.1, epochs=3, optimiser="sgd", seed=0, options=None, **changed):
    chosen = defences.build(defence, options)
    # The attack of the defence, in two steps; that of n-fgsm has a single one.
    steps = {} if chosen.attack == "n-fgsm" else {"steps": 2}
    inner = attacks.build(chosen.attack, steps) if chosen.attack else None
    plan = TrainConfig(defence=chosen, attack=inner, lr=lr, epochs=epochs, optimiser=optimiser)
    plan = replace(plan, validation_attack=PGD(steps=2) if chosen.needs_validation else None)
    plan = replace(plan, **changed)
    model = models.build("small-cnn", data, 4, seed, chosen.head)
    return begin(model, plan, 10, 0.1, seed, sizes=data.labels.bincount()), plan


def same(one, other):
    return all(torch.equal(value, other[part]) for part, value in one.items())


def weights(state):
    return torch.cat([value.flatten().float() for value in state.model.state_dict().values()])


def clean_or_attacked(defence):
    """Whether the objective of a defence sees clean and attacked images."""
    objective = DEFENCES[defence].objective
    return not isinstance(objective, Adversarial | SingleClassAT | FreeAT), not isinstance(objective, Standard)


@pytest.fixture
def doubles():
    """Rounding in float32 turns steps of the attack where a gradient is near zero, on some processors."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("beta", [1.0, 6.0])
def test_a_loss_divided_by_1_plus_beta_takes_the_steps_of_trades_at_a_rate_as_many_times_as_high(data, beta, doubles):
    """With momentum, its correction and weight decay, to the precision of the numbers; at the same rate it takes others."""
    settings = {"options": {"beta": beta}, "epochs": 1}
    images, factor_of = data.take(torch.arange(300)), 1 + beta
    official, plan = start(images, "trades", lr=0.05, weight_decay=5e-4, **settings)
    scaled, scaled_plan = start(images, "trades-normalised", lr=0.05 * factor_of, weight_decay=5e-4 / factor_of, **settings)
    alike, alike_plan = start(images, "trades-normalised", lr=0.05, weight_decay=5e-4, **settings)
    # Both are attacked in the same way.
    for state, its_plan in ((official, plan), (scaled, scaled_plan), (alike, alike_plan)):
        state.model.double()
        list(train(state, images, replace(its_plan, attack=PGD(steps=2))))
    assert torch.allclose(weights(official), weights(scaled), atol=1e-6)
    assert not torch.allclose(weights(official), weights(alike), atol=1e-2)


def test_adversarial_training_withstands_what_breaks_standard_training(data, valid):
    robust = {}
    for defence in ("standard", "pgd-at"):
        state, plan = start(data, defence, epochs=6, validation_attack=PGD(steps=10), select_by="average")
        *_, last = train(state, data, plan, valid)
        robust[defence] = checkpoints.overall(last.valid[1])
    assert robust["pgd-at"] > robust["standard"] + 0.05


# Averages that every epoch enters.
OPEN = {"ema": EMA(), "fawa": FAWA(threshold=0, average_from=0)}


@pytest.mark.parametrize(
    ("defence", "changed"),
    [
        *[(name, {"options": {"threshold": 0.0, "average_from": 0.0}} if "fawa" in name else {}) for name in DEFENCES],
        ("trades", {"optimiser": "adamw", "lr": 0.01}),
        ("pgd-at", {"optimiser": "adam", "lr": 0.01}),
        ("fat", {"augment": "crop-flip"}),
        ("frl-rmrw", {"options": {"warm_up": 0.0, "tau": 0.0}}),
        ("ldam-drw", {"options": {"weigh_from": 0.0}}),
        ("dafa", {"options": {"warm_up": 0.5}}),
        ("at-ema", {"options": {"per": "step"}}),
        ("at-ema", {"validation_attack": PGD(steps=2), "select_by": "sum", "keep_last": 3}),
        ("pgd-at", {"averages": OPEN, "validation_attack": PGD(steps=2), "select_by": "sum", "keep_last": 3}),
        ("at-ema", {"averages": {"step": EMA(per="step")}}),
    ],
)
def test_a_defence_trains_counts_what_it_saw_and_goes_on_to_the_same_bits(data, valid, tmp_path, defence, changed):
    whole, plan = start(data, defence, **changed)
    before, epochs = weights(whole), []
    for epoch in train(whole, data, plan, valid):
        epochs.append(epoch)
        if epoch.number == 1:
            torch.save(whole.state_dict(), tmp_path / "state.pt")
    assert [epoch.number for epoch in epochs] == [1, 2, 3]
    assert all(math.isfinite(epoch.loss) for epoch in epochs)
    if defence in ("standard", "pgd-at", "trades", "mart"):
        assert epochs[-1].loss < epochs[0].loss
    assert weights(whole).isfinite().all()
    assert not torch.equal(before, weights(whole))
    assert (epochs[0].clean is not None, epochs[0].attacked is not None) == clean_or_attacked(defence)
    for count in (epochs[0].clean, epochs[0].attacked):
        assert count is None or torch.equal(count.sum(1), data.labels.bincount())
    assert (epochs[-1].valid is not None) == (plan.validation_attack is not None)
    fresh, _ = start(data, defence, seed=5, **changed)
    fresh.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert [epoch.loss for epoch in train(fresh, data, plan, valid)] == [epoch.loss for epoch in epochs[1:]]
    assert torch.equal(weights(fresh), weights(whole))
    assert fresh.scores == whole.scores
    for part, value in vars(whole.settings).items():
        assert value.shape == (10,)
        assert value.isfinite().all()
        assert torch.equal(getattr(fresh.settings, part), value)
    for name in ("average", "best", "last-1", "ema", "ema-1", "best-ema", "fawa", "fawa-1", "best-fawa", "step"):
        assert same(whole.checkpoint(name), fresh.checkpoint(name))


def test_dropout_follows_the_seed_across_a_resumption(data, tmp_path):
    def begun(seed):
        state, plan = start(data, "standard", seed=seed, epochs=2)
        state.model.body.append(torch.nn.Dropout(0.5))
        return state, plan

    runs = {}
    for name, seed, noise in (("one", 0, 1), ("same", 0, 2), ("other", 1, 1)):
        torch.manual_seed(noise)
        before = torch.random.get_rng_state()
        state, plan = begun(seed)
        next(iter(train(state, data, plan)))
        torch.save(state.state_dict(), tmp_path / "state.pt")
        state, _ = begun(7)
        state.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
        list(train(state, data, plan))
        assert torch.equal(before, torch.random.get_rng_state())
        runs[name] = weights(state)
    whole, plan = begun(0)
    list(train(whole, data, plan))
    assert torch.equal(runs["one"], runs["same"])
    assert torch.equal(runs["one"], weights(whole))
    assert not torch.equal(runs["one"], runs["other"])


@pytest.mark.parametrize(
    ("changed", "says"),
    [({}, "loss became .* in epoch 1"), ({"batch": 4000, "schedule": "constant"}, "logits of the network became .* in epoch 1")],
)
def test_a_loss_or_answers_that_are_not_finite_stop_the_training(data, changed, says):
    state, plan = start(data, "standard", lr=1e30, epochs=1, **changed)
    with pytest.raises(Diverged, match=says):
        list(train(state, data, plan))


def test_schedules_are_what_their_names_say():
    assert [SCHEDULES["one-cycle"](at) for at in (0, 0.15, 0.3, 1)] == pytest.approx([0, 0.5, 1, 0])
    assert [SCHEDULES["step"](at) for at in (0.49, 0.5, 0.75)] == [1.0, 0.1, 0.01]
    assert SCHEDULES["cosine"](0.5) == pytest.approx(0.5)
    assert [SCHEDULES["cyclic"](at) for at in (0, 0.25, 0.5, 1)] == [0, 0.5, 1, 0]
    assert all(0 <= schedule(step / 50) <= 1 for schedule in SCHEDULES.values() for step in range(51))


def rates(epochs, schedule="step", milestones=()):
    """The factor in each epoch, in its middle."""
    return [factor(schedule, milestones, epochs, (epoch + 0.5) / epochs) for epoch in range(epochs)]


def test_published_rates_fall_at_their_published_epochs(data):
    """TRADES, MART and FAT count epochs from 1 (`epoch >= 75`), CFA and Rice from 0."""
    assert rates(100, "step@trades") == [1.0] * 74 + [0.1] * 15 + [0.01] * 11
    assert rates(120, "step@mart") == [1.0] * 74 + [0.1] * 15 + [0.01] * 10 + [0.001] * 21
    assert rates(120, "step@fat") == [1.0] * 59 + [0.1] * 30 + [0.01] * 20 + [0.005] * 11
    assert rates(200, "step") == [1.0] * 100 + [0.1] * 50 + [0.01] * 50
    assert rates(76, milestones=(75, 90)) == pytest.approx([1.0] * 74 + [0.1] * 2)
    assert rates(200, milestones=(101, 151)) == pytest.approx(rates(200, "step"))
    state, plan = start(data, "standard", schedule="step", milestones=(2,), epochs=3)
    seen = [state.optimiser.param_groups[0]["lr"] for _ in train(state, data, plan)]
    assert seen == pytest.approx([0.1, 0.01, 0.01]), "the rate of a step is that of its schedule"


def test_weight_decay_may_spare_norms_and_biases(data):
    model = models.build("small-cnn", data, 4)
    (all_of_them,) = groups(model, 0.1, "all")
    kept, spared = groups(model, 0.1, "weights")
    assert len(all_of_them["params"]) == len(kept["params"]) + len(spared["params"])
    assert {one.ndim for one in spared["params"]} == {1}
    assert (kept["weight_decay"], spared["weight_decay"]) == (0.1, 0.0)


@pytest.mark.parametrize(("criterion", "epoch"), [("average", 2), ("worst", 4), ("sum", 3)])
def test_the_best_epoch_is_chosen_by_its_criterion(criterion, epoch):
    history = [counts(5, 5, 0), counts(10, 9, 1), counts(8, 8, 3), counts(4, 4, 4), counts(4, 4, 3)]
    scores = [checkpoints.CRITERIA[criterion](found) for found in history]
    assert scores.index(max(scores)) + 1 == epoch
    assert scores.count(max(scores)) == 1


@pytest.mark.parametrize(("share", "mean"), [(0, 0.2), (0.2, 0.2), (0.21, 0.3), (0.8, 0.5), (1, 0.6)])
def test_the_worst_classes_are_a_share_rounded_up(share, mean):
    assert checkpoints.worst(counts(10, 4, 2, 9, 5), share) == pytest.approx(mean)
    assert checkpoints.worst(counts(*range(10)), 0.3) == pytest.approx(0.1), "three of ten, not four"
    empty = counts(5, 7, 9)
    empty[0] = 0
    assert checkpoints.worst(empty) == pytest.approx(0.7), "a class without images is not the worst"


def test_the_gate_of_fawa_may_be_the_mean_of_the_worst_classes(data, valid, monkeypatch):
    """Two of ten classes: of accuracies 0 and .5 the worst class is rejected at .2, their mean accepted."""
    right = counts(0, 5, *[9] * 8)
    monkeypatch.setattr(checkpoints, "attacked_counts", lambda *given: (right, right))
    for share, taken in ((0.0, False), (0.2, True)):
        state, plan = start(data, averages={"fawa": FAWA(average_from=0, worst_share=share)}, validation_attack=PGD(steps=2))
        assert [epoch.taken == ("fawa",) for epoch in train(state, data, plan, valid)] == [taken] * 3


def test_validation_is_measured_only_when_something_asks(data, valid):
    """By the gate of FAWA, that of the defence or of an average next to the training, and by a calibration."""
    for defence, how, measured in (
        ("pgd-at", {}, [False] * 4),
        ("at-fawa", {"options": {"average_from": 0.5}}, [False, True, True, True]),
        ("frl-rw", {"options": {"warm_up": 0.75}}, [False, False, True, True]),
        ("pgd-at", {"averages": {"ema": AVERAGINGS["ema"]}, "validation_attack": PGD(steps=2)}, [False] * 4),
        ("pgd-at", {"averages": AVERAGINGS, "validation_attack": PGD(steps=2)}, [True] * 4),
    ):
        state, plan = start(data, defence, epochs=4, **how)
        assert [epoch.valid is not None for epoch in train(state, data, plan, valid)] == measured


def test_the_best_and_the_last_epochs_of_weights_and_averages_are_kept(data, valid):
    changed = {"validation_attack": PGD(steps=2), "select_by": "worst", "epochs": 4, "keep_last": 3, "lr": 0.02}
    state, plan = start(data, averages={"ema": EMA(average_from=0.5)}, **changed)
    passed, scores, candidate = {"last": [], "ema": []}, {"last": [], "ema": []}, copy.deepcopy(state.model)
    for epoch in train(state, data, plan, valid):
        assert epoch.taken == (("ema",) if epoch.number >= 2 else ())
        for name in passed:
            passed[name].append(copy_weights(state.checkpoint(name)))
            candidate.load_state_dict(passed[name][-1])
            found = checkpoints.attacked_counts(state, plan, valid, candidate)[1]
            scores[name].append(checkpoints.CRITERIA["worst"](found))
    for name, best, first in (("last", "best", 0), ("ema", "best-ema", 1)):
        number = max(range(first, 4), key=lambda number, name=name: (scores[name][number], number))
        for kept, expected in ((name, 3), (f"{name}-1", 2), (f"{name}-2", 1), (best, number)):
            assert same(state.checkpoint(kept), passed[name][expected]), kept
        assert state.scores[best] == scores[name][number]
    assert sorted(state.kept) == ["best", "best-ema", "ema-1", "ema-2", "last-1", "last-2"]


def test_the_weights_replace_an_average_that_no_epoch_entered(data, valid):
    changed = {"validation_attack": PGD(steps=2), "select_by": "sum", "keep_last": 2}
    beside, plan = start(data, averages={"fawa": FAWA(threshold=1)}, **changed)
    assert [epoch.taken for epoch in train(beside, data, plan, valid)] == [()] * 3
    own, plan = start(data, "at-fawa", options={"threshold": 1.0}, **changed)
    assert not any(epoch.averaged for epoch in train(own, data, plan, valid))
    assert beside.averages == own.averages == {}
    for name, other in (("fawa", "last"), ("fawa-1", "last-1"), ("best-fawa", "best")):
        assert same(beside.checkpoint(name), beside.checkpoint(other)), name
    for name, other in (("average", "last"), ("best", "best")):
        assert same(own.checkpoint(name), beside.checkpoint(other)), name


def test_selection_on_the_test_images_is_its_own_checkpoint_and_among_equals_the_later(data, valid, monkeypatch):
    state, plan = start(data, epochs=2, validation_attack=PGD(steps=2), select_by="worst", test_selected=True)
    monkeypatch.setitem(checkpoints.CRITERIA, "worst", lambda counts: 0.5)
    list(train(state, data, plan, valid, images.load("digits", "test")))
    assert sorted(state.kept) == ["best", "test-selected"]
    assert same(state.checkpoint("best"), state.model.state_dict())


@pytest.mark.parametrize("late", [0.5, 1])
def test_the_best_epoch_of_an_averaging_run_is_one_of_its_average(data, valid, monkeypatch, late):
    """However good the epochs were that came before the average."""
    state, plan = start(data, "at-ema", options={"average_from": late}, epochs=4, validation_attack=PGD(steps=2))
    plan = replace(plan, select_by="sum", test_selected=True)
    scores = iter([9.0, 8.0, 0.2, 0.1, 0.4, 0.3, 0.2, 0.1] if late < 1 else [9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 0.1, 0.2])
    monkeypatch.setitem(checkpoints.CRITERIA, "sum", lambda counts: next(scores))
    averages = {}
    for epoch in train(state, data, plan, valid, valid):
        averages[epoch.number] = copy_weights(state.checkpoint("average")) if epoch.averaged else None
    assert [number for number, average in averages.items() if average] == [2, 3, 4] if late < 1 else [4]
    best = {"best": 3, "test-selected": 3} if late < 1 else {"best": 4, "test-selected": 4}
    for name, number in best.items():
        assert same(state.checkpoint(name), averages[number]), name


def test_gates_selection_and_guard_attack_at_the_radius_of_the_training_whatever_that_of_a_class(data, valid, monkeypatch):
    changed = {"validation_attack": PGD(steps=2), "select_by": "worst", "overfitting_check": PGD(steps=2)}
    state, plan = start(data, "at-per-class", options={"radii": "0:3"}, epochs=1, **changed)
    assert float(state.base.radius[0]) == pytest.approx(0.3)
    real, radii = evaluate.evaluate, []

    def noted(model, images, attack, ball, how):
        radii.append(float(ball.radius))
        return real(model, images, attack, ball, how)

    monkeypatch.setattr(evaluate, "evaluate", noted)
    list(train(state, data, plan, valid))
    assert radii == pytest.approx([0.1, 0.1])
    checkpoints.attacked_counts(state, replace(plan, validation_radius=0.25), valid)
    assert radii[2:] == [0.25]


@pytest.mark.parametrize("defence", ["standard", "pgd-at", "trades", "frl-rmrw", "cost-sensitive", "at-cfa", "free-at"])
def test_averages_and_measuring_do_not_influence_the_training(data, valid, defence):
    options = {"warm_up": 0.5} if defence == "frl-rmrw" else {}
    plain, plan = start(data, defence, epochs=4, options=options, keep_last=2)
    before = list(train(plain, data, plan, valid))
    measured = {"averages": AVERAGINGS, "validation_attack": PGD(steps=2), "select_by": "sum"}
    kept, plan = start(data, defence, epochs=4, options=options, keep_last=2, **measured)
    after = list(train(kept, data, plan, valid))
    assert torch.equal(weights(plain), weights(kept))
    assert same(plain.checkpoint("last-1"), kept.checkpoint("last-1"))
    assert same(plain.checkpoint("average"), kept.checkpoint("average"))
    for one, other in zip(before, after, strict=True):
        assert (one.loss, one.averaged) == (other.loss, other.averaged)
        assert torch.equal(one.settings.radius, other.settings.radius)
        assert torch.equal(one.settings.weight, other.settings.weight)
    assert ["ema" in epoch.taken for epoch in after] == [True] * 4
    assert not same(kept.checkpoint("ema"), kept.checkpoint("last"))


AVERAGED = [("at-ema", one) for one in (EMA(), AVERAGINGS["ema"], EMA(per="step"))]
AVERAGED += [("at-fawa", OPEN["fawa"]), ("at-fawa", FAWA(threshold=0.02)), ("at-cfa", FAWA(threshold=0, average_from=0.5))]


@pytest.mark.parametrize(("defence", "averaging"), AVERAGED)
def test_an_average_next_to_a_training_is_that_of_the_defence_alone(data, valid, defence, averaging):
    """Also where a defence averages and another average is kept next to it."""
    changed = {"validation_attack": PGD(steps=2), "select_by": "sum", "epochs": 5, "keep_last": 2}
    alone, plan = start(data, defence, options=vars(averaging), **changed)
    epochs = list(train(alone, data, plan, valid))
    base = "at-ccm" if defence == "at-cfa" else "pgd-at"
    for other, averages in ((base, {"one": averaging}), (defence, {"two": EMA(decay=0.5), "one": averaging})):
        state, plan = start(data, other, averages=averages, **changed)
        taken = ["one" in epoch.taken for epoch in train(state, data, plan, valid)]
        assert taken == [epoch.averaged for epoch in epochs]
        assert same(state.checkpoint("one"), alone.checkpoint("average"))
        if all(taken):
            assert same(state.checkpoint("best-one"), alone.checkpoint("best"))
            assert state.scores["best-one"] == alone.scores["best"]


def test_the_names_of_averages_are_names_of_checkpoints():
    assert {"ema": EMA(average_from=0.25), "fawa": FAWA(), "sham": AVERAGINGS["sham"]} == AVERAGINGS
    assert {name: averaging_of(name, 100) for name in AVERAGINGS} == AVERAGINGS
    assert (averaging_of("ema", 200), averaging_of("fawa", 200).worst_share) == (AVERAGINGS["ema"], 0.2)
    spec = Spec(dataset="digits", eps="0.1", select="pgd-10", keep_last=3, test_selected=True)
    known, names = validate.checkpoints(spec), validate.checkpoints(replace(spec, averages=("ema", "fawa")))
    assert names[: len(known)] == known
    assert names[len(known) :] == ["ema", "ema-1", "ema-2", "best-ema", "fawa", "fawa-1", "fawa-2", "best-fawa"]
    short = replace(spec, select=None, keep_last=1, test_selected=False, averages=("sham",), renewed=True)
    assert validate.checkpoints(short) == ["last", "sham", "sham-renewed"]
    assert all(name.isalpha() and name.islower() for name in AVERAGINGS)
    assert not {"last", "best", "average", "test", "half"} & set(AVERAGINGS)


def test_a_narrow_network_answers_almost_alike_with_the_same_parameters(data):
    model = models.build("small-cnn", data, 8).eval()
    x, _ = data.batch(slice(0, 64))
    narrow = BFloat16Autocast(model)
    assert narrow(x).dtype == torch.float32
    assert torch.allclose(narrow(x), model(x), atol=0.05)
    assert not torch.equal(narrow(x), model(x))
    with torch.no_grad():
        narrow(x)
    narrow(x).sum().backward()
    assert all(one.grad is not None and one.dtype == torch.float32 for one in model.parameters())


@pytest.mark.parametrize("defence", ["pgd-at", "trades", "pgd-he"])
def test_training_in_bfloat16_learns_about_as_well(data, defence):
    costs = {}
    for precision in ("float32", "bfloat16"):
        state, plan = start(data, defence, precision=precision)
        costs[precision] = [epoch.loss for epoch in train(state, data, plan)]
        assert {one.dtype for one in state.model.parameters()} == {torch.float32}
    assert costs["bfloat16"] == pytest.approx(costs["float32"], rel=0.1)
    assert costs["bfloat16"] != costs["float32"]


def test_an_attack_of_a_training_sees_fused_layers(data, monkeypatch):
    state, plan = start(data, epochs=1)
    fused = []
    monkeypatch.setattr(objectives, "fuse_in_place", lambda pairs: fused.append(len(pairs)) or nullcontext())
    list(train(state, data, plan))
    assert set(fused) == {3}


def test_compiled_steps_are_the_same_training(data, monkeypatch):
    state, plan = start(data, "trades", epochs=1)
    (plain,) = train(state, data, plan)
    monkeypatch.setenv("CLASSWISE_COMPILE", "eager")
    again, plan = start(data, "trades", epochs=1)
    (compiled,) = train(again, data, plan)
    assert compiled.loss == pytest.approx(plain.loss, rel=1e-4)


def test_a_class_weight_of_zero_means_the_class_is_not_learnt(data):
    state, plan = start(data, "standard", epochs=6)
    state.settings.weight[3] = 0
    *_, last = train(state, data, plan)
    recall = last.clean.diag() / last.clean.sum(1)
    assert recall[3] == 0
    assert recall[[0, 1, 2, 4, 5, 6, 7, 8, 9]].min() > 0.8


def test_free_training_moves_images_and_weights_by_the_same_pass(data):
    """Two replays of one batch, by hand."""
    state, plan = start(data, "free-at", options={"replays": 2}, lr=0.05)
    twin = copy.deepcopy(state.model).train()
    optimiser = OPTIMISERS["sgd"](groups(twin, 5e-4, "all"), 0.05, 0.9, True)
    x, y = data.batch(slice(0, 100))
    delta = torch.zeros_like(x)
    for _ in range(2):
        moved = (x + delta).clamp(0, 1).requires_grad_()
        optimiser.zero_grad()
        F.cross_entropy(twin(moved), y).backward()
        optimiser.step()
        delta = (((moved.detach() + 0.1 * moved.grad.sign()) - x).clamp(-0.1, 0.1) + x).clamp(0, 1) - x
    _step(state, state.model.train(), x, y, plan, 0.0)
    assert torch.allclose(weights(state), torch.cat([one.flatten().float() for one in twin.state_dict().values()]), atol=1e-5)
    assert torch.allclose(state.memory["delta"][:100], delta, atol=1e-6)
    assert not state.memory["delta"][100:].any()


def test_a_training_that_collapses_ends_with_the_weights_before(data, monkeypatch):
    state, plan = start(data, "fgsm-rs", epochs=3, overfitting_check=PGD(steps=2))
    assert len(list(train(state, data, plan))) == 3
    assert state.stopped == "", "a sound training passes"
    state, plan = start(data, "fgsm-rs", epochs=4, overfitting_check=PGD(steps=2))
    real = evaluate.evaluate

    def collapsing(model, *rest, **named):
        found = real(model, *rest, **named)
        misclassified = torch.arange(len(found.misclassified)) >= (90 if state.epoch < 3 else 30)
        return replace(found, misclassified=misclassified)

    monkeypatch.setattr(evaluate, "evaluate", collapsing)
    passed = [weights(state) for _ in train(state, data, plan)]
    assert len(passed) == 3
    assert torch.equal(passed[2], passed[1])
    assert "catastrophic overfitting in epoch 3: robust accuracy on training images fell from 70% to 23%" in state.stopped
    saved = state.state_dict()
    assert list(train(state, data, plan)) == []
    assert saved["stopped"]


def test_only_the_class_of_single_class_training_is_attacked(data):
    state, plan = start(data, "single-class-at", epochs=1)
    seen = []
    state.model.register_forward_pre_hook(lambda model, inputs: seen.append(inputs[0]) if model.training else None)
    x, y = data.batch(slice(0, 64))
    each = state.settings.select(y)
    watched = Adversary(plan.attack, Linf(each.radius), "eval", state.generator)
    plan.defence.objective(state.model.train(), x, y, each, watched)
    (passed,) = seen
    moved = (passed != x).flatten(1).any(1)
    assert torch.equal(moved, y == 3)


class Listening(Calibration):
    """Changes nothing and remembers what it was told."""

    needs_predictions = needs_losses = True

    def __init__(self):
        self.heard = []

    def __call__(self, base, current, memory, stats):
        self.heard.append(stats)
        return current, memory


def test_a_calibration_gets_predictions_and_losses(data, valid):
    """The whole set is one batch and nothing is learnt, so both can be computed afterwards."""
    state, plan = start(data, "standard", epochs=1, lr=0.0, batch=len(data))
    listening = Listening()
    list(train(state, data, replace(plan, defence=replace(plan.defence, calibration=listening)), valid))
    (stats,) = listening.heard
    means = {}
    for images_of, training in ((valid, False), (data, True)):
        x, y = images_of.batch(slice(None))
        with torch.no_grad():
            logs = state.model.train(training)(x).log_softmax(1)
        costs = -logs[torch.arange(len(y)), y]
        means[training] = [(logs[y == label].exp().mean(0), costs[y == label].mean()) for label in range(10)]
        means[training].append((None, costs.mean()))
    assert torch.allclose(stats.predictions, torch.stack([softmax for softmax, _ in means[True][:10]]), atol=1e-5)
    assert torch.allclose(stats.losses, torch.stack([loss for _, loss in means[False]]), atol=1e-5)


def test_losses_are_measured_under_attack_and_change_nothing(data, valid):
    state, plan = start(data, "trades")
    before, drawn = weights(state), state.generator.get_state()
    found = checkpoints.class_losses(state, plan, valid)
    clean = checkpoints.class_losses(state, replace(plan, defence=DEFENCES["standard"], attack=None), valid)
    assert (found > clean).all()
    assert torch.equal(weights(state), before)
    assert torch.equal(state.generator.get_state(), drawn)
    assert all(one.requires_grad for one in state.model.parameters())


def test_newer_peers_treat_classes_apart(data, valid):
    for defence, options in (("dafa", {"warm_up": 0.5}), ("wat", {})):
        state, plan = start(data, defence, epochs=4, options=options)
        first, *_, last = train(state, data, plan, valid)
        assert first.settings.weight.std() < 1e-6, defence
        assert last.settings.weight.std() > 1e-3, defence
        assert (last.settings.radius.std() > 1e-4) == (defence == "dafa")
    plain, plan = start(data, "pgd-at")
    list(train(plain, data, plan))
    for distance, same in ((0.0, True), (0.5, False)):
        state, plan = start(data, "faal", options={"distance": distance})
        list(train(state, data, plan))
        assert torch.equal(weights(state), weights(plain)) == same


def test_gates_learn_faster_and_stay_within_their_range(data):
    model = models.build("small-cnn", data, 4, layer="batch-instance")
    held = gates(model)
    _, special = groups(model, 5e-4, "all")
    assert (special["scale"], special["weight_decay"]) == (10.0, 0.0)
    assert {id(one) for one in special["params"]} == {id(one) for one in held}
    state, plan = start(data, "standard", epochs=1)
    state = begin(model, plan, 10, 0.1, 0)
    list(train(state, data, plan))
    assert state.optimiser.param_groups[1]["lr"] == pytest.approx(10 * state.optimiser.param_groups[0]["lr"])
    assert all(one.min() >= 0 and one.max() <= 1 for one in held)
    assert any((one < 1).any() for one in held)


def test_half_of_every_batch_is_pseudo_labelled(data):
    state, plan = start(data, "rst", batch=64, extra=200)
    labelled = len(data) - 200
    batches = _order(state, len(data), plan)
    assert len(batches) == math.ceil(labelled / 32)
    for which in batches:
        assert (which < labelled).sum() == (which >= labelled).sum() == 32
    assert torch.cat(batches).max() < len(data)
    (epoch,) = train(state, data, replace(plan, epochs=1))
    assert int(epoch.clean.sum()) == 64 * len(batches)
    assert math.isfinite(epoch.loss)


def test_short_epochs_go_through_one_permutation_after_another(data):
    state, plan = start(data, epoch_images=200)
    rows = torch.cat([row for _ in range(12) for row in _order(state, len(data), plan)])
    assert len(rows) == 2400
    for first in (0, len(data)):
        assert torch.equal(rows[first : first + len(data)].sort().values, torch.arange(len(data)))
    assert not torch.equal(rows[: len(data)], rows[len(data) : 2 * len(data)])
    state, plan = start(data, "rst", batch=64, extra=200, epoch_images=320)
    assert len(_order(state, len(data), plan)) == 10


@pytest.mark.parametrize("defence", ["trades-ccm-ccr", "dafa"])
def test_calibrations_of_short_epochs_go_by_the_last_pass_and_resume_to_the_same_bits(data, valid, tmp_path, defence):
    changed = {"epoch_images": 200, "epochs": 9, "validation_attack": PGD(steps=2), "select_by": "sum", "averages": AVERAGINGS}
    changed |= {"options": {"warm_up": 0.5}} if defence == "dafa" else {}
    whole, plan = start(data, defence, **changed)
    counts, passes = [], math.ceil(len(data) / 200)
    for epoch in train(whole, data, plan, valid):
        counts.append(epoch.attacked)
        assert int(epoch.attacked.sum()) == 200
        if epoch.number == 7:
            torch.save(whole.state_dict(), tmp_path / "state.pt")
    last = sum(counts[-passes:])
    assert torch.equal(whole.pass_sums["counts"].sum(0), last)
    if defence == "dafa":
        softmax = whole.pass_sums["softmax"]
        assert softmax.shape == (passes, 10, 10)
        assert torch.allclose(softmax.sum((0, 2)), last.sum(1).float())
    else:
        rates = last.diag() / last.sum(1)
        assert torch.allclose(whole.settings.radius, (0.3 + rates) * 0.1)
        assert torch.allclose(whole.settings.beta, (0.5 + rates) * 6)
    fresh, _ = start(data, defence, seed=5, **changed)
    fresh.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    list(train(fresh, data, plan, valid))
    assert torch.equal(weights(fresh), weights(whole))
    for name in ("best", *AVERAGINGS, *(f"best-{name}" for name in AVERAGINGS)):
        assert same(whole.checkpoint(name), fresh.checkpoint(name)), name


def test_epochs_are_selected_from_a_share_of_the_training_on_and_averages_every_few(data, valid, monkeypatch):
    measured, real = [], checkpoints.attacked_counts

    def noted(state, config, images, model=None):
        measured.append((state.epoch, model is None or model is state.model))
        return real(state, config, images, model)

    monkeypatch.setattr(checkpoints, "attacked_counts", noted)
    changed = {"validation_attack": PGD(steps=2), "select_by": "sum", "select_from": 0.5, "select_averages_every": 3}
    state, plan = start(data, epochs=6, averages={"ema": EMA()}, **changed)
    epochs = list(train(state, data, plan, valid))
    assert measured == [(3, True), (3, False), (4, True), (5, True), (6, True), (6, False)]
    assert [epoch.valid is not None for epoch in epochs] == [False, False, True, True, True, True]
    assert {"best", "best-ema"} == set(state.kept)


def test_a_sham_average_takes_epochs_by_lots_of_its_own(data):
    entered = {}
    for defence in ("pgd-at", "at-ccm"):
        state, plan = start(data, defence, epochs=40, epoch_images=20, averages={"sham": Sham(0.6, average_from=0.25)})
        entered[defence] = [epoch.number for epoch in train(state, data, plan) if epoch.taken]
    assert entered["pgd-at"] == entered["at-ccm"]
    assert min(entered["pgd-at"]) >= 10
    assert 12 <= len(entered["pgd-at"]) <= 26
    torch.manual_seed(3)
    other, plan = start(data, "pgd-at", epochs=40, epoch_images=20, averages={"sham": Sham(0.6)}, seed=1)
    assert [epoch.number for epoch in train(other, data, plan) if epoch.taken] != entered["pgd-at"]
    lots = [checkpoints.lot(replace(state, epoch=epoch)) for epoch in range(2000)]
    assert 0.57 < sum(lot < 0.6 for lot in lots) / 2000 < 0.63


def test_renewed_statistics_are_means_over_attacked_training_batches_and_nothing_else_changes(data):
    state, plan = start(data, epochs=2, batch=32, averages={"ema": EMA(decay=0.5)})
    list(train(state, data, plan))
    average, generator, weights_before = copy_weights(state.averages["ema"]), state.generator.get_state(), weights(state)
    fresh = checkpoints.renew_statistics(state, plan, data, average)
    for name, value in fresh.items():
        kept = name.endswith(("running_mean", "running_var", "num_batches_tracked"))
        assert torch.equal(value, average[name]) != kept, name
    assert same(fresh, checkpoints.renew_statistics(state, plan, data, average))
    assert torch.equal(state.generator.get_state(), generator)
    assert torch.equal(weights(state), weights_before)
    # By hand: the first batch norm sees the convolution of the attacked images.
    draws, model, inputs = torch.Generator().manual_seed(0), copy.deepcopy(state.model), []
    model.load_state_dict(average)
    model.eval()
    norm = next(layer for layer in model.modules() if isinstance(layer, torch.nn.BatchNorm2d))
    norm.register_forward_pre_hook(lambda layer, given: inputs.append(given[0]))
    means = []
    for rows in torch.split(torch.randperm(len(data), generator=draws)[:1600], 32):
        x, y = data.batch(rows)
        attacked = Adversary(plan.attack, Linf(torch.full((len(y),), 0.1)), "eval", draws).craft(model, x, y)
        with torch.no_grad():
            model(attacked)
        means.append(inputs[-1].mean((0, 2, 3)))
    name = next(name for name in fresh if name.endswith("running_mean"))
    assert torch.allclose(fresh[name], torch.stack(means).mean(0), atol=1e-5)


def test_weights_are_rounded_once_but_for_the_statistics_of_batch_norm(data):
    state, plan = start(data, epochs=1)
    list(train(state, data, plan))
    rounded = checkpoints.halve_precision(state.model.state_dict(), state.model)
    assert {"mean", "body.1.running_var"} < {name for name, value in rounded.items() if value.dtype != torch.float16}
    for name, value in state.model.state_dict().items():
        statistic = "running" in name or "tracked" in name or name in ("mean", "std")
        assert rounded[name].dtype == (value.dtype if statistic else torch.float16), name
        assert torch.equal(rounded[name].to(value.dtype), value if statistic else value.half().float())
    assert same(rounded, checkpoints.halve_precision(rounded, state.model))
    state.model.head.bias.data[0] = 1e6
    with pytest.raises(Diverged, match=r"head\.bias holds a weight that half precision cannot: 1e\+06"):
        checkpoints.halve_precision(state.model.state_dict(), state.model)


def test_a_gate_that_leaves_misclassified_images_alone_counts_as_an_evaluation_does(data, valid):
    gate = PGD(steps=3, start="none", success="any")
    state, plan = start(data, "pgd-he", epochs=2, validation_attack=gate)
    list(train(state, data, plan))
    clean, attacked = checkpoints.attacked_counts(state, plan, valid)
    network = plan.defence.objective.scaled_model(state.model)
    result = evaluate.evaluate(network, valid, gate, Linf(0.1))
    assert torch.equal(attacked, evaluate.confusion_counts(result.truth, result.prediction, 10))
    with torch.no_grad():
        answer = network.eval()(valid.batch(slice(None))[0]).argmax(1)
    assert torch.equal(clean, evaluate.confusion_counts(valid.labels, answer, 10))
    assert 0 < int(attacked.diag().sum()) < int(clean.diag().sum())
    other = checkpoints.attacked_counts(state, plan, valid, copy.deepcopy(state.model))
    assert all(torch.equal(one, two) for one, two in zip(other, (clean, attacked), strict=True))
