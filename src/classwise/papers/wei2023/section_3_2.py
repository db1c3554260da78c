"""Wei et al. 2023, section 3.2: TRADES with different regularisations, the weights beta of its robust term.

The paper divides the loss by 1 + beta. With a rate 1 + beta times as high and a weight decay as many times lower, that loss takes
the steps of TRADES as published, so each beta is trained as TRADES at the rate of the scale, and the usual one is shared with
other pages. The claims need beta along `beta` ("1" to "6"), and on the classes which ones are `hard` and `easy`.
"""

from typing import Any

import xarray as xr

from classwise.papers import variants
from classwise.papers.sections import CLEAN_AND_PGD, Arranged, Section
from classwise.papers.terms import claims
from classwise.papers.wei2023.classes import hard_less_easy, mark_groups, mean_of
from classwise.stats import combine, metrics

NAME = "wei2023/3-2-regularisations"
# The lowest beta of the paper, and the one of its other experiments.
_LOW, _USUAL = "1", "6"
_TRADES: dict[str, Any] = {"defences": ("trades",), "evaluations": CLEAN_AND_PGD, "max_seeds": 2}


def by_beta(plain: xr.Dataset, swept: xr.Dataset) -> xr.Dataset:
    """Return outcomes along `beta`, in rising order, of the seeds that all of them have; plain: with the usual beta."""
    # A single one is the lowest.
    several = swept if "beta" in swept.dims else swept.expand_dims(beta=[float(_LOW)])
    parts = {_USUAL: plain} | {f"{float(beta):g}": several.sel(beta=beta, drop=True) for beta in several.beta.values}
    kept = combine.shared_seeds({name: parts[name] for name in sorted(parts, key=float)})
    return combine.combine("beta", kept).assign_attrs(plain.attrs)


def _marked(plain: xr.Dataset, swept: xr.Dataset) -> xr.Dataset:
    """Return the networks of all betas, with the two groups of classes."""
    return mark_groups(by_beta(plain, swept))


SECTION = Section(
    title="Different regularisations",
    parts={
        "swept": Section(
            title="other betas",
            run={"measure": 100, "averages": ()},
            variants=variants.by_scale(variants.betas(1, 3), laptop=variants.betas(1), paper=variants.betas(1, 2, 3, 4, 5, 7, 8)),
            **_TRADES,
        ),
        "choosing": Section(title="the runs that select the hard and the easy classes", defences=("pgd-at",)),
    },
    arrange={"betas": Arranged(_marked, ("", "swept"))},
    **_TRADES,
)


def gained(count: xr.DataArray) -> xr.DataArray:
    """Return how many points each class gains, along attack, from the lowest beta to the usual one."""
    rates = metrics.accuracy(count.isel(defence=0, drop=True))
    return rates.sel(beta=_USUAL, drop=True) - rates.sel(beta=_LOW, drop=True)


def _gained(sums: xr.Dataset) -> xr.DataArray:
    return gained(sums["count"])


def robust_gain_of_easy(sums: xr.Dataset) -> xr.DataArray:
    """Return how many points of robust accuracy the easy classes gain from the lowest beta to the usual one."""
    return mean_of(_gained(sums).isel(attack=-1), "easy")


def clean_loss_of_easy(sums: xr.Dataset) -> xr.DataArray:
    """Return how many points of clean accuracy the easy classes lose from the lowest beta to the usual one."""
    return -mean_of(_gained(sums).isel(attack=0), "easy")


def robust_gain_of_hard(sums: xr.Dataset) -> xr.DataArray:
    """Return how much more robust accuracy the hard classes gain than the easy ones, from the lowest beta to the usual one."""
    return hard_less_easy(_gained(sums).isel(attack=-1))


def clean_loss_of_hard(sums: xr.Dataset) -> xr.DataArray:
    """Return how much more clean accuracy the hard classes lose than the easy ones, from the lowest beta to the usual one."""
    return -hard_less_easy(_gained(sums).isel(attack=0))


def price(points: xr.DataArray, group: str) -> xr.DataArray:
    """Return how many clean points a group of classes loses for each robust point that it gains.

    points: that each class gains along attack, first clean and last attacked. NaN unless the group loses the first and gains the
    second.
    """
    mean = mean_of(points, group)
    lost, won = -mean.isel(attack=0, drop=True), mean.isel(attack=-1, drop=True)
    return lost.where(lost > 0) / won.where(won > 0)


def relative_price(sums: xr.Dataset) -> xr.DataArray:
    """Return how many times as many clean points the hard classes lose for a robust point as the easy ones.

    From the lowest beta to the usual one; NaN unless both lose clean accuracy and gain robust accuracy.
    """
    points = _gained(sums)
    return price(points, "hard") / price(points, "easy")


CLAIMS = claims(
    NAME,
    {
        "easy-classes-gain": robust_gain_of_easy,
        "easy-classes-lose-little": clean_loss_of_easy,
        "hard-classes-gain-less": robust_gain_of_hard,
        "hard-classes-lose-more": clean_loss_of_hard,
        "hard-classes-pay-more": relative_price,
    },
    defences=("trades",),
    attacks=("clean", "pgd-20"),
    grid={"beta": (_LOW, _USUAL)},
)
