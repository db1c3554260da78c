"""Wei et al. 2023, section 3.2: TRADES with different regularisations, the weights beta of its robust term.

The paper divides the loss by 1 + beta. With a rate 1 + beta times as high and a weight decay as many times lower, that loss takes
the steps of TRADES as published, so each beta is trained as TRADES at the rate of the scale, and the usual one is shared with
other pages. The claims need beta along `beta` ("1" to "6"), and on the classes which ones are `hard` and `easy`.
"""

from functools import partial

import xarray as xr

from classwise.papers.sections import Derived, Part, Section
from classwise.papers.terms import claims
from classwise.papers.wei2023.classes import DIFFERENCE, group_points, mark_groups
from classwise.papers.wei2023.sweeps import BETAS, LOWEST_BETA, TRADES, USUAL_BETA, stack_betas
from classwise.stats import metrics

NAME = "wei2023/3-2-regularisations"
SECTION = Section(
    title="Different regularisations",
    parts={
        "swept": BETAS,
        "choosing": Part(title="the runs that select the hard and the easy classes", defences=("pgd-at",), evaluations=()),
    },
    arrange={"betas": Derived(lambda *both: mark_groups(stack_betas(*both)), ("", "swept"))},
    **TRADES,
)


def gain_of_groups(count: xr.DataArray) -> xr.DataArray:
    """Return how many points hard classes, easy classes and hard minus easy classes gain from the lowest beta to the usual one.

    Along `attack` and `group`.
    """
    rates = metrics.accuracy(count.isel(defence=0, drop=True))
    return group_points(rates.sel(beta=USUAL_BETA, drop=True) - rates.sel(beta=LOWEST_BETA, drop=True))


def robust_gain(sums: xr.Dataset, group: str) -> xr.DataArray:
    """Return how many points of robust accuracy a group of classes gains, from the lowest beta to the usual one."""
    return gain_of_groups(sums["count"]).sel(group=group, drop=True).isel(attack=-1, drop=True)


def clean_loss(sums: xr.Dataset, group: str) -> xr.DataArray:
    """Return how many points of clean accuracy a group of classes loses, from the lowest beta to the usual one."""
    return -gain_of_groups(sums["count"]).sel(group=group, drop=True).isel(attack=0, drop=True)


def price(sums: xr.Dataset, group: str) -> xr.DataArray:
    """Return how many clean points a group of classes loses for each robust point that it gains.

    NaN unless the group loses the first and gains the second.
    """
    lost, won = clean_loss(sums, group), robust_gain(sums, group)
    return lost.where(lost > 0) / won.where(won > 0)


def relative_price(sums: xr.Dataset) -> xr.DataArray:
    """Return how many times as much clean accuracy hard classes lose for a robust point as easy classes.

    From the lowest beta to the usual one; NaN unless both lose clean accuracy and gain robust accuracy.
    """
    return price(sums, "hard") / price(sums, "easy")


CLAIMS = claims(
    NAME,
    {
        "easy-classes-gain": partial(robust_gain, group="easy"),
        "easy-classes-lose-little": partial(clean_loss, group="easy"),
        "hard-classes-gain-less": partial(robust_gain, group=DIFFERENCE),
        "hard-classes-lose-more": partial(clean_loss, group=DIFFERENCE),
        "hard-classes-pay-more": relative_price,
    },
    defences=("trades",),
    attacks=("clean", "pgd-20"),
    grid={"beta": (LOWEST_BETA, USUAL_BETA)},
)
