"""The findings of the pages on Tian et al. 2021, each in a sentence with its number and its 95 % interval."""

from collections.abc import Mapping
from functools import partial

import pandas as pd
import xarray as xr

from classwise.core import datasets
from classwise.core.markup import counted, decimal
from classwise.papers.findings import interval
from classwise.stats import bootstrap, intervals, metrics, pooling

_SIGNIFICANT = 0.05
# So few points of accuracy, in either direction, that colours hardly matter.
_HARDLY = 1.0


def homing(compared: pd.DataFrame) -> str:
    """Return how many of the broken images home, compared with the stronger of the controls (`homing.comparison`)."""
    home, control = compared.iloc[0], compared.iloc[1:].sort_values("share").iloc[-1]
    texts = [f"{row['share']:.0f} % (95 % interval {row['low']:.0f} to {row['high']:.0f})" for row in (home, control)]
    return (
        f"**Of {home['images']:.0f} images that are misclassified under attack, {texts[0]} are classified correctly by a network "
        f"trained {home.name}. Of the two controls, the stronger one (*{control.name}*) classifies {texts[1]} correctly.**"
    )


def shares_within(cases: Mapping[str, xr.Dataset], group: xr.DataArray) -> pd.DataFrame:
    """Return the share of the mistakes whose true and predicted class are in the same group, a row for each case that has any.

    cases: outcomes without dimensions other than seed and image. Columns: share, low and high in percent, images (the mistakes).
    A share of all mistakes, or of none, does not vary in a bootstrap: its interval is Wilson's.
    """
    rows = {}
    for name, outcomes in cases.items():
        count = bootstrap.sums(outcomes, {})["count"]
        mistakes = int(count.sum() - metrics.correct(count).sum())
        if not mistakes:
            continue
        bounds = bootstrap.bootstrap(outcomes, partial(metrics.within, group=group)).clip(0, 100)
        low, value, high = (float(bounds.sel(bound=end)) for end in ("low", "value", "high"))
        if value in (0, 100):
            worth = pooling.pooled(outcomes)
            independent = float(worth.sum() - metrics.correct(worth).sum())
            low, high = map(float, intervals.proportion(value / 100 * independent, independent))
        rows[name] = {"share": value, "low": low, "high": high, "images": mistakes}
    return pd.DataFrame(rows, index=["share", "low", "high", "images"]).T.rename_axis("case")


def shared_background(outcomes: xr.Dataset, group: xr.DataArray, eps: str) -> str:
    """Return how many more mistakes lie within the classes that share a background than if others share it.

    outcomes: of one defence under "clean" and one other attack along dataset: first the one whose classes of a `group` share a
    background, then the one where others do. eps: the radius.
    """

    def difference(count: xr.DataArray) -> xr.DataArray:
        within = metrics.within(count, group)
        return within.isel(dataset=0, drop=True) - within.isel(dataset=1, drop=True)

    title = datasets.title(datasets.base_dataset(str(outcomes.dataset.values[0])))
    clean, attacked = (outcomes.isel(attack=place, drop=True) for place in (0, 1))
    near, far = metrics.within(bootstrap.sums(attacked, {})["count"], group).values
    bounds = bootstrap.paired(attacked, difference, span=(-100, 100))
    natural = shares_within({"clean": clean.isel(dataset=0, drop=True)}, group)
    without = "Without attack it makes no mistakes on these images.**"
    for value, low, high, mistakes in natural.to_numpy():
        share = f"{value:.0f} % (95 % interval {decimal(low)} to {decimal(high)})"
        of = counted(int(mistakes), "mistake")
        without = f"Without attack, {share} of its {of} are within pairs that share a background.** "
        without += _within_pairs(outcomes, group)
    start = "The effect of a shared background is open"
    if float(bounds.sel(bound="low")) > 0:
        start = "Classes that share a background are confused with each other"
    elif float(bounds.sel(bound="high")) < 0:
        start = "Classes that share a background are confused less with each other"
    return (
        f"**{start}: on {title}, under attack at radius {eps}, {near:.0f} % of the mistakes of the robust network are within "
        f"pairs that share a background, and {far:.0f} % are within the same pairs if other classes share it, a difference of "
        f"{interval(bounds, 'points')}. {without}"
    )


def _within_pairs(outcomes: xr.Dataset, group: xr.DataArray) -> str:
    """Return how many of all images are mistakes within pairs that share a background, without attack and under it."""
    count = bootstrap.sums(outcomes.isel(dataset=0, drop=True), {})["count"]
    clean, attacked = (metrics.within(count, group) * (100 - metrics.overall(count)) / 100).values
    return (
        f"Of all images, {clean:.0f} % are such mistakes without attack, and {attacked:.0f} % under attack; the claim on a "
        "common background colour under attack compares these."
    )


def standard_on_colours(shares: pd.DataFrame, outcomes: xr.Dataset) -> str:
    """Return how much accuracy standard training on coloured backgrounds loses on the colours of other classes.

    shares: accuracy on black, on the colours of the training and on those of other classes (`intervals.overall_shares`).
    outcomes: of the network trained on colours, without attack, along transform: its own colours, then those of other classes.
    """

    def lost(count: xr.DataArray) -> xr.DataArray:
        values = metrics.overall(count)
        return values.isel(transform=0, drop=True) - values.isel(transform=1, drop=True)

    bounds = bootstrap.paired(outcomes, lost, span=(-100, 100))
    start = "Whether the standard network uses the colours is open"
    if float(bounds.sel(bound="low")) > 0:
        start = "The standard network uses the colours, too"
    elif float(abs(bounds).max()) <= _HARDLY:
        start = f"The standard network hardly uses the colours, by at most {_HARDLY:g} point"
    black, same, other = (f"{row.share:.1f} % (95 % interval {row.low:.1f} to {row.high:.1f})" for row in shares.itertuples())
    return (
        f"**{start}: on other colours its accuracy is {interval(bounds, 'points', 1)} lower than on those of its training.** It "
        f"is {same} on the colours of its training and {other} on other colours; trained and tested on black, it is {black}."
    )
