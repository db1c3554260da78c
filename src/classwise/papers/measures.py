"""Measures of claims: from sums over images (`bootstrap.sums`) to one number for each draw.

`count` has the dimensions defence and attack in the order in which a claim names them; so have the sums of other quantities.
Points are points of a percentage.
"""

import numpy as np
import xarray as xr

from classwise.core import datasets
from classwise.stats import bootstrap, metrics


def first_value(sums: xr.Dataset, measure: metrics.Metric) -> xr.DataArray:
    """Return a measure of the first defence under the first attack."""
    return measure(sums["count"].isel(defence=0, attack=0))


# Of datasets with more classes Tian 2021, Figure 1 shows this many, drawn at random.
_SHOWN = 12


def gap(sums: xr.Dataset) -> xr.DataArray:
    """Return how far the best class is from the worst; of more than twelve classes, the mean over all sets of twelve of them."""
    from scipy import special  # slow to import

    rates = first_value(sums, metrics.accuracy)
    size, axis = rates.sizes["label"], rates.get_axis_num("label")
    like = rates.isel(label=0, drop=True)
    shown = min(size, _SHOWN)
    # In which share of the sets the class of each rank is the best one: all others are chosen from those below it.
    best = special.comb(np.arange(size), shown - 1) / special.comb(size, shown)
    ordered = np.moveaxis(np.sort(rates.values, axis=axis), axis, -1)
    return like.copy(data=ordered @ best - ordered[..., ::-1] @ best)


def pair(sums: xr.Dataset, first: str, second: str) -> xr.DataArray:
    """Return how often two classes are misclassified as one another, in percent of each, less the mean of all other pairs."""
    mixed = first_value(sums, metrics.off_diagonal_confusion)
    others = (mixed.label != mixed.predicted) & ~either(mixed, first, second)
    return confusion_of(sums, first, second) - mixed.where(others).mean(["label", "predicted"], skipna=True)


def either(mixed: xr.DataArray, first: str, second: str) -> xr.DataArray:
    """Return the two cells in which a pair of classes is mixed up."""
    names = mixed["label"], mixed["predicted"]
    return ((names[0] == first) & (names[1] == second)) | ((names[0] == second) & (names[1] == first))


def confusion_of(sums: xr.Dataset, first: str, second: str) -> xr.DataArray:
    """Return how often two classes are misclassified as one another, in percent of each, the mean of both directions."""
    mixed = first_value(sums, metrics.off_diagonal_confusion)
    return mixed.where(either(mixed, first, second)).mean(["label", "predicted"], skipna=True)


def superclass_excess(sums: xr.Dataset, times: float = 1) -> xr.DataArray:
    """Return the share of a class mistaken for one other class: within its superclass less across superclasses, in points.

    The mean over pairs of classes. times: what the share across is multiplied by.
    """
    mixed = first_value(sums, metrics.off_diagonal_confusion)
    group = mixed.label.copy(data=datasets.superclass_numbers(list(map(str, mixed.label.values))))
    same = group == group.rename(label="predicted").assign_coords(predicted=mixed.predicted)
    both, off = ["label", "predicted"], mixed.label != mixed.predicted
    return mixed.where(same & off).mean(both) - times * mixed.where(~same).mean(both)


def _true_symmetry(outcomes: xr.Dataset, draws: int, seed: int) -> np.ndarray:
    part = outcomes.isel(defence=[0], attack=[0])
    return bootstrap.symmetry_draws(part, draws=draws, seed=seed).isel(defence=0, attack=0).values


# Of a claim on symmetry: its draws are those of the pages.
SYMMETRY = {"truth": _true_symmetry, "permuted": "mistakes"}


def extra_drop_of_vulnerable(weak: xr.DataArray, strong: xr.DataArray) -> xr.DataArray:
    """Return how much more the vulnerable classes lose from one attack to the other than the robust ones."""
    lost, robust = metrics.accuracy(weak) - metrics.accuracy(strong), metrics.robust_classes(weak)
    return lost.where(~robust).mean("label") - lost.where(robust).mean("label")
