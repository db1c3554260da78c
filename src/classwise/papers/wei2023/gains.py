"""What a component of CFA gains in Tables 1 to 4 of Wei et al. 2023, on our images and as printed (sections 5.2 and 5.3).

Measures take sums over images (`bootstrap.sums`) in which a defence is a method by its printed name. Points are points of a
percentage. A pair are two methods, first the one that should be better.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy import special

from classwise.core.errors import NotAtScale
from classwise.papers.terms import least
from classwise.papers.wei2023.tables import TABLES
from classwise.stats import bootstrap, combine, intervals, metrics

METHODS = ("AT", "TRADES", "FAT")
Pairs = Sequence[tuple[str, str]]


def pairs_of(component: str, over: str = "", methods: Sequence[str] = METHODS) -> tuple[tuple[str, str], ...]:
    """Return by their printed names each method with a component and what it is compared with: with another one, or none."""
    names = [[" + ".join(filter(None, (method, part))) for part in (component, over)] for method in methods]
    return tuple((better, worse) for better, worse in names)


def gains_of_methods(
    sums: xr.Dataset, component: str, over: str = "", methods: Sequence[str] = METHODS, measure: metrics.Metric = metrics.overall
) -> xr.DataArray:
    """Return how much higher a measure is with one component than without it, or than with another.

    Along comparison, under the first attack; methods without both rows do not count.
    """
    return differences(measure(sums["count"].isel(attack=0)), pairs_of(component, over, methods))


def component_fields(
    measure: metrics.Metric,
    component: str,
    over: str = "",
    *,
    methods: Sequence[str] = METHODS,
    table: int = 1,
    checkpoint: str = "best",
) -> dict[str, Any]:
    """Return the fields of a claim on what a component gains over another, or over none: the least of methods."""
    pairs = pairs_of(component, over, methods)
    fixed: dict[str, Any] = {"component": component, "over": over, "methods": tuple(methods), "measure": measure}
    return {
        "measure": least(partial(gains_of_methods, **{name: value for name, value in fixed.items() if value})),
        "defences": tuple(name for pair in pairs for name in pair),
        "reported": partial(printed_gain, measure.__name__, pairs, checkpoint, table),
    }


def printed_gain(measure: str, pairs: Pairs, checkpoint: str, table: int = 1) -> float:
    """Return the least printed gain of the pairs of methods in a table, under AutoAttack."""
    values = TABLES.load(table)[measure].sel(attack="autoattack", checkpoint=checkpoint)
    return min(float(values.sel(defence=better) - values.sel(defence=worse)) for better, worse in pairs)


TITLES = {"overall": "all images", "worst": "worst class", "worst_k": "worst fifth of the classes"}
# The trainings behind each printed mean.
SEEDS = 5
# How many standard errors a 95 % interval of a gain reaches to either side: by a t-distribution for the trainings of both.
REACH = {"images": float(special.ndtri(0.975)), "seeds": float(special.stdtrit(2 * (SEEDS - 1), 0.975))}


def measures_of(number: int) -> dict[str, int]:
    """Return the measures of a table, with the test images behind each number.

    CIFAR-10 has 1,000 of each class, Tiny ImageNet 50 of each of 200, of which a fifth are 40 classes.
    """
    return {"overall": 10_000, "worst_k": 2000} if number == 4 else {"overall": 10_000, "worst": 1000}


def _recorded(defence: xr.DataArray, pairs: Pairs) -> Pairs:
    if kept := [pair for pair in pairs if set(defence.values).issuperset(pair)]:
        return kept
    names = ", ".join(map(" over ".join, pairs))
    raise NotAtScale(f"no two methods that are compared are recorded, or FAWA let no epoch enter: {names}")


def _of_pairs(values: xr.DataArray, pairs: Pairs) -> list[xr.DataArray]:
    kept = _recorded(values.defence, pairs)
    parts = [values.sel(defence=list(names)).rename(defence="comparison") for names in zip(*kept, strict=True)]
    return [part.assign_coords(comparison=[" over ".join(pair) for pair in kept]) for part in parts]


def differences(values: xr.DataArray, pairs: Pairs) -> xr.DataArray:
    """Return values along defence of the first method of each pair minus those of the second, along comparison."""
    first, second = _of_pairs(values, pairs)
    return first - second


def ours(outcomes: xr.Dataset, pairs: Pairs, draws: int = 2000) -> xr.DataArray:
    """Return low, value and high of our gains, along measure and comparison: 95 % intervals on the images of both methods.

    outcomes: of methods (`methods.name_methods`) under one attack.
    """
    measures = {TITLES[name]: metrics.METRICS[name] for name in measures_of(1)}
    compared = {" over ".join(pair): pair for pair in _recorded(outcomes.defence, pairs)}
    return combine.concat_named(
        "measure", measures, lambda measure: bootstrap.differences(outcomes, compared, measure, draws=draws)
    )


def printed_gains(number: int, pairs: Pairs) -> xr.Dataset:
    """Return the gains of a table (value) with two standard errors, in points, along measure, comparison and checkpoint.

    seeds: the error over its five trainings (NaN where no spread is printed). images: that of its test images. The paper compares
    both methods on the same images but does not print which of them each classifies correctly, so that `images` takes them as
    independent: it is an upper bound.
    """
    table, parts = TABLES.load(number).sel(attack="autoattack", drop=True), []
    for name, images in measures_of(number).items():
        spreads = table.get(f"{name}_spread", np.nan * table[name])
        squares = {"seeds": spreads**2 / SEEDS, "images": table[name] * (100 - table[name]) / images}
        errors = {kind: np.sqrt(sum(_of_pairs(square, pairs))) for kind, square in squares.items()}
        parts.append(xr.Dataset({"value": differences(table[name], pairs), **errors}))
    return xr.concat(parts, pd.Index([TITLES[name] for name in measures_of(number)], name="measure"))


def gains_by_source(theirs: xr.Dataset, mine: xr.DataArray | None = None) -> xr.DataArray:
    """Return gains `printed_gains`, with intervals from their test images, and ours after the last epoch, along source."""
    value, error = theirs["value"], REACH["images"] * theirs["images"]
    printed_bounds = intervals.interval_bounds(value - error, value, value + error)
    parts = {f"theirs, {name} epoch": printed_bounds.sel(checkpoint=name, drop=True) for name in theirs.checkpoint.values}
    return combine.concat_named("source", parts | ({} if mine is None else {"ours, last epoch": mine})).sel(
        comparison=theirs.comparison
    )
