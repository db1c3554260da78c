"""Homing: what becomes of images misclassified as a class when a network is trained without it (Tian 2021, Definition 6.1).

Outcomes have along `without` the network of all classes, "", networks trained without the class of that name, and the same
training repeated: "again 1", ... They are compared image by image, each network attacked on its own.
"""

import numpy as np
import xarray as xr

from classwise.papers.selection import mark_pair
from classwise.stats import aggregate, bootstrap, combine


def classes_left_out(outcomes: xr.Dataset) -> list[str]:
    """Return the classes without which a network was trained, in the order of the classes."""
    return [str(name) for name in outcomes.predicted.values if name in outcomes["without"].values]


def arrange_networks(full: xr.Dataset, again: xr.Dataset, without: xr.Dataset) -> xr.Dataset:
    """Return networks that lack a class each, along `classes`, next to the full one and its repetitions."""
    count = aggregate.counts(without)
    lacks = count.sum([dim for dim in count.dims if dim not in ("classes", "label")]).argmin("label").values
    single = {str(without.predicted.values[lacks[place]]): without.isel(classes=place, drop=True) for place in np.argsort(lacks)}
    repeated = {f"again {number}": again.sel(redraw=number, drop=True) for number in again.redraw.values}
    return mark_pair(combine.combine("without", {"": full, **repeated, **single}))


def _withstands(outcomes: xr.Dataset) -> xr.DataArray:
    return ~outcomes["misclassified"] & (outcomes["truth"] >= 0)


def comes_home(outcomes: xr.Dataset) -> xr.DataArray:
    """Return which images the full network misclassifies and the network without the predicted class classifies correctly."""
    full, names = outcomes.sel(without="", drop=True), outcomes.predicted.values
    without = _withstands(outcomes).reindex(without=names, fill_value=False)
    return full["misclassified"] & without.isel(without=full.prediction.clip(0)).drop_vars("without")


def repetition_share(outcomes: xr.Dataset) -> xr.DataArray:
    """Return for each mistake of the full network the share of its repetitions that classify the image correctly."""
    again = [name for name in outcomes["without"].values if name and name not in classes_left_out(outcomes)]
    share: xr.DataArray = _withstands(outcomes.sel(without=again)).mean("without")
    return share.where(outcomes.misclassified.sel(without="", drop=True), 0)


def other_class_share(outcomes: xr.Dataset) -> xr.DataArray:
    """Return for each mistake of the full network the share of the networks without a third class that are correct."""
    full, names = outcomes.sel(without="", drop=True), classes_left_out(outcomes)
    others = outcomes.sel(without=names)
    number = others["without"].copy(data=np.flatnonzero(np.isin(outcomes.predicted.values, names)))
    share: xr.DataArray = _withstands(others).where((others.truth >= 0) & (full.prediction != number)).mean("without")
    return share.where(full.misclassified, 0)


# By the name of its sum, the share of other networks of a kind that classify a mistake of the full network correctly.
MASKS = {"home": comes_home, "another": other_class_share, "again": repetition_share}


def mistaken(sums: xr.Dataset, name: str) -> xr.DataArray:
    """Return a sum over the mistakes of the full network, first defence and attack."""
    part = sums[name].isel(defence=0, attack=0, drop=True).sel(without="", drop=True)
    return part.where(part.label != part.predicted, 0)


def left_out_classes(sums: xr.Dataset) -> xr.DataArray:
    """Return which classes some network was trained without."""
    return sums["count"]["predicted"].isin(list(sums["without"].values))


def mistakes(outcomes: xr.Dataset) -> xr.DataArray:
    """Return how many images of each class (label) are misclassified as each other, and how many of them home (Figure 4a, b)."""
    sums = bootstrap.sums(outcomes, {"home": comes_home(outcomes)})
    both = [mistaken(sums, name) for name in ("count", "home")]
    return xr.concat(both, "images").assign_coords(images=["misclassified", "home"])


def shares_elsewhere(sums: xr.Dataset) -> xr.DataArray:
    """Return in percent what share of the mistakes of the full network others classify correctly, along `trained` as in MASKS."""
    left, both = left_out_classes(sums), ["label", "predicted"]
    total = mistaken(sums, "count").where(left, 0).sum(both)
    parts = {name: 100 * mistaken(sums, name).where(left, 0).sum(both, skipna=False) / total for name in MASKS}
    return combine.concat_named("trained", parts)


def correct_elsewhere(outcomes: xr.Dataset) -> xr.DataArray:
    """Return in percent what share of the mistakes of the full network others classify correctly, along `trained` and bound."""
    values = {name: mask(outcomes) for name, mask in MASKS.items()}
    names = ["without the predicted class", "without another class", "same classes, trained again"]
    return bootstrap.paired_bounds(outcomes, shares_elsewhere, span=(0, 100), values=values).assign_coords(trained=names)
