"""Trainings for a critical class, and what they change for this class and for all others (Benz et al. 2020, section 3.3).

The critical class is the most vulnerable one by `selection.vulnerable_pair`, which the coordinate `critical` marks. Measures take
sums over images (`bootstrap.sums`) of two trainings along defence, under one attack; points are points of a percentage.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core.datasets import base_dataset
from classwise.core.errors import NotRecorded
from classwise.core.markup import decimal, escaped
from classwise.core.spec import Spec
from classwise.papers.claims import first_sentence
from classwise.papers.selection import VULNERABLE_PAIRS, by_robustness, vulnerable_pair
from classwise.papers.terms import Term
from classwise.stats import aggregate, bootstrap, combine, metrics, pooling
from classwise.stats.metrics import OF_RATES, Metric

# Fields of Spec of runs whose course over the epochs no page shows, at scale quick.
ONCE: Mapping[str, int] = {"measure": 60}
_DRAWS = 1000


def critical_class(dataset: str) -> str:
    """Return the critical class of a dataset: the one that is the most vulnerable on validation images."""
    return vulnerable_pair(dataset)[0]


def by_training(names: Sequence[str], plain: xr.Dataset, *parts: xr.Dataset | None) -> xr.Dataset:
    """Return outcomes along defence, with the coordinate `critical` where the dataset has such a class.

    names: of the parts after `plain`, each of one defence; "" where its defences keep their names, as those of `plain` do. None:
    not recorded.
    """
    given = [(name, part) for name, part in zip(("", *names), (plain, *parts), strict=True) if part is not None]
    rows = {name or str(one): part.sel(defence=one, drop=True) for name, part in given for one in part.defence.values}
    joined = combine.combine_rows([({"defence": name}, row) for name, row in rows.items()]).assign_attrs(plain.attrs)
    if base_dataset(plain.attrs["dataset"]) not in VULNERABLE_PAIRS:
        return joined
    classes = joined.predicted.values
    return joined.assign_coords(critical=("predicted", classes == critical_class(plain.attrs["dataset"])))


def compared(outcomes: xr.Dataset, names: Sequence[str]) -> xr.Dataset:
    """Return outcomes of those of the trainings that are recorded, of the seeds that all of them have.

    NotRecorded for fewer than two.
    """
    known = [name for name in names if name in outcomes.defence.values]
    if len(known) < 2:
        raise NotRecorded(f"of {', '.join(names)}, {' and '.join(known) or 'none'} alone is recorded")
    kept = outcomes.sel(defence=known)
    has = (kept.truth >= 0).any("image").all([dim for dim in kept.truth.dims if dim not in ("seed", "image")])
    return kept.isel(seed=np.flatnonzero(has.values))


def epochs(specs: Mapping[str, Sequence[Spec]]) -> dict[str, int]:
    """Return the epochs of each training, from its runs; without those that have none."""
    return {name: runs[0].epochs for name, runs in specs.items() if runs}


def unequal_epochs(known: Mapping[str, int], base: str) -> str:
    """Return which trainings have other epochs than a base, with a space before; "" where none has."""
    others: dict[int, list[str]] = {}
    for name, number in known.items():
        if number != known[base]:
            others.setdefault(number, []).append(name)
    listed = "; ".join(f"{', '.join(names)} {'have' if len(names) > 1 else 'has'} {number}" for number, names in others.items())
    return f" **The epochs differ**: {listed}; {base} has {known[base]}. Compare trainings of equal epochs." if others else ""


def recall(count: xr.DataArray) -> xr.DataArray:
    """Return the recall of the critical class, its accuracy, in percent."""
    return of_critical(count, metrics.accuracy)


def precision(count: xr.DataArray) -> xr.DataArray:
    """Return the share of the images predicted as the critical class that are of this class, in percent."""
    return of_critical(count, metrics.precision)


def of_critical(count: xr.DataArray, measure: Metric) -> xr.DataArray:
    """Return a measure of each class for the critical class."""
    return measure(count).isel(label=int(np.flatnonzero(count.critical.values)[0])).drop_vars("label")


def of_others(count: xr.DataArray) -> xr.DataArray:
    """Return the mean accuracy of the classes that are not critical, in percent."""
    return metrics.accuracy(count).isel(label=np.flatnonzero(~count.critical.values)).mean("label", skipna=False)


def variance(count: xr.DataArray) -> xr.DataArray:
    """Return the variance of the accuracies of the classes, not corrected for sampling, in points squared."""
    return metrics.cv(count)


# What a training changes for the critical class and for the others, by the title of a column.
MEASURES: Mapping[str, Metric] = {"recall": recall, "precision": precision, "others": of_others}


def difference(count: xr.DataArray, measure: Metric) -> xr.DataArray:
    """Return how much higher a measure is in the first training than in the second."""
    values = measure(count)
    return values.isel(defence=0, drop=True) - values.isel(defence=1, drop=True)


def change(measure: Metric, first: str, second: str, attack: str = "pgd-20") -> Term:
    """Return the measure of a claim: a measure in one training less that in another ("a|b": the first that is recorded)."""
    words = f"{first_sentence(measure)}: {first.replace('|', ' or ')} less {second}"
    needs = (first, attack), (second, attack)
    return Term(words, lambda sums: difference(sums["count"].isel(attack=0, drop=True), measure), needs)


def chance(count: xr.DataArray) -> float:
    """Return the accuracy of a class by guessing, in percent: 100 over the number of classes."""
    return 100 / count.sizes["label"]


def name_of(outcomes: xr.Dataset) -> str:
    """Return the critical class of outcomes of `by_training`."""
    return str(outcomes.predicted.values[outcomes.critical.values][0])


def measured(outcomes: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return recall and precision of the critical class and the mean accuracy of the others, by a title, along bound.

    outcomes: of `compared`; the intervals (95 %) are of the same redrawn images for all trainings and attacks.
    """
    measures = dict(zip(titles(outcomes), MEASURES.values(), strict=True))
    return {title: bootstrap.paired(outcomes, measure, draws=_DRAWS, span=(0, 100)) for title, measure in measures.items()}


