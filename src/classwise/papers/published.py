"""The numbers that a paper prints, as labelled arrays in the vocabulary of `core.results`.

The folder of a paper holds tables.csv (paper, table, row, column as printed, value, spread (standard deviation), unit, note),
misprints.csv (paper, where, printed, read as, why) and settings.csv (setup, dataset, field, value). A misprinted number is kept
as printed, with a note. Rates are in percent.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core.errors import UserError, check_known
from classwise.stats import metrics

Place = Mapping[str, object]
# How a table is read: coordinates from the name of a row, the variable and coordinates from that of a column.
Reader = tuple[Callable[[str], Place], Callable[[str], tuple[str, Place]]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """The printed tables of a paper.

    folder: with its CSV files. readers: by the number of a table. unread: why a table without a reader has none. datasets: by the
    number of a table, the dataset of its numbers where it is not CIFAR-10.
    """

    folder: Path
    readers: Mapping[str, Reader]
    unread: Mapping[str, str] = field(default_factory=dict)
    datasets: Mapping[str, str] = field(default_factory=dict)

    @property
    def paper(self) -> str:
        """The name of the paper, that of its folder."""
        return self.folder.name

    def rows(self) -> pd.DataFrame:
        """Return every number of every table, as printed: a row each."""
        return _read(self.folder / "tables.csv").copy()

    def misprints(self) -> pd.DataFrame:
        """Return what the paper misprints or leaves unclear, a row each: paper, where, printed, read as, why."""
        return pd.read_csv(self.folder / "misprints.csv", dtype=str)

    def settings(self) -> pd.DataFrame:
        """Return the settings that the paper prints: setup, dataset, field, value."""
        return pd.read_csv(self.folder / "settings.csv", dtype=str)

    def load(self, table: str | int) -> xr.Dataset:
        """Return a table as a Dataset.

        Its dimensions are those of results where they mean the same: defence, attack, label (names of classes), predicted,
        inverse, checkpoint. Its variables: accuracy (of each class), overall, worst, cv, mcd, ... in percent or points; change:
        what the table prints next to a value; with "_spread" added, the standard deviation where it is printed. Attributes:
        paper, table, dataset.
        """
        return _load(self, str(table)).copy(deep=True)

    def number(self, table: str | int, variable: str, **place: object) -> float:
        """Return a number of a table, by its variable and coordinates as of `load`."""
        return float(self.load(table)[variable].sel(place))


@cache  # each claim of a page reads them
def _load(tables: Tables, key: str) -> xr.Dataset:
    rows = tables.rows()
    check_known(f"table of {tables.paper}", [key], sorted(rows["table"].unique()))
    if key not in tables.readers:
        raise UserError(f"table {key} of {tables.paper} {tables.unread.get(key, 'has no reader')}")
    row, column = tables.readers[key]
    cells: dict[str, list[dict[str, object]]] = {}
    for line in rows[rows["table"] == key].to_dict("records"):
        variable, place = column(str(line["column"]))
        place = {**row(str(line["row"])), **place}
        cells.setdefault(variable, []).append({**place, "value": line["value"]})
        if not np.isnan(line["spread"]):
            cells.setdefault(f"{variable}_spread", []).append({**place, "value": line["spread"]})
    result = xr.merge([_array(name, some) for name, some in cells.items()], join="outer")
    return result.assign_attrs(paper=tables.paper, table=key, dataset=tables.datasets.get(key, "cifar10"))


@cache
def _read(path: Path) -> pd.DataFrame:
    table = pd.read_csv(path, dtype={"table": str}, keep_default_na=False)
    return table.assign(spread=pd.to_numeric(table["spread"], errors="coerce"))


def _array(name: str, cells: list[dict[str, object]]) -> xr.DataArray:
    table = pd.DataFrame(cells)
    dims = [str(column) for column in table.columns if column != "value"]
    array = xr.DataArray.from_series(table.set_index(dims if len(dims) > 1 else dims[0])["value"])
    return array.sel({dim: list(dict.fromkeys(table[dim])) for dim in dims}).rename(name)


def counts(rates: xr.DataArray, images: int = 1000) -> xr.DataArray:
    """Return rates of classes in percent (dimension label) as counts(..., label, predicted) of so many images a class.

    Measures of counts can thus be computed from printed rates. As what the images are misclassified as is not printed, all
    mistakes are counted as the next class: measures of confusion mean nothing here.
    """
    labels = rates.label.values
    right = (rates * images / 100).round()
    size = len(labels)
    eye = xr.DataArray(np.eye(size), dims=("label", "predicted"), coords={"label": labels, "predicted": labels})
    following = eye.copy(data=np.roll(np.eye(size), 1, axis=1))
    return (right * eye + (images - right) * following).rename("count")


def comparison_table(count: xr.DataArray, table: xr.Dataset, over: Sequence[str] = ("defence", "attack")) -> pd.DataFrame:
    """Return ours and theirs: all images, the worst and the best class, CV and MCD, a line for each setting of theirs.

    count: ours, with the dimensions `over`. table: theirs, of `Tables.load`. Settings that we lack have no numbers of ours;
    where our classes are those of their dataset, each class follows.
    """
    mine, rates = metrics.accuracy(count), table.accuracy
    pairs: dict[str, tuple[Any, Any]] = {
        "all": (metrics.overall(count), table.overall),
        "worst": (mine.min("label"), rates.min("label")),
        "best": (mine.max("label"), rates.max("label")),
        "CV": (metrics.cv(count), table.cv),
        "MCD": (metrics.mcd(count), table.mcd),
    }
    if list(map(str, mine.label.values)) == list(map(str, rates.label.values)):
        pairs |= {str(name): (mine.sel(label=name), rates.sel(label=name)) for name in rates.label.values}
    columns = {f"{name}, {who}": some for name, both in pairs.items() for who, some in zip(("ours", "theirs"), both, strict=True)}
    flat = {key: some.drop_vars("label", errors="ignore").to_series().reorder_levels([*over]) for key, some in columns.items()}
    order = table.overall.transpose(*over).to_series().dropna().index
    compared = pd.DataFrame(flat).reindex(order).map(lambda value: "" if pd.isna(value) else f"{value:.1f}")
    return compared.rename_axis(index={"inverse": "1/T"})
