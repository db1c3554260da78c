"""Section 3.2: TRADES with several weights of its robust term."""

import numpy as np
import pytest
import xarray as xr
from claim_answers import CLASS, outcomes_with

from classwise.papers.wei2023 import regularisations, sweeps
from classwise.papers.wei2023.classes import GROUPS
from classwise.stats import bootstrap

HARD = np.isin(CLASS, (2, 3, 4, 5))
BETAS = ("1", "6")


def trained(clean, robust):
    """Return outcomes without and under attack, from the accuracies of (hard, easy) classes at the two betas."""
    tables = {"clean": clean, "pgd-20": robust}
    keys = {
        ("trades", attack, beta): np.where(HARD, *rates)
        for attack, both in tables.items()
        for beta, rates in zip(BETAS, both, strict=True)
    }
    data = outcomes_with(keys, along=("defence", "attack", "beta"))
    return data.assign_coords(hard=("predicted", HARD), easy=("predicted", ~HARD))


# As the paper says, and the opposite of all that it says.
AS_PUBLISHED = trained(((90, 96), (60, 95)), ((40, 50), (45, 70)))
OPPOSITE = trained(((90, 96), (89, 60)), ((40, 70), (60, 50)))
EXTREMES = {
    "easy-classes-gain": ([AS_PUBLISHED], [OPPOSITE]),
    "easy-classes-lose-little": ([AS_PUBLISHED, trained(((90, 80), (20, 90)), ((40, 50), (50, 50)))], [OPPOSITE]),
    "hard-classes-gain-less": ([AS_PUBLISHED], [OPPOSITE]),
    "hard-classes-lose-more": ([AS_PUBLISHED], [OPPOSITE]),
    # Both groups pay; in the second case hard classes lose more, and pay less for a point.
    "hard-classes-pay-more": (
        [trained(((90, 95), (60, 85)), ((40, 50), (50, 80)))],
        [trained(((90, 95), (60, 75)), ((20, 50), (80, 60)))],
    ),
}


# The easy classes lose nothing.
FREE = trained(((90, 95), (60, 95)), ((40, 50), (60, 80)))
REFUSED = [("hard-classes-pay-more", FREE, "a ratio no base")]


def test_a_price_is_what_a_group_loses_for_a_point_that_it_gains():
    sums = bootstrap.sums(FREE.expand_dims(seed=[0]), {})
    measures = (regularisations.clean_loss, regularisations.robust_gain, regularisations.price)
    points = [[float(measure(sums, group)) for group in GROUPS] for measure in measures]
    assert points == [pytest.approx(some, nan_ok=True) for some in ([30, 0], [20, 30], [1.5, np.nan])]


def test_betas_are_joined_in_rising_order_also_where_the_lowest_is_the_only_other_one():
    both = AS_PUBLISHED.drop_vars(["hard", "easy", "vulnerable", "partner", "background"]).expand_dims(seed=[0])
    both = both.transpose("defence", "seed", ...).assign_attrs(dataset="digits", eps="0.2")
    plain, low = (both.sel(beta=beta, drop=True) for beta in ("6", "1"))
    swept = xr.concat([low, low], "beta").assign_coords(beta=[3.0, 1.0])
    assert list(sweeps.stack_betas(plain, swept).beta.values) == ["1", "3", "6"]
    joined = regularisations.SECTION.arrange["betas"].function(plain, low)
    assert list(joined.beta.values) == ["1", "6"]
    assert joined.hard.sum() == 3
