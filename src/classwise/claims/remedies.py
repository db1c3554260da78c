"""What the claims of Tian et al., section 6, measure, like `measures`."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from classwise import metrics
from classwise.claims.measures import either

# Section 6.1: along `without`, "" is the full network, "nothing" the same trained again, any other name the class left out.


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
    """Return the share of mistakes that come home when their class is left out, less what training again brings home."""
    left = _left_out(found)
    total = _mistaken(found, "count").where(left, 0).sum(["label", "predicted"])
    more = _mistaken(found, "home") - _mistaken(found, "again")
    return 100 * more.where(left, 0).sum(["label", "predicted"]) / total


def homing_of(found: xr.Dataset, label: str, predicted: str) -> xr.DataArray:
    """Return the share of the images of a class taken for another that come home when that one is left out."""
    place = {"label": label, "predicted": predicted}
    return 100 * _mistaken(found, "home").sel(place, drop=True) / _mistaken(found, "count").sel(place, drop=True)


def pairs_home(found: xr.Dataset, pairs: Sequence[tuple[str, str]]) -> xr.DataArray:
    """Return what share of the images that come home do so within the named pairs, in percent, less the share of such pairs."""
    home = _mistaken(found, "home")
    within = sum((either(home, *some) for some in pairs), start=xr.zeros_like(home.label == home.predicted))
    both, size = ["label", "predicted"], home.sizes["label"]
    return 100 * home.where(within).sum(both) / home.sum(both) - 100 * 2 * len(pairs) / (size * (size - 1))


# The trade-off of one class lowered: along `betas`, "" is the usual one, "5:0.5" that of class 5 changed.


def _swept(found: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray, int]:
    """Return the counts at the usual trade-off and at the lowest one of a class, and which class that is."""
    count = found["count"].isel(defence=0, attack=0)
    changed = {name: name.split(":") for name in (str(one) for one in count["betas"].values) if name}
    lowest = min(changed, key=lambda name: float(changed[name][1]))
    number = int(changed[lowest][0])
    return count.sel(betas="", drop=True), count.sel(betas=lowest, drop=True), number


def _vulnerable(found: xr.Dataset, rates: xr.DataArray) -> xr.DataArray:
    """Return the number of the most vulnerable class: that which the coordinate `vulnerable` names, else that of lowest rate."""
    if "vulnerable" in found.coords:
        named: xr.DataArray = (rates.label == found["vulnerable"]).argmax("label")
        return named
    return rates.fillna(np.inf).argmin("label")


def victim_gains(found: xr.Dataset) -> xr.DataArray:
    """Return how much the most vulnerable of the other classes gains when the trade-off of one is lowered."""
    usual, changed, number = _swept(found)
    before, after = metrics.accuracy(usual), metrics.accuracy(changed)
    others = before.where(before.label != before.label[number])
    return (after - before).isel(label=_vulnerable(found, others)).drop_vars("label")


def changed_gains(found: xr.Dataset) -> xr.DataArray:
    """Return how much the class gains whose own trade-off is lowered."""
    usual, changed, number = _swept(found)
    return (metrics.accuracy(changed) - metrics.accuracy(usual)).isel(label=number, drop=True)


def evener(found: xr.Dataset) -> xr.DataArray:
    """Return by how much the class-wise variance grows when the trade-off of a class is lowered."""
    usual, changed, _ = _swept(found)
    return metrics.cv(changed) - metrics.cv(usual)


# Section 6.2: classes carry the coordinate `background`; along `treatment`, the first is images as they are, then white ones.


def _along_background(count: xr.DataArray) -> xr.DataArray:
    """Return the share of mistakes that go to a class with the same background, less what an even spread would send there."""
    mixed = metrics.misclassified(count)
    mate = xr.DataArray(count.background.values, dims="predicted", coords={"predicted": count.predicted.values})
    same = (count.background == mate) & (mixed.label != mixed.predicted)
    both = ["label", "predicted"]
    share: xr.DataArray = 100 * mixed.where(same, 0).sum(both) / mixed.sum(both)
    even: xr.DataArray = 100 * same.sum() / (mixed.sizes["label"] * (mixed.sizes["label"] - 1))
    return share - even


def follows_background(found: xr.Dataset) -> xr.DataArray:
    """Return how much more of the mistakes than by chance stay with classes of the same background."""
    return _along_background(found["count"].isel(defence=0, attack=0))


def follows_more_attacked(found: xr.Dataset) -> xr.DataArray:
    """Return how many more of a hundred images the second attack than the first takes to a class of the same background."""
    count = found["count"].isel(defence=0)
    mate = xr.DataArray(count.background.values, dims="predicted", coords={"predicted": count.predicted.values})
    mixed = metrics.misclassified(count)
    pulled = mixed.where(count.background == mate, 0).sum("predicted").mean("label", skipna=False)
    return pulled.isel(attack=1, drop=True) - pulled.isel(attack=0, drop=True)


def treated(found: xr.Dataset, attack: int = 1, treatment: int = 1, before: int = 0) -> xr.DataArray:
    """Return how many points the most vulnerable class gains by a treatment of its images.

    Most vulnerable: of the images as they are, under the second attack.
    """
    rates = metrics.accuracy(found["count"].isel(defence=0))
    worst = _vulnerable(found, rates.isel(attack=1, treatment=0))
    gain = rates.isel(attack=attack, treatment=treatment, drop=True) - rates.isel(attack=attack, treatment=before, drop=True)
    return gain.isel(label=worst).drop_vars("label")


def treated_more_attacked(found: xr.Dataset) -> xr.DataArray:
    """Return how many points more the most vulnerable class gains by the treatment under attack than without."""
    return treated(found, attack=1) - abs(treated(found, attack=0))


def whiter_surer(found: xr.Dataset) -> xr.DataArray:
    """Return the correlation, in the most vulnerable class, of an image's confidence under attack with how white it is around."""
    first = {name: 0 for name in ("defence", "attack", "treatment") if name in found.dims}
    part = found.isel(first)
    count = part["count"]
    worst = _vulnerable(found, metrics.accuracy(count))
    total = {name: part[name].sum("predicted").isel(label=worst).drop_vars("label") for name in part.data_vars}
    n, x, y = total["count"], total["white"], total["sure"]
    both = total["white_sure"] - x * y / n
    return both / np.sqrt((total["white_white"] - x**2 / n) * (total["sure_sure"] - y**2 / n))
