"""Datasets of several runs as one, along the dimensions in which the runs differ."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core.errors import UserError
from classwise.core.results import MISSING
from classwise.core.spec import READOUTS

_Name = TypeVar("_Name", bound=Hashable)
_Labelled = TypeVar("_Labelled", xr.DataArray, xr.Dataset)
_COMBINED = ("truth", "prediction", "misclassified", "logits", "total", "square", "images", "block_of")


def combine_rows(rows: Sequence[tuple[Mapping[str, Hashable], xr.Dataset]]) -> xr.Dataset:
    """Return Datasets along the dimensions that their keys name, coordinates in the order of first appearance.

    All keys have the same names. Classes are the union of those of the Datasets; `truth` and `prediction` are renumbered to
    match. Missing images, and combinations of keys without a Dataset, have the values of `results.MISSING` (truth -1). Equal keys
    are a UserError.
    """
    names = list(rows[0][0])
    keys = [tuple(key.values()) for key, _ in rows]
    if len(set(keys)) < len(keys):
        raise UserError(f"two runs share the same {', '.join(names)}: {max(keys, key=keys.count)}; request them separately")
    classes = list(dict.fromkeys(str(name) for _, data in rows for name in data.predicted.values))
    combined = xr.concat(
        [_renumbered(data, classes) for _, data in rows],
        dim="run",
        join="outer",
        fill_value=MISSING,
        coords="minimal",
        compat="override",
        combine_attrs="drop",
    ).drop_attrs()
    if len(names) == 1:
        return combined.assign_coords({names[0]: ("run", [key[0] for key in keys])}).swap_dims(run=names[0])
    return apart(combined, "run", keys, names, fill_value=MISSING).transpose(*names, ...)


def _renumbered(data: xr.Dataset, classes: list[str]) -> xr.Dataset:
    """Return a Dataset whose truth and prediction are positions in `classes`, not in its `predicted`; itself if they agree."""
    if data.predicted.values.tolist() == classes:
        return data
    position = np.array([*(classes.index(str(name)) for name in data.predicted.values), -1], dtype=np.int16)
    numbers = {name: data[name].copy(data=position[data[name].values]) for name in ("truth", "prediction") if name in data}
    return data.assign(numbers).reindex(predicted=classes, fill_value=MISSING)


def combine(along: str, parts: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Return outcomes along a new dimension whose coordinate names the parts: combine("without", {"": full, "5": other, ...}).

    Each part has the dimensions and attributes of the first; images that a part lacks have truth -1. If each part has one defence
    but the defences differ, that of the first is kept: the new coordinate distinguishes the parts.
    """
    first = next(iter(parts.values()))
    single = all(part.sizes.get("defence") == 1 for part in parts.values())
    same = {"defence": first["defence"].values} if single else {}
    names = [name for name in _COMBINED if all(name in part for part in parts.values())]
    rows = [({along: name}, part[names].assign_coords({"predicted": part.predicted, **same})) for name, part in parts.items()]
    return combine_rows(rows).assign_attrs(first.attrs)


def shared_seeds(parts: Mapping[_Name, xr.Dataset]) -> dict[_Name, xr.Dataset]:
    """Return the parts restricted to the seeds that all of them have."""
    seeds = set.intersection(*(set(part.seed.values.tolist()) for part in parts.values()))
    return {name: part.sel(seed=[seed for seed in part.seed.values if seed in seeds]) for name, part in parts.items()}


def network_name(defence: str, readout: str) -> str:
    """Return the name of a network along `network`, with its readout unless that is the logits: "pgd-he, cosines"."""
    return defence if readout == READOUTS[0] else f"{defence}, {readout}"


def inverse_name(value: object) -> str:
    """Return how 1 / T is written along `inverse`: "5"; PGD, which has none, is Temperature-PGD at "1"."""
    return "1" if value in (None, "") else f"{float(str(value)):g}"


def concat_named(dim: str, parts: Mapping[_Name, Any], measure: Callable[[Any], xr.DataArray] | None = None) -> xr.DataArray:
    """Return arrays by name, or a measure of what has these names, as one array along a new dimension."""
    arrays = [measure(part) if measure else part for part in parts.values()]
    joined: xr.DataArray = xr.concat(arrays, dim, join="outer")
    return joined.assign_coords({dim: list(parts)})


def apart(values: _Labelled, dim: str, keys: Sequence[tuple[Any, ...]], names: Sequence[str], **fill: Any) -> _Labelled:
    """Return values along dimensions of these names instead of `dim`, each where its key says; NaN elsewhere, or `fill_value`."""
    levels = [list(dict.fromkeys(key[place] for key in keys)) for place in range(len(names))]
    codes = [[level.index(key[place]) for key in keys] for place, level in enumerate(levels)]
    index = xr.Coordinates.from_pandas_multiindex(pd.MultiIndex(levels, codes, names=list(names)), dim)
    wide = values.drop_vars(dim, errors="ignore").assign_coords(index).unstack(dim, **fill)
    return wide.assign_coords(dict(zip(names, levels, strict=True)))  # their type is that of the keys
