"""The printed tables of Tian et al. 2021, and measures of claims computed from them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from classwise.core.datasets import DATASETS, class_names
from classwise.papers import published
from classwise.papers.claims import ClaimMeasure

_CLASSES = class_names("cifar10")
_DEFENCES = {"Madry": "pgd-at", "TRADES": "trades", "MART": "mart", "HE": "pgd-he"}
_ATTACKS = {"FGSM": "fgsm", "CW∞": "cw", "PGD": "pgd-20", "Transfer-based attack": "transfer", "N attack": "n-attack"}


def _measure_or_class(column: str) -> tuple[str, published.Place]:
    """Read a column of Tables 1 and 3: Tot., classes by number, CV and MCD, each perhaps with its change."""
    name, _, change = column.partition(" ")
    ending = "_change" if change else ""
    plain = {"Tot": "overall", "CV": "cv", "MCD": "mcd"}
    return (plain[name] + ending, {}) if name in plain else (f"accuracy{ending}", {"label": _CLASSES[int(name)]})


def _attacked(row: str) -> published.Place:
    defence, _, attack = row.removesuffix(")").partition(" (")
    return {"defence": _DEFENCES[defence], "attack": _ATTACKS[attack]}


def _at_temperature(row: str) -> published.Place:
    defence, _, inverse = row.removesuffix(")").partition(" (1/T=")
    return {"defence": _DEFENCES[defence], "inverse": int(inverse)}


def _treated(row: str) -> published.Place:
    treatment = "as they are" if "Original" in row else "white and adjusted" if "training" in row else "white"
    return {"attack": "clean" if "Natural" in row else "temperature-pgd-20", "treatment": treatment}


def _predictions(column: str) -> tuple[str, published.Place]:
    name, _, change = column.removeprefix("Class ").partition(" ")
    return "change" if change else "count", {"predicted": _CLASSES[int(name)]}


TABLES = published.Tables(
    folder=Path(__file__).parent,
    readers={
        "1": (_attacked, _measure_or_class),
        "3": (_at_temperature, _measure_or_class),
        "4": (_treated, _predictions),
        "text": (lambda row: {"of": row}, lambda column: (column, {})),
    },
    unread={"2": "holds names of classes, not measures; see core.datasets.superclasses()"},
)


def text_number(column: str, row: str) -> float:
    """Return a number that the text states, by its column and row in tables.csv."""
    return TABLES.number("text", column, of=row)


def animals(names: xr.DataArray) -> xr.DataArray:
    """Return whether each class belongs to the animals of Table 2."""
    return names.copy(data=np.isin(names.values, DATASETS["cifar10"].superclasses["animals"]))


def table_1_value(measure: ClaimMeasure, attacks: Sequence[str]) -> float:
    """Return a measure of the paper's Table 1, of attacks in order; of "a|b" that is a."""
    return rate_measure(measure, TABLES.load(1).accuracy.sel(attack=[one.partition("|")[0] for one in attacks]))


def rate_measure(measure: ClaimMeasure, rates: xr.DataArray) -> float:
    """Return a measure of published rates."""
    return float(measure(xr.Dataset({"count": published.counts(rates)})))


BOTH_ATTACKS = ("pgd-20", "temperature-pgd-20")


def table_3_value(measure: ClaimMeasure, defences: Sequence[str]) -> float:
    """Return a measure of Table 3 and of the PGD of Table 1 of the paper, at the best temperature of each of the defences."""
    hot, plain = TABLES.load(3).accuracy, TABLES.load(1).accuracy.sel(attack="pgd-20", drop=True)
    best = hot.isel(inverse=hot.mean("label", skipna=False).fillna(np.inf).argmin("inverse")).drop_vars("inverse")
    rates = xr.concat([plain, best], "attack").assign_coords(attack=list(BOTH_ATTACKS))
    return rate_measure(measure, rates.sel(defence=[one.partition("|")[0] for one in defences]))


def table_4_gain(attack: str, first: str, second: str) -> float:
    """Return how many points cats gain from one line of the paper's Table 4 to another, of 1,000 images."""
    before, after = (TABLES.number(4, "count", attack=attack, predicted="cat", treatment=one) for one in (first, second))
    return (after - before) / 10
