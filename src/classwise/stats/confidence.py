"""Measures of outcomes, image by image: what counts of answers do not tell."""

import numpy as np
import xarray as xr


def confidence(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the softmax of the logits, in 0 to 1: dimensions image and predicted. Classes without a logit have none."""
    logits = outcomes.logits
    power = np.exp(logits - logits.max("predicted"))
    share: xr.DataArray = power / power.sum("predicted")
    return share.rename("confidence")


def confidence_variance(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the variance of each image's confidence over the classes: small where the answer is smooth."""
    return confidence(outcomes).var("predicted").rename("confidence_variance")


def logit_margin(outcomes: xr.Dataset) -> xr.DataArray:
    """Return by how much the logit of the true class exceeds that of its strongest rival, for each image: below 0, it is lost."""
    number = xr.DataArray(np.arange(outcomes.sizes["predicted"]), dims="predicted", coords={"predicted": outcomes.predicted})
    true = outcomes.truth == number
    own, rival = outcomes.logits.where(true).max("predicted"), outcomes.logits.where(~true).max("predicted")
    found: xr.DataArray = (own - rival).where(outcomes.truth >= 0)
    return found.rename("margin")


def true_confidence(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the confidence in the true class, in percent, for each image."""
    truth = outcomes.truth.where(outcomes.truth >= 0, 0).astype(int)
    sure = 100 * confidence(outcomes).isel(predicted=truth).drop_vars("predicted")
    return sure.where(outcomes.truth >= 0).rename("confidence")


def top_k(outcomes: xr.Dataset, count: int = 2) -> xr.Dataset:
    """Return the classes that each image is most surely taken for, the surest first, along a new dimension `rank` from 1.

    name: of the class. confidence: in percent, the mean over the seeds that were asked. NaN and "" where none was.
    """
    sure = 100 * confidence(outcomes).where(outcomes.truth >= 0)
    sure = (sure.mean("seed") if "seed" in sure.dims else sure).transpose(..., "predicted")
    order = np.argsort(-sure.values, axis=-1, kind="stable")[..., :count]
    dims, there = (*sure.dims[:-1], "rank"), np.isfinite(sure.max("predicted").values)[..., None]
    coords = {dim: sure[dim] for dim in dims[:-1] if dim in sure.coords} | {"rank": range(1, count + 1)}
    names = np.where(there, sure.predicted.values.astype(str)[order], "")
    return xr.Dataset({"name": (dims, names), "confidence": (dims, np.take_along_axis(sure.values, order, -1))}, coords)
