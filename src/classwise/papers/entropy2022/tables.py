"""The printed tables of Entropy 2022."""

import re
from pathlib import Path

from classwise.papers.published import Place, Tables

_ATTACKS = {
    "Natural": "clean",
    "Natural Accuracy": "clean",
    "PGD-20": "pgd-20",
    "C&W-20": "margin-20",
    "CW-20": "margin-20",
    "AA": "autoattack",
}
_COMBINED = {"PGD-AT + LS": "label-smoothing", "TRADES + LS": "trades-smoothed", "ME-RST+BIN": "me-rst with BIN"}
_TRAININGS = {"ST": "standard", "PGD-AT": "pgd-at", "TRADES": "trades"}


def _attack(row: str) -> Place:
    return {"attack": _ATTACKS[row]}


def _method(row: str) -> Place:
    """Read a row: our name of the method, with its settings as printed: "me-trades (β=1, λ=27)"."""
    name, bracket, rest = row.partition(" (")
    if "et al" in rest or "Dezfooli" in name:
        return {"defence": "rst" if name == "RST" else row}
    settings = "" if rest.startswith("α=0.1") else bracket + rest
    return {"defence": _COMBINED.get(name, name.lower()) + settings}


def _overall(column: str) -> tuple[str, Place]:
    return "overall", {"attack": _ATTACKS[column]}


def _worst(column: str) -> tuple[str, Place]:
    return "worst", {"attack": _ATTACKS[column]}


def _smoothed(column: str) -> tuple[str, Place]:
    defence = re.split(r"\+LS| difference", column)[0]
    variable = "change" if column.endswith("difference") else "smoothed" if "+LS" in column else "overall"
    return variable, {"defence": _TRAININGS[defence]}


TABLES = Tables(
    folder=Path(__file__).parent,
    readers={
        "1": (_attack, _smoothed),
        "2": (_method, _overall),
        "3": (_method, _overall),
        "4": (_method, _worst),
        "5": (_method, _overall),
    },
)
