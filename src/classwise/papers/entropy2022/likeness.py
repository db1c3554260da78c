"""Similarity and variance of the features of two networks compared: measures of claims, and a table for readers.

Measures take statistics of features (`stats.features.statistics`), of seeds each by itself, under one attack.
"""

from collections.abc import Callable, Mapping
from functools import partial

import pandas as pd
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.papers.entropy2022.gains import Pair
from classwise.papers.entropy2022.similarity import of_clean, similarity, variance
from classwise.stats import features


def mean_similarity(statistics: xr.Dataset, *, centred: bool = False, debiased: bool = False) -> xr.DataArray:
    """Return the mean over classes of the largest cosine between the mean features of a class and those of another one."""
    cosine = features.similarity(statistics, centred=centred, debiased=debiased)
    return features.nearest(cosine).mean("label", skipna=False).mean("seed")


def mean_variance(statistics: xr.Dataset, *, relative: bool = False) -> xr.DataArray:
    """Return the mean over classes of the variance of features; relative: over the squared length of their mean."""
    values = features.relative_variance(statistics) if relative else statistics.variance
    return values.mean("label", skipna=False).mean("seed")


def similarity_change(statistics: xr.Dataset, network: str, base: str, *, corrected: bool = False) -> xr.DataArray:
    """Return how much more similar the classes of a network are than those of another: the mean of their largest cosines.

    corrected: of centred means, without the bias of sampling.
    """
    values = mean_similarity(of_clean(statistics), centred=corrected, debiased=corrected)
    return values.sel(defence=network, drop=True) - values.sel(defence=base, drop=True)


def variance_ratio(statistics: xr.Dataset, network: str, base: str, *, relative: bool = False) -> xr.DataArray:
    """Return the mean variance of the classes of a network over that of another.

    relative: over the squared length of the mean.
    """
    values = mean_variance(of_clean(statistics), relative=relative)
    return values.sel(defence=network, drop=True) / values.sel(defence=base, drop=True)


# By the title of a column of `changes`, and the number of its decimals.
_MEASURES: dict[str, tuple[Callable[..., xr.DataArray], int]] = {
    "similarity, difference": (similarity_change, 3),
    "similarity, centred and debiased, difference": (partial(similarity_change, corrected=True), 3),
    "variance, ratio": (variance_ratio, 2),
    "variance over squared length, ratio": (partial(variance_ratio, relative=True), 2),
}


def changes(data: xr.Dataset, pairs: Mapping[str, Pair], draws: int = 400) -> pd.DataFrame:
    """Return how similarity and variance change from the second network of each pair to the first, with 95 % intervals.

    data: of `runs.features`. Pairs of which a network is not recorded are left out.
    """
    kept, data = _recorded(data, pairs), data.sel(attack=["clean"])
    rows: dict[str, list[str]] = {}
    for title, (measure, digits) in _MEASURES.items():
        rows[title] = []
        for network, base in kept.values():
            part = data.sel(defence=[network, base])
            ends = features.interval(part, partial(measure, network=network, base=base), draws=draws)
            low, value, high = (f"{float(ends.sel(bound=name)):.{digits}f}" for name in ("low", "value", "high"))
            rows[title].append(f"{value} [{low}, {high}]")
    return pd.DataFrame(rows, index=pd.Index(list(kept), name="training"))


def _recorded(data: xr.Dataset, pairs: Mapping[str, Pair]) -> dict[str, Pair]:
    """Return the pairs of which both networks have features."""
    some = (data.images > 0).any([dim for dim in data.images.dims if dim != "defence"])
    known = set(map(str, data.defence.values[some.values]))
    return {name: pair for name, pair in pairs.items() if known.issuperset(pair)}


def by_class(data: xr.Dataset, pairs: Mapping[str, Pair], along: str, names: Pair, draws: int = 400) -> dict[str, xr.DataArray]:
    """Return similarity and variance of each class with 95 % intervals, a panel for each of the pairs and measures.

    data: of `runs.features`. Each has the dimensions bound, label and `along`, whose members `names` are the second and the first
    network of the pair. NotRecorded where no pair has features.
    """
    panels: dict[str, xr.DataArray] = {}
    for name, (network, base) in _recorded(data, pairs).items():
        part = data.sel(attack=["clean"], defence=[base, network])
        for title, measure in (("similarity", similarity), ("variance", variance)):
            ends = features.interval(part, measure, draws=draws)
            panels[f"{title} ({name})"] = ends.rename(defence=along).assign_coords({along: list(names)})
    if not panels:
        raise NotRecorded("the features of these networks are not recorded")
    return panels
