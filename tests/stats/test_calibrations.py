"""What each class was trained with, from the history of a training."""

import numpy as np
import pytest
import xarray as xr
from mocks import dataset

from classwise.stats import calibrations, metrics


@pytest.fixture
def history():
    """A history of eight epochs whose radii are uniform at first, and of a defence without betas."""
    data = dataset(accuracies={"clean": 0.95, "pgd-10": 0.5}, epochs=8)
    radius = np.full((8, 10), 0.2)
    radius[1:] = 0.1 + 0.02 * np.arange(10)
    radius[7] += 0.02
    data["radius"], data["beta"] = (("epoch", "label"), radius), (("epoch", "label"), np.zeros((8, 10)))
    return data


def test_settings_are_multiples_of_those_of_the_first_epoch(history):
    found = calibrations.multiples(history.radius)
    assert found.isel(epoch=0).values.tolist() == [1.0] * 10
    assert float(found.isel(epoch=1, label=3)) == pytest.approx(0.8)
    assert calibrations.multiples(history.beta).isnull().all()


def test_the_training_accuracy_is_that_under_the_inner_attack_whatever_it_is_called(history):
    count = history["count"].sel(split="train")
    expected = metrics.accuracy(count.sel(attack="pgd-10", drop=True)) / 100
    xr.testing.assert_allclose(
        calibrations.training_accuracy(history).drop_vars("split", errors="ignore"), expected.drop_vars("split")
    )
    other = history.assign_coords(attack=["clean", "friendly-10"])
    xr.testing.assert_equal(calibrations.training_accuracy(other), calibrations.training_accuracy(history))


def test_late_settings_are_means_over_the_last_quarter(history):
    late = calibrations.late_settings(history)
    assert late.radius.dims == ("predicted",)
    assert late.radius.values == pytest.approx((0.11 + 0.02 * np.arange(10)) / 0.2)
    assert float(late.uniform_radius) == pytest.approx(0.2)
    assert late["sample"].values.tolist() == [40.0] * 10
    assert late.trained.values == pytest.approx(
        calibrations.training_accuracy(history).isel(epoch=slice(6, 8)).mean("epoch").values
    )


@pytest.mark.parametrize(("epochs", "number"), [(8, 2), (3, 1), (60, 15)])
def test_a_quarter_has_at_least_one_epoch(epochs, number):
    values = xr.DataArray(np.arange(epochs), dims="epoch")
    first, last = calibrations.first_and_last(values)
    assert first.values.tolist() == list(range(number))
    assert last.values.tolist() == list(range(epochs - number, epochs))
