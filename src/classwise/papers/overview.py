"""Sections of no paper: the attacks, and all defences side by side."""

import csv
from itertools import groupby
from pathlib import Path

import xarray as xr

from classwise.core.results import MISSING
from classwise.core.spec import Evaluation
from classwise.papers.sections import Section
from classwise.papers.wei2023 import methods

# From weak to strong; the slow ones cut down to a budget of seconds.
_ATTACKS = (
    *(Evaluation(attack=name) for name in ("clean", "fgsm", "pgd-20", "margin-20", "temperature-pgd-20", "apgd-ce", "strong")),
    Evaluation(attack="square", options={"queries": 500}),
    Evaluation(attack="n-attack", options={"steps": 30, "population": 50}),
    Evaluation(attack="cw", options={"goal": "inside", "rounds": 2, "steps": 100}),
    *(Evaluation(attack=name, precision="bfloat16") for name in ("pgd-20", "apgd-ce")),
)

# What is said of each defence: the paper that proposes it, or describes it as it is here; the row of Wei 2023, Tables 1 to 3,
# with it (`methods.METHODS`); or why the page "defences" does not train it. `about` may be of several.
_ROWS = list(csv.DictReader(Path(__file__).with_name("defences.csv").read_text(encoding="utf-8").splitlines()))
_COMPARED = tuple(row["defence"] for row in _ROWS if not (row["method"] or row["not_compared"]))
OF_CFA = {row["defence"]: row["method"] for row in _ROWS if row["method"]}
NOT_COMPARED = {row["defence"]: row["not_compared"] for row in _ROWS if row["not_compared"]}
SOURCES = {row["defence"]: row["paper"] for row in _ROWS if row["paper"]}
# Not on digits: each is a variant of a row that is, or converges too slowly (targeted-at), and no claim reads it.
_ON_PHOTOGRAPHS = ("trades-he", "trades-normalised", "fat", "fat-trades", "frl-rw", "targeted-at")
# The part of the page "defences" with the trainings of CFA.
CFA = "CFA"

SECTIONS: dict[str, Section] = {
    "performance": Section(title="How strong and how fast the attacks are", defences=("pgd-at",), evaluations=_ATTACKS),
    "defences": Section(
        title="The defences, class by class",
        defences=_COMPARED,
        evaluations=methods.EVALUATIONS,
        max_seeds=1,
        variants=lambda scale, plain: () if scale == "quick" and plain.defence in _ON_PHOTOGRAPHS else ({},),
        parts={CFA: methods.TABLES_1_TO_3},
    ),
}


def add_cfa(data: xr.Dataset, cfa: xr.Dataset) -> xr.Dataset:
    """Return outcomes or histories of the page "defences" with those of OF_CFA, along defence.

    cfa: the same of its part CFA; a defence whose training or average it lacks is left out.
    """
    rows = [data]
    for name, (training, checkpoint) in ((name, methods.METHODS[method]) for name, method in OF_CFA.items()):
        at = {"defence": training} | ({"checkpoint": checkpoint} if "checkpoint" in cfa.dims else {})
        if all(value in cfa[dim].values for dim, value in at.items()):
            row = cfa.sel(at, drop=True).expand_dims(defence=[name])
            known = "truth" not in row or (bool((row.truth >= 0).any()) and methods.is_accepted(cfa, training, checkpoint))
            rows += [row] * known
    how = {"join": "outer", "fill_value": MISSING, "coords": "minimal", "compat": "override", "combine_attrs": "override"}
    return xr.concat(rows, "defence", **how)  # type: ignore[call-overload,no-any-return]


def formulas() -> str:
    """Return in Markdown what each defence minimises and where it is from, as lists that open."""
    texts = []
    for _, group in groupby(_ROWS, key=lambda row: row["group"]):
        rows = list(group)
        lines = [f"- {row['about']}" for row in rows if row["about"]]
        others = ", ".join(f"{row['defence']} ({row['not_compared']})" for row in rows if row["not_compared"])
        lines += [f"- Not compared on this page: {others}."] if others else []
        names = ", ".join(row["defence"] for row in rows)
        texts.append("\n".join(["<details>", f"<summary>{names}</summary>", "", *lines, "", "</details>"]))
    return "\n".join(texts)
