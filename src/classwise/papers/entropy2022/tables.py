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


def _method(row: str) -> Place:
    """Read a row: our name of the method, with its settings as printed: "me-trades (β=1, λ=27)"."""
    name, bracket, rest = row.partition(" (")
    if "et al" in row or "Dezfooli" in row:
        return {"defence": "rst" if name == "RST" else row}
    settings = "" if rest.startswith("α=0.1") else bracket + rest
    return {"defence": _COMBINED.get(name, name.lower()) + settings}


def _overall(column: str) -> tuple[str, Place]:
    return "overall", {"attack": _ATTACKS[column]}


def _smoothed(column: str) -> tuple[str, Place]:
    defence = re.split(r"\+LS| difference", column)[0]
    variable = "change" if column.endswith("difference") else "smoothed" if "+LS" in column else "overall"
    return variable, {"defence": _TRAININGS[defence]}


# Classes as the text calls them, and their names here.
_CLASSES = {"cat": "cat", "car": "automobile", "dog": "dog"}
_TEXT_ATTACKS = {"natural": "clean", "PGD-10": "pgd-10"}
_IN_TEXT = {"single AT": "single-class-at", "PGD-AT": "pgd-at", "TRADES": "trades"}


def _in_text(row: str) -> Place:
    """Read a row of the numbers in the text: "single AT, cat", "PGD-AT, cat and dog", "10 classes"."""
    name, comma, classes = row.partition(", ")
    if not comma:
        return {"classes": int(row.split()[0])}
    victim, pair, partner = classes.partition(" and ")
    return {"defence": _IN_TEXT[name], "label": _CLASSES[victim], **({"partner": _CLASSES[partner]} if pair else {})}


def _measure_in_text(column: str) -> tuple[str, Place]:
    """Read a column of the numbers in the text: "natural error", "PGD-10 accuracy", "limit of entropy" (nats).

    Errors are those of a pair of classes together ("error of a pair"), accuracies of the attacked class.
    """
    attack, _, measure = column.partition(" ")
    if measure not in ("error", "accuracy"):
        return column, {}
    return ("error of a pair" if measure == "error" else measure), {"attack": _TEXT_ATTACKS[attack]}


TABLES = Tables(
    folder=Path(__file__).parent,
    readers={
        "1": (lambda row: {"attack": _ATTACKS[row]}, _smoothed),
        "2": (_method, _overall),
        "3": (_method, _overall),
        "4": (_method, lambda column: ("worst", {"attack": _ATTACKS[column]})),
        "5": (_method, _overall),
        "text": (_in_text, _measure_in_text),
    },
)
