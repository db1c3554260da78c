"""How much measures vary between trainings: of seeds, and as those of a base."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from classwise.stats import metrics, trainings

LABELS = ["0", "1"]


def table(*right, images=100):
    """Return counts of two classes of which so many are right, along the dimensions of an array of such pairs."""
    right = np.asarray(right, dtype=float)
    first, second = (np.stack([right[..., one], images - right[..., one]], -1) for one in (0, 1))
    return np.stack([first, second[..., ::-1]], -2)


def sums(right):
    """Return sums of networks along defence, under PGD."""
    names = [f"network {number}" for number in range(len(right))]
    coords = {"defence": names, "attack": ["pgd-20"], "label": LABELS, "predicted": LABELS}
    return xr.Dataset({"count": (("defence", "attack", "label", "predicted"), table(*right)[:, None])}, coords)


def base(right):
    """Return sums of the trainings of one defence, under PGD."""
    coords = {"defence": ["pgd-at"], "training": range(len(right)), "attack": ["pgd-20"], "label": LABELS, "predicted": LABELS}
    return xr.Dataset({"count": (("defence", "training", "attack", "label", "predicted"), table(*right)[None, :, None])}, coords)


BASE = base([(50, 50), (54, 50), (46, 50)])  # the first class varies by 4 points, the second never


def seeds(*number):
    return xr.DataArray(list(number), {"defence": [f"network {one}" for one in range(len(number))]}, ("defence",))


def of_class(label):
    def measure(totals):
        return 100 * totals["count"].sel(label=label, predicted=label, attack="pgd-20", defence="network 0") / 100

    return measure


def test_a_network_varies_as_the_trainings_of_the_base_do():
    found = trainings.base_deviations(of_class("0"), sums([(50, 50)]), BASE, seeds(1))
    assert found.freedom == 2
    assert found.variance == pytest.approx([16], rel=1e-3)
    assert trainings.base_deviations(of_class("1"), sums([(50, 50)]), BASE, seeds(1)).variance == pytest.approx([0], abs=1e-9)


def test_the_variance_of_a_mean_falls_with_its_seeds_and_that_of_a_difference_adds_up():
    assert trainings.base_deviations(of_class("0"), sums([(50, 50)]), BASE, seeds(4)).variance == pytest.approx([4], rel=1e-3)

    def difference(totals):
        rates = metrics.accuracy(totals["count"]).sel(label="0", attack="pgd-20")
        return rates.isel(defence=1, drop=True) - rates.isel(defence=0, drop=True)

    found = trainings.base_deviations(difference, sums([(50, 50), (50, 9)]), BASE, seeds(1, 2))
    assert found.variance == pytest.approx([24], rel=1e-3)


def test_a_class_that_is_hardly_ever_right_varies_less():
    rare = trainings.base_deviations(of_class("0"), sums([(2, 50)]), BASE, seeds(1))
    assert rare.variance == pytest.approx([16 * 0.02 * 0.98 / 0.25], rel=0.02)
    assert trainings.base_deviations(of_class("0"), sums([(0, 50)]), BASE, seeds(1)).variance == pytest.approx([0])


def test_the_variance_of_a_measure_that_is_not_linear_settles_with_the_degrees_of_freedom():
    def square(totals):
        return (of_class("0")(totals) - 50) ** 2

    few, many = (base([(50, 50), (54, 50), (46, 50)] * times) for times in (2, 16))
    one, other = (trainings.base_deviations(square, sums([(50, 50)]), some, seeds(1)).variance for some in (few, many))
    assert one == pytest.approx(other, rel=0.25)


def test_two_attacks_that_the_base_does_not_tell_apart_show_nothing_of_their_difference():
    several = xr.concat([sums([(50, 50)]).assign_coords(attack=[name]) for name in ("pgd-20", "strong")], "attack")
    rates = {
        name: lambda totals, name=name: metrics.accuracy(totals["count"]).sel(attack=name, label="0", defence="network 0")
        for name in ("pgd-20", "strong")
    }
    alone = trainings.base_deviations(rates["strong"], several, BASE, seeds(1))
    assert (alone.freedom, alone.variance) == (2, pytest.approx([16], rel=1e-3))
    apart = trainings.base_deviations(lambda totals: rates["pgd-20"](totals) - rates["strong"](totals), several, BASE, seeds(1))
    assert apart.freedom == 0


def test_networks_with_different_layers_are_two_trainings():
    both = sums([(50, 50)]).expand_dims(layer=["batch", "group"]).transpose("defence", "layer", ...)
    number = xr.DataArray([[1, 1]], {"defence": ["network 0"], "layer": ["batch", "group"]}, ("defence", "layer"))

    def difference(totals):
        rates = of_class("0")(totals)
        return rates.sel(layer="group", drop=True) - rates.sel(layer="batch", drop=True)

    assert trainings.base_deviations(difference, both, BASE, number).variance == pytest.approx([32], rel=1e-3)


def test_what_images_of_their_own_add_is_taken_off():
    found = trainings.Deviations(np.array([[3.0, 1.0], [4.0, 0.0]]), 3)
    assert found.subtract(np.array([9.0, 4.0])).variance == pytest.approx([16, 0])


def test_seeds_show_the_variance_of_their_mean():
    found = trainings.seed_deviations(np.array([[1.0], [3.0], [8.0]]))
    assert (found.freedom, found.variance) == (2, pytest.approx([np.var([1, 3, 8], ddof=1) / 3]))
    assert trainings.seed_deviations(np.array([[1.0], [np.nan]])).freedom == 0


def test_pooled_variances_are_weighted_by_their_degrees_of_freedom():
    one, other = (trainings.Deviations(np.array([[size]]), freedom) for size, freedom in ((2.0, 1), (1.0, 3)))
    both = one + other
    assert (both.freedom, both.variance) == (4, pytest.approx([(4 + 3) / 4]))


def test_draws_have_the_quantiles_of_student():
    drawn = trainings.Deviations(np.array([[2.0]]), 4).draw(200_000, 0)[:, 0]
    assert np.quantile(drawn, [0.9, 0.99]) == pytest.approx(2 * stats.t(4).ppf([0.9, 0.99]), rel=0.04)
