"""How sure a measure is: intervals of class accuracies and of measures over classes.

The unit is the image. Where several seeds were asked, `pooled` says how many independent images their answers are worth, and
`bootstrap` takes outcomes, of which it draws images and seeds. Tests stand beside: `chance` of patterns, `pairing` of networks.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from classwise.stats.metrics import correct, images, overall


def wilson(count: xr.DataArray, level: float = 0.95, *, together: bool = False) -> xr.DataArray:
    """Return the Wilson interval of each class's accuracy, in percent, along a new dimension `bound` ("low", "high").

    The images are taken for independent: of several seeds on the same images, give `pooled` counts. `together` makes the
    intervals hold for all classes at once with the stated level (Bonferroni). Wilson 1927.
    """
    right, total = correct(count), images(count)
    return wilson_bounds(right, total, 1 - (1 - level) / (count.sizes["label"] if together else 1))


def wilson_bounds(right: xr.DataArray, total: xr.DataArray, level: float) -> xr.DataArray:
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


def overall_shares(count: Mapping[str, xr.DataArray], name: str) -> pd.DataFrame:
    """Return the share of all images answered rightly with its interval, a row for each entry, as `shares` has them."""
    parts = [shares({"all": one.expand_dims({name: [title]})}, name) for title, one in count.items()]
    return pd.concat(parts).drop(columns="images of")


def vulnerable(count: xr.DataArray, level: float = 0.95) -> xr.DataArray:
    """Return which classes are surely less robust than the network is overall (Tian 2021, Definition 3.3).

    Surely: the whole Wilson interval of the class, at the `level` for all classes together, lies below the overall accuracy.
    """
    return (wilson(count, level, together=True).sel(bound="high", drop=True) < overall(count)).rename("vulnerable")


def relative_robustness(count: xr.DataArray, level: float = 0.95) -> xr.DataArray:
    """Return how each class stands to the network: 1 surely robust, -1 surely vulnerable, 0 not to be told (Tian 2021, 3.3).

    Surely: the whole Wilson interval of the class, at the `level` for all classes together, lies above, or below, the overall
    accuracy; NaN for a class without images.
    """
    bounds, total = wilson(count, level, together=True), overall(count)
    above, below = bounds.sel(bound="low", drop=True) > total, bounds.sel(bound="high", drop=True) < total
    return (above.astype(float) - below.astype(float)).where(images(count) > 0).rename("standing")
