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


def cvc(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the class-wise variance of confidence, the mean of `confidence_variance` over the images of each class.

    Tian 2021, Definition 5.1, with the mean confidence of an image taken over the classes (the paper's text divides by N).
    """
    spread, numbers = confidence_variance(outcomes), np.arange(outcomes.sizes["predicted"])
    of_class = xr.DataArray(numbers, dims="label", coords={"label": outcomes.predicted.values})
    return spread.where(outcomes.truth == of_class).mean("image").rename("cvc")


def true_confidence(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the confidence in the true class, in percent, for each image."""
    truth = outcomes.truth.where(outcomes.truth >= 0, 0).astype(int)
    sure = 100 * confidence(outcomes).isel(predicted=truth).drop_vars("predicted")
    return sure.where(outcomes.truth >= 0).rename("confidence")


def homes(outcomes: xr.Dataset, over: str = "without", full: str = "") -> xr.DataArray:
    """Return which images are mistaken by the full network and answered right once the class they were taken for is left out.

    `outcomes` has along `over` the full network, named `full`, and networks trained without the class of that name. The homing
    property of Tian 2021, Definition 6.1: the image is attacked anew on each network.
    """
    whole = outcomes.sel({over: full}, drop=True)
    home: xr.DataArray = xr.zeros_like(whole.flipped)
    for place, name in enumerate(str(one) for one in outcomes.predicted.values):
        if name in outcomes[over].values:
            other = outcomes.sel({over: name}, drop=True)
            home = home | (whole.flipped & (whole.answer == place) & ~other.flipped & (other.truth >= 0))
    return home.rename("homes")


def homing(outcomes: xr.Dataset, over: str = "without", full: str = "") -> xr.DataArray:
    """Return count(..., label, predicted) of the images that come home, in the cell of what the full network took them for.

    The homing confusion matrix of Tian 2021, Figure 4b; the cells of classes that no network left out are 0.
    """
    whole, home = outcomes.sel({over: full}, drop=True), homes(outcomes, over, full)
    numbers = xr.DataArray(np.arange(outcomes.sizes["predicted"]), dims="predicted", coords={"predicted": outcomes.predicted})
    rows = ((whole.truth == numbers.rename(predicted="label")) & home).astype("i4")
    count: xr.DataArray = rows.dot((whole.answer == numbers).astype("i4"), dim="image")
    return count.rename("homing")
