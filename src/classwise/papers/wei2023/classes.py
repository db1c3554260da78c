"""The hard and the easy classes of Wei et al. 2023 (section 3), and measures of the two groups.

Its introduction calls classes of lower clean accuracy hard, section 3.1 those of higher robustness easy; here robustness counts.
Arrays of classes (dimension label) have the coordinates `hard` and `easy`, true for the classes of the group (`mark_groups`).
"""

import numpy as np
import xarray as xr

from classwise.core.datasets import base_dataset
from classwise.core.errors import check_known
from classwise.papers.selection import classes_by_robustness
from classwise.stats.combine import concat_named

GROUPS = ("hard", "easy")
DIFFERENCE = "hard minus easy"
# CIFAR-10 as in the paper. Those of digits were selected by `select_groups`, on other images than those that they are judged
# on: the three least robust classes and the five most robust ones.
_CLASSES: dict[str, dict[str, tuple[str, ...]]] = {
    "digits": {"hard": ("8", "9", "3"), "easy": ("0", "6", "7", "2", "5")},
    "cifar10": {"hard": ("bird", "cat", "deer", "dog"), "easy": ("airplane", "automobile", "frog", "horse", "ship", "truck")},
}


def classes_of(dataset: str) -> dict[str, tuple[str, ...]]:
    """Return the names of the "hard" and of the "easy" classes of a dataset; UserError if they are not known."""
    check_known("dataset whose hard classes are known", [base_dataset(dataset)], _CLASSES)
    return _CLASSES[base_dataset(dataset)]


def mark_groups(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes with the class coordinates `hard` and `easy`."""
    groups, names = classes_of(outcomes.attrs["dataset"]), outcomes.predicted.values
    return outcomes.assign_coords({group: ("predicted", np.isin(names, some)) for group, some in groups.items()})


def select_groups(history: xr.Dataset, dataset: str) -> dict[str, tuple[str, ...]]:
    """Return as many hard and easy classes as `classes_of`: the least and the most robust ones on the validation images.

    history: as for `papers.selection.classes_by_robustness`.
    """
    ranked = classes_by_robustness(history, dataset)
    hard, easy = (len(classes_of(dataset)[group]) for group in GROUPS)
    return {"hard": ranked[:hard], "easy": ranked[::-1][:easy]}


def mean_of(rates: xr.DataArray, group: str) -> xr.DataArray:
    """Return the mean over the classes of a group, NaN where any has none."""
    return rates.isel(label=np.flatnonzero(rates[group].values)).mean("label", skipna=False)


def group_points(points: xr.DataArray) -> xr.DataArray:
    """Return points of classes as those of both groups and their difference along a new dimension `group`."""
    hard, easy = (mean_of(points, group) for group in GROUPS)
    return concat_named("group", {"hard": hard, "easy": easy, DIFFERENCE: hard - easy})
