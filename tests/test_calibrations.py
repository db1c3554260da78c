"""Calibrations and averagings against hand-made numbers."""

import pytest
import torch

from classwise import images, models
from classwise.defences.averaging import Ema, Fawa, Unaveraged, mixed
from classwise.defences.calibrations import Cfa, ClassWise, Fared, Uniform


@pytest.fixture
def base():
    return ClassWise.alike(3, 0.1, 6.0, torch.device("cpu"))


# Three classes: .5, .8 and 0 of the images withstood.
COUNTS = torch.tensor([[5, 5, 0], [1, 8, 1], [10, 0, 0]])


def test_a_uniform_calibration_keeps_all_classes_alike(base):
    assert base.radius.tolist() == pytest.approx([0.1] * 3)
    assert base.weight.tolist() == base.robust.tolist() == [1.0] * 3
    assert Uniform()(base, base, {}, Fared(0.5, COUNTS))[0] is base


def test_settings_of_images_are_those_of_their_classes(base):
    base.radius[1] = 0.3
    found = base.at(torch.tensor([1, 0, 1]))
    assert found.radius.tolist() == pytest.approx([0.3, 0.1, 0.3])
    assert found.beta.tolist() == [6.0] * 3


def test_radius_and_beta_follow_equations_6_and_7(base):
    found, _ = Cfa(lambda1=0.3, lambda2=0.5)(base, base, {}, Fared(0.5, COUNTS))
    assert found.radius.tolist() == pytest.approx([0.08, 0.11, 0.03])
    assert found.beta.tolist() == pytest.approx([6.0, 7.8, 3.0])
    again, _ = Cfa(lambda1=0.3, lambda2=0.5)(base, found, {}, Fared(0.6, COUNTS))
    assert again.radius.tolist() == found.radius.tolist(), "always from the radius of the run, not from the last one"


def test_either_part_may_be_left_out(base):
    radii, _ = Cfa(lambda1=0.5)(base, base, {}, Fared(0.5, COUNTS))
    betas, _ = Cfa(lambda1=None, lambda2=0.5)(base, base, {}, Fared(0.5, COUNTS))
    assert radii.beta.tolist() == base.beta.tolist()
    assert betas.radius.tolist() == base.radius.tolist()


def test_lambda1_of_one_with_nothing_withstood_is_the_plain_radius(base):
    found, _ = Cfa(lambda1=1.0)(base, base, {}, Fared(0.5, torch.tensor([[0, 1, 0], [0, 0, 1], [1, 0, 0]])))
    assert found.radius.tolist() == pytest.approx([0.1] * 3)


def test_the_calibration_of_the_code_waits(base):
    late = Cfa(lambda1=0.5, calibrate_from=0.05)
    assert late(base, base, {}, Fared(9 / 200, COUNTS))[0] is base
    assert late(base, base, {}, Fared(10 / 200, COUNTS))[0].radius[0] == pytest.approx(0.1)
    assert late(base, base, {}, Fared(1.0))[0] is base


def some(value, seen=1):
    """Weights of a layer with batch norm, all of one value."""
    floats = {name: torch.full((2,), float(value)) for name in ("weight", "bn.running_mean", "bn.running_var")}
    return floats | {"bn.num_batches_tracked": torch.tensor(seen)}


def test_an_average_by_epoch_is_the_recursion():
    averaging, average = Ema(decay=0.75), None
    for value, expected in ((1, 1.0), (2, 1.25), (5, 0.75 * 1.25 + 0.25 * 5)):
        average = averaging.after_epoch(average, some(value, value))
        assert average["weight"].tolist() == pytest.approx([expected] * 2)
        assert average["bn.running_var"].tolist() == pytest.approx([expected] * 2)
        assert int(average["bn.num_batches_tracked"]) == value


def test_an_average_by_step_warms_up():
    averaging, average = Ema(decay=0.999, per="step"), None
    assert averaging.each_step
    average = averaging.after_step(average, some(0), 0)
    average = averaging.after_step(average, some(1), 1)
    assert average["weight"][0] == pytest.approx(1 - 2 / 11)
    before = float(average["weight"][0])
    average = averaging.after_step(average, some(1), 10**6)
    assert average["weight"][0] == pytest.approx(0.999 * before + 0.001)


def test_the_statistics_of_batch_norm_may_be_those_of_the_last():
    average = mixed(some(0), some(10), 0.9, "last")
    assert average["weight"].tolist() == pytest.approx([1.0, 1.0])
    assert average["bn.running_mean"].tolist() == average["bn.running_var"].tolist() == [10.0, 10.0]


def test_an_average_is_changed_in_place_and_never_the_weights():
    weights = some(1)
    average = mixed(None, weights, 0.5, "averaged")
    kept = average["weight"]
    mixed(average, some(3), 0.5, "averaged")
    assert kept.tolist() == [2.0, 2.0]
    assert weights["weight"].tolist() == [1.0, 1.0]


def test_every_weight_of_a_network_is_averaged():
    data = images.load("digits", "train")
    one, other = (models.build("small-cnn", data, 4, seed).state_dict() for seed in (0, 1))
    average = mixed(mixed(None, one, 0.5, "averaged"), other, 0.5, "averaged")
    for name, value in average.items():
        if value.is_floating_point():
            assert torch.allclose(value, (one[name] + other[name]) / 2, atol=1e-6), name


@pytest.mark.parametrize(
    ("progress", "worst", "counted"), [(0.25, 0.2, True), (0.24, 0.9, False), (0.9, 0.19, False), (1.0, 1.0, True)]
)
def test_fawa_opens_its_gate_to_fair_epochs(progress, worst, counted):
    assert Fawa().counts(progress, worst) is counted


def test_no_average_is_kept_where_none_is_asked_for():
    assert not Unaveraged.averages
    assert Ema.averages
    assert not Ema().each_step
