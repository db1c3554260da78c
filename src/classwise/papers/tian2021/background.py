"""What the claims of Tian et al., section 6, measure, like `measures`."""

import numpy as np
import xarray as xr

from classwise.papers.tian2021.adjustment import vulnerable_class
from classwise.stats import confidence, metrics


def _mates(count: xr.DataArray) -> xr.DataArray:
    """Return which cells take an image for another class of the same background."""
    other = xr.DataArray(count.background.values, dims="predicted", coords={"predicted": count.predicted.values})
    same: xr.DataArray = (count.background == other) & (count.label != count.predicted)
    return same


def _pulled(count: xr.DataArray) -> xr.DataArray:
    """Return how many of a hundred images of a class are taken for one of the same background, the mean over the classes."""
    mixed = metrics.off_diagonal_confusion(count)
    return mixed.where(_mates(count), 0).sum("predicted", skipna=False).mean("label", skipna=False)


def follows_background(found: xr.Dataset) -> xr.DataArray:
    """Return how much more of the mistakes go to classes of the same background than to those where other classes share one."""
    count = found["count"].isel(defence=0, attack=0)
    mixed, both = metrics.off_diagonal_confusion(count), ["label", "predicted"]
    share = 100 * mixed.where(_mates(count), 0).sum(both) / mixed.sum(both)
    return share.isel(dress=0, drop=True) - share.isel(dress=1, drop=True)


def all_follow(found: xr.Dataset) -> xr.DataArray:
    """Return how many more of a hundred images go to a class of the same background than to any other, in the class of fewest."""
    count = found["count"].isel(defence=0, attack=0, dress=0)
    mixed, mates = metrics.off_diagonal_confusion(count), _mates(count)
    third = mixed.where(~mates & (mixed.label != mixed.predicted)).max("predicted")
    return (mixed.where(mates).max("predicted") - third).min("label", skipna=False)


def follows_more_attacked(found: xr.Dataset) -> xr.DataArray:
    """Return how many more of a hundred images the background draws to its classes under the second attack than the first.

    What it draws: how many more are taken for one another than where other classes share it.
    """
    drawn = _pulled(found["count"].isel(defence=0))
    drawn = drawn.isel(dress=0, drop=True) - drawn.isel(dress=1, drop=True)
    return drawn.isel(attack=1, drop=True) - drawn.isel(attack=0, drop=True)


def coloured_backgrounds(found: xr.Dataset) -> xr.DataArray:
    """Return how many points of accuracy the first dress has more than the second."""
    rate = metrics.overall(found["count"].isel(defence=0, attack=0))
    return rate.isel(dress=0, drop=True) - rate.isel(dress=1, drop=True)


def without_background(found: xr.Dataset) -> xr.DataArray:
    """Return the accuracy of the first defence under the last attack, images as they are."""
    count = found["count"].isel(defence=0, attack=-1)
    return metrics.overall(count.isel(treatment=0, drop=True) if "treatment" in count.dims else count)


def treated(found: xr.Dataset, attack: int = -1, treatment: int = 1, before: int = 0) -> xr.DataArray:
    """Return how many points the most vulnerable class gains by a treatment of its images."""
    rates = metrics.accuracy(found["count"].isel(defence=0, attack=attack)).isel(label=vulnerable_class(found), drop=True)
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
    part = found.isel(first, drop=True).isel(label=vulnerable_class(found), drop=True)
    total = {name: part[name].sum("predicted") for name in part.data_vars}
    n, x, y = total["known"], total["white"], total["sure"]
    both = total["white_sure"] - x * y / n
    return both / np.sqrt((total["white_white"] - x**2 / n) * (total["sure_sure"] - y**2 / n))


def _ranks(value: xr.DataArray, truth: xr.DataArray) -> xr.DataArray:
    """Return the rank of each image among those of its class in the same network, from 0 to 1; NaN where it has no value."""
    from scipy import stats  # slow to import

    wide = value.broadcast_like(truth).transpose(*truth.dims)
    found = xr.full_like(wide, np.nan, dtype=float)
    for label in np.unique(truth.values[truth.values >= 0]):
        own = wide.where(truth == label)
        place = own.copy(data=stats.rankdata(own.values, axis=own.get_axis_num("image"), nan_policy="omit"))
        found = found.where(own.isnull(), (place - 0.5) / own.notnull().sum("image"))
    return found


def sure_and_white(outcomes: xr.Dataset) -> xr.Dataset:
    """Return the ranks `sure`, of the confidence in the true class, and `white`, 0 where an image lacks either; and `known`."""
    sure, white = confidence.true_confidence(outcomes), outcomes["white"]
    known = sure.notnull() & white.notnull()
    truth = outcomes.truth.where(known, -1)
    ranks = {name: _ranks(value, truth).fillna(0) for name, value in (("sure", sure), ("white", white))}
    return xr.Dataset({**ranks, "known": known.broadcast_like(truth)})
