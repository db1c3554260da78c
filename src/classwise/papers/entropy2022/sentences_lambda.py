"""The findings of the page on similarity and variance, each in a sentence with its numbers and their 95 % intervals."""

from collections.abc import Mapping, Sequence

import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.papers.entropy2022 import lambdas
from classwise.papers.entropy2022 import section_3_2_2a as section
from classwise.papers.findings import interval, sample
from classwise.stats import features


def maximum_entropy(outcomes: xr.Dataset) -> str:
    """Return whether maximum entropy reduces similarity and variance more than label smoothing, in PGD-AT and in TRADES."""
    parts, first = {}, None
    for name, lines in section.SMOOTHED.items():
        network, base = lines["maximum entropy"], lines["label smoothing"]
        if {network, base} <= set(map(str, outcomes.defence.values)):
            first = section.of_all(outcomes, network, base)
            parts[name] = features.interval(features.by_block(first), lambdas.both, draws=lambdas.DRAWS)
    if first is None:
        raise NotRecorded("features of maximum entropy and label smoothing are not recorded")
    reduced = [f"the {what} in {name}" for what in _MIDDLE for name, bounds in parts.items() if _side(bounds, what) < 0]
    numbers = "; ".join(f"in {name} {_numbers(bounds)}" for name, bounds in parts.items())
    raised = [f"the {what} in {name}" for what in _MIDDLE for name, bounds in parts.items() if _side(bounds, what) > 0]
    each = [f"reduces {_listed(reduced)} more"] * bool(reduced) + [f"reduces {_listed(raised)} less"] * bool(raised)
    start = f"Maximum entropy {' and '.join(each)} than label smoothing, by the raw measures"
    if not each:
        start = "Whether maximum entropy reduces similarity or variance more than label smoothing is open"
    return f"**{start}.** Compared with label smoothing, {numbers}. {_scale(parts)} {sample(first)}"


# Between which values of two networks neither is larger.
_MIDDLE = {"similarity": 0.0, "variance": 1.0}


def _numbers(bounds: xr.DataArray) -> str:
    cosine, ratio = (bounds.sel(measure=name) for name in _MIDDLE)
    changed, times = interval(cosine, "", 3), interval(ratio, "", 2)
    return f"the mean largest cosine changes by {changed}, and the variance is {times} times as large"


def _scale(parts: Mapping[str, xr.DataArray]) -> str:
    """Return the ratio of the variances relative to the length of the features."""
    ratios = {name: bounds.sel(measure="relative variance") for name, bounds in parts.items()}
    words = " and ".join(f"{interval(bounds, '', 2)} times as large in {name}" for name, bounds in ratios.items())
    return f"Divided by the squared length of the means of the classes, the variance is {words}."


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + (" and " if len(words) > 1 else "") + "".join(words[-1:])


def _side(bounds: xr.DataArray, measure: str) -> int:
    """Return 1 where a measure is larger in the first network, -1 where it is smaller, 0 where that is open."""
    of, middle = bounds.sel(measure=measure), _MIDDLE[measure]
    return int(float(of.sel(bound="low")) > middle) - int(float(of.sel(bound="high")) < middle)


def equal_lambda(outcomes: xr.Dataset) -> str:
    """Return what maximum entropy changes at one lambda, and what the larger lambda of ME-TRADES changes, from TRADES to it."""
    network, base = section.EQUAL
    parts = []
    for name, other, words in ((network, base, "At an equal λ of 15"), (network, section.TRADES, "Against TRADES with λ = 6")):
        bounds = features.interval(section.blocks(outcomes, name, other), lambdas.both, draws=lambdas.DRAWS)
        parts.append(f"{words}, with maximum entropy {_numbers(bounds)}.")
    return f"**{parts[0]}** {parts[1]}"
