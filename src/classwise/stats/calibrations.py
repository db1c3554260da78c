"""Settings that a calibration gave each class over a training (schema "history 1"): radius and trade-off."""

import numpy as np
import xarray as xr

from classwise.stats import metrics

SETTINGS = ("radius", "beta")


def first_and_last(values: xr.DataArray, share: float = 0.25) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the parts of an array along epoch that are the first and the last `share` of it, at least one epoch each."""
    number = max(1, int(np.floor(share * values.sizes["epoch"])))
    return values.isel(epoch=slice(None, number)), values.isel(epoch=slice(-number, None))


def multiples(setting: xr.DataArray) -> xr.DataArray:
    """Return a setting as a multiple of that of the first epoch, before any calibration; NaN where that is 0.

    setting: with the dimensions epoch and label, and further ones.
    """
    first = setting.isel(epoch=0, drop=True)
    result: xr.DataArray = setting / first.where(first > 0)
    return result


def training_accuracy(history: xr.Dataset) -> xr.DataArray:
    """Return the accuracy of each class on the attacked training images of each epoch, 0 to 1 (t in Wei et al. 2023)."""
    count = _attacked(history)
    result: xr.DataArray = metrics.accuracy(count) / 100
    return result


def _attacked(history: xr.Dataset) -> xr.DataArray:
    """Return the counts of the training images under the inner attack, whatever it is called."""
    count: xr.DataArray = history["count"].sel(split="train", drop=True)
    return count.drop_sel(attack="clean", errors="ignore").sum("attack")


def late_settings(history: xr.Dataset) -> xr.Dataset:
    """Return what each class had in the last quarter of a training, the mean over its epochs; dimension predicted for label.

    radius, beta: as multiples of the uniform ones, which are `uniform_radius` and `uniform_beta`. trained: the accuracy that they
    follow, of `training_accuracy`. sample: the number of training images behind that in an epoch.
    """
    values = {name: multiples(history[name]) for name in SETTINGS} | {"trained": training_accuracy(history)}
    values["sample"] = metrics.images(_attacked(history)).astype(float)
    late = {name: first_and_last(array)[1].mean("epoch") for name, array in values.items()}
    uniform = {f"uniform_{name}": history[name].isel(epoch=0, drop=True).mean("label") for name in SETTINGS}
    return xr.Dataset(late | uniform).rename(label="predicted")
