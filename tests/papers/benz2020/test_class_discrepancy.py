"""Section 1: answers made by hand on which each claim holds, and others on which it fails; gaps by chance; equal accuracy."""

import numpy as np
import pytest
import xarray as xr
from claim_answers import CLASS, UP, at, outcomes_with

from classwise.papers.benz2020 import class_discrepancy
from classwise.stats import aggregate

SPREAD = UP  # from 30 to 93
# So many images that chance moves equal classes by less than a point.
MANY = 40
STEEP = np.array([5, 10, 20, 30, 50, 60, 70, 80, 90, 95])


def panels(standard, trained, standard_attacked=5, trained_attacked=60, times=1):
    """Return both networks, clean and attacked."""
    keys = {("standard", "clean"): standard, ("pgd-at", "clean"): trained}
    keys |= {("standard", "pgd-20"): standard_attacked, ("pgd-at", "pgd-20"): trained_attacked}
    return outcomes_with(keys, times=times)


def over_radii(half, trained=SPREAD, clean=90, times=1):
    """Return standard training clean, at two radii of which `half` is the accuracy at the first, and PGD-AT at the last one."""
    values = {"0": (clean, 95), "0.05": (half, 80), "0.1": (0, trained)}
    keys = {
        (name, "pgd-20", radius): rates[place]
        for place, name in enumerate(class_discrepancy.NETWORKS)
        for radius, rates in values.items()
    }
    return outcomes_with(keys, along=("defence", "attack", "eval_eps"), times=times)


def halves(standard, trained):
    return aggregate.split_halves(panels(standard, trained))


HALVED = np.array([25, 30, 35, 40, 45, 45, 50, 55, 60, 65])
CAT = at(10, 3, rest=50)

EXTREMES = {
    "standard-clean-discrepancy": ([panels(SPREAD, 90)], [panels(60, SPREAD, times=MANY)]),
    "standard-robust-discrepancy": ([over_radii(HALVED)], [over_radii(45, times=MANY)]),
    "cat-is-vulnerable": ([over_radii(CAT, at(10, 5, rest=50))], [over_radii(at(10, 5, rest=50), CAT)]),
    "wider-clean": ([panels(90, SPREAD, SPREAD, 60)], [panels(SPREAD, 90, 60, SPREAD)]),
    "wider-attacked": ([panels(SPREAD, 90, 60, SPREAD)], [panels(90, SPREAD, SPREAD, 60)]),
    "not-from-unequal-classes": ([panels(90, 90, 60, SPREAD)], [panels(SPREAD, SPREAD, SPREAD, 60, times=MANY)]),
    "wider-at-equal-accuracy": ([over_radii(45, SPREAD)], [over_radii(STEEP, 55)]),
    "similar-trend": ([halves(SPREAD, SPREAD)], [halves(SPREAD, SPREAD[::-1])]),
    "most-for-attacked": (
        [panels(90, 85, 5, SPREAD)],
        [panels(SPREAD, 85, 5, 60), panels(90, SPREAD, 5, 60), panels(90, 85, SPREAD, 60)],
    ),
    "accuracy-for-robustness": ([panels(95, 80, 5, 60)], [panels(80, 95, 5, 60), panels(95, 80, 60, 5)]),
}


# Standard training that stays accurate: half of its accuracy, and that of PGD-AT, are nowhere reached.
STAYS = over_radii(90).sel(eval_eps=["0", "0.05"])
REFUSED = [
    *(("wider-attacked", panels(90, 85, right, SPREAD), "than always naming one class") for right in (0, 5, 10)),
    ("standard-robust-discrepancy", STAYS, "at no radius"),
    ("wider-at-equal-accuracy", STAYS, "at no radius"),
]


def test_the_gap_by_chance_is_that_of_equal_classes():
    rng, gaps = np.random.default_rng(0), []
    for _ in range(2000):
        right = rng.binomial(72, 0.7, 10)
        gaps.append(100 * (right.max() - right.min()) / 72)
    names = [str(name) for name in CLASS]
    matrix = np.full((10, 10), 0.3 * 72 / 9) + np.eye(10) * (0.7 - 0.3 / 9) * 72
    count = xr.DataArray(matrix, dims=("label", "predicted"), coords={"label": names, "predicted": names})
    low, value, high = class_discrepancy.equal_classes(count).sel(bound=["low", "value", "high"]).values
    assert value == pytest.approx(np.mean(gaps), abs=0.4)
    assert (low, high) == pytest.approx(tuple(np.quantile(gaps, [0.025, 0.975])), abs=1.5)
    # Fewer images: farther apart by chance.
    assert float(class_discrepancy.equal_classes(count / 4).sel(bound="value")) > 1.7 * value


def test_cases_are_measured_as_their_networks():
    data = panels(90, 85, 0, SPREAD).expand_dims(seed=[0])
    gaps, equal = class_discrepancy.gap_by_case({"digits": data, "cifar10": data})
    names = list(map(str, gaps.case.values))
    assert names[2:5] == ["digits, PGD-AT, clean", "digits, PGD-AT, PGD-20", "CIFAR-10, standard training, clean"]
    gap, chance = gaps.isel(case=3), equal.isel(case=3)
    assert float(gap.sel(bound="value")) == SPREAD[-1] - SPREAD[0] > float(chance.sel(bound="high"))
