"""Calibrations and averagings against hand-made numbers."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from layers import counts

from classwise.core.errors import UserError
from classwise.defences import calibrations
from classwise.defences.averaging import EMA, FAWA, NoAveraging
from classwise.defences.calibrations import CFA, CODAT, CSR, DAFA, FAAL, FRL, WAT, ClassSettings, EpochStats, Uniform
from classwise.defences.weighting import ClassBalanced, DifficultyWeighting, PerClass


@pytest.fixture
def base():
    """Settings of three classes in float64."""
    return ClassSettings(*(value * torch.ones(3, dtype=torch.float64) for value in (0.1, 6.0, 1.0, 1.0, 0.5)))


# Three classes: .5, .8 and 0 of the images withstood.
COUNTS = torch.tensor([[5, 5, 0], [1, 8, 1], [10, 0, 0]])
# Class 0 is easy, class 2 hard; class 2 is taken for class 1 more than the other way round.
PREDICTIONS = torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.6, 0.3], [0.1, 0.5, 0.4]], dtype=torch.float64)
# Clean accuracy 1, .8, .6; robust .9, .5, .1: clean errors 0, .2, .4 and boundary errors .1, .3, .5 about means .2 and .3.
STATS = EpochStats(0.5, COUNTS, counts(10, 8, 6), counts(9, 5, 1), PREDICTIONS, torch.ones(4, dtype=torch.float64))


def shares(*values):
    """Three times the values over their sum."""
    return [3 * value / sum(values) for value in values]


def weighed(*multiplier):
    """Three times 1/C + (C-1)/C x own - 1/C x the sum of the others, as FRL publishes its weights."""
    return [3 * (1 / 3 + 2 / 3 * own - (sum(multiplier) - own) / 3) for own in multiplier]


def alike(values):
    return {"weight": values, "robust": values}


_DAFA = [1 - 0.1 * 0.8 - 0.1 * 0.8, 1 + 0.1 * 0.8 - 0.5 * 0.6, 1 + 0.1 * 0.8 + 0.5 * 0.6]
# Nothing of class 2 withstands: it counts as a quarter of the mean size, 10.
_SIZES = (10 * 0.5 / (1.3 / 3), 10 * 0.8 / (1.3 / 3), 2.5)
_MARGIN = [0.5 * (2.5 / size) ** 0.25 for size in _SIZES]
# Calibrations after an epoch with STATS: the settings that change, by hand; no other does.
BY_HAND = [
    (CFA(lambda1=0.3, lambda2=0.5), {"radius": [0.08, 0.11, 0.03], "beta": [6.0, 7.8, 3.0]}),
    (CFA(lambda1=0.5), {"radius": [0.1, 0.13, 0.05]}),
    (CFA(lambda1=None, lambda2=0.5), {"beta": [6.0, 7.8, 3.0]}),
    (CFA(lambda1=None), {}),
    (FRL(tau=0.1, rate=0.5), {"weight": weighed(0, 0, 0.05), "robust": weighed(0, 0, 0.1)}),
    (FRL(tau=0.0, rate=10.0), alike(weighed(0, 0, 0.5))),  # limited
    (FRL(form="rmrw", tau=0.0, margin_rate=1.0, rate=0.0), {"radius": [0.098, 0.1, 0.1 * math.exp(0.4)]}),
    (FRL(rate=0.0), {}),
    (DAFA(warm_up=0.5), {"weight": _DAFA, "radius": [0.1 * one for one in _DAFA]}),
    (DAFA(strength=0, warm_up=0.5), {}),
    (WAT(rate=0), alike([2 * 3 / 4] * 3)),
    (DifficultyWeighting(power=2), alike(shares(0.25, 0.04, 1.0))),
    (DifficultyWeighting(power=0), {}),
    (ClassBalanced(weigh_from=0.5), alike(shares(*(1 / (1 - 0.999**size) for size in _SIZES))) | {"margin": _MARGIN}),
    (ClassBalanced(weigh_from=0.8), {"margin": _MARGIN}),
    (FAAL(distance=0), {}),
    (CODAT(), {}),
    (CSR(), {}),
]


def check(found, base, expected):
    for name, value in vars(found).items():
        assert value.tolist() == pytest.approx(expected.get(name, getattr(base, name).tolist()), abs=1e-6), name


@pytest.mark.parametrize(("calibration", "expected"), BY_HAND)
def test_a_calibration_sets_by_hand_and_always_from_the_settings_of_the_run(base, calibration, expected):
    found, memory = calibration(base, base, {}, STATS)
    check(found, base, expected)
    check(base.select(torch.tensor([2, 0, 1])), base, {})
    if not memory:
        again, _ = calibration(base, found, {}, STATS)
        check(again, base, expected)
    picked = found.select(torch.tensor([1, 0, 1]))
    assert all(torch.equal(value, getattr(found, name)[[1, 0, 1]]) for name, value in vars(picked).items())


# Settings before the first epoch, by the sizes of the classes.
_PER_CLASS = alike([1, 1, 5]) | {"beta": [6, 0.5, 6], "radius": [0.15, 0.1, 0.1]}
_RARE = alike(shares(*(1 / (1 - 0.99**size) for size in (10, 1000, 1000)))) | {"margin": [0.5, *[0.5 * 0.01**0.25] * 2]}
STARTED = [
    (PerClass(), (1, 1, 1), {}),
    (PerClass(betas="1:0.5", weights="2:5", radii="0:1.5"), (1, 1, 1), _PER_CLASS),
    (PerClass(weights="2:10"), (1, 1, 1), alike([1, 1, 10])),
    (PerClass(weights="2:10", mean_one=True), (1, 1, 1), alike([0.25, 0.25, 2.5])),
    (PerClass(betas="1:0.5", mean_one=True), (1, 1, 1), {"beta": [6, 0.5, 6]}),
    (ClassBalanced(by="size"), (500, 500, 500), {}),
    (ClassBalanced(rarity=0.99, by="size"), (10, 1000, 1000), _RARE),
    (WAT(), (1, 1, 1), alike([2 * 3 / 4] * 3)),
    (CSR(), (1, 1, 1), {"weight": [0.7] * 3}),
]


@pytest.mark.parametrize(("calibration", "sizes", "expected"), STARTED)
def test_a_calibration_starts_by_hand_and_leaves_the_base_alone(base, calibration, sizes, expected):
    before = copy.deepcopy(base)
    check(calibration.start(base, torch.tensor(sizes)), base, expected)
    check(base, before, {})


# Calibrations, and what they measured when they change nothing yet.
WAITING = [(one, {}) for one in (CFA(), DAFA(warm_up=0.5), WAT(), DifficultyWeighting(), ClassBalanced())]
WAITING += [(Uniform(), ["train"]), (CFA(calibrate_from=0.501), ["train"]), (DAFA(), ["predictions"])]
WAITING += [(FRL(warm_up=0.501), ["clean", "attacked"])]


@pytest.mark.parametrize(("calibration", "measured"), WAITING)
def test_a_calibration_that_waits_changes_nothing(base, calibration, measured):
    assert calibration(base, base, {}, EpochStats(0.5, **dict.fromkeys(measured, COUNTS)))[0] is base
    assert calibration.batch_settings(base, torch.zeros(3, 3), torch.arange(3)) is base


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_accuracy_of_a_class_is_correctly_rounded_in_either_precision(dtype):
    accuracy = calibrations.per_class_accuracy(torch.tensor([[1, 2, 0], [5, 2, 0], [0, 0, 0]]), dtype)
    assert accuracy.dtype == dtype
    assert torch.equal(accuracy, torch.tensor([1 / 3, 2 / 7, 0], dtype=torch.float64).to(dtype))


def some(value, seen=1):
    """Weights of a layer with batch norm, all of one value."""
    floats = {name: torch.full((2,), float(value)) for name in ("weight", "bn.running_mean", "bn.running_var")}
    return floats | {"bn.num_batches_tracked": torch.tensor(seen)}


@given(
    kind=st.sampled_from([EMA, FAWA]),
    decay=st.floats(0, 0.99),
    values=st.lists(st.floats(-9, 9, width=32), min_size=1, max_size=6),
    last=st.booleans(),
)
def test_an_average_by_epoch_is_the_recursion(kind, decay, values, last):
    """In place, and never of the weights; statistics of batch norm, if chosen, and counts are those of the last epoch."""
    averaging, average, expected = kind(decay=decay, statistics="last" if last else "averaged"), None, None
    for number, value in enumerate(values):
        weights = some(value, number)
        kept, average = average, averaging.update_after_epoch(average, weights)
        expected = value if expected is None else decay * expected + (1 - decay) * value
        assert kept is None or kept is average
        assert average["weight"].tolist() == pytest.approx([expected] * 2, abs=1e-4)
        assert average["bn.running_var"].tolist() == pytest.approx([value if last else expected] * 2, abs=1e-4)
        assert int(average["bn.num_batches_tracked"]) == number
        assert weights["weight"].tolist() == [value] * 2


def test_a_network_without_batch_norm_is_averaged():
    averaging = EMA(decay=0.5)
    first, second = ({"weight": torch.full((2,), value)} for value in (1.0, 2.0))
    assert averaging.update_after_epoch(averaging.update_after_epoch(None, first), second)["weight"].tolist() == [1.5, 1.5]


def test_an_average_by_step_warms_up():
    averaging, average, expected = EMA(decay=0.999, per="step"), None, 0.0
    for step, value in ((0, 0.0), (1, 1.0), (2, 5.0), (10**6, 1.0)):
        average = averaging.update_after_step(average, some(value), step)
        share = min(0.999, (step + 1) / (step + 10))
        expected = share * expected + (1 - share) * value
        assert average["weight"].tolist() == pytest.approx([expected] * 2)


@given(progress=st.floats(0, 1), worst=st.floats(0, 1), begin=st.floats(0, 1), threshold=st.floats(0, 1))
def test_averages_open_their_gates_to_late_and_fair_epochs(progress, worst, begin, threshold):
    assert FAWA(threshold=threshold, average_from=begin).accepts(progress, worst) == (progress >= begin and worst >= threshold)
    assert EMA(average_from=begin).accepts(progress, None) == (progress >= begin)
    assert (FAWA().threshold, FAWA().average_from, EMA().average_from) == (0.2, 0.25, 0)
    assert (NoAveraging.averages, EMA.averages, EMA().each_step) == (False, True, False)


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


def test_frl_adds_up_its_multipliers_and_dafa_weighs_once_at_the_end_of_its_warm_up(base):
    found, memory = FRL(tau=0.1, rate=0.5)(base, base, {}, STATS)
    again, _ = FRL(tau=0.1, rate=0.5)(base, found, memory, STATS)
    assert again.robust.tolist() == pytest.approx(weighed(0, 0, 0.2), abs=1e-6)
    early, late = (DAFA()(base, base, {}, replace(STATS, progress=epoch / 110)) for epoch in (69, 70))
    assert early[0] is base
    check(late[0], base, BY_HAND[8][1])
    again, kept = DAFA()(base, late[0], late[1], replace(STATS, progress=0.7, predictions=PREDICTIONS.flip(0)))
    assert again is late[0]
    assert kept is late[1]
    assert (DAFA(strength=1.5).weights(PREDICTIONS) - 1).tolist() == pytest.approx([1.5 * (one - 1) for one in _DAFA])
    assert DAFA(strength=50).weights(PREDICTIONS).min() == 0


def test_wat_weighs_by_hand(base):
    losses = torch.tensor([1.0, 2.0, 6.0, 3.0], dtype=torch.float64)
    calibration = WAT(rate=0.5)
    found, memory = calibration(base, base, {}, EpochStats(0.1, losses=losses))
    found, memory = calibration(base, found, memory, EpochStats(0.2, losses=losses))
    raw = [math.exp(0.5 * 2 * one) for one in losses.tolist()]
    slots = [3 * one / sum(raw) for one in raw]
    assert memory["piled"].tolist() == [2.0, 4.0, 12.0, 6.0]
    assert found.weight.tolist() == pytest.approx([one + slots[-1] for one in slots[:-1]], abs=1e-12)
    assert torch.equal(found.weight, found.robust)
    assert torch.equal(found.radius, base.radius)


def apart(weight):
    """KL(w || uniform) of weights above 0."""
    return float((weight * (len(weight) * weight).log()).sum())


def test_faal_finds_the_worst_mixture_of_classes():
    """Of two classes w = (1 - p, p), whose divergence fixes p; of more, no nearby mixture within the ball costs more."""
    two = torch.tensor([0.0, 1.0], dtype=torch.float64)
    p = 0.9
    distance = math.log(2) + p * math.log(p) + (1 - p) * math.log(1 - p)
    found = calibrations.worst_mixture(two, two > -1, distance)
    assert found.tolist() == pytest.approx([1 - p, p], abs=1e-5)
    costs = torch.tensor([0.3, -1.0, 2.0, 1.5, 0.0], dtype=torch.float64)
    best = calibrations.worst_mixture(costs, costs > -9, 0.5)
    assert float(best.sum()) == pytest.approx(1)
    assert apart(best) == pytest.approx(0.5, abs=1e-4)
    others = torch.rand(20_000, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) ** 3 + 1e-9
    others = others / others.sum(1, keepdim=True)
    near = others[(others * (5 * others).log()).sum(1) <= 0.5]
    assert len(near) > 1000
    assert (near @ costs).max() <= best @ costs + 1e-4


def test_the_mixture_knows_its_limits():
    costs, every = torch.tensor([1.0, 5.0, 2.0], dtype=torch.float64), torch.ones(3, dtype=torch.bool)
    assert calibrations.worst_mixture(costs, every, 2.0).tolist() == pytest.approx([0, 1, 0], abs=1e-6)
    assert calibrations.worst_mixture(0 * costs, every, 0.5).tolist() == pytest.approx([1 / 3] * 3)
    lacking = calibrations.worst_mixture(costs, torch.tensor([True, False, True]), 0.1)
    assert lacking[1] == 0
    assert lacking[2] > lacking[0] > 0


def test_faal_weighs_a_batch_by_its_margins(base):
    """Class 0 has the margins 4 and 2, class 1 has -2, class 2 no image."""
    answers = torch.tensor([[4.0, 0, -1], [3.0, 1, 0], [2.0, 0, 1]], dtype=torch.float64)
    y = torch.tensor([0, 0, 1])
    p = 0.8
    distance = math.log(2) + p * math.log(p) + (1 - p) * math.log(1 - p)
    found = FAAL(distance=distance).batch_settings(base.select(y), answers, y)
    assert found.weight.tolist() == pytest.approx([2 * (1 - p)] * 2 + [2 * p], abs=1e-4)
    assert torch.equal(found.weight, found.robust)


# Three images of class 0, two of class 1, one of class 3 and none of class 2.
CODAT_Y = torch.tensor([0, 0, 0, 1, 1, 3])
CODAT_ONES = ClassSettings.uniform(4, 0.1, 6.0, torch.device("cpu")).select(CODAT_Y)


@pytest.mark.parametrize("rho", [0.0, 0.2, 0.4])
def test_codat_makes_the_loss_of_a_batch_the_mean_plus_the_deviation_of_its_classes(rho):
    """No other weights in the chi-square ball cost more."""
    answers = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    cost = torch.nn.functional.cross_entropy(answers, CODAT_Y, reduction="none")
    found = CODAT(rho=rho).batch_settings(CODAT_ONES, answers, CODAT_Y)
    of_class = torch.stack([cost[:3].mean(), cost[3:5].mean(), cost[5]])
    loss = (found.weight * cost).mean()
    assert loss == pytest.approx(float(of_class.mean() + rho**0.5 * of_class.std(correction=0)), rel=1e-6)
    assert torch.equal(found.weight, found.robust)
    others = torch.rand(20_000, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    others = others / others.sum(1, keepdim=True)
    near = others[3 * (others - 1 / 3).square().sum(1) <= rho]
    assert rho == 0 or len(near) > 1000
    assert (near @ of_class <= loss + 1e-9).all()


def test_codat_keeps_weights_above_zero_and_equal_losses_alike():
    answers = torch.tensor([[9.0, 0, 0, 0]] * 6, dtype=torch.float64)
    # Class 0 is at no loss, the others at the same: 1 - sqrt(8 x 2) < 0, so that each of the others has half of the weight.
    assert CODAT(rho=8.0).batch_settings(CODAT_ONES, answers, CODAT_Y).weight.tolist() == pytest.approx([0, 0, 0, 1.5, 1.5, 3])
    same = CODAT(rho=8.0).batch_settings(CODAT_ONES, 0 * answers, CODAT_Y).weight
    assert same.tolist() == pytest.approx([6 / 9] * 3 + [1.0] * 2 + [2.0])


def test_csr_weighs_by_the_first_singular_vectors_of_the_mistakes(base):
    """Found by iteration; a network without mistakes has none to weigh."""
    counts = torch.tensor([[50, 3, 1], [6, 40, 2], [1, 9, 30]])
    memory = CSR()(base, base, {}, replace(STATS, attacked=counts))[1]
    errors = counts.double() * (1 - torch.eye(3, dtype=torch.float64))
    right = torch.ones(3, dtype=torch.float64)
    for _ in range(200):
        left = errors @ right / (errors @ right).norm()
        right = errors.T @ left / (errors.T @ left).norm()
    outer = left[:, None] * right
    expected = 0.01 + 2 * (outer - outer.min()) / (outer.max() - outer.min())
    assert torch.allclose(memory["confusion"].double(), expected, atol=1e-4)
    assert CSR()(base, base, {}, replace(STATS, attacked=10 * torch.eye(3)))[1]["confusion"].isfinite().all()
    assert torch.equal(counts.diag(), torch.tensor([50, 40, 30]))
