"""Wilson intervals of accuracies, and tables of them."""

from collections.abc import Mapping
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from classwise.stats.metrics import Metric, accuracy, correct, images, overall, worst


def wilson(count: xr.DataArray, level: float = 0.95, *, together: bool = False) -> xr.DataArray:
    """Return the Wilson interval of each class's accuracy, in percent, along a new dimension `bound` ("low", "high").

    The images are assumed to be independent: for several seeds on the same images, pass those of `pooling.pool`. With
    `together` the intervals hold for all classes simultaneously at the level (Bonferroni). Wilson 1927.
    """
    right, total = correct(count), images(count)
    return wilson_bounds(right, total, 1 - (1 - level) / (count.sizes["label"] if together else 1))


def interval_bounds(low: xr.DataArray, value: xr.DataArray, high: xr.DataArray) -> xr.DataArray:
    """Return an interval along a new dimension `bound` ("low", "value", "high"), as wide as its value needs."""
    ends = [xr.ufuncs.minimum(low, value), value, xr.ufuncs.maximum(high, value)]
    joined: xr.DataArray = xr.concat(ends, "bound").assign_coords(bound=["low", "value", "high"])
    return joined


def wilson_bounds(right: xr.DataArray, total: xr.DataArray, level: float) -> xr.DataArray:
    """Return the Wilson interval of `right` among `total`, in percent, along a new dimension `bound`; NaN without images."""
    ends = [right.copy(data=end) for end in proportion(right.values, total.values, level)]
    return xr.concat(ends, dim="bound").assign_coords(bound=["low", "high"]).where(total > 0).rename("interval")


def rate_bounds(right: xr.DataArray, total: xr.DataArray, level: float = 0.95) -> xr.DataArray:
    """Return `right` among `total` in percent with Wilson's interval, along a new dimension `bound`; NaN without images."""
    ends, value = wilson_bounds(right, total, level), (100 * right / total.where(total > 0)).expand_dims(bound=["value"])
    return xr.concat([ends, value], "bound").sel(bound=["low", "value", "high"])


def wilson_of(measure: Metric, count: xr.DataArray, level: float = 0.95) -> xr.DataArray | None:
    """Return Wilson's interval of a measure that is a proportion: of all images, or of those of the worst class; else None."""
    if measure is overall:
        return wilson_bounds(correct(count).sum("label"), images(count).sum("label"), level)
    if measure is worst:
        return wilson(count, level).isel(label=accuracy(count).fillna(0).argmin("label")).drop_vars("label")
    return None


