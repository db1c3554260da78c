"""Entropy 2022, sections 3.1 and 3.2.2, Figures 6 and 9: similarity and variance with label smoothing and maximum entropy.

Claims take the Dataset "networks", along defence with the names of `networks.NETWORKS`, and the features of clean images.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from classwise.papers.entropy2022 import networks
from classwise.papers.entropy2022 import similarity as likeness
from classwise.papers.entropy2022.gains import Pair, known_pairs
from classwise.papers.entropy2022.similarity import blocks, comparison_fields, similarity_change, variance_ratio
from classwise.papers.sections import CLEAN_AND_PGD, Derived, Part, Section
from classwise.papers.terms import claims
from classwise.stats import features
from classwise.stats.combine import concat_named

NAME = "entropy2022/3-2-2a-similarity-and-variance"
AT, TRADES = networks.PLAIN
# What the paper's Figure 6 shows of PGD-AT and of TRADES, by the name of a line.
SMOOTHED: Mapping[str, Mapping[str, str]] = {
    "PGD-AT": {"without": AT, "label smoothing": "label-smoothing", "maximum entropy": "me-at (β=0.5)"},
    "TRADES": {"without": TRADES, "label smoothing": "trades-smoothed (λ=6)", "maximum entropy": "me-trades (β=1, λ=15)"},
}
_ME_AT, _LS_AT = SMOOTHED["PGD-AT"]["maximum entropy"], SMOOTHED["PGD-AT"]["label smoothing"]
_ME, _LS = SMOOTHED["TRADES"]["maximum entropy"], SMOOTHED["TRADES"]["label smoothing"]
# TRADES by its lambda; the first three are those of Figure 9.
LAMBDAS: Mapping[float, str] = {1: "trades (λ=1)", 6: TRADES, 12: "trades (λ=12)", 15: "trades (λ=15)"}
_FIGURE_9 = (1, 6, 12)
EQUAL = (_ME, LAMBDAS[15])

_MEASURED: dict[str, Any] = {"evaluations": CLEAN_AND_PGD, "features": ("clean",)}
_PARTS = {name: networks.part(name, **_MEASURED, max_seeds=2) for name in (_LS_AT, _ME_AT, _LS, _ME)}
_PARTS |= {name: networks.part(name, **_MEASURED) for name in (LAMBDAS[12], LAMBDAS[15])}
_PARTS[LAMBDAS[1]] = Part(title=LAMBDAS[1], defences=("trades",), max_seeds=1, variants=networks.variant(beta=1), **_MEASURED)


def _joined(plain: xr.Dataset, *parts: xr.Dataset | None) -> xr.Dataset:
    joined = networks.name_networks(tuple(_PARTS), plain, *parts)
    # The images of a class are in the same blocks for all networks.
    return joined.assign(block_of=joined.block_of.max("defence")) if "block_of" in joined else joined


SECTION = Section(
    title="Similarity and variance",
    defences=("pgd-at", "trades"),
    max_seeds=2,
    parts=_PARTS,
    arrange={"networks": Derived(_joined, ("",), tuple(_PARTS))},
    **_MEASURED,
)


def _over_lambda(value: xr.DataArray) -> xr.DataArray:
    """Return by how much a value rises from lambda to e times lambda, on the line through those of Figure 9."""
    along, names = np.log(_FIGURE_9) - np.log(_FIGURE_9).mean(), [LAMBDAS[one] for one in _FIGURE_9]
    return value.sel(defence=names).dot(xr.DataArray(along / (along**2).sum(), {"defence": names}, ("defence",)), dim="defence")


def similarity_over_lambda(statistics: xr.Dataset) -> xr.DataArray:
    """Return how much the mean of the largest cosines of the classes rises from lambda to e times lambda."""
    return _over_lambda(likeness.mean(likeness.similarity(statistics)))


def variance_over_lambda(statistics: xr.Dataset) -> xr.DataArray:
    """Return how much the logarithm of the mean variance of the classes rises from lambda to e times lambda."""
    return _over_lambda(xr.ufuncs.log(likeness.mean(likeness.variance(statistics))))


_SWEPT: dict[str, Any] = {"defences": tuple(LAMBDAS[one] for one in _FIGURE_9)}


CLAIMS = claims(
    NAME,
    {
        "entropy-similarity-at": comparison_fields(similarity_change, _ME_AT, _LS_AT),
        "entropy-variance-at": comparison_fields(variance_ratio, _ME_AT, _LS_AT),
        "entropy-similarity-trades": comparison_fields(similarity_change, _ME, _LS),
        "entropy-variance-trades": comparison_fields(variance_ratio, _ME, _LS),
        "trades-lower-variance": comparison_fields(variance_ratio, TRADES, AT),
        "trades-higher-similarity": comparison_fields(similarity_change, TRADES, AT),
        "similarity-rises-with-lambda": {"measure": similarity_over_lambda, **_SWEPT},
        "variance-falls-with-lambda": {"measure": variance_over_lambda, **_SWEPT},
        "lambda-one-similarity": comparison_fields(similarity_change, LAMBDAS[1], AT),
        "lambda-one-variance": comparison_fields(variance_ratio, LAMBDAS[1], AT),
        "equal-lambda-similarity": comparison_fields(similarity_change, *EQUAL),
    },
    of="features",
    attacks=("clean",),
)

# What the page compares: first a network, then the one that it is compared with.
PAIRS: Mapping[str, Pair] = {
    "PGD-AT: label smoothing": (_LS_AT, AT),
    "PGD-AT: ME": (_ME_AT, AT),
    "PGD-AT: ME against label smoothing": (_ME_AT, _LS_AT),
    "TRADES against PGD-AT": (TRADES, AT),
    "TRADES: label smoothing": (_LS, TRADES),
    "TRADES: ME with λ = 15": (_ME, TRADES),
    "TRADES: ME against label smoothing": (_ME, _LS),
    "TRADES: ME, λ = 15 in both": EQUAL,
}
COSINES, VARIANCES = likeness.FORMS[:4], likeness.FORMS[4:]


def _changed(statistics: xr.Dataset) -> xr.DataArray:
    """Return by how much the forms (`similarity.FORMS`) of the first network differ from those of the second.

    Of cosines the difference, of variances their change in percent.
    """
    first, second = (likeness.forms(statistics).isel(defence=place, drop=True) for place in (0, 1))
    ratio: xr.DataArray = 100 * (first / second - 1)
    return ratio.where(first.form.isin(VARIANCES), first - second)


def changes(outcomes: xr.Dataset) -> xr.DataArray:
    """Return by how much the networks of PAIRS differ in the forms of similarity and variance: comparison, form and bound.

    The forms that the claims judge, as the paper measures them, have no interval here.
    """
    pairs = known_pairs(outcomes, PAIRS)
    bounds = concat_named("comparison", pairs, lambda pair: features.interval(blocks(outcomes, *pair), _changed, draws=500))
    return bounds.where(~bounds.form.isin([COSINES[0], VARIANCES[0]]) | (bounds.bound == "value"))


# Of the measures of `_of_classes`: the intervals end there.
_RANGES = ((-1, 1), (0, np.inf), (0, 100))


def _of_classes(statistics: xr.Dataset) -> xr.DataArray:
    parts = likeness.similarity(statistics), likeness.variance(statistics), likeness.robust_accuracy(statistics)
    values = concat_named("measure", dict(zip(("largest cosine", "variance", "robust accuracy, %"), parts, strict=True)))
    return xr.concat([likeness.mean(values).expand_dims(label=["mean"]), values], "label")


def lambda_sweep(outcomes: xr.Dataset) -> xr.DataArray:
    """Return what is measured of TRADES, PGD-AT and ME-TRADES, along measure, label, method, `lambda` and bound.

    The latter two are the same for each lambda of TRADES; all are of the seeds that every network has. The first label is the
    mean over the classes.
    """
    flat = {"PGD-AT": AT, "ME-TRADES, λ = 15": _ME}
    bounds = features.interval(blocks(outcomes, *LAMBDAS.values(), *flat.values()), _of_classes, draws=500)
    bounds = bounds.clip(*(xr.DataArray(list(ends), dims="measure") for ends in zip(*_RANGES, strict=True)))
    swept = bounds.sel(defence=list(LAMBDAS.values())).assign_coords(defence=list(LAMBDAS)).rename(defence="lambda")
    return concat_named("method", {"TRADES": swept} | {name: bounds.sel(defence=one, drop=True) for name, one in flat.items()})
