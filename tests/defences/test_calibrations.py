"""Calibrations and averagings against hand-made numbers."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from classwise import images, models
from classwise.core.errors import UserError
from classwise.defences.averaging import EMA, FAWA, NoAveraging, update_average
from classwise.defences.calibrations import (
    CFA,
    DAFA,
    FAAL,
    FRL,
    WAT,
    ClassSettings,
    EpochStats,
    Uniform,
    per_class_accuracy,
    worst_mixture,
)
from classwise.defences.weighting import ClassBalanced, DifficultyWeighting, PerClass


@pytest.fixture
def base():
    return ClassSettings.uniform(3, 0.1, 6.0, torch.device("cpu"))


# Three classes: .5, .8 and 0 of the images withstood.
COUNTS = torch.tensor([[5, 5, 0], [1, 8, 1], [10, 0, 0]])


def test_uniform_settings_are_alike(base):
    assert base.radius.tolist() == pytest.approx([0.1] * 3)
    assert base.weight.tolist() == base.robust.tolist() == [1.0] * 3


# Calibrations, and what they measured when they change nothing yet.
WAITING = [
    (Uniform(), {"train": True}),
    (CFA(calibrate_from=0.501), {"train": True}),
    (CFA(), {}),
    (FRL(warm_up=0.501), {"clean": True, "attacked": True}),
    (DAFA(), {"predictions": True}),
    (DAFA(warm_up=0.5), {}),
    (WAT(), {}),
    (DifficultyWeighting(), {}),
    (ClassBalanced(), {}),
]


@pytest.mark.parametrize(("calibration", "measured"), WAITING)
def test_a_calibration_that_waits_changes_nothing(base, calibration, measured):
    assert calibration(base, base, {}, EpochStats(0.5, **dict.fromkeys(measured, COUNTS)))[0] is base
    assert calibration.for_batch(base, torch.zeros(3, 3), torch.arange(3)) is base


@pytest.mark.parametrize(
    "calibration",
    [CFA(lambda1=None), FRL(rate=0.0), DifficultyWeighting(power=0), DAFA(strength=0, warm_up=0.5), FAAL(distance=0), PerClass()],
)
def test_a_calibration_of_no_strength_keeps_all_classes_alike(base, calibration):
    stats = EpochStats(0.5, COUNTS, validated(10, 8, 6), validated(9, 5, 1), COUNTS / 10, torch.ones(4))
    found, _ = calibration(base, calibration.start(base, torch.ones(3)), {}, stats)
    found = calibration.for_batch(found, torch.eye(3), torch.arange(3))
    for name, value in vars(found).items():
        assert torch.equal(value, getattr(base, name)), name


def test_settings_of_images_are_those_of_their_classes(base):
    base.radius[1] = 0.3
    found = base.at(torch.tensor([1, 0, 1]))
    assert found.radius.tolist() == pytest.approx([0.3, 0.1, 0.3])
    assert found.beta.tolist() == [6.0] * 3


def test_radius_and_beta_follow_equations_6_and_7(base):
    found, _ = CFA(lambda1=0.3, lambda2=0.5)(base, base, {}, EpochStats(0.5, COUNTS))
    assert found.radius.tolist() == pytest.approx([0.08, 0.11, 0.03])
    assert found.beta.tolist() == pytest.approx([6.0, 7.8, 3.0])
    again, _ = CFA(lambda1=0.3, lambda2=0.5)(base, found, {}, EpochStats(0.6, COUNTS))
    assert again.radius.tolist() == found.radius.tolist(), "always from the radius of the run, not from the last one"


def test_either_part_may_be_left_out(base):
    radii, _ = CFA(lambda1=0.5)(base, base, {}, EpochStats(0.5, COUNTS))
    betas, _ = CFA(lambda1=None, lambda2=0.5)(base, base, {}, EpochStats(0.5, COUNTS))
    assert radii.beta.tolist() == base.beta.tolist()
    assert betas.radius.tolist() == base.radius.tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_accuracy_of_a_class_is_correctly_rounded_in_either_precision(dtype):
    accuracy = per_class_accuracy(torch.tensor([[1, 2, 0], [5, 2, 0], [0, 0, 0]]), dtype)
    assert accuracy.dtype == dtype
    assert torch.equal(accuracy, torch.tensor([1 / 3, 2 / 7, 0], dtype=torch.float64).to(dtype))


def some(value, seen=1):
    """Weights of a layer with batch norm, all of one value."""
    floats = {name: torch.full((2,), float(value)) for name in ("weight", "bn.running_mean", "bn.running_var")}
    return floats | {"bn.num_batches_tracked": torch.tensor(seen)}


@given(decay=st.floats(0, 0.99), values=st.lists(st.floats(-9, 9, width=32), min_size=1, max_size=6), last=st.booleans())
def test_an_average_by_epoch_is_the_recursion(decay, values, last):
    """In place, and never of the weights; statistics of batch norm, if chosen, and counts are those of the last epoch."""
    averaging, average, expected = EMA(decay=decay, statistics="last" if last else "averaged"), None, None
    for number, value in enumerate(values):
        weights = some(value, number)
        kept, average = average, averaging.after_epoch(average, weights)
        expected = value if expected is None else decay * expected + (1 - decay) * value
        assert kept is None or kept is average
        assert average["weight"].tolist() == pytest.approx([expected] * 2, abs=1e-4)
        assert average["bn.running_var"].tolist() == pytest.approx([value if last else expected] * 2, abs=1e-4)
        assert int(average["bn.num_batches_tracked"]) == number
        assert weights["weight"].tolist() == [value] * 2


def test_an_average_by_step_warms_up():
    averaging, average = EMA(decay=0.999, per="step"), None
    assert averaging.each_step
    average = averaging.after_step(average, some(0), 0)
    average = averaging.after_step(average, some(1), 1)
    assert average["weight"][0] == pytest.approx(1 - 2 / 11)
    before = float(average["weight"][0])
    average = averaging.after_step(average, some(1), 10**6)
    assert average["weight"][0] == pytest.approx(0.999 * before + 0.001)


def test_every_weight_of_a_network_is_averaged():
    data = images.load("digits", "train")
    one, other = (models.build("small-cnn", data, 4, seed).state_dict() for seed in (0, 1))
    average = update_average(update_average(None, one, 0.5, "averaged"), other, 0.5, "averaged")
    for name, value in average.items():
        if value.is_floating_point():
            assert torch.allclose(value, (one[name] + other[name]) / 2, atol=1e-6), name


@given(progress=st.floats(0, 1), worst=st.floats(0, 1), begin=st.floats(0, 1), threshold=st.floats(0, 1))
def test_averages_open_their_gates_to_late_and_fair_epochs(progress, worst, begin, threshold):
    assert FAWA(threshold=threshold, average_from=begin).accepts(progress, worst) == (progress >= begin and worst >= threshold)
    assert EMA(average_from=begin).accepts(progress, None) == (progress >= begin)
    assert (FAWA().threshold, FAWA().average_from, EMA().average_from) == (0.2, 0.25, 0)
    assert (NoAveraging.averages, EMA.averages, EMA().each_step) == (False, True, False)


def validated(*right, size=10):
    """Counts of classes of `size` validation images with so many answered rightly."""
    return torch.diag(torch.tensor(right)) + torch.roll(torch.diag(size - torch.tensor(right)), 1, 1)


# Clean accuracy 1, .8, .6; robust .9, .5, .1: clean errors 0, .2, .4 and boundary errors .1, .3, .5 about means .2 and .3.
STATS = EpochStats(0.5, None, validated(10, 8, 6), validated(9, 5, 1))


def published_weights(multiplier):
    """1/C + (C-1)/C x own - 1/C x the sum of the others, as published."""
    size = len(multiplier)
    return [1 / size + (size - 1) / size * own - (sum(multiplier) - own) / size for own in multiplier]


def test_frl_weighs_by_hand(base):
    found, memory = FRL(tau=0.1, rate=0.5)(base, base, {}, STATS)
    natural, boundary = [0, 0, 0.05], [0, 0, 0.1]
    assert memory["natural"].tolist() == pytest.approx(natural, abs=1e-6)
    assert memory["boundary"].tolist() == pytest.approx(boundary, abs=1e-6)
    assert found.weight.tolist() == pytest.approx([3 * one for one in published_weights(natural)], abs=1e-5)
    assert found.robust.tolist() == pytest.approx([3 * one for one in published_weights(boundary)], abs=1e-5)
    assert found.radius.tolist() == base.radius.tolist()
    _, memory = FRL(tau=0.1, rate=0.5)(base, found, memory, STATS)
    assert memory["boundary"].tolist() == pytest.approx([0, 0, 0.2], abs=1e-6)


def test_the_multipliers_of_frl_are_limited(base):
    _, memory = FRL(tau=0.0, rate=10.0)(base, base, {}, STATS)
    assert memory["natural"].sum() == pytest.approx(0.5)
    assert memory["boundary"].tolist() == pytest.approx([0, 0, 0.5])


def test_frl_with_margins_widens_the_radius_of_what_lags_behind(base):
    found, memory = FRL(form="rmrw", tau=0.0, margin_rate=1.0)(base, base, {}, STATS)
    assert memory["margin"].tolist() == pytest.approx([-0.2, 0.0, 0.2], abs=1e-6)
    assert found.radius.tolist() == pytest.approx([0.098, 0.1, 0.1 * 2.718281828**0.4], abs=1e-6)


def test_named_classes_have_settings_of_their_own(base):
    found = PerClass(betas="1:0.5", weights="2:5", radii="0:1.5").start(base, torch.ones(3))
    assert found.beta.tolist() == [6.0, 0.5, 6.0]
    assert found.weight.tolist() == found.robust.tolist() == [1.0, 1.0, 5.0]
    assert found.radius.tolist() == pytest.approx([0.15, 0.1, 0.1])
    assert base.beta.tolist() == [6.0] * 3


def test_a_larger_weight_is_no_larger_rate_if_their_mean_is_one(base):
    given = PerClass(weights="2:10", mean_one=True).start(base, torch.ones(3))
    assert given.weight.tolist() == given.robust.tolist() == pytest.approx([0.25, 0.25, 2.5])
    assert PerClass(weights="2:10").start(base, torch.ones(3)).weight.mean() == 4
    assert base.weight.tolist() == [1.0] * 3
    assert PerClass(betas="1:0.5", mean_one=True).start(base, torch.ones(3)).weight.tolist() == [1.0] * 3


@pytest.mark.parametrize(
    ("classes", "options", "says"),
    [
        (3, {"betas": "3=1"}, 'like "5:0.5 3:2"'),
        (3, {"betas": "3:-1"}, "must be 0 or more"),
        (3, {"weights": "3:5"}, "weights names class 3, which does not exist"),
        (2, {"weights": "0:0 1:0", "mean_one": True}, "are all 0"),
    ],
)
def test_settings_of_classes_that_do_not_fit_are_named(classes, options, says):
    """Bounds of the options of all calibrations and averagings are those of `test_options`."""
    with pytest.raises(UserError, match=says):
        PerClass(**options).start(ClassSettings.uniform(classes, 0.1, 6.0, torch.device("cpu")), torch.ones(classes))


def test_difficult_classes_weigh_more(base):
    found, _ = DifficultyWeighting(power=2)(base, base, {}, EpochStats(0.5, COUNTS))
    cost = [0.25, 0.04, 1.0]
    assert found.weight.tolist() == pytest.approx([3 * one / sum(cost) for one in cost], rel=1e-5)


def test_balanced_weights_are_those_of_cui():
    base = ClassSettings.uniform(2, 0.1, 0.0, torch.device("cpu"), margin=0.5)
    sizes = torch.tensor([10, 1000])
    found = ClassBalanced(rarity=0.99, by="size").start(base, sizes)
    raw = [0.01 / (1 - 0.99**10), 0.01 / (1 - 0.99**1000)]
    assert found.weight.tolist() == pytest.approx([2 * one / sum(raw) for one in raw], rel=1e-5)
    assert found.margin.tolist() == pytest.approx([0.5, 0.5 * (10 / 1000) ** 0.25], rel=1e-5)


def test_ldam_on_balanced_data_is_a_constant_margin_without_weights():
    base = ClassSettings.uniform(3, 0.1, 0.0, torch.device("cpu"), margin=0.5)
    found = ClassBalanced(by="size").start(base, torch.tensor([500, 500, 500]))
    assert found.margin.tolist() == pytest.approx([0.5] * 3)
    assert found.weight.tolist() == pytest.approx([1.0] * 3)


def test_what_is_easily_attacked_counts_as_rare():
    base = ClassSettings.uniform(3, 0.1, 0.0, torch.device("cpu"), margin=0.5)
    deferred = ClassBalanced(weigh_from=0.8)
    early, late = (deferred(base, base, {}, EpochStats(done, COUNTS))[0] for done in (0.5, 0.8))
    assert early.margin[2] == pytest.approx(0.5)
    assert early.margin[2] > early.margin[0] > early.margin[1]
    assert early.weight.tolist() == [1.0] * 3
    assert late.weight[2] > late.weight[0] > late.weight[1]
    assert late.weight.mean() == pytest.approx(1.0)
    # Nothing of class 2 withstands: it counts as a quarter of the mean size, 10.
    raw = [1 / (1 - 0.999**size) for size in (10 * 0.5 / (1.3 / 3), 10 * 0.8 / (1.3 / 3), 2.5)]
    assert late.weight.tolist() == pytest.approx([3 * one / sum(raw) for one in raw], rel=1e-4)


@pytest.fixture
def exact():
    """Settings of three classes in float64."""
    return ClassSettings(*(value * torch.ones(3, dtype=torch.float64) for value in (0.1, 6.0, 1.0, 1.0, 0.0)))


# Class 0 is easy, class 2 hard; class 2 is taken for class 1 more than the other way round.
PREDICTIONS = torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.6, 0.3], [0.1, 0.5, 0.4]], dtype=torch.float64)


def test_dafa_weighs_by_hand(exact):
    calibration = DAFA(warm_up=0.5)
    found, memory = calibration(exact, exact, {}, EpochStats(0.5, predictions=PREDICTIONS))
    weight = [1 - 0.1 * 0.8 - 0.1 * 0.8, 1 + 0.1 * 0.8 - 0.5 * 0.6, 1 + 0.1 * 0.8 + 0.5 * 0.6]
    assert found.weight.tolist() == pytest.approx(weight, abs=1e-12)
    assert found.radius.tolist() == pytest.approx([0.1 * one for one in weight], abs=1e-12)
    assert torch.equal(found.robust, exact.robust), "the divergence is not weighed"
    assert torch.equal(found.beta, exact.beta)
    again, kept = calibration(exact, found, memory, EpochStats(0.6, predictions=PREDICTIONS.flip(0)))
    assert again is found, "found once, at the end of the warm-up"
    assert kept is memory
    stronger, _ = DAFA(strength=1.5, warm_up=0.5)(exact, exact, {}, EpochStats(0.5, predictions=PREDICTIONS))
    assert (stronger.weight - 1).tolist() == pytest.approx([1.5 * (one - 1) for one in weight], abs=1e-12)


def test_dafa_begins_at_the_end_of_its_warm_up(exact):
    assert DAFA()(exact, exact, {}, EpochStats(69 / 110, predictions=PREDICTIONS))[0] is exact
    assert DAFA()(exact, exact, {}, EpochStats(70 / 110, predictions=PREDICTIONS))[0].weight[0] < 1
    assert DAFA(strength=50).weights(PREDICTIONS).min() == 0


def test_wat_weighs_by_hand(exact):
    losses = torch.tensor([1.0, 2.0, 6.0, 3.0], dtype=torch.float64)
    calibration = WAT(rate=0.5)
    found, memory = calibration(exact, exact, {}, EpochStats(0.1, losses=losses))
    found, memory = calibration(exact, found, memory, EpochStats(0.2, losses=losses))
    raw = [math.exp(0.5 * 2 * one) for one in losses.tolist()]
    slots = [3 * one / sum(raw) for one in raw]
    assert memory["piled"].tolist() == [2.0, 4.0, 12.0, 6.0]
    assert found.weight.tolist() == pytest.approx([one + slots[-1] for one in slots[:-1]], abs=1e-12)
    assert torch.equal(found.weight, found.robust)
    assert torch.equal(found.radius, exact.radius)


def test_wat_without_a_rate_is_a_multiple_of_the_plain_defence(exact):
    begun = WAT().start(exact, torch.ones(3))
    assert begun.weight.tolist() == begun.robust.tolist() == pytest.approx([2 * 3 / 4] * 3)
    losses = torch.tensor([1.0, 2.0, 6.0, 3.0], dtype=torch.float64)
    found, _ = WAT(rate=0)(exact, begun, {}, EpochStats(0.1, losses=losses))
    assert found.weight.tolist() == pytest.approx([2 * 3 / 4] * 3)


def apart(weight):
    """KL(w || uniform) of weights above 0."""
    return float((weight * (len(weight) * weight).log()).sum())


def test_faal_finds_the_worst_mixture_of_classes():
    """Of two classes w = (1 - p, p), whose divergence fixes p; of more, no nearby mixture within the ball costs more."""
    two = torch.tensor([0.0, 1.0], dtype=torch.float64)
    p = 0.9
    distance = math.log(2) + p * math.log(p) + (1 - p) * math.log(1 - p)
    found = worst_mixture(two, two > -1, distance)
    assert found.tolist() == pytest.approx([1 - p, p], abs=1e-5)
    costs = torch.tensor([0.3, -1.0, 2.0, 1.5, 0.0], dtype=torch.float64)
    best = worst_mixture(costs, costs > -9, 0.5)
    assert float(best.sum()) == pytest.approx(1)
    assert apart(best) == pytest.approx(0.5, abs=1e-4)
    others = torch.rand(20_000, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) ** 3 + 1e-9
    others = others / others.sum(1, keepdim=True)
    near = others[(others * (5 * others).log()).sum(1) <= 0.5]
    assert len(near) > 1000
    assert (near @ costs).max() <= best @ costs + 1e-4


def test_the_mixture_knows_its_limits():
    costs, every = torch.tensor([1.0, 5.0, 2.0], dtype=torch.float64), torch.ones(3, dtype=torch.bool)
    assert worst_mixture(costs, every, 2.0).tolist() == pytest.approx([0, 1, 0], abs=1e-6)
    assert worst_mixture(0 * costs, every, 0.5).tolist() == pytest.approx([1 / 3] * 3)
    lacking = worst_mixture(costs, torch.tensor([True, False, True]), 0.1)
    assert lacking[1] == 0
    assert lacking[2] > lacking[0] > 0


def test_faal_weighs_a_batch_by_its_margins(exact):
    """Class 0 has the margins 4 and 2, class 1 has -2, class 2 no image."""
    answers = torch.tensor([[4.0, 0, -1], [3.0, 1, 0], [2.0, 0, 1]], dtype=torch.float64)
    y = torch.tensor([0, 0, 1])
    p = 0.8
    distance = math.log(2) + p * math.log(p) + (1 - p) * math.log(1 - p)
    found = FAAL(distance=distance).for_batch(exact.at(y), answers, y)
    assert found.weight.tolist() == pytest.approx([2 * (1 - p)] * 2 + [2 * p], abs=1e-4)
    assert torch.equal(found.weight, found.robust)
