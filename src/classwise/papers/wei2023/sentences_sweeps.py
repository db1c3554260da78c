"""The findings of the pages on Wei et al. 2023, each in a sentence with its numbers and their 95 % intervals."""

import xarray as xr

from classwise.core.identity import exact_radius
from classwise.core.markup import decimal
from classwise.papers.findings import interval, sample
from classwise.papers.wei2023 import section_3_1
from classwise.stats import bootstrap, metrics


def larger_radius(outcomes: xr.Dataset) -> str:
    """Return how much hard and easy classes change from the usual radius in training to one half larger.

    outcomes: of `section_3_1.by_radius`, under "clean" and one attack.
    """
    part, usual = section_3_1.by_margin(outcomes), outcomes.attrs["eps"]
    larger = next(str(eps) for eps in outcomes.eps.values if 2 * exact_radius(str(eps)) == 3 * exact_radius(usual))
    attack = str(outcomes.attack.values[-1])
    bounds = bootstrap.paired(part, section_3_1.changes_of_groups, span=(-100, 100))
    hard, easy, less = (interval(bounds.sel(group=name), "points", 1) for name in ("hard", "easy", "hard less easy"))
    start = "Whether a larger radius in training is worse for hard classes than for easy ones is open"
    if _sign(bounds.sel(group="hard less easy")):
        better = "better" if _sign(bounds.sel(group="hard less easy")) > 0 else "worse"
        start = f"A larger radius in training is {better} for hard classes than for easy ones"
    return (
        f"**{start}: from radius {usual} to {larger}, judged at {usual} under {attack}, the robust accuracy of hard classes "
        f"changes by {hard} and that of easy ones by {easy}.** The difference is {less}. {sample(part.isel(margin=0))}"
    )


def _sign(bounds: xr.DataArray) -> int:
    """Return 1 where an interval lies above 0, -1 where it lies below, 0 otherwise."""
    return int(float(bounds.sel(bound="low")) > 0) - int(float(bounds.sel(bound="high")) < 0)


def last_phase(count: xr.DataArray) -> str:
    """Return how far the last epoch lies below the best measured one on validation images at most; count: over the epochs."""
    rates = metrics.overall(count.sel(split="valid", images_are="attacked"))
    most = float((rates.max("epoch") - rates.isel(epoch=-1)).max())
    return (
        f"**Best and last epoch.** On validation images the robust accuracy of the last epoch is at most {decimal(most, 1)} "
        "points below that of the best measured one."
    )
