"""The findings of the page on similarity and variance, each in a sentence with its numbers and their 95 % intervals."""

import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.papers.entropy2022 import lambdas
from classwise.papers.entropy2022 import section_3_2_2a as section
from classwise.papers.findings import interval, sample
from classwise.stats import features


def maximum_entropy(outcomes: xr.Dataset) -> str:
    """Return whether maximum entropy reduces similarity and variance more than label smoothing, in PGD-AT and in TRADES."""
    parts, first = [], None
    for name, lines in section.SMOOTHED.items():
        network, base = lines["maximum entropy"], lines["label smoothing"]
        if {network, base} <= set(map(str, outcomes.defence.values)):
            first = section.of_all(outcomes, network, base)
            bounds = features.interval(features.by_block(first), lambdas.both, draws=lambdas.DRAWS)
            cosine, ratio = bounds.sel(measure="similarity"), bounds.sel(measure="variance")
            parts.append((name, _side(cosine, 0.0), _side(ratio, 1.0), interval(cosine, "", 3), interval(ratio, "", 2)))
    if first is None:
        raise NotRecorded("features of maximum entropy and label smoothing are not recorded")
    sides = {side for _, *both, _, _ in parts for side in both}
    start = "Maximum entropy reduces both similarity and variance more than label smoothing"
    if sides != {-1}:
        reduced = [
            f"the {what} in {name}" for name, *both, _, _ in parts for what, side in zip(_WHAT, both, strict=True) if side < 0
        ]
        words = " and ".join(reduced) or "neither similarity nor variance"
        start = f"Of similarity and variance, maximum entropy reduces more than label smoothing: {words}"
    numbers = "; ".join(
        f"in {name}, the mean largest cosine is higher by {cosine}, and the variance {ratio} times that with label smoothing"
        for name, _, _, cosine, ratio in parts
    )
    return f"**{start}.** With maximum entropy instead of label smoothing: {numbers}. {sample(first)}"


_WHAT = ("similarity", "variance")


def _side(bounds: xr.DataArray, middle: float) -> int:
    """Return 1 where an interval lies above a number, -1 where it lies below, 0 otherwise."""
    return int(float(bounds.sel(bound="low")) > middle) - int(float(bounds.sel(bound="high")) < middle)


def equal_lambda(outcomes: xr.Dataset) -> str:
    """Return what maximum entropy changes at one lambda, and what the larger lambda of ME-TRADES changes, from TRADES to it."""
    network, base = section.EQUAL
    parts = []
    for name, other, words in ((network, base, "At an equal λ of 15"), (network, section.TRADES, "Against TRADES with λ = 6")):
        bounds = features.interval(section.blocks(outcomes, name, other), lambdas.both, draws=lambdas.DRAWS)
        cosine, ratio = bounds.sel(measure="similarity"), bounds.sel(measure="variance")
        parts.append(
            f"{words}, ME-TRADES changes the mean largest cosine by {interval(cosine, '', 3)}, and its variance is "
            f"{interval(ratio, '', 2)} times as large."
        )
    return f"**{parts[0]}** {parts[1]}"
