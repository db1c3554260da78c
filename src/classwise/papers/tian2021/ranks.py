"""The rank correlation of two values of each image, from sums that a bootstrap of images can redraw."""

import numpy as np
import xarray as xr

# The sums that `correlation` needs, each of an image.
NAMES = ("known", "x", "y", "xx", "yy", "xy")


def ranks(value: xr.DataArray, truth: xr.DataArray) -> xr.DataArray:
    """Return the rank of each image among those of its class in the same network, from 0 to 1; NaN where it has no value."""
    from scipy import stats  # slow to import

    wide = value.broadcast_like(truth).transpose(*truth.dims)
    result = xr.full_like(wide, np.nan, dtype=float)
    for label in np.unique(truth.values[truth.values >= 0]):
        in_class = wide.where(truth == label)
        place = in_class.copy(data=stats.rankdata(in_class.values, axis=in_class.get_axis_num("image"), nan_policy="omit"))
        result = result.where(in_class.isnull(), (place - 0.5) / in_class.notnull().sum("image"))
    return result


def products(x: xr.DataArray, y: xr.DataArray, truth: xr.DataArray) -> xr.Dataset:
    """Return the ranks x and y of two values of each image, 0 where it lacks either, and their products; `known`: it has both."""
    known = x.notnull() & y.notnull()
    truth = truth.where(known, -1)
    x, y = (ranks(value, truth).fillna(0) for value in (x, y))
    return xr.Dataset({"known": known.broadcast_like(truth), "x": x, "y": y, "xx": x**2, "yy": y**2, "xy": x * y})


def correlation(sums: xr.Dataset) -> xr.DataArray:
    """Return Spearman's correlation from sums of `products`: of ranks within each network, so that redrawn images keep theirs."""
    number = sums["known"]
    covariance, *variances = (
        sums[one + other] - sums[one] * sums[other] / number for one, other in (("x", "y"), ("x", "x"), ("y", "y"))
    )
    return covariance / np.sqrt(variances[0] * variances[1])
