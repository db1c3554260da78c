"""Outcomes of several kinds of runs, set side by side as claims take them."""

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import xarray as xr

from classwise.core.results import MISSING

Labelled = TypeVar("Labelled", xr.DataArray, xr.Dataset)
_TAKEN = ("truth", "answer", "flipped", "logits")


def combine(along: str, parts: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Return outcomes along a new dimension whose coordinate names the parts: joined("without", {"": full, "5": one, ...}).

    Each part has the dimensions of the first; what one was not asked has truth -1. Where the parts have one defence each, by
    different names, it keeps that of the first: what differs is told by the new coordinate.
    """
    first = next(iter(parts.values()))
    alone = all(part.sizes.get("defence") == 1 for part in parts.values())
    same = {"defence": first["defence"].values} if alone else {}
    names = [name for name in _TAKEN if all(name in part for part in parts.values())]
    classes = list(dict.fromkeys(str(name) for part in parts.values() for name in part.predicted.values))
    whole = xr.concat(
        [_renumbered(part[names].assign_coords(same), part.predicted, classes) for part in parts.values()],
        dim=along,
        join="outer",
        fill_value={name: MISSING.get(name, np.nan) for name in names},
        coords="minimal",
        compat="override",
    )
    return whole.assign_coords({along: list(parts), "predicted": classes}).assign_attrs(first.attrs)


def _renumbered(part: xr.Dataset, own: xr.DataArray, classes: list[str]) -> xr.Dataset:
    """Return outcomes whose truth and answer are positions in `classes` rather than in their own."""
    place = np.array([*(classes.index(str(name)) for name in own.values), -1], dtype=np.int16)
    numbers = {name: part[name].copy(data=place[part[name].values]) for name in ("truth", "answer")}
    found = part.assign(numbers)
    return found.reindex(predicted=classes) if "predicted" in found.dims else found


def stacked(parts: Mapping[str, Labelled], dim: str) -> Labelled:
    """Return arrays, or outcomes, of the same kind along a new dimension, by their names."""
    names = xr.DataArray(list(parts), dims=dim, name=dim)
    found: Labelled = xr.concat(list(parts.values()), names, coords="minimal", compat="override")
    return found
