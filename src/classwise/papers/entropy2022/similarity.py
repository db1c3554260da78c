"""Measures of the features of classes that several sections of Entropy 2022 compare, from `stats.features.statistics`.

All are of clean images, computed for each seed and averaged over the seeds.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.stats import combine, features, metrics

MEASURES = ("similarity", "variance")
# The forms of `forms`, in their order.
FORMS = ("cosine", "debiased cosine", "centred cosine", "centred and debiased cosine", "variance", "relative variance")


def clean_statistics(statistics: xr.Dataset) -> xr.Dataset:
    """Return the statistics of clean images, of which the dimension attack has been taken away."""
    return statistics.sel(attack="clean", drop=True) if "attack" in statistics.dims else statistics


def similarity(statistics: xr.Dataset, *, centred: bool = False, debiased: bool = False) -> xr.DataArray:
    """Return the largest cosine of each class with another one (Entropy 2022, section 1.1), along label."""
    cosines = features.similarity(clean_statistics(statistics), centred=centred, debiased=debiased)
    return features.nearest(cosines).mean("seed")


def variance(statistics: xr.Dataset) -> xr.DataArray:
    """Return the variance of the features of each class, the mean over the features, along label."""
    return clean_statistics(statistics)["variance"].mean("seed")


def relative_variance(statistics: xr.Dataset) -> xr.DataArray:
    """Return the variance of each class, summed over the features, over the squared length of its mean, along label."""
    return features.relative_variance(clean_statistics(statistics)).mean("seed")


def mean(values: xr.DataArray) -> xr.DataArray:
    """Return the mean over the classes, NaN where any is."""
    return values.mean("label", skipna=False)


def similarity_change(statistics: xr.Dataset, network: str, base: str) -> xr.DataArray:
    """Return how much more similar the classes of a network are than those of another: the mean of their largest cosines."""
    values = mean(similarity(statistics))
    return values.sel(defence=network, drop=True) - values.sel(defence=base, drop=True)


def variance_ratio(statistics: xr.Dataset, network: str, base: str) -> xr.DataArray:
    """Return the mean variance of the classes of a network over that of another."""
    values = mean(variance(statistics))
    return values.sel(defence=network, drop=True) / values.sel(defence=base, drop=True)


def comparison_fields(measure: Callable[..., xr.DataArray], network: str, base: str) -> dict[str, Any]:
    """Return the fields of a claim on the features of a network compared with those of another."""
    return {"measure": partial(measure, network=network, base=base), "defences": (network, base), "of": "features"}


def profile(statistics: xr.Dataset) -> xr.DataArray:
    """Return similarity and variance of each class along a new dimension `measure` (MEASURES), as the paper draws them."""
    return combine.concat_named("measure", dict(zip(MEASURES, (similarity(statistics), variance(statistics)), strict=True)))


def forms(statistics: xr.Dataset) -> xr.DataArray:
    """Return the means over the classes of similarity and variance in the forms of FORMS, along a new dimension `form`."""
    cosines = [
        similarity(statistics, centred=centred, debiased=debiased) for centred in (False, True) for debiased in (False, True)
    ]
    parts = [part.mean("label") for part in (*cosines, variance(statistics), relative_variance(statistics))]
    return combine.concat_named("form", dict(zip(FORMS, parts, strict=True)))


def blocks(outcomes: xr.Dataset, *names: str) -> xr.Dataset:
    """Return the sums of features of some networks by block, of the seeds that all of them have; NotRecorded without any."""
    data = features.select_sums(outcomes.sel(defence=[name for name in names if name in outcomes.defence]))
    known = (data.images > 0).any([dim for dim in data.images.dims if dim not in ("defence", "seed")]).all("defence")
    if data.sizes["defence"] < len(names) or not bool(known.any()):
        raise NotRecorded(f"features of {', '.join(names)} are not recorded")
    return data.isel(seed=np.flatnonzero(known))


def profiles(outcomes: xr.Dataset, trainings: Mapping[str, Mapping[str, str]], along: str) -> dict[str, xr.DataArray]:
    """Return similarity and variance of each class with their intervals, by training and measure: along label, `along` and bound.

    trainings: of each its networks, by the names that they have along the dimension `along`.
    """
    panels: dict[str, xr.DataArray] = {}
    for training, networks in trainings.items():
        kept = {name: network for name, network in networks.items() if network in outcomes.defence}
        bounds = features.interval(blocks(outcomes, *kept.values()), profile, draws=500)
        bounds = bounds.rename(defence=along).assign_coords({along: list(kept)})
        panels |= {f"{measure} ({training})": bounds.sel(measure=measure, drop=True) for measure in MEASURES}
    return panels


def robust_accuracy(statistics: xr.Dataset) -> xr.DataArray:
    """Return the accuracy of each class on the same blocks under the last attack, in percent; seeds pooled."""
    return metrics.accuracy(statistics["count"].isel(attack=-1, drop=True).sum("seed"))
