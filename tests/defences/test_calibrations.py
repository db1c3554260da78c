"""Calibrations and averagings against hand-made numbers."""

import math

import pytest
import torch

from classwise import images, models
from classwise.core.errors import UserError
from classwise.defences.averaging import EMA, FAWA, NoAveraging, update_average
from classwise.defences.calibrations import CFA, ClassSettings, EpochStats, Uniform, per_class_accuracy
from classwise.defences.calibrations.dafa import DAFA
from classwise.defences.calibrations.faal import FAAL, worst_mixture
from classwise.defences.calibrations.frl import FRL
from classwise.defences.calibrations.wat import WAT
from classwise.defences.calibrations.weighting import ClassBalanced, DifficultyWeighting, PerClass


@pytest.fixture
def base():
    return ClassSettings.uniform(3, 0.1, 6.0, torch.device("cpu"))


# Three classes: .5, .8 and 0 of the images withstood.
COUNTS = torch.tensor([[5, 5, 0], [1, 8, 1], [10, 0, 0]])


def test_a_uniform_calibration_keeps_all_classes_alike(base):
    assert base.radius.tolist() == pytest.approx([0.1] * 3)
    assert base.weight.tolist() == base.robust.tolist() == [1.0] * 3
    assert Uniform()(base, base, {}, EpochStats(0.5, COUNTS))[0] is base


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


