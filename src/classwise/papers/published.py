"""The papers' own tables, number by number, as labelled arrays in the vocabulary of `results`.

Each is a CSV of data/published/: paper, table, row, column as printed, value, spread (standard deviation), unit, note. A number
that the paper misprints stands there as printed, with a note. Rates are in percent.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core.errors import UserError, unknown
from classwise.core.paths import checkout, data_folder
from classwise.stats import metrics

PAPERS = ("tian2021", "wei2023", "entropy2022")

Place = Mapping[str, object]
# How one table is read: coordinates from the name of a row, the variable and coordinates from that of a column.
Reader = tuple[Callable[[str], Place], Callable[[str], tuple[str, Place]]]

_DEFENCES = {
    "Madry": "pgd-at",
    "TRADES": "trades",
    "MART": "mart",
    "HE": "pgd-he",
    "AT": "pgd-at",
    "AT + EMA": "at-ema",
    "AT + FAWA": "at-fawa",
    "AT + CCM": "at-ccm",
    "AT + CFA": "at-cfa",
    "TRADES + EMA": "trades-ema",
    "TRADES + FAWA": "trades-fawa",
    "TRADES + CCM": "trades-ccm",
    "TRADES + CCR": "trades-ccr",
    "TRADES + CCM + CCR": "trades-ccm-ccr",
    "TRADES + CFA": "trades-cfa",
    "FAT": "fat",
    "FAT + EMA": "fat-ema",
    "FAT + FAWA": "fat-fawa",
    "FAT + CCM": "fat-ccm",
    "FAT + CFA": "fat-cfa",
    "FRL": "frl",
    "FRL + EMA": "frl-ema",
}
_ATTACKS = {
    "FGSM": "fgsm",
    "CW∞": "cw",
    "PGD": "pgd-20",
    "Transfer-based attack": "transfer",
    "N attack": "n-attack",
    "Natural": "clean",
    "Natural Accuracy": "clean",
    "clean": "clean",
    "PGD-20": "pgd-20",
    "C&W-20": "margin-20",
    "CW-20": "margin-20",
    "AA": "autoattack",
}
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def rows(paper: str) -> pd.DataFrame:
    """Return every number of every table of a paper, as printed: a row each. UserError for a paper without tables here."""
    if paper not in PAPERS:
        raise unknown("paper with tables", paper, PAPERS)
    return _read(paper).copy()


def files() -> list[Path]:
    """Return the files of all papers: those of the data folder, or else of the checkout."""
    folder = data_folder() / "published"
    folder = folder if folder.exists() else checkout() / "data" / "published"
    return [folder / f"{paper}.csv" for paper in PAPERS]


def misprints() -> pd.DataFrame:
    """Return what the papers misprint or leave unclear, a row each: paper, where, printed, read as, why."""
    return pd.read_csv(files()[0].with_name("slips.csv"), dtype=str)


@cache
def _read(paper: str) -> pd.DataFrame:
    path = next(path for path in files() if path.stem == paper)
    return pd.read_csv(path, dtype={"table": str}, keep_default_na=False).assign(
        spread=lambda read: pd.to_numeric(read["spread"], errors="coerce")
    )


def load(paper: str, table: str | int) -> xr.Dataset:
    """Return a table of a paper as a Dataset.

    Its dimensions are those of results where they mean the same: defence, attack, label (names of classes), predicted, inverse,
    checkpoint. Its variables: accuracy (of each class), overall, worst, cv, mcd, ... in percent or points; change: what the table
    prints beside a value; with "_spread" added, the standard deviation where it is printed. Attributes: paper, table, dataset.
    """
    whole, key = rows(paper), str(table)
    known = sorted(whole["table"].unique())
    if key not in known:
        raise unknown(f"table of {paper}", key, known)
    if (paper, key) not in _READERS:
        raise UserError(f"table {key} of {paper} holds names of classes, not measures; see published.superclasses()")
    row, column = _READERS[paper, key]
    cells: dict[str, list[dict[str, object]]] = {}
    for line in whole[whole["table"] == key].to_dict("records"):
        variable, place = column(str(line["column"]))
        cells.setdefault(variable, []).append({**row(str(line["row"])), **place, "value": line["value"]})
        if not np.isnan(line["spread"]):
            cells.setdefault(f"{variable}_spread", []).append({**row(str(line["row"])), **place, "value": line["spread"]})
    found = xr.merge([_array(name, some) for name, some in cells.items()], join="outer")
    dataset = "tiny-imagenet" if (paper, key) == ("wei2023", "4") else "cifar10"
    return found.assign_attrs(paper=paper, table=key, dataset=dataset)


def _array(name: str, cells: list[dict[str, object]]) -> xr.DataArray:
    """Return cells as an array whose coordinates stand in the order of the table."""
    table = pd.DataFrame(cells)
    dims = [str(column) for column in table.columns if column != "value"]
    array = xr.DataArray.from_series(table.set_index(dims if len(dims) > 1 else dims[0])["value"])
    return array.sel({dim: list(dict.fromkeys(table[dim])) for dim in dims}).rename(name)


def superclasses(dataset: str) -> dict[str, list[str]]:
    """Return the classes of each superclass of "cifar10" or "stl10", named as the dataset does (Tian 2021, Table 2)."""
    printed = {"cifar10": "CIFAR-10", "stl10": "STL-10"}
    if dataset not in printed:
        raise unknown("dataset with superclasses", dataset, printed)
    found: dict[str, list[str]] = {}
    for line in rows("tian2021").query("table == '2'").itertuples():
        name, _, group = str(line.row).partition(" ")
        if name == printed[dataset]:
            found.setdefault(group.lower(), []).append(str(line.column).lower())
    return found


def counts(rates: xr.DataArray, images: int = 1000) -> xr.DataArray:
    """Return rates of classes in percent (dimension label) as counts(..., label, predicted) of so many images a class.

    So our measures of counts can be taken of their tables. What the mistakes were taken for is not printed: they are put with the
    next class, and no measure of confusion means anything of them.
    """
    labels = rates.label.values
    right = (rates * images / 100).round()
    size = len(labels)
    eye = xr.DataArray(np.eye(size), dims=("label", "predicted"), coords={"label": labels, "predicted": labels})
    following = eye.copy(data=np.roll(np.eye(size), 1, axis=1))
    return (right * eye + (images - right) * following).rename("count")


def _class(column: str) -> str:
    return CIFAR10[int(column)]


def _classes(column: str) -> tuple[str, Place]:
    """Read a column of Tian 2021, Tables 1 and 3: Tot., classes by number, CV and MCD, each perhaps with its change."""
    name, _, change = column.partition(" ")
    ending = "_change" if change else ""
    plain = {"Tot": "overall", "CV": "cv", "MCD": "mcd"}
    return (plain[name] + ending, {}) if name in plain else (f"accuracy{ending}", {"label": _class(name)})


def _attacked(row: str) -> Place:
    defence, _, attack = row.removesuffix(")").partition(" (")
    return {"defence": _DEFENCES[defence], "attack": _ATTACKS[attack]}


def _heated(row: str) -> Place:
    defence, _, inverse = row.removesuffix(")").partition(" (1/T=")
    return {"defence": _DEFENCES[defence], "inverse": int(inverse)}


def _treated(row: str) -> Place:
    treatment = "as they are" if "Original" in row else "white and adjusted" if "training" in row else "white"
    return {"attack": "clean" if "Natural" in row else "temperature-pgd-20", "treatment": treatment}


def _answers(column: str) -> tuple[str, Place]:
    name, _, change = column.removeprefix("Class ").partition(" ")
    return "change" if change else "count", {"predicted": _class(name)}


def _kept(column: str) -> tuple[str, Place]:
    """Read a column of Wei 2023: "best AA worst 20%"."""
    checkpoint, attack, measure = column.split(" ", 2)
    names = {"average": "overall", "worst": "worst", "worst 20%": "worst_k"}
    return names[measure], {"checkpoint": checkpoint, "attack": _ATTACKS[attack]}


def _defence(row: str) -> Place:
    return {"defence": _DEFENCES[row]}


def _method(row: str) -> Place:
    """Read a row of Entropy 2022: our name of the method, with its settings as printed: "me-trades (β=1, λ=27)"."""
    name, bracket, rest = row.partition(" (")
    ours = {"PGD-AT + LS": "label-smoothing", "TRADES + LS": "trades with label smoothing", "ME-RST+BIN": "me-rst with BIN"}
    if "et al" in rest or "Dezfooli" in name:
        return {"defence": "rst" if name == "RST" else row}
    settings = "" if rest.startswith("α=0.1") else bracket + rest
    return {"defence": ours.get(name, name.lower()) + settings}


def _overall(column: str) -> tuple[str, Place]:
    return "overall", {"attack": _ATTACKS[column]}


def _worst(column: str) -> tuple[str, Place]:
    return "worst", {"attack": _ATTACKS[column]}


def _smoothed(column: str) -> tuple[str, Place]:
    names = {"ST": "standard", "PGD-AT": "pgd-at", "TRADES": "trades"}
    defence = re.split(r"\+LS| difference", column)[0]
    variable = "change" if column.endswith("difference") else "smoothed" if "+LS" in column else "overall"
    return variable, {"defence": names[defence]}


_READERS: Mapping[tuple[str, str], Reader] = {
    ("tian2021", "1"): (_attacked, _classes),
    ("tian2021", "3"): (_heated, _classes),
    ("tian2021", "4"): (_treated, _answers),
    ("wei2023", "1"): (_defence, _kept),
    ("wei2023", "2"): (_defence, lambda column: _kept(f"best {column}")),
    ("wei2023", "3"): (_defence, lambda column: _kept(f"best {column}")),
    ("wei2023", "4"): (_defence, _kept),
    ("entropy2022", "1"): (lambda row: {"attack": _ATTACKS[row]}, _smoothed),
    ("entropy2022", "2"): (_method, _overall),
    ("entropy2022", "3"): (_method, _overall),
    ("entropy2022", "4"): (_method, _worst),
    ("entropy2022", "5"): (_method, _overall),
}


def compared_with_published(count: xr.DataArray, table: xr.Dataset, over: Sequence[str] = ("defence", "attack")) -> pd.DataFrame:
    """Return ours and theirs: all images, the worst and the best class, CV and MCD, a line for each setting of theirs.

    count: ours, with the dimensions `over`. table: theirs, of `published.load`. Settings that we lack have no numbers of ours;
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
    columns = {f"{name}, {who}": one for name, both in pairs.items() for who, one in zip(("ours", "theirs"), both, strict=True)}
    flat = {key: one.drop_vars("label", errors="ignore").to_series().reorder_levels([*over]) for key, one in columns.items()}
    order = table.overall.transpose(*over).to_series().dropna().index
    return pd.DataFrame(flat).reindex(order).map(lambda value: "" if pd.isna(value) else f"{value:.1f}")