def proportion(right: ArrayLike, total: ArrayLike, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the Wilson interval of `right` among `total`, in percent; 0 and 100 if the total is 0."""
    # Not by statsmodels, with which the tests compare it: its import takes longer than all else that `classwise show` does.
    normal, number = NormalDist().inv_cdf((1 + level) / 2), np.maximum(total, 1)
    share, spread = np.asarray(right) / number, normal**2 / number
    centre, half = share + spread / 2, normal * np.sqrt((share * (1 - share) + spread / 4) / number)
    low, high = (centre - half) / (1 + spread), (centre + half) / (1 + spread)
    any_images = np.asarray(total) > 0
    # Exactly 100 if all are right and 0 if none is, whatever the rounding.
    low = np.where(any_images & (np.asarray(right) > 0), 100 * low, 0.0)
    return low, np.where(any_images & (np.asarray(right) < total), 100 * high, 100.0)


def matched_difference(gained: xr.DataArray, lost: xr.DataArray, total: xr.DataArray, level: float = 0.95) -> xr.DataArray:
    """Return how many points more of `total` images a second network is right on, and its interval, along bound.

    gained, lost: the numbers of images that only the second, or only the first network is right on. NaN without images. The
    interval adds half an image to each of the four cells (Agresti and Min 2005).
    """
    value, number = (gained - lost) / total.where(total > 0), total + 2
    middle = (gained - lost) / number
    half = NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(((gained + lost + 1) / number - middle**2) / number)
    return 100 * interval_bounds((middle - half).clip(-1), value, (middle + half).clip(max=1))


def rank_ranges(bounds: xr.DataArray, dim: str) -> xr.DataArray:
    """Return the best and the worst rank of each member of a dimension that their intervals leave, along `bound` ("low", "high").

    bounds: with the ends "low" and "high". The best rank is 1 + the number of members whose interval lies above the whole of its
    own, the worst is the number of all minus those whose interval lies below it.
    """
    low, high = (bounds.sel(bound=end, drop=True) for end in ("low", "high"))
    above, below = low.rename({dim: "other"}) > high, high.rename({dim: "other"}) < low
    ranks: xr.DataArray = xr.concat([1 + above.sum("other"), below["other"].size - below.sum("other")], "bound")
    return ranks.assign_coords(bound=["low", "high"])


def shares(count: Mapping[str, xr.DataArray], along: str) -> pd.DataFrame:
    """Return the accuracy in several groups of classes for each member of `along`, one row for each pair.

    `count` maps the name of a group to its counts, of `pooling.pool` if there are several seeds. The columns are "images of"
    (the group), share, low and high (Wilson, 95 %) in percent, and images, rounded for pooled counts.
    """
    rows = []
    for group, counted in count.items():
        for name in counted[along].values:
            part = counted.sel({along: name})
            right, total = float(correct(part).sum()), float(images(part).sum())
            share = 100 * right / total if total else float("nan")
            rows.append((str(name), group, share, *map(float, proportion(right, total)), round(total)))
    columns = [along, "images of", "share", "low", "high", "images"]
    return pd.DataFrame(rows, columns=columns).set_index(along)


def relative_robustness(count: xr.DataArray, level: float = 0.95) -> xr.DataArray:
    """Return for each class 1 if it is significantly robust, -1 if significantly vulnerable, 0 if neither (Tian 2021, 3.3).

    Significantly: the Wilson interval of the class, at the simultaneous `level`, lies entirely above, or below, the overall
    accuracy. NaN for a class without images.
    """
    bounds, total = wilson(count, level, together=True), overall(count)
    above, below = bounds.sel(bound="low", drop=True) > total, bounds.sel(bound="high", drop=True) < total
    return (above.astype(float) - below.astype(float)).where(images(count) > 0).rename("relative_robustness")


# A probability below that of this draw from the end comes from a tail of Student's t through it.
_LAST = 20


def chance_below(truth: np.ndarray, bound: float, freedom: float = np.inf, *, strict: bool = False) -> float:
    """Return the probability that a true value lies at a bound or below it (`strict`: below it), from draws of it.

    Beyond the 20th draw from the end the probability is that of Student's t with `freedom`, which has the median of the draws
    and meets them there. NaN among the draws counts as below, and leaves no tail.
    """
    valid = np.sort(truth[~np.isnan(truth)])
    lost, number = len(truth) - len(valid), 1 + len(truth)
    count = lost + int(np.searchsorted(valid, bound, "left" if strict else "right"))
    middle, scale = _tail(truth, valid, freedom)
    if count >= _LAST or not scale:
        return float(1 + count) / number
    return float(np.clip(_student(freedom).cdf((bound - middle) / scale), 1e-12, (1 + _LAST) / number))


def interval_ends(truth: np.ndarray, alpha: float, freedom: float = np.inf) -> tuple[float, float]:
    """Return the interval that leaves out just those values whose one-sided p (`chance_below`) is below `alpha`.

    NaN among the draws counts against both ends; where there are too few draws for such a p, an end is infinite.
    """
    return _end(truth, alpha, freedom), -_end(-truth, alpha, freedom)


def _end(truth: np.ndarray, alpha: float, freedom: float) -> float:
    valid = np.sort(truth[~np.isnan(truth)])
    middle, scale = _tail(truth, valid, freedom)
    if scale and alpha < (1 + _LAST) / (1 + len(truth)):
        return middle + scale * float(_student(freedom).ppf(alpha))
    place = int(np.ceil(alpha * (1 + len(truth)) - 1 - 1e-9)) - (len(truth) - len(valid))
    return float(valid[place - 1]) if place >= 1 else -np.inf


def _tail(truth: np.ndarray, valid: np.ndarray, freedom: float) -> tuple[float, float]:
    """Return the middle and the scale of the lower tail of draws, in rising order; the scale is 0 where they have none."""
    if len(valid) < max(len(truth), 4 * _LAST):
        return 0.0, 0.0
    # The lower of two, as the draws of an extreme jump there.
    middle = float(valid[(len(valid) - 1) // 2])
    scale = (float(valid[_LAST - 1]) - middle) / float(_student(freedom).ppf((1 + _LAST) / (1 + len(valid))))
    return middle, scale


@cache
def _student(freedom: float) -> Any:
    """Return Student's t; of many degrees of freedom the normal distribution."""
    from scipy import stats  # slow to import

    return stats.t(max(freedom, 1)) if freedom < 1e6 else stats.norm()
