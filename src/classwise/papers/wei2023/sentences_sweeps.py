"""The findings of the pages on Wei et al. 2023, each in a sentence with its numbers and their 95 % intervals."""

import pandas as pd
import xarray as xr

from classwise.core.identity import exact_radius
from classwise.core.markup import decimal
from classwise.papers.findings import interval, sample
from classwise.papers.wei2023 import section_3_1, section_3_2
from classwise.papers.wei2023.classes import GROUPS, of_groups
from classwise.stats import bootstrap, metrics


def larger_radius(outcomes: xr.Dataset) -> str:
    """Return how much hard and easy classes change from the usual radius in training to one half larger.

    outcomes: of `section_3_1.by_radius`, under "clean" and one attack.
    """
    part, usual = section_3_1.by_margin(outcomes), outcomes.attrs["eps"]
    larger = next(str(eps) for eps in outcomes.eps.values if 2 * exact_radius(str(eps)) == 3 * exact_radius(usual))
    attack = str(outcomes.attack.values[-1])
    bounds = bootstrap.paired(part, section_3_1.changes_of_groups, span=(-100, 100))
    hard, easy, less = (interval(bounds.sel(group=name), "points", 1) for name in ("hard", "easy", "difference"))
    start = "Whether a larger radius in training is worse for hard classes than for easy ones is open"
    if _sign(bounds.sel(group="difference")):
        better = "better" if _sign(bounds.sel(group="difference")) > 0 else "worse"
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


def larger_beta(outcomes: xr.Dataset) -> str:
    """Return what hard and easy classes gain under attack and lose without from the lowest beta to the usual one.

    outcomes: of `section_3_2.by_beta` with the groups of classes, under "clean" and one attack.
    """
    points = bootstrap.paired(outcomes, lambda count: of_groups(section_3_2.gained(count)), span=(-100, 100))
    clean, robust = (points.isel(attack=place, drop=True) for place in (0, -1))
    start = _compared(_sign(robust.sel(group="difference")), -_sign(clean.sel(group="difference")))
    attack, low, high = (str(name) for name in (outcomes.attack.values[-1], outcomes.beta.values[0], outcomes.beta.values[-1]))
    parts = [
        f"{group} classes change by {interval(robust.sel(group=group), 'points', 1)} under {attack} and by "
        f"{interval(clean.sel(group=group), 'points', 1)} without an attack"
        for group in ("hard", "easy")
    ]
    return f"**{start}.** From beta {low} to {high}, {'; '.join(parts)}. {sample(outcomes.isel(beta=0))}"


def _compared(robust: int, lost: int) -> str:
    """Return how hard classes differ from easy ones, by the signs of what more they gain under attack and lose without."""
    differences = {"gain {} robust accuracy": robust, "lose {} clean accuracy": lost}
    known = [words.format("more" if sign > 0 else "less") for words, sign in differences.items() if sign]
    if not known:
        return "Whether a larger beta costs hard classes more than easy ones is open"
    rest = [words.format("more") for words, sign in differences.items() if not sign]
    return f"From a larger beta hard classes {' and '.join(known)} than easy ones" + "".join(
        f"; whether they {words} is open" for words in rest
    )


def prices(outcomes: xr.Dataset) -> pd.DataFrame:
    """Return what hard and easy classes gain and lose from the lowest beta to the usual one, with 95 % intervals, in words.

    outcomes: as the claims need them. The price of a robust point has an interval only where the group significantly loses
    clean accuracy and gains robust accuracy; else it is open.
    """
    points = bootstrap.paired(outcomes, lambda count: of_groups(section_3_2.gained(count)), span=(-100, 100))
    rows = {}
    for group in GROUPS:
        part = points.sel(group=group, drop=True)
        lost, won = -part.isel(attack=0, drop=True), part.isel(attack=-1, drop=True)
        lost = lost.assign_coords(bound=["high", "value", "low"])
        rows[f"{group} classes"] = {
            "clean points lost": _bracketed(lost, 1),
            "robust points gained": _bracketed(won, 1),
            "clean points for a robust point": _price_in_words(outcomes, group, sure=min(float(lost[2]), float(won[0])) > 0),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def _price_in_words(outcomes: xr.Dataset, group: str, *, sure: bool) -> str:
    if not sure:
        return "open: a loss or a gain may be zero"
    bounds = bootstrap.paired(outcomes, lambda count: xr.ufuncs.log(section_3_2.price(section_3_2.gained(count), group)))
    return _bracketed(xr.ufuncs.exp(bounds), 2)


def _bracketed(bounds: xr.DataArray, digits: int) -> str:
    low, value, high = (decimal(float(bounds.sel(bound=name)), digits) for name in ("low", "value", "high"))
    return f"{value} [{low}, {high}]"
