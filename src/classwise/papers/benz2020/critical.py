"""Trainings for a critical class, and what they change for this class and for all others (Benz et al. 2020, section 3.3).

The critical class is the most vulnerable one by `selection.vulnerable_pair`, which the coordinate `critical` marks. Measures take
sums over images (`bootstrap.sums`) of two trainings along defence, under one attack; points are points of a percentage.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.core.markup import printed_name
from classwise.papers.benz2020.networks import mark_vulnerable
from classwise.papers.claims import first_sentence
from classwise.papers.sections import Derived, Member, join_parts
from classwise.papers.selection import vulnerable_pair
from classwise.papers.terms import Term
from classwise.stats import aggregate, bootstrap, metrics, pooling

# Fields of Spec of runs whose course over the epochs no page shows, at scale quick.
ONCE: Mapping[str, int] = {"measure": 60}


def critical_class(dataset: str) -> str:
    """Return the critical class of a dataset: the one that is the most vulnerable on validation images."""
    return vulnerable_pair(dataset)[0]


def join_trainings(parts: Mapping[str, str], then: Callable[[xr.Dataset], xr.Dataset] = lambda both: both) -> Derived:
    """Return how parts are joined along defence, each on its seeds, with the coordinate `critical` where there is such a class.

    parts: by name, what each is called; "" where its defences keep their names. then: what is made of the result.
    """
    rows = (Member(part, name, by="defence") for part, name in parts.items())
    return join_parts(
        "defence", *rows, optional=True, any_seeds=True, then=lambda both, _: then(mark_vulnerable(both, "critical"))
    )


def select_recorded(outcomes: xr.Dataset, names: Sequence[str]) -> xr.Dataset:
    """Return outcomes of those of the trainings that are recorded, of the seeds that all of them have.

    NotRecorded for fewer than two.
    """
    known = [name for name in names if name in outcomes.defence.values]
    if len(known) < 2:
        raise NotRecorded(f"{f'only {known[0]}' if known else 'none'} of {', '.join(names)} is recorded")
    kept = outcomes.sel(defence=known)
    has = (kept.truth >= 0).any("image").all([dim for dim in kept.truth.dims if dim not in ("seed", "image")])
    return kept.isel(seed=np.flatnonzero(has.values))


def recall(count: xr.DataArray) -> xr.DataArray:
    """Return the share of the images of the critical class that are recognised (its recall), in percent."""
    return critical_class_value(count, metrics.accuracy)


def precision(count: xr.DataArray) -> xr.DataArray:
    """Return the share of the images predicted as the critical class that belong to it (its precision), in percent."""
    return critical_class_value(count, metrics.precision)


def critical_class_value(count: xr.DataArray, measure: metrics.Metric) -> xr.DataArray:
    """Return a measure of each class for the critical class."""
    return measure(count).isel(label=int(np.flatnonzero(count.critical.values)[0])).drop_vars("label")


def accuracy_of_others(count: xr.DataArray) -> xr.DataArray:
    """Return the mean accuracy of the classes that are not critical, in percent."""
    return metrics.accuracy(count).isel(label=np.flatnonzero(~count.critical.values)).mean("label", skipna=False)


def difference(count: xr.DataArray, measure: metrics.Metric) -> xr.DataArray:
    """Return how much higher a measure is in the first training than in the second."""
    values = measure(count)
    return values.isel(defence=0, drop=True) - values.isel(defence=1, drop=True)


def change(measure: metrics.Metric, first: str, second: str, attack: str = "pgd-20") -> Term:
    """Return the measure of a claim: a measure after one training minus the same after another ("a|b": the first recorded)."""
    names = " or ".join(map(printed_name, first.split("|"))), printed_name(second)
    words = f"{first_sentence(measure)}: {' minus '.join(names)}"
    needs = (first, attack), (second, attack)
    return Term(words, lambda sums: difference(sums["count"].isel(attack=0, drop=True), measure), needs)


def name_of(outcomes: xr.Dataset) -> str:
    """Return the critical class of outcomes of `join_trainings`."""
    return str(outcomes.predicted.values[outcomes.critical.values][0])


def summarise(outcomes: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return recall and precision of the critical class and the mean accuracy of the others, by a title, along bound.

    outcomes: of `select_recorded`; the intervals (95 %) are of the same redrawn images for all trainings and attacks.
    """
    name = name_of(outcomes)
    measures = {f"recall of {name}, %": recall, f"precision of {name}, %": precision}
    measures["recall of the others, %"] = accuracy_of_others
    return {title: bootstrap.paired_bounds(outcomes, measure, draws=1000, span=(0, 100)) for title, measure in measures.items()}


def class_changes(outcomes: xr.Dataset, names: Sequence[str], base: str, attack: str) -> xr.DataArray:
    """Return by how many points each class changes from a base to each of the trainings, along defence."""
    both = select_recorded(outcomes.sel(attack=attack, drop=True), (base, *names))
    rates = metrics.accuracy(bootstrap.sums(both, {})["count"]).drop_vars("critical", errors="ignore")
    return rates.drop_sel(defence=base) - rates.sel(defence=base, drop=True)


def predictions(outcomes: xr.Dataset) -> xr.DataArray:
    """Return pooled counts of trainings along defence and images_are, for `class_explorer.category_explorer`."""
    count = pooling.pool(outcomes).drop_vars("critical", errors="ignore")
    return aggregate.clean_and_attacked(count).transpose("defence", "images_are", ...)
