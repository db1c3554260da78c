"""Entropy 2022, sections 3.1 and 3.2.2, Figures 6 and 9: similarity and variance with label smoothing and maximum entropy.

Claims take the Dataset "networks", along defence with the names of `networks.NETWORKS`, and the features of clean images.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.papers.entropy2022 import networks
from classwise.papers.entropy2022 import similarity as likeness
from classwise.papers.entropy2022.likeness import similarity_change, variance_ratio
from classwise.papers.sections import CLEAN_AND_PGD, Arranged, Section
from classwise.papers.terms import claims
from classwise.stats import features
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


def of_all(outcomes: xr.Dataset, *names: str) -> xr.Dataset:
    """Return the outcomes of some networks, of the seeds that all of them have features of; NotRecorded without any."""
    missing = [name for name in names if name not in outcomes.defence.values]
    if missing or "total" not in outcomes:
        raise NotRecorded(f"features of {', '.join(missing or names)} are not recorded")
    part = outcomes.sel(defence=list(names))
    known = (part.images > 0).any([dim for dim in part.images.dims if dim not in ("defence", "seed")]).all("defence")
    if not bool(known.any()):
        raise NotRecorded(f"features of {', '.join(names)} are not recorded")
    return part.isel(seed=np.flatnonzero(known))


def blocks(outcomes: xr.Dataset, *names: str) -> xr.Dataset:
    """Return the sums of features of some networks by block, as `features.interval` takes them; NotRecorded without any."""
    return features.by_block(of_all(outcomes, *names))


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
