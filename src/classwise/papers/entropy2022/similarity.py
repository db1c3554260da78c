"""Measures of the features of classes that several sections of Entropy 2022 compare, from `stats.features.statistics`.

All are of clean images, computed for each seed and averaged over the seeds.
"""

import xarray as xr

from classwise.stats import features, metrics

MEASURES = ("similarity", "variance")
# The forms of `forms`, in their order.
FORMS = ("cosine", "debiased cosine", "centred cosine", "centred and debiased cosine", "variance", "relative variance")


def of_clean(statistics: xr.Dataset) -> xr.Dataset:
    """Return the statistics of clean images, of which the dimension attack has been taken away."""
    return statistics.sel(attack="clean", drop=True) if "attack" in statistics.dims else statistics


def similarity(statistics: xr.Dataset, *, centred: bool = False, debiased: bool = False) -> xr.DataArray:
    """Return the largest cosine of each class with another one (Entropy 2022, section 1.1), along label."""
    cosines = features.similarity(of_clean(statistics), centred=centred, debiased=debiased)
    return features.nearest(cosines).mean("seed")


def variance(statistics: xr.Dataset) -> xr.DataArray:
    """Return the variance of the features of each class, the mean over the features, along label."""
    return of_clean(statistics)["variance"].mean("seed")


def relative_variance(statistics: xr.Dataset) -> xr.DataArray:
    """Return the variance of each class, summed over the features, over the squared length of its mean, along label."""
    return features.relative_variance(of_clean(statistics)).mean("seed")


def profile(statistics: xr.Dataset) -> xr.DataArray:
    """Return similarity and variance of each class along a new dimension `measure` (MEASURES), as the paper draws them."""
    parts = [similarity(statistics), variance(statistics)]
    return (
        xr.concat(parts, "measure", coords="minimal", compat="override").assign_coords(measure=list(MEASURES)).rename("profile")
    )


def forms(statistics: xr.Dataset) -> xr.DataArray:
    """Return the means over the classes of similarity and variance in the forms of FORMS, along a new dimension `form`."""
    cosines = [
        similarity(statistics, centred=centred, debiased=debiased) for centred in (False, True) for debiased in (False, True)
    ]
    parts = [part.mean("label") for part in (*cosines, variance(statistics), relative_variance(statistics))]
    return xr.concat(parts, "form", coords="minimal", compat="override").assign_coords(form=list(FORMS)).rename("forms")


def clean_accuracy(statistics: xr.Dataset) -> xr.DataArray:
    """Return the accuracy on all clean images of the same blocks, in percent; seeds pooled."""
    return metrics.overall(of_clean(statistics)["count"].sum("seed"))


def robust_accuracy(statistics: xr.Dataset) -> xr.DataArray:
    """Return the accuracy of each class on the same blocks under the last attack, in percent; seeds pooled."""
    return metrics.accuracy(statistics["count"].isel(attack=-1, drop=True).sum("seed"))
