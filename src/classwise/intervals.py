"""How sure a measure is: intervals of class accuracies and of measures over classes.

The unit is the image. Where several seeds were asked, `pooled` says how many independent images their answers are worth, and
`bootstrap` takes outcomes, of which it draws images and seeds. Tests stand beside: `chance` of patterns, `pairing` of networks.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from classwise import metrics, sampling
from classwise.chance import alike_and_mistaken, groups_test, symmetry_test, within_table, within_test
from classwise.metrics import Measure, accuracy, correct, cv, cv_unbiased, images, overall, worst
from classwise.pairing import mcnemar, paired
from classwise.pooling import design, pooled, shared
from classwise.sampling import resample

__all__ = [
    "alike_and_mistaken",
    "bootstrap",
    "design",
    "groups_test",
    "mcnemar",
    "paired",
    "pooled",
    "resample",
    "shared",
    "shares",
    "standing",
    "symmetry_test",
    "totals",
    "vulnerable",
    "wilson",
    "within_table",
    "within_test",
]

# Where a measure cannot lie outside, its interval does not either.
_RANGES = {
    "overall": (0, 100),
    "worst": (0, 100),
    "worst_k": (0, 100),
    "mcd": (0, 100),
    "cv": (0, 2500),
    "symmetry": (-1, 1),
}


def wilson(count: xr.DataArray, level: float = 0.95, *, together: bool = False) -> xr.DataArray:
    """Return the Wilson interval of each class's accuracy, in percent, along a new dimension `bound` ("low", "high").

    The images are taken for independent: of several seeds on the same images, give `pooled` counts. `together` makes the
    intervals hold for all classes at once with the stated level (Bonferroni). Wilson 1927.
    """
    right, total = correct(count), images(count)
    return _bounds(right, total, 1 - (1 - level) / (count.sizes["label"] if together else 1))


def _bounds(right: xr.DataArray, total: xr.DataArray, level: float) -> xr.DataArray:
    ends = [right.copy(data=end) for end in proportion(right.values, total.values, level)]
    return xr.concat(ends, dim="bound").assign_coords(bound=["low", "high"]).where(total > 0).rename("interval")


def proportion(right: ArrayLike, total: ArrayLike, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of Wilson's interval of `right` among `total`, in percent: 0 and 100 where there is nothing to count."""
    from statsmodels.stats.proportion import proportion_confint  # slow to import

    low, high = proportion_confint(np.asarray(right), np.maximum(total, 1), alpha=1 - level, method="wilson")
    there = np.asarray(total) > 0
    # All right is up to 100 and none down to 0, whatever the rounding.
    low = np.where(there & (np.asarray(right) > 0), 100 * np.asarray(low), 0.0)
    return low, np.where(there & (np.asarray(right) < total), 100 * np.asarray(high), 100.0)


def shares(count: Mapping[str, xr.DataArray], along: str) -> pd.DataFrame:
    """Return the share of images answered rightly in several groups of classes, for each member of `along`: a row for each.

    `count` by what the images are of, `pooled` where several seeds were asked; the columns are "images of", share, low and high
    (Wilson, 95 %) in percent, and images, of pooled counts rounded.
    """
    rows = []
    for group, counted in count.items():
        for name in counted[along].values:
            one = counted.sel({along: name})
            right, total = float(correct(one).sum()), float(images(one).sum())
            share = 100 * right / total if total else float("nan")
            rows.append((str(name), group, share, *map(float, proportion(right, total)), round(total)))
    columns = [along, "images of", "share", "low", "high", "images"]
    return pd.DataFrame(rows, columns=columns).set_index(along)


def totals(count: Mapping[str, xr.DataArray], name: str) -> pd.DataFrame:
    """Return the share of all images answered rightly with its interval, a row for each entry, as `shares` has them."""
    parts = [shares({"all": one.expand_dims({name: [title]})}, name) for title, one in count.items()]
    return pd.concat(parts).drop(columns="images of")


def vulnerable(count: xr.DataArray, level: float = 0.95) -> xr.DataArray:
    """Return which classes are surely less robust than the network is overall (Tian 2021, Definition 3.3).

    Surely: the whole Wilson interval of the class, at the `level` for all classes together, lies below the overall accuracy.
    """
    return (wilson(count, level, together=True).sel(bound="high", drop=True) < overall(count)).rename("vulnerable")


def standing(count: xr.DataArray, level: float = 0.95) -> xr.DataArray:
    """Return how each class stands to the network: 1 surely robust, -1 surely vulnerable, 0 not to be told (Tian 2021, 3.3).

    Surely: the whole Wilson interval of the class, at the `level` for all classes together, lies above, or below, the overall
    accuracy; NaN for a class without images.
    """
    bounds, total = wilson(count, level, together=True), overall(count)
    above, below = bounds.sel(bound="low", drop=True) > total, bounds.sel(bound="high", drop=True) < total
    return (above.astype(float) - below.astype(float)).where(images(count) > 0).rename("standing")


