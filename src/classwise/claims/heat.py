"""What the claims of Tian et al., section 5, measure, like `measures`: the attacks are pgd-20 and temperature-pgd-20.

The latter is along `inverse`, where there is such a dimension; `variance` is that of the confidence of each image.
"""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from classwise import metrics
from classwise.claims.measures import animals, lost_more, mean_over
from classwise.metrics import Measure as OfCounts


def _heated(found: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the counts under plain PGD and under the inverse temperature that leaves each defence the least."""
    plain, hot = found["count"].isel(attack=0), found["count"].isel(attack=1)
    if "inverse" not in hot.dims:
        return plain, hot
    left = metrics.overall(hot)
    return plain.sum("inverse"), hot.isel(inverse=left.fillna(np.inf).argmin("inverse"))


def least_grown_by_heat(found: xr.Dataset, measure: OfCounts) -> xr.DataArray:
    """Return by how much a measure grows under Temperature-PGD in the defence in which it grows least."""
    plain, hot = _heated(found)
    return (measure(hot) - measure(plain)).min("defence", skipna=False)


def least_lost_to_heat(found: xr.Dataset) -> xr.DataArray:
    """Return how many more images Temperature-PGD breaks in the defence in which it gains least."""
    plain, hot = _heated(found)
    return (metrics.overall(plain) - metrics.overall(hot)).min("defence", skipna=False)


def lost_to_heat(found: xr.Dataset) -> xr.DataArray:
    """Return how many more images Temperature-PGD breaks than PGD in the first defence."""
    return least_lost_to_heat(found.isel(defence=[0]))


def lost_to_heat_by_vulnerable(found: xr.Dataset) -> xr.DataArray:
    """Return how much more the vulnerable classes lose to Temperature-PGD than the robust ones, the mean over the defences."""
    return mean_over(lost_more(*_heated(found)), "defence")


def more_lost_to_heat(found: xr.Dataset) -> xr.DataArray:
    """Return how many more points the second defence loses to Temperature-PGD than the first."""
    plain, hot = _heated(found)
    lost = metrics.overall(plain) - metrics.overall(hot)
    return lost.isel(defence=1, drop=True) - lost.isel(defence=0, drop=True)


def _cvc(found: xr.Dataset) -> xr.DataArray:
    """Return the class-wise variance of confidence under the first attack."""
    part = found.isel(attack=0)
    spread, images = part["variance"].sum("predicted"), metrics.images(part["count"])
    if "inverse" in spread.dims:
        spread, images = spread.sum("inverse"), images.sum("inverse")
    return spread / images.where(images > 0)


def smooth_where_weak(found: xr.Dataset) -> xr.DataArray:
    """Return the correlation over classes of the variance of confidence with robust accuracy, the mean over the defences.

    The variance is that under the first attack, the accuracy that under the last.
    """
    count = found["count"].isel(attack=-1)
    rates = metrics.accuracy(count.sum("inverse") if "inverse" in count.dims else count)
    return mean_over(xr.corr(_cvc(found), rates, dim="label"), "defence")


def smoother_animals(found: xr.Dataset) -> xr.DataArray:
    """Return the variance of confidence of the animals over that of the vehicles, in the defence in which it is highest."""
    spread = _cvc(found)
    animal = animals(spread.label)
    return (spread.where(animal).mean("label") / spread.where(~animal).mean("label")).max("defence", skipna=False)


def smoothest(found: xr.Dataset, names: Sequence[str]) -> xr.DataArray:
    """Return the least variance of the other classes over the greatest of the named ones, in the defence in which it is least."""
    spread = _cvc(found)
    named = spread.label.isin(list(names))
    return (spread.where(~named).min("label") / spread.where(named).max("label")).min("defence", skipna=False)


def smoother_than_others(found: xr.Dataset) -> xr.DataArray:
    """Return the mean variance of confidence of the last defence over the smallest of the others."""
    spread = mean_over(_cvc(found), "label")
    return spread.isel(defence=-1, drop=True) / spread.isel(defence=slice(-1)).min("defence", skipna=False)


def steeper_than_others(found: xr.Dataset) -> xr.DataArray:
    """Return the mean variance of confidence of the first defence over the greatest of the others."""
    spread = mean_over(_cvc(found), "label")
    return spread.isel(defence=0, drop=True) / spread.isel(defence=slice(1, None)).max("defence", skipna=False)