def test_lambda1_of_one_with_nothing_withstood_is_the_plain_radius(base):
    found, _ = CFA(lambda1=1.0)(base, base, {}, EpochStats(0.5, torch.tensor([[0, 1, 0], [0, 0, 1], [1, 0, 0]])))
    assert found.radius.tolist() == pytest.approx([0.1] * 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_accuracy_of_a_class_is_correctly_rounded_in_either_precision(dtype):
    accuracy = per_class_accuracy(torch.tensor([[1, 2, 0], [5, 2, 0], [0, 0, 0]]), dtype)
    assert accuracy.dtype == dtype
    assert torch.equal(accuracy, torch.tensor([1 / 3, 2 / 7, 0], dtype=torch.float64).to(dtype))


def test_the_calibration_of_the_code_waits(base):
    late = CFA(lambda1=0.5, calibrate_from=0.05)
    assert late(base, base, {}, EpochStats(9 / 200, COUNTS))[0] is base
    assert late(base, base, {}, EpochStats(10 / 200, COUNTS))[0].radius[0] == pytest.approx(0.1)
    assert late(base, base, {}, EpochStats(1.0))[0] is base


def some(value, seen=1):
    """Weights of a layer with batch norm, all of one value."""
    floats = {name: torch.full((2,), float(value)) for name in ("weight", "bn.running_mean", "bn.running_var")}
    return floats | {"bn.num_batches_tracked": torch.tensor(seen)}


def test_an_average_by_epoch_is_the_recursion():
    averaging, average = EMA(decay=0.75), None
    for value, expected in ((1, 1.0), (2, 1.25), (5, 0.75 * 1.25 + 0.25 * 5)):
        average = averaging.after_epoch(average, some(value, value))
        assert average["weight"].tolist() == pytest.approx([expected] * 2)
        assert average["bn.running_var"].tolist() == pytest.approx([expected] * 2)
        assert int(average["bn.num_batches_tracked"]) == value


def test_an_average_by_step_warms_up():
    averaging, average = EMA(decay=0.999, per="step"), None
    assert averaging.each_step
    average = averaging.after_step(average, some(0), 0)
    average = averaging.after_step(average, some(1), 1)
    assert average["weight"][0] == pytest.approx(1 - 2 / 11)
    before = float(average["weight"][0])
    average = averaging.after_step(average, some(1), 10**6)
    assert average["weight"][0] == pytest.approx(0.999 * before + 0.001)


def test_the_statistics_of_batch_norm_may_be_those_of_the_last():
    average = update_average(some(0), some(10), 0.9, "last")
    assert average["weight"].tolist() == pytest.approx([1.0, 1.0])
    assert average["bn.running_mean"].tolist() == average["bn.running_var"].tolist() == [10.0, 10.0]


def test_an_average_is_changed_in_place_and_never_the_weights():
    weights = some(1)
    average = update_average(None, weights, 0.5, "averaged")
    kept = average["weight"]
    update_average(average, some(3), 0.5, "averaged")
    assert kept.tolist() == [2.0, 2.0]
    assert weights["weight"].tolist() == [1.0, 1.0]


def test_every_weight_of_a_network_is_averaged():
    data = images.load("digits", "train")
    one, other = (models.build("small-cnn", data, 4, seed).state_dict() for seed in (0, 1))
    average = update_average(update_average(None, one, 0.5, "averaged"), other, 0.5, "averaged")
    for name, value in average.items():
        if value.is_floating_point():
            assert torch.allclose(value, (one[name] + other[name]) / 2, atol=1e-6), name


@pytest.mark.parametrize(
    ("progress", "worst", "counted"), [(0.25, 0.2, True), (0.24, 0.9, False), (0.9, 0.19, False), (1.0, 1.0, True)]
)
def test_fawa_opens_its_gate_to_fair_epochs(progress, worst, counted):
    assert FAWA().accepts(progress, worst) is counted


@pytest.mark.parametrize(("progress", "counted"), [(0.24, False), (0.25, True), (1.0, True)])
def test_ema_may_begin_later(progress, counted):
    assert EMA(average_from=0.25).accepts(progress, None) is counted
    assert EMA().accepts(progress, None)


def test_no_average_is_kept_where_none_is_asked_for():
    assert not NoAveraging.averages
    assert EMA.averages
    assert not EMA().each_step


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


def test_frl_without_a_rate_weighs_all_alike(base):
    found, _ = FRL(rate=0.0)(base, base, {}, STATS)
    assert found.weight.tolist() == found.robust.tolist() == [1.0] * 3


def test_frl_waits_for_its_warm_up(base):
    assert FRL(warm_up=0.7)(base, base, {}, STATS)[0] is base


def test_named_classes_have_settings_of_their_own(base):
    found = PerClass(betas="1:0.5", weights="2:5", radii="0:1.5").start(base, torch.ones(3))
    assert found.beta.tolist() == [6.0, 0.5, 6.0]
    assert found.weight.tolist() == found.robust.tolist() == [1.0, 1.0, 5.0]
    assert found.radius.tolist() == pytest.approx([0.15, 0.1, 0.1])
    assert base.beta.tolist() == [6.0] * 3
    assert PerClass().start(base, torch.ones(3)).weight.tolist() == [1.0] * 3


def test_a_larger_weight_is_no_larger_rate_if_their_mean_is_one(base):
    given = PerClass(weights="2:10", mean_one=True).start(base, torch.ones(3))
    assert given.weight.tolist() == given.robust.tolist() == pytest.approx([0.25, 0.25, 2.5])
    assert PerClass(weights="2:10").start(base, torch.ones(3)).weight.mean() == 4
    assert base.weight.tolist() == [1.0] * 3
    assert PerClass(betas="1:0.5", mean_one=True).start(base, torch.ones(3)).weight.tolist() == [1.0] * 3


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: PerClass(betas="3=1"), 'like "5:0.5 3:2"'),
        (lambda: PerClass(betas="3:-1"), "must be 0 or more"),
        (
            lambda: PerClass(weights="3:5").start(ClassSettings.uniform(3, 0.1, 6.0, torch.device("cpu")), torch.ones(3)),
            "does not exist",
        ),
        (
            lambda: PerClass(weights="0:0 1:0", mean_one=True).start(
                ClassSettings.uniform(2, 0.1, 6.0, torch.device("cpu")), torch.ones(2)
            ),
            "are all 0",
        ),
        (lambda: FRL(form="rwm"), "did you mean 'rw'"),
        (lambda: FRL(tau=-0.1), "tau must be 0 or more"),
        (lambda: ClassBalanced(by="sizes"), "did you mean 'size'"),
        (lambda: ClassBalanced(rarity=1.0), "below 1"),
        (lambda: DifficultyWeighting(power=-1.0), "power must be 0 or more"),
        (lambda: DAFA(strength=-1.0), "strength must be 0 or more, got -1.0"),
        (lambda: DAFA(warm_up=70.0), "warm_up is a share of the training, 0 to 1, got 70.0"),
        (lambda: WAT(rate=-0.1), "rate must be 0 or more, got -0.1"),
        (lambda: FAAL(distance=-0.5), "distance must be 0 or more, got -0.5"),
    ],
)
def test_mistakes_are_named(make, says):
    with pytest.raises(UserError, match=says):
        make()


def test_difficult_classes_weigh_more(base):
    found, _ = DifficultyWeighting(power=2)(base, base, {}, EpochStats(0.5, COUNTS))
    cost = [0.25, 0.04, 1.0]
    assert found.weight.tolist() == pytest.approx([3 * one / sum(cost) for one in cost], rel=1e-5)
    assert DifficultyWeighting(power=0)(base, base, {}, EpochStats(0.5, COUNTS))[0].weight.tolist() == [1.0] * 3


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


def test_dafa_without_strength_or_before_its_warm_up_leaves_all_alike(exact):
    assert DAFA()(exact, exact, {}, EpochStats(69 / 110, predictions=PREDICTIONS))[0] is exact
    assert DAFA()(exact, exact, {}, EpochStats(70 / 110, predictions=PREDICTIONS))[0].weight[0] < 1
    found, _ = DAFA(strength=0)(exact, exact, {}, EpochStats(1.0, predictions=PREDICTIONS))
    assert found.weight.tolist() == [1.0] * 3
    assert torch.equal(found.radius, exact.radius)
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
    assert WAT()(exact, begun, {}, EpochStats(0.1))[0] is begun


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
    plain = exact.at(y)
    assert FAAL(distance=0).for_batch(plain, answers, y) is plain
    assert Uniform().for_batch(plain, answers, y) is plain
