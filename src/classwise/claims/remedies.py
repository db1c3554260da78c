"""What the claims of Tian et al., section 6, measure, like `measures`."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from classwise import metrics
from classwise.claims.claim import MeasurementError
from classwise.claims.measures import either

# Section 6.1: along `without`, "" is the full network, the name of a class the network without it. Classes carry the coordinates
# `vulnerable` and `partner`, true for the most vulnerable one and for the one it is mixed up with most.


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


# The trade-off of one class changed: along `betas`, "" is the usual one, "5:0.5" that of class 5 changed.

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


def _vulnerable(found: xr.Dataset) -> int:
    """Return the number of the most vulnerable class, which was not chosen on these images."""
    return int(found.coords["vulnerable"].argmax("label"))


def victim_gains(found: xr.Dataset, *, up: bool = False) -> xr.DataArray:
    """Return how much the most vulnerable class gains when the trade-off of its partner is lowered (`up`: raised)."""
    usual, changed, _ = _swept(found, up=up, of="partner")
    return (metrics.accuracy(changed) - metrics.accuracy(usual)).isel(label=_vulnerable(found), drop=True)


def changed_gains(found: xr.Dataset) -> xr.DataArray:
    """Return how much the class gains whose own trade-off is lowered."""
    usual, changed, number = _swept(found)
    return (metrics.accuracy(changed) - metrics.accuracy(usual)).isel(label=number, drop=True)


def evener(found: xr.Dataset) -> xr.DataArray:
    """Return by how much the class-wise variance grows when the trade-off of a class is lowered."""
    usual, changed, _ = _swept(found)
    return metrics.cv(changed) - metrics.cv(usual)


# Section 6.2: classes carry the coordinate `background`; along `dress`, drawings before that of their class come first, then the
# control, in which other classes share one, or none do. Along `treatment`: images as they are, white around, both remedies.


def _mates(count: xr.DataArray) -> xr.DataArray:
    """Return which cells take an image for another class of the same background."""
    other = xr.DataArray(count.background.values, dims="predicted", coords={"predicted": count.predicted.values})
    same: xr.DataArray = (count.background == other) & (count.label != count.predicted)
    return same


def _pulled(count: xr.DataArray) -> xr.DataArray:
    """Return how many of a hundred images of a class are taken for one of the same background, the mean over the classes."""
    mixed = metrics.misclassified(count)
    return mixed.where(_mates(count), 0).sum("predicted", skipna=False).mean("label", skipna=False)


def follows_background(found: xr.Dataset) -> xr.DataArray:
    """Return how much more of the mistakes go to classes of the same background than to those where other classes share one."""
    count = found["count"].isel(defence=0, attack=0)
    mixed, both = metrics.misclassified(count), ["label", "predicted"]
    share = 100 * mixed.where(_mates(count), 0).sum(both) / mixed.sum(both)
    return share.isel(dress=0, drop=True) - share.isel(dress=1, drop=True)


def all_follow(found: xr.Dataset) -> xr.DataArray:
    """Return how many more of a hundred images go to a class of the same background than to any other, in the class of fewest."""
    count = found["count"].isel(defence=0, attack=0, dress=0)
    mixed, mates = metrics.misclassified(count), _mates(count)
    third = mixed.where(~mates & (mixed.label != mixed.predicted)).max("predicted")
    return (mixed.where(mates).max("predicted") - third).min("label", skipna=False)


def follows_more_attacked(found: xr.Dataset) -> xr.DataArray:
    """Return how many more of a hundred images the background draws to its classes under the second attack than the first.

    What it draws: how many more are taken for one another than where other classes share it.
    """
    drawn = _pulled(found["count"].isel(defence=0))
    drawn = drawn.isel(dress=0, drop=True) - drawn.isel(dress=1, drop=True)
    return drawn.isel(attack=1, drop=True) - drawn.isel(attack=0, drop=True)


def dressed(found: xr.Dataset) -> xr.DataArray:
    """Return how many points of accuracy the first dress has more than the second."""
    rate = metrics.overall(found["count"].isel(defence=0, attack=0))
    return rate.isel(dress=0, drop=True) - rate.isel(dress=1, drop=True)


def plainly(found: xr.Dataset) -> xr.DataArray:
    """Return the accuracy of the first defence under the last attack, images as they are."""
    count = found["count"].isel(defence=0, attack=-1)
    return metrics.overall(count.isel(treatment=0, drop=True) if "treatment" in count.dims else count)


def treated(found: xr.Dataset, attack: int = -1, treatment: int = 1, before: int = 0) -> xr.DataArray:
    """Return how many points the most vulnerable class gains by a treatment of its images."""
    rates = metrics.accuracy(found["count"].isel(defence=0, attack=attack)).isel(label=_vulnerable(found), drop=True)
    return rates.isel(treatment=treatment, drop=True) - rates.isel(treatment=before, drop=True)


def changed_more_attacked(found: xr.Dataset) -> xr.DataArray:
    """Return how many points more the most vulnerable class changes by the treatment under attack, be it up or down."""
    without, under = (abs(treated(found, attack=attack)) for attack in (0, 1))
    return under - without


def whiter_surer(found: xr.Dataset) -> xr.DataArray:
    """Return the rank correlation, in the most vulnerable class, of the confidence under attack with the whiteness around.

    Spearman's, of ranks within each network (`traits.sure_and_white`): images that are drawn anew keep theirs.
    """
    first = {name: 0 for name in ("defence", "attack", "treatment") if name in found.dims}
    part = found.isel(first, drop=True).isel(label=_vulnerable(found), drop=True)
    total = {name: part[name].sum("predicted") for name in part.data_vars}
    n, x, y = total["known"], total["white"], total["sure"]
    both = total["white_sure"] - x * y / n
    return both / np.sqrt((total["white_white"] - x**2 / n) * (total["sure_sure"] - y**2 / n))