def bootstrap(
    data: xr.DataArray | xr.Dataset,
    measure: Measure,
    over: Sequence[str] = (),
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
    *,
    alike: bool = False,
) -> xr.DataArray:
    """Return low, value and high of a measure along a new dimension `bound`, from a bootstrap over the images of each class.

    data: outcomes, whose seeds are pooled: images are drawn, and seeds as clusters, and an image that several seeds were asked
    about is drawn for all of them at once. Or counts; then `over` are the dimensions such as "seed" that are pooled and
    resampled as clusters, and `alike` says that their members share their images (`resample`). The basic (reverse percentile)
    interval is taken: the smallest class and the spread of classes are biased by sampling, and a percentile interval would add
    that bias a second time (Davison and Hinkley 1997, 5.2). Where the seeds do not differ, resampling both seeds and images is
    cautious: the interval is wider than it need be.

    A proportion has Wilson's interval: "overall" of a single cluster that one alone; over several clusters, and for the worst
    class, the wider end of either. Where no draw differs from any other, since every class is always right or never, the interval
    reaches as far as the measure would if one more image of each class had been answered right and one wrong.
    """
    if isinstance(data, xr.Dataset) and not shared(data):
        seeds = ["seed"] if "seed" in data.dims else []
        return bootstrap(metrics.counts(data), measure, seeds, level, draws, seed)
    single = not isinstance(data, xr.Dataset) and all(data.sizes[dim] == 1 for dim in over if dim in data.dims)
    if isinstance(data, xr.Dataset):
        whole, effect = pooled(data), design(data)
        parts = (measure(some["count"] / effect) for some in sampling.drawn(data, {}, draws, seed))
        drawn = xr.concat(list(parts), "draw")
    else:
        whole = data.mean(list(over)) if alike else data.sum(list(over))
        drawn = measure(resample(data, over, draws, seed, alike=alike))
    value = measure(whole)
    bottom, top = _RANGES.get(str(value.name), (-np.inf, np.inf))
    sure = _sure(measure, whole, level)
    ends = None if measure is overall and single else _basic(whole, measure, drawn, level, seed)
    low, high = (_wider(name, ends, sure) for name in ("low", "high"))
    # What sampling adds, taken off, may leave the value itself outside.
    bounds = [xr.ufuncs.minimum(low.clip(bottom, top), value), value, xr.ufuncs.maximum(high.clip(bottom, top), value)]
    found: xr.DataArray = xr.concat(bounds, dim="bound").assign_coords(bound=["low", "value", "high"])
    return found.rename(value.name)


def _basic(whole: xr.DataArray, measure: Measure, drawn: xr.DataArray, level: float, seed: int) -> xr.DataArray:
    """Return the ends of the basic interval of a measure of counts from its draws, of a looser one where nothing varies."""
    value = measure(whole)
    # What the estimator aims at in the world of the bootstrap: the resampled counts come from the observed rates.
    aim = cv(whole) if measure is cv_unbiased else value
    tails = [(1 - level) / 2, (1 + level) / 2]
    ends = (value - (drawn - aim).quantile(tails[::-1], dim="draw")).drop_vars("quantile").rename(quantile="bound")
    ends = ends.assign_coords(bound=["low", "high"])
    still = (drawn == drawn.isel(draw=0)).all("draw")
    if not bool(still.any()):
        return ends
    loose = measure(resample(whole, (), drawn.sizes["draw"], seed, loose=True)).quantile(tails, dim="draw")
    loose = loose.drop_vars("quantile").rename(quantile="bound").assign_coords(bound=["low", "high"])
    reached = xr.concat([xr.ufuncs.minimum(loose.isel(bound=0), value), xr.ufuncs.maximum(loose.isel(bound=1), value)], "bound")
    return ends.where(~still, reached)


def _sure(measure: Measure, whole: xr.DataArray, level: float) -> xr.DataArray | None:
    """Return Wilson's interval where a measure is a proportion: of all images, or of those of the worst class."""
    if measure is overall:
        return _bounds(correct(whole).sum("label"), images(whole).sum("label"), level)
    if measure is worst:
        return wilson(whole, level).isel(label=accuracy(whole).fillna(0).argmin("label")).drop_vars("label")
    return None


def _wider(name: str, *ends: xr.DataArray | None) -> xr.DataArray:
    """Return the lowest "low", or the highest "high", of intervals."""
    there = xr.concat([one.sel(bound=name, drop=True) for one in ends if one is not None], "of")
    return there.min("of") if name == "low" else there.max("of")
