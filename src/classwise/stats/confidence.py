"""Measures of the logits of each image, which counts of predictions do not hold."""

import numpy as np
import xarray as xr

from classwise.stats import intervals, pooling


def confidence(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the softmax of the logits, in 0 to 1: dimensions image and predicted. Classes without a logit are NaN."""
    logits = outcomes.logits
    power = np.exp(logits - logits.max("predicted"))
    share: xr.DataArray = power / power.sum("predicted")
    return share.rename("confidence")


def log_confidence(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the logarithm of the softmax of the logits: dimensions image and predicted. Classes without a logit are NaN."""
    shifted = outcomes.logits - outcomes.logits.max("predicted")
    logs: xr.DataArray = shifted - xr.ufuncs.log(xr.ufuncs.exp(shifted).sum("predicted", min_count=1))
    return logs.rename("log_confidence")


def entropy(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the entropy of the softmax for each image, in nats: from 0 to ln of the number of classes; NaN for no such image."""
    logs = log_confidence(outcomes)
    nats: xr.DataArray = -(xr.ufuncs.exp(logs) * logs).sum("predicted", min_count=1)
    return nats.where(outcomes.truth >= 0).rename("entropy")


def confidence_variance(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the variance of each image's confidence over the classes: small if the softmax is smooth."""
    return confidence(outcomes).var("predicted").rename("confidence_variance")


def class_variance(outcomes: xr.Dataset, level: float = 0.95) -> xr.DataArray:
    """Return low, value and high of the class-wise variance of confidence, all seeds together, along a new dimension `bound`.

    The mean of `confidence_variance` over the images of each class with its normal interval, which seeds that differ or share
    images widen (`pooling.design_effect`). Tian 2021, Definition 5.1, with the mean confidence of an image taken over the
    classes (the paper's text divides by N).
    """
    from scipy import stats  # slow to import

    spread, numbers = confidence_variance(outcomes), np.arange(outcomes.sizes["predicted"])
    of_class = xr.DataArray(numbers, dims="label", coords={"label": outcomes.predicted.values})
    in_class = spread.where(outcomes.truth == of_class)
    over = [dim for dim in ("seed", "image") if dim in in_class.dims]
    error = in_class.std(over, ddof=1) * np.sqrt(pooling.design_effect_of(spread, outcomes) / in_class.count(over))
    mean, reach = in_class.mean(over), stats.norm.ppf(0.5 + level / 2) * error
    return intervals.interval_bounds((mean - reach).clip(0), mean, mean + reach).rename("cvc")


def logit_margin(outcomes: xr.Dataset) -> xr.DataArray:
    """Return for each image the logit of the true class minus the largest other one: negative if misclassified."""
    number = xr.DataArray(np.arange(outcomes.sizes["predicted"]), dims="predicted", coords={"predicted": outcomes.predicted})
    is_true = outcomes.truth == number
    true, rival = outcomes.logits.where(is_true).max("predicted"), outcomes.logits.where(~is_true).max("predicted")
    margin: xr.DataArray = (true - rival).where(outcomes.truth >= 0)
    return margin.rename("margin")


def true_confidence(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the confidence in the true class, in percent, for each image."""
    truth = outcomes.truth.where(outcomes.truth >= 0, 0).astype(int)
    percent = 100 * confidence(outcomes).isel(predicted=truth).drop_vars("predicted")
    return percent.where(outcomes.truth >= 0).rename("confidence")


def stack_components(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes along a new first dimension `component`, with the logit of that class for each image as `logit`.

    Sums over images, which bootstraps redraw, are of one number of each image: `mean_logits` takes those of `logit`.
    """
    logit = outcomes.logits.rename(predicted="component").transpose("component", ...)
    components, names = logit.component.values, ("truth", "prediction", "misclassified")
    copied = {name: outcomes[name].expand_dims(component=components) for name in names}
    return outcomes.assign(copied).drop_vars("logits").assign(logit=logit)


def mean_logits(sums: xr.Dataset, *, centred: bool = False) -> xr.DataArray:
    """Return the mean logits of the images of each class: dimensions component and label, and others; NaN without images.

    sums: of images by `bootstrap.sums` of `stack_components`, with `logit` among the values. centred: less the mean over the
    classes of the images, an offset that all of them share and that raises every cosine.
    """
    images = sums["count"].sum("predicted")
    means: xr.DataArray = sums["logit"].sum("predicted") / images.where(images > 0)
    return (means - means.mean("label") if centred else means).rename("mean_logits")


def cosines(vectors: xr.DataArray, along: str = "component") -> xr.DataArray:
    """Return the cosine between the vectors of each two classes: dimensions label and other, and those of `vectors`.

    along: the dimension of their components. NaN for a vector of length 0.
    """
    length = (vectors**2).sum(along, skipna=False) ** 0.5
    unit = vectors / length.where(length > 0)
    cosine: xr.DataArray = (unit * unit.rename(label="other")).sum(along, skipna=False)
    return cosine.rename("cosine")
