"""Trainings for a critical class, and what they change for this class and for all others (Benz et al. 2020, section 3.3).

The critical class is the most vulnerable one by `selection.vulnerable_pair`, which the coordinate `critical` marks. Measures take
sums over images (`bootstrap.sums`) of two trainings along defence, under one attack; points are points of a percentage.
"""

from collections.abc import Mapping

import numpy as np
import xarray as xr

from classwise.core.datasets import base_dataset
from classwise.papers.selection import VULNERABLE_PAIRS, vulnerable_pair
from classwise.stats import combine, metrics
from classwise.stats.metrics import Metric

# Fields of Spec of runs whose course over the epochs no page shows, at scale quick.
ONCE: Mapping[str, int] = {"measure": 60}
# Claims about the critical class can be tested where it is known.
KNOWN = tuple(VULNERABLE_PAIRS)
UNKNOWN = "its most vulnerable class has not been selected"


def critical_class(dataset: str) -> str:
    """Return the critical class of a dataset: the one that is the most vulnerable on validation images."""
    return vulnerable_pair(dataset)[0]


def by_training(plain: xr.Dataset, parts: Mapping[str, xr.Dataset | None]) -> xr.Dataset:
    """Return outcomes along defence, with the coordinate `critical` where the dataset has such a class.

    plain: its defences keep their names. parts: by the name of a training its outcomes, of one defence, None where they are not
    recorded.
    """
    rows = {str(name): plain.sel(defence=name, drop=True) for name in plain.defence.values}
    rows |= {name: part.isel(defence=0, drop=True) for name, part in parts.items() if part is not None}
    joined = combine.combine_rows([({"defence": name}, row) for name, row in rows.items()]).assign_attrs(plain.attrs)
    if base_dataset(plain.attrs["dataset"]) not in VULNERABLE_PAIRS:
        return joined
    names = joined.predicted.values
    return joined.assign_coords(critical=("predicted", names == critical_class(plain.attrs["dataset"])))


def recall(count: xr.DataArray) -> xr.DataArray:
    """Return the accuracy of the critical class, in percent."""
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


def change(sums: xr.Dataset, measure: Metric) -> xr.DataArray:
    """Return how much higher a measure is in the first training than in the second."""
    values = measure(sums["count"].isel(attack=0, drop=True))
    return values.isel(defence=0, drop=True) - values.isel(defence=1, drop=True)
