"""What one method of Table 1 gains over another: on our images, in the printed tables, and in single classes.

Points are points of a percentage. Measures take sums over images (`bootstrap.sums`) in which a defence is a method by its printed
name, the better one first.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy import special

from classwise.core.errors import NotRecorded
from classwise.papers import judging
from classwise.papers.claims import MeasurementError
from classwise.papers.terms import least
from classwise.papers.wei2023.calibrations import METHODS, gains_of_methods, with_component
from classwise.papers.wei2023.tables import TABLES
from classwise.stats import bootstrap, metrics, significance
from classwise.stats.metrics import Metric

MEASURES: Mapping[str, Metric] = {"overall": metrics.overall, "worst": metrics.worst}
# By table and measure, the test images behind a number: CIFAR-10 has 1,000 of each class, Tiny ImageNet 50 of each of 200, of
# which a fifth are 40 classes. And the trainings behind each mean.
_IMAGES = {1: {"overall": 10_000, "worst": 1000}, 4: {"overall": 10_000, "worst_k": 2000}}
_SEEDS = 5
# How many standard errors a 95 % interval reaches to either side: by a t-distribution for the trainings of both methods.
REACH = {"images": float(special.ndtri(0.975)), "seeds": float(special.stdtrit(2 * (_SEEDS - 1), 0.975))}


def with_cfa(over: str) -> list[tuple[str, str]]:
    """Return each method with CFA and what it is compared with: with "EMA", or with "" for nothing added."""
    return [(with_component(method, "CFA"), with_component(method, over)) for method in METHODS]


# What is compared with what on the page: first the method that should be better.
COMPARISONS = (*with_cfa(""), *with_cfa("EMA"), ("TRADES + CFA", "FRL + EMA"))


def spread(count: xr.DataArray) -> xr.DataArray:
    """Return the standard deviation of the accuracies of the classes, in points."""
    deviation: xr.DataArray = np.sqrt(metrics.cv(count))  # type: ignore[assignment]
    return deviation.rename("spread")


def gains_of_classes(sums: xr.Dataset, classes: Sequence[str] = ()) -> xr.DataArray:
    """Return how much each class gains from the second method to the first, along label; classes: of these, () for all."""
    rates = metrics.accuracy(sums["count"].isel(attack=0))
    change = rates.isel(defence=0) - rates.isel(defence=1)
    missing = [name for name in classes if name not in change.label.values]
    if missing:
        raise MeasurementError(f"these images have no class {', '.join(missing)}")
    return change.sel(label=list(classes)) if classes else change


def farthest_class_gain(sums: xr.Dataset, classes: Sequence[str], middle: float) -> xr.DataArray:
    """Return the gain of that class, of those named, whose gain is the farthest from a value."""
    change = gains_of_classes(sums, classes)
    lost = change.isnull().any("label")
    off = abs(change - middle).fillna(0)
    return change.isel(label=off.argmax("label")).drop_vars("label").where(~lost)


def losses_of_classes(sums: xr.Dataset) -> xr.DataArray:
    """Return how much each class loses from the second method to the first, along label."""
    return -gains_of_classes(sums)


def by_component(
    measure: Metric,
    component: str,
    over: str = "",
    *,
    methods: Sequence[str] = METHODS,
    table: int = 1,
    checkpoint: str = "best",
) -> dict[str, Any]:
    """Return the fields of a claim on what a component gains over another, or over none: the least of methods, ours and printed.

    The measure leaves out methods that lack either, so that it can also be computed for some.
    """
    pairs = [(with_component(method, component), with_component(method, over)) for method in methods]
    fixed: dict[str, Any] = {"component": component, "over": over, "methods": tuple(methods), "measure": measure}
    return {
        "measure": least(partial(gains_of_methods, **{name: value for name, value in fixed.items() if value})),
        "defences": tuple(name for pair in pairs for name in pair),
        "reported": partial(printed, measure.__name__, pairs, checkpoint, table),
    }


def printed(measure: str, pairs: Sequence[tuple[str, str]], checkpoint: str, table: int = 1) -> float:
    """Return the least printed gain of the pairs of methods in a table, under AutoAttack."""
    values = TABLES.load(table)[measure].sel(attack="autoattack", checkpoint=checkpoint)
    return min(float(values.sel(defence=better) - values.sel(defence=worse)) for better, worse in pairs)


def named(pair: tuple[str, str]) -> str:
    """Return what a comparison is called: "AT + CFA over AT"."""
    return f"{pair[0]} over {pair[1]}"


def gaps_as_printed(number: int = 1) -> pd.DataFrame:
    """Return the gains of Table 1 or 4 with two standard errors, a row each.

    Columns: comparison, measure, checkpoint, value, and in points seeds, the standard error over its five trainings (NaN where no
    spread is printed), and images, that of its test images. The paper compares both methods on the same images but does not print
    which of them each classifies correctly, so that `images` takes them as independent: it is an upper bound.
    """
    table, rows = TABLES.load(number).sel(attack="autoattack"), []
    for pair in COMPARISONS:
        if set(pair) <= set(map(str, table.defence.values)):
            both = table.sel(defence=list(pair))
            rows += [
                _gap(both.sel(checkpoint=one), named(pair), *some) for some in _IMAGES[number].items() for one in _CHECKPOINTS
            ]
    return pd.DataFrame(rows)


_CHECKPOINTS = ("best", "last")


def _gap(both: xr.Dataset, comparison: str, measure: str, images: int) -> dict[str, object]:
    """Return the gain of the first of two methods in a measure, with its standard errors."""
    share = both[measure] / 100
    spreads = both.get(f"{measure}_spread")
    return {
        "comparison": comparison,
        "measure": measure,
        "checkpoint": str(both.checkpoint.item()),
        "value": float(both[measure][0] - both[measure][1]),
        "seeds": np.nan if spreads is None else float(np.sqrt((spreads**2).sum() / _SEEDS)),
        "images": 100 * float(np.sqrt((share * (1 - share)).sum() / images)),
    }


def _recorded_pairs(outcomes: xr.Dataset) -> list[tuple[str, str]]:
    """Return the comparisons of which both methods are there; NotRecorded if there are none."""
    pairs = [pair for pair in COMPARISONS if set(pair) <= set(map(str, outcomes.defence.values))]
    if not pairs:
        raise NotRecorded("no two methods that are compared with each other are recorded")
    return pairs


def ours(outcomes: xr.Dataset, draws: int = 2000) -> xr.DataArray:
    """Return low, value and high of our gains, along comparison and measure: 95 % intervals on the images of both methods.

    outcomes: of methods (`methods.by_method`) under one attack. Comparisons that lack a method are left out.
    """
    pairs = _recorded_pairs(outcomes)

    def differences(count: xr.DataArray) -> xr.DataArray:
        parts = []
        for measure in MEASURES.values():
            values = measure(count)
            parts.append(
                [values.sel(defence=better, drop=True) - values.sel(defence=worse, drop=True) for better, worse in pairs]
            )
        names = pd.Index([named(pair) for pair in pairs], name="comparison")
        return xr.concat([xr.concat(some, names) for some in parts], pd.Index(list(MEASURES), name="measure"))

    return bootstrap.paired(outcomes, differences, draws=draws, span=(-100, 100))


def class_gains(count: xr.DataArray) -> xr.DataArray:
    """Return by how many points each class gains from EMA to CFA: along method and label. Methods without both are left out."""
    rates = metrics.accuracy(count)
    known, rows = set(map(str, rates.defence.values)), {}
    for method, pair in zip(METHODS, with_cfa("EMA"), strict=True):
        if known.issuperset(pair):
            with_it, without = (rates.sel(defence=name, drop=True) for name in pair)
            rows[method] = with_it - without
    if not rows:
        raise NotRecorded("no method is recorded with EMA and with CFA")
    return xr.concat(list(rows.values()), pd.Index(list(rows), name="method"))


def image_by_image(outcomes: xr.Dataset) -> pd.DataFrame:
    """Return each comparison on the same images: points, and p of McNemar's test with Holm's correction for all of them.

    outcomes: as for `ours`.
    """
    pairs = _recorded_pairs(outcomes)
    rows = [significance.paired(outcomes.sel(defence=list(pair)), pair[1]) for pair in pairs]
    table = pd.concat(rows).set_axis(pd.Index([named(pair) for pair in pairs], name="comparison"))
    return table.assign(p=judging.holm(table["p"].to_numpy()))


def both_tables(count: xr.DataArray, number: int = 1) -> pd.DataFrame:
    """Return the rows of Table 1 or 4, ours and theirs, clean and attacked: after the last epoch, and theirs after the best one.

    count: ours by method, clean and attacked (`aggregate.clean_and_attacked`). What is missing of ours is "".
    """
    theirs, columns = TABLES.load(number).rename(attack="images_are").assign_coords(images_are=["clean", "attacked"]), {}
    for name in _IMAGES[number]:
        title = name.replace("_k", " fifth")
        columns[f"{title}, ours"] = metrics.METRICS[name](count).transpose("defence", "images_are").to_series()
        for checkpoint in reversed(_CHECKPOINTS):
            columns[f"{title}, theirs, {checkpoint}"] = theirs[name].sel(checkpoint=checkpoint, drop=True).to_series()
    table = pd.DataFrame(columns).map(lambda value: "" if pd.isna(value) else f"{value:.1f}")
    order = pd.MultiIndex.from_product([theirs[dim].values for dim in ("defence", "images_are")], names=["method", "images"])
    return table.reindex(order, fill_value="")