def titles(outcomes: xr.Dataset) -> tuple[str, str, str]:
    """Return the titles of recall and precision of the critical class, and of the mean recall of the others."""
    name = name_of(outcomes)
    return f"recall of class {name}, %", f"precision of class {name}, %", "recall of the others, %"


def gain(outcomes: xr.Dataset, pair: tuple[str, str], measure: Metric, attack: str) -> xr.DataArray:
    """Return low, value and high of how much higher a measure is in the first of two trainings, on the same images (95 %).

    NotRecorded where either has no results.
    """
    _recorded(outcomes, pair)
    both = compared(outcomes.sel(attack=attack, drop=True), pair)
    bounds = bootstrap.paired(both, partial(difference, measure=measure), draws=_DRAWS)
    if measure not in OF_RATES:
        return bounds
    # Draws are of the observed rates, and their mean is the measure of these (as in `bootstrap.bootstrap`).
    low, value, high = (bounds.sel(bound=name, drop=True) for name in ("low", "value", "high"))
    shift = difference(bootstrap.sums(both, {})["count"], OF_RATES[measure]) - value
    ends = [xr.ufuncs.minimum(low + shift, value), value, xr.ufuncs.maximum(high + shift, value)]
    corrected: xr.DataArray = xr.concat(ends, bounds.bound)
    return corrected


def recalls(outcomes: xr.Dataset, pair: tuple[str, str], attack: str) -> tuple[float, float, float]:
    """Return the recall of the critical class in two trainings, on the images of `gain`, and that by guessing, in percent."""
    count = bootstrap.sums(compared(outcomes.sel(attack=attack, drop=True), pair), {})["count"]
    first, second = (float(recall(count.sel(defence=name))) for name in pair)
    return first, second, chance(count)


def gains(outcomes: xr.Dataset, names: Sequence[str], base: str, measures: Mapping[str, Metric], attack: str) -> pd.DataFrame:
    """Return `gain` of those of the trainings that are recorded over a base, in words: a line each, a column for each measure."""
    rows = {
        name: {title: _bracketed(gain(outcomes, (name, base), some, attack)) for title, some in measures.items()}
        for name in _with_base(outcomes, names, base)
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("training")


def _recorded(outcomes: xr.Dataset, names: Sequence[str]) -> None:
    missing = [name for name in names if name not in outcomes.defence.values]
    if missing:
        raise NotRecorded(f"results of {', '.join(missing)} are not recorded")


def _with_base(outcomes: xr.Dataset, names: Sequence[str], base: str) -> list[str]:
    """Return those of the trainings that are recorded; NotRecorded where none is, or not their base."""
    _recorded(outcomes, [base])
    known = [name for name in names if name in outcomes.defence.values]
    if not known:
        raise NotRecorded(f"no training that is compared with {base} is recorded")
    return known


def _bracketed(bounds: xr.DataArray) -> str:
    low, value, high = (decimal(float(bounds.sel(bound=name)), 1) for name in ("low", "value", "high"))
    return f"{value} [{low}, {high}]"


def class_changes(outcomes: xr.Dataset, names: Sequence[str], base: str, attack: str) -> xr.DataArray:
    """Return by how many points each class changes from a base to each of the trainings, along defence."""
    both = compared(outcomes.sel(attack=attack, drop=True), (base, *names))
    rates = metrics.accuracy(bootstrap.sums(both, {})["count"]).drop_vars("critical", errors="ignore")
    return rates.drop_sel(defence=base) - rates.sel(defence=base, drop=True)


def predictions(outcomes: xr.Dataset) -> xr.DataArray:
    """Return pooled counts of trainings along defence and images_are, for `class_explorer.by_category`."""
    count = pooling.pooled(outcomes).drop_vars("critical", errors="ignore")
    return aggregate.clean_and_attacked(count).transpose("defence", "images_are", ...)


def selection(history: xr.Dataset, dataset: str, others: Mapping[str, str]) -> str:
    """Return which class is the least robust one on validation images, and the most, and whether the page takes these.

    history: of `runs.history` of the runs that select them. others: what the page takes, by "critical" and, if any, "safest".
    """
    ranked = by_robustness(history, dataset)
    rule = {"critical": ranked[0], "safest": ranked[-1]}
    words = " and ".join(f"the {kind} class is {escaped(rule[kind])}" for kind in others)
    taken = " and ".join(f"{escaped(name)} as the {kind} one" for kind, name in others.items())
    same = all(rule[kind] == name for kind, name in others.items())
    return f"**By this rule** {words}. This page takes {'the same' if same else taken}."
