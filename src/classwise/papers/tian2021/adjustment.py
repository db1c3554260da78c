"""What the claims of Tian et al., section 6, measure, like `measures`."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from classwise.papers.claims import MeasurementError
from classwise.papers.measures import either
from classwise.stats import metrics


def _mistaken(found: xr.Dataset, name: str) -> xr.DataArray:
    """Return a sum over the mistakes of the full network, first defence and attack."""
    part = found[name].isel(defence=0, attack=0).sel(without="", drop=True)
    mistaken: xr.DataArray = part.where(part.label != part.predicted, 0)
    return mistaken


def _left_out(found: xr.Dataset) -> xr.DataArray:
    """Return which classes some network was trained without."""
    count = found["count"]
    left: xr.DataArray = count.predicted.isin(list(count["without"].values))
    return left


def homing(found: xr.Dataset) -> xr.DataArray:
    """Return the share of mistakes that come home when their class is left out, less what the stronger control brings home.

    The controls: all classes trained again (`again`), and another class left out (`another`).
    """
    left, both = _left_out(found), ["label", "predicted"]
    names = ("count", "home", "again", "another")
    total, home, again, another = (_mistaken(found, name).where(left, 0).sum(both, skipna=False) for name in names)
    share: xr.DataArray = 100 * (home - xr.ufuncs.maximum(again, another)) / total
    return share


def one_to_one(found: xr.Dataset) -> xr.DataArray:
    """Return how many more of a hundred images come home to a class of the pair from the other one than from any third class.

    Of the two classes, the one for which it is less.
    """
    images = metrics.images(found["count"].isel(defence=0, attack=0).sel(without="", drop=True))
    share = 100 * _mistaken(found, "home") / images
    classes = [int(found.coords[name].argmax("label")) for name in ("vulnerable", "partner")]
    margins = []
    for own, other in (classes, classes[::-1]):
        row = share.isel(label=own, drop=True)
        third = row.where(~row.predicted.isin(row.predicted.values[classes]))
        margins.append(row.isel(predicted=other, drop=True) - third.max("predicted"))
    less: xr.DataArray = xr.ufuncs.minimum(*margins)
    return less


def partner_home(found: xr.Dataset) -> xr.DataArray:
    """Return what share of the homes of a class of the pair come from the other one, less that one's share of its mistakes.

    In percent; of the two classes, the one for which it is less.
    """
    home, mistaken = _mistaken(found, "home"), _mistaken(found, "count").where(_left_out(found), 0)
    classes = [int(found.coords[name].argmax("label")) for name in ("vulnerable", "partner")]
    shares = []
    for own, other in (classes, classes[::-1]):
        rows = [array.isel(label=own, drop=True) for array in (home, mistaken)]
        of_homes, of_mistakes = (row.isel(predicted=other, drop=True) / row.sum("predicted") for row in rows)
        shares.append(100 * (of_homes - of_mistakes))
    less: xr.DataArray = xr.ufuncs.minimum(*shares)
    return less


def homing_of(found: xr.Dataset, label: str, predicted: str) -> xr.DataArray:
    """Return the share of the images of a class taken for another that come home when that one is left out."""
    place = {"label": label, "predicted": predicted}
    return 100 * _mistaken(found, "home").sel(place, drop=True) / _mistaken(found, "count").sel(place, drop=True)


def pairs_home(found: xr.Dataset, pairs: Sequence[tuple[str, str]]) -> xr.DataArray:
    """Return what share of the homes lies within the named pairs, less the share of the mistakes that does, in percent.

    Only mistakes count that could have come home: those taken for a class that was left out of some network.
    """
    home, left = _mistaken(found, "home"), _left_out(found)
    mistaken = _mistaken(found, "count").where(left, 0)
    within = sum((either(home, *some) for some in pairs), start=xr.zeros_like(home.label == home.predicted))
    both = ["label", "predicted"]
    return 100 * home.where(within).sum(both) / home.sum(both) - 100 * mistaken.where(within).sum(both) / mistaken.sum(both)


# What TRADES weighs its robust term with, and section 6.1 all other classes.
_USUAL = 6.0


def _swept(found: xr.Dataset, *, up: bool = False, of: str = "") -> tuple[xr.DataArray, xr.DataArray, int]:
    """Return the counts at the usual trade-off and at the lowest (highest) one of a class, and which class that is.

    of: the coordinate that marks this class ("partner"); of any where there is none.
    """
    count = found["count"].isel(defence=0, attack=0)
    changed = {name: name.split(":") for name in (str(one) for one in count["betas"].values) if name}
    marked = range(count.sizes["label"]) if not of else [int(found.coords[of].argmax("label"))]
    values = {name: float(value) for name, (_, value) in changed.items() if (float(value) > _USUAL) == up}
    values = {name: value for name, value in values.items() if int(changed[name][0]) in marked}
    if not values:
        whose = f" of the {of}" if of else ""
        raise MeasurementError(f"these outcomes have no trade-off {'above' if up else 'below'} {_USUAL:g}{whose}")
    last = (max if up else min)(values, key=lambda name: values[name])
    return count.sel(betas="", drop=True), count.sel(betas=last, drop=True), int(changed[last][0])


def vulnerable_class(found: xr.Dataset) -> int:
    """Return the number of the most vulnerable class, which was not chosen on these images."""
    return int(found.coords["vulnerable"].argmax("label"))


def victim_gains(found: xr.Dataset, *, up: bool = False) -> xr.DataArray:
    """Return how much the most vulnerable class gains when the trade-off of its partner is lowered (`up`: raised)."""
    usual, changed, _ = _swept(found, up=up, of="partner")
    return (metrics.accuracy(changed) - metrics.accuracy(usual)).isel(label=vulnerable_class(found), drop=True)


def changed_gains(found: xr.Dataset) -> xr.DataArray:
    """Return how much the class gains whose own trade-off is lowered."""
    usual, changed, number = _swept(found)
    return (metrics.accuracy(changed) - metrics.accuracy(usual)).isel(label=number, drop=True)


def evener(found: xr.Dataset) -> xr.DataArray:
    """Return by how much the class-wise variance grows when the trade-off of a class is lowered."""
    usual, changed, _ = _swept(found)
    return metrics.cv(changed) - metrics.cv(usual)


def _classes_left_out(outcomes: xr.Dataset) -> list[str]:
    there = [str(name) for name in outcomes["without"].values]
    return [str(name) for name in outcomes.predicted.values if name in there]


def _stands(outcomes: xr.Dataset, name: str) -> xr.DataArray:
    """Return which images the network of a name withstands the attack on."""
    one = outcomes.sel(without=name, drop=True)
    stands: xr.DataArray = ~one.flipped & (one.truth >= 0)
    return stands


def trained_again(outcomes: xr.Dataset) -> xr.DataArray:
    """Return for the mistakes of the full network in what share of its repetitions with all classes they are none."""
    left, whole = _classes_left_out(outcomes), outcomes.sel(without="", drop=True)
    again = [str(name) for name in outcomes["without"].values if name and name not in left]
    stands = xr.concat([_stands(outcomes, name) for name in again], "again") if again else xr.zeros_like(whole.flipped)
    share: xr.DataArray = stands.mean("again") if again else stands * np.nan
    return share.where(whole.flipped, 0)


def without_another(outcomes: xr.Dataset) -> xr.DataArray:
    """Return for the mistakes of the full network in what share of the networks they are none that lack a third class."""
    whole, names = outcomes.sel(without="", drop=True), [str(name) for name in outcomes.predicted.values]
    stood = asked = xr.zeros_like(whole.truth, dtype=float)
    for name in _classes_left_out(outcomes):
        third = (outcomes.truth.sel(without=name, drop=True) >= 0) & (whole.answer != names.index(name))
        stood, asked = stood + (_stands(outcomes, name) & third), asked + third
    share: xr.DataArray = (stood / asked.where(asked > 0)).where(whole.flipped, 0)
    return share
