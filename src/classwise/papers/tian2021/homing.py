"""Homing: what becomes of images misclassified as a class when a network is trained without it (Tian 2021, Definition 6.1).

Outcomes have along `without` the network of all classes, "", networks trained without the class of that name, and the same
training repeated: "again 1", ... They are compared image by image, each network attacked on its own.
"""

import numpy as np
import xarray as xr

from classwise.core.errors import UserError
from classwise.papers.selection import mark_pair
from classwise.stats import bootstrap, combine, metrics
from classwise.stats.aggregate import counts


def left_out_runs(without: xr.Dataset, along: str = "classes") -> xr.Dataset:
    """Return outcomes of networks that lack a class each, named and sorted by that class, in place of `along`.

    A UserError where some network lacks no class or more than one, or where two lack the same.
    """
    present = counts(without).sum([dim for dim in ("seed", "attack", "defence", "predicted") if dim in without.dims]) > 0
    names = [str(name) for name in without.predicted.values]
    lacking = [[name for name in names if not bool(row.sel(label=name))] for row in present.transpose(along, "label")]
    if [len(some) for some in lacking] != [1] * len(lacking) or len({some[0] for some in lacking}) < len(lacking):
        raise UserError(f"homing needs networks that lack one class each, got networks that lack {lacking}")
    result = without.assign_coords({along: [some[0] for some in lacking]}).rename({along: "removed"})
    return result.sel(removed=[name for name in names if [name] in lacking])


def classes_left_out(outcomes: xr.Dataset) -> list[str]:
    """Return the classes without which a network was trained, in the order of the classes."""
    present = [str(name) for name in outcomes["without"].values]
    return [str(name) for name in outcomes.predicted.values if name in present]


def arranged(full: xr.Dataset, again: xr.Dataset, without: xr.Dataset) -> xr.Dataset:
    """Return networks without a class next to the full one and its repetitions."""
    lacking = left_out_runs(without)
    single = {str(name): lacking.sel(removed=name, drop=True) for name in lacking.removed.values}
    repeated = {f"again {number}": again.sel(redraw=number, drop=True) for number in again.redraw.values}
    return mark_pair(combine.combine("without", {"": full, **repeated, **single}))


def _withstands(outcomes: xr.Dataset, name: str) -> xr.DataArray:
    """Return on which images the network of a name withstands the attack."""
    of_network = outcomes.sel(without=name, drop=True)
    robust: xr.DataArray = ~of_network.flipped & (of_network.truth >= 0)
    return robust


def comes_home(outcomes: xr.Dataset) -> xr.DataArray:
    """Return which images the full network misclassifies and the network without the predicted class classifies correctly."""
    full = outcomes.sel(without="", drop=True)
    home: xr.DataArray = xr.zeros_like(full.flipped)
    for name in classes_left_out(outcomes):
        home = home | (full.flipped & (full.answer == list(outcomes.predicted.values).index(name)) & _withstands(outcomes, name))
    return home


def trained_again(outcomes: xr.Dataset) -> xr.DataArray:
    """Return for each mistake of the full network the share of its repetitions that classify the image correctly."""
    left, full = classes_left_out(outcomes), outcomes.sel(without="", drop=True)
    again = [str(name) for name in outcomes["without"].values if name and name not in left]
    stands = xr.concat([_withstands(outcomes, name) for name in again], "again") if again else xr.zeros_like(full.flipped)
    share: xr.DataArray = stands.mean("again") if again else stands * np.nan
    return share.where(full.flipped, 0)


def without_another(outcomes: xr.Dataset) -> xr.DataArray:
    """Return for each mistake of the full network the share of the networks without a third class that are correct."""
    full, names = outcomes.sel(without="", drop=True), [str(name) for name in outcomes.predicted.values]
    stood = evaluated = xr.zeros_like(full.truth, dtype=float)
    for name in classes_left_out(outcomes):
        third = (outcomes.truth.sel(without=name, drop=True) >= 0) & (full.answer != names.index(name))
        stood, evaluated = stood + (_withstands(outcomes, name) & third), evaluated + third
    share: xr.DataArray = (stood / evaluated.where(evaluated > 0)).where(full.flipped, 0)
    return share


# By the name of its sum, the share of other networks of a kind that classify a mistake of the full network correctly.
MASKS = {"home": comes_home, "again": trained_again, "another": without_another}


def mistaken(sums: xr.Dataset, name: str) -> xr.DataArray:
    """Return a sum over the mistakes of the full network, first defence and attack."""
    part = sums[name].isel(defence=0, attack=0, drop=True).sel(without="", drop=True)
    return part.where(part.label != part.predicted, 0)


def left_out(sums: xr.Dataset) -> xr.DataArray:
    """Return which classes some network was trained without."""
    left: xr.DataArray = sums["count"].predicted.isin(list(sums["without"].values))
    return left


def mistakes(outcomes: xr.Dataset) -> xr.DataArray:
    """Return how many images of each class (label) are misclassified as each other, and how many of them home (Figure 4a, b)."""
    sums = bootstrap.sums(outcomes, {"home": comes_home(outcomes)})
    both = [mistaken(sums, name) for name in ("count", "home")]
    return xr.concat(both, "images").assign_coords(images=["misclassified", "home"])


def correct_elsewhere(outcomes: xr.Dataset) -> xr.DataArray:
    """Return in percent what share of the mistakes of the full network others classify correctly, along `trained` and bound."""
    names = {"home": "without the predicted class", "another": "without another class", "again": "same classes, trained again"}

    def shares(sums: xr.Dataset) -> xr.DataArray:
        left, both = left_out(sums), ["label", "predicted"]
        total = mistaken(sums, "count").where(left, 0).sum(both)
        parts = [100 * mistaken(sums, name).where(left, 0).sum(both) / total for name in names]
        return xr.concat(parts, "trained").assign_coords(trained=list(names.values()))

    values = {name: mask(outcomes) for name, mask in MASKS.items()}
    return bootstrap.paired(outcomes, shares, span=(0, 100), values=values)


def gained_without(outcomes: xr.Dataset) -> xr.DataArray:
    """Return how many points each class (label) gains in robust accuracy by training without another (removed); seeds pooled."""
    rates = metrics.accuracy(bootstrap.sums(outcomes, {})["count"].isel(defence=0, attack=0, drop=True))
    gain = rates.sel(without=classes_left_out(outcomes)) - rates.sel(without="", drop=True)
    return gain.rename(without="removed")
