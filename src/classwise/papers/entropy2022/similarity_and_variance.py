"""Entropy 2022, sections 3.1 and 3.2.2, Figures 6 and 9: similarity and variance with label smoothing and maximum entropy.

Claims take the Dataset "networks", along defence with the names of `networks.NETWORKS`, and the features of clean images.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.papers.entropy2022 import networks
from classwise.papers.entropy2022 import similarity as likeness
from classwise.papers.entropy2022.gains import Pair
from classwise.papers.entropy2022.likeness import similarity_change, variance_ratio
from classwise.papers.sections import CLEAN_AND_PGD, Arranged, Section
from classwise.papers.terms import claims
from classwise.stats import aggregate, confidence, features, metrics
from classwise.stats.combine import combine_rows

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
_PARTS[LAMBDAS[1]] = Section(title=LAMBDAS[1], defences=("trades",), max_seeds=1, variants=networks.trained(beta=1), **_MEASURED)


def _joined(plain: xr.Dataset, *parts: xr.Dataset | None) -> xr.Dataset:
    """Return the outcomes of all networks, with the sums of their features, along defence."""
    defences = {name: networks.NETWORKS[name].defence for name in networks.PLAIN}
    rows = {name: plain.sel(defence=one, drop=True) for name, one in defences.items() if one in plain.defence.values}
    rows |= {name: part.isel(defence=0, drop=True) for name, part in zip(_PARTS, parts, strict=True) if part is not None}
    joined = combine_rows([({"defence": name}, row) for name, row in rows.items()]).assign_attrs(plain.attrs)
    # The images of a class are in the same blocks for all networks.
    return joined.assign(block_of=joined.block_of.max("defence")) if "block_of" in joined else joined


SECTION = Section(
    title="Similarity and variance",
    defences=("pgd-at", "trades"),
    max_seeds=2,
    parts=_PARTS,
    arrange={"networks": Arranged(_joined, ("",), tuple(_PARTS))},
    **_MEASURED,
)


def blocks(outcomes: xr.Dataset, *names: str) -> xr.Dataset:
    """Return the sums of features of some networks by block, of the seeds that all of them have; NotRecorded without any."""
    data = features.by_block(outcomes.sel(defence=list(names)))
    known = (data.images > 0).any([dim for dim in data.images.dims if dim not in ("defence", "seed")]).all("defence")
    if not bool(known.any()):
        raise NotRecorded(f"features of {', '.join(names)} are not recorded")
    return data.isel(seed=np.flatnonzero(known))


def _mean(values: xr.DataArray) -> xr.DataArray:
    return values.mean("label", skipna=False)


def _over_lambda(value: xr.DataArray) -> xr.DataArray:
    """Return by how much a value rises from lambda to e times lambda, on the line through those of Figure 9."""
    along = np.log(_FIGURE_9) - np.log(_FIGURE_9).mean()
    parts = [value.sel(defence=LAMBDAS[one], drop=True) * step for one, step in zip(_FIGURE_9, along, strict=True)]
    total: xr.DataArray = sum(parts[1:], parts[0]) / (along**2).sum()
    return total


def similarity_over_lambda(statistics: xr.Dataset) -> xr.DataArray:
    """Return how much the mean of the largest cosines of the classes rises from lambda to e times lambda."""
    return _over_lambda(_mean(likeness.similarity(statistics)))


def variance_over_lambda(statistics: xr.Dataset) -> xr.DataArray:
    """Return how much the logarithm of the mean variance of the classes rises from lambda to e times lambda."""
    return _over_lambda(xr.ufuncs.log(_mean(likeness.variance(statistics))))


_SWEPT: dict[str, Any] = {"defences": tuple(LAMBDAS[one] for one in _FIGURE_9)}


def _compared(measure: Callable[..., xr.DataArray], network: str, base: str) -> dict[str, Any]:
    return {"measure": partial(measure, network=network, base=base), "defences": (network, base)}


CLAIMS = claims(
    NAME,
    {
        "entropy-similarity-at": _compared(similarity_change, _ME_AT, _LS_AT),
        "entropy-variance-at": _compared(variance_ratio, _ME_AT, _LS_AT),
        "entropy-similarity-trades": _compared(similarity_change, _ME, _LS),
        "entropy-variance-trades": _compared(variance_ratio, _ME, _LS),
        "trades-lower-variance": _compared(variance_ratio, TRADES, AT),
        "trades-higher-similarity": _compared(similarity_change, TRADES, AT),
        "similarity-rises-with-lambda": {"measure": similarity_over_lambda, **_SWEPT},
        "variance-falls-with-lambda": {"measure": variance_over_lambda, **_SWEPT},
        "lambda-one-similarity": _compared(similarity_change, LAMBDAS[1], AT),
        "lambda-one-variance": _compared(variance_ratio, LAMBDAS[1], AT),
        "equal-lambda-similarity": _compared(similarity_change, *EQUAL),
    },
    of="features",
    attacks=("clean",),
)

DRAWS = 500
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


def profiles(outcomes: xr.Dataset, lines: Mapping[str, str]) -> xr.DataArray:
    """Return similarity and variance of each class with their intervals, along measure, training, label and bound.

    lines: by name, the networks of a training (of SMOOTHED).
    """
    titles = {network: line for line, network in lines.items()}
    names = outcomes.defence.values[outcomes.defence.isin(list(titles))]
    bounds = features.interval(blocks(outcomes, *names), likeness.profile, draws=DRAWS)
    return bounds.assign_coords(defence=[titles[name] for name in names]).rename(defence="training")


def _changed(statistics: xr.Dataset) -> xr.DataArray:
    """Return by how much the forms (`similarity.FORMS`) of the first network differ from those of the second.

    Of cosines the difference, of variances their change in percent.
    """
    first, second = (likeness.forms(statistics).isel(defence=place, drop=True) for place in (0, 1))
    ratio: xr.DataArray = 100 * (first / second - 1)
    return ratio.where(first.form.isin(VARIANCES), first - second)


def changes(outcomes: xr.Dataset, pairs: Mapping[str, Pair]) -> xr.DataArray:
    """Return by how much two networks differ in the forms of similarity and variance, along comparison, form and bound.

    The forms that the claims judge, as the paper measures them, have no interval here.
    """
    each = [features.interval(blocks(outcomes, *pair), _changed, draws=DRAWS) for pair in pairs.values()]
    bounds = xr.concat(each, pd.Index(list(pairs), name="comparison"))
    return bounds.where(~bounds.form.isin([COSINES[0], VARIANCES[0]]) | (bounds.bound == "value"))


def over_lambda(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the mean similarity and variance of TRADES, of PGD-AT and of ME-TRADES, along measure, training, `lambda` and bound.

    The latter two are the same for each lambda of TRADES; all are of the seeds that every network has.
    """
    flat = {"PGD-AT": AT, "ME-TRADES, λ = 15": _ME}
    data = blocks(outcomes, *LAMBDAS.values(), *flat.values())
    means = features.interval(data, lambda statistics: _mean(likeness.profile(statistics)), draws=DRAWS)
    swept = means.sel(defence=list(LAMBDAS.values())).assign_coords(defence=[float(one) for one in LAMBDAS])
    swept = swept.rename(defence="lambda")
    rows = [swept, *(means.sel(defence=name, drop=True).broadcast_like(swept) for name in flat.values())]
    return xr.concat(rows, pd.Index(["TRADES", *flat], name="training"))


def by_class(outcomes: xr.Dataset) -> xr.DataArray:
    """Return similarity, variance, accuracy and entropy of each class of TRADES, along quantity, label and `lambda`.

    Accuracies in percent; the entropy of clean images in nats.
    """
    data = blocks(outcomes, *LAMBDAS.values())
    part, statistics = outcomes.sel(defence=data.defence, seed=data.seed), features.statistics(data)
    rates = metrics.accuracy(aggregate.counts(part).sum("seed"))
    clean, label = part.sel(attack="clean"), xr.DataArray(range(rates.sizes["label"]), coords={"label": rates.label})
    nats = confidence.entropy(clean).where(clean.truth == label).mean(["seed", "image"])
    values = {"similarity": likeness.similarity(statistics), "variance": likeness.variance(statistics)}
    values |= {"clean": rates.sel(attack="clean"), "robust": rates.isel(attack=-1), "entropy": nats}
    plain = [value.drop_vars("attack", errors="ignore") for value in values.values()]
    joined = xr.concat(plain, pd.Index(list(values), name="quantity"), coords="minimal", compat="override")
    return joined.assign_coords(defence=[float(one) for one in LAMBDAS]).rename(defence="lambda")
