"""All papers, with the sections of no paper: the runs and evaluations of each section, and the verdicts on its claims."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import pandas as pd
import xarray as xr

from classwise.core.errors import NotRecorded, UserError, check_known, check_once, unknown
from classwise.core.spec import Spec
from classwise.papers import benz2020, entropy2022, overview, sections, tian2021, wei2023
from classwise.papers.claims import Claim, Verdict
from classwise.papers.judging import DEFAULT, Bootstrap, judge_all
from classwise.papers.published import Tables
from classwise.papers.scales import COMMON, SCALES, Recipe
from classwise.papers.sections import Paper, Part, Request, Section

_PAPERS = (benz2020.PAPER, tian2021.PAPER, wei2023.PAPER, entropy2022.PAPER)
PAPERS: dict[str, Paper] = {paper.name: paper for paper in _PAPERS}
_SECTIONS = (*(paper.sections for paper in _PAPERS), overview.SECTIONS)
SECTIONS: dict[str, Section] = {name: section for some in _SECTIONS for name, section in some.items()}
THEOREMS: dict[str, Callable[[], Sequence[Verdict]]] = {name: one for paper in _PAPERS for name, one in paper.theorems.items()}
CLAIMS: tuple[Claim, ...] = tuple(claim for paper in _PAPERS for claim in paper.claims)
_TABLES: dict[str, Tables] = {paper.name: paper.tables for paper in _PAPERS if paper.tables is not None}


def paper_of(section: str) -> str:
    """Return the name of the paper that a section belongs to, "" for none."""
    return section.rpartition("/")[0]


def tables_of(paper: str) -> Tables:
    """Return the printed tables of a paper; UserError for a paper without any."""
    check_known("paper with tables", [paper], _TABLES)
    return _TABLES[paper]


def misprints() -> pd.DataFrame:
    """Return what the papers misprint or leave unclear, a row each: paper, where, printed, read as, why."""
    return pd.concat([tables.misprints() for tables in _TABLES.values()], ignore_index=True)


def _recipe(paper: str) -> Recipe:
    check_known("paper", [paper] if paper else [], PAPERS)
    return PAPERS[paper].recipe if paper else COMMON


def training(scale: str, defence: str, seed: int, paper: str = "", **changed: Any) -> Spec:
    """Return how a scale trains a defence; `paper` selects the recipe at scale "paper"."""
    return sections.training(scale, _recipe(paper), defence, seed, changed)


def request(
    section: str,
    scale: str = "quick",
    *,
    seeds: Sequence[int] | None = None,
    defences: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    eval_eps: str | float | None = None,
    **changed: Any,
) -> Request:
    """Return the runs and evaluations of a section at a scale; None keeps what the scale or the section has.

    seeds, defences: other repetitions and defences. datasets: others than the one of the scale, the first for the section itself,
    each of the rest as a part by its name. eval_eps: the radius of the evaluations, by default that of the training.
    `changed`: other fields of Spec, such as dataset or eps. A misspelt name is a UserError that names the nearest valid one.
    """
    _check_names(section, scale, {"seeds": seeds, "defences": defences, "datasets": datasets}, changed)
    definition = SECTIONS[section]
    if defences is not None:
        definition = replace(definition, defences=tuple(defences))
    fields = {name: value for name, value in changed.items() if value is not None}
    if datasets is not None and "dataset" in fields:
        raise UserError(f"dataset={fields['dataset']!r} and datasets={list(datasets)} say two things: give one of them")
    names = list(datasets or [])
    if not names and definition.datasets.get(scale) and "dataset" not in fields:
        names = [str(SCALES[scale].run["dataset"]), *definition.datasets[scale]]
    if names:
        first, *further = (sections.move_to_dataset(definition, name) for name in names)
        definition = replace(first, parts={**first.parts, **dict(zip(names[1:], further, strict=True))})
    recipe = _recipe(paper_of(section))
    return sections.resolve_request(definition, section, scale, recipe, seeds=seeds, eval_eps=eval_eps, fields=fields)


def base(scale: str) -> Request:
    """Return the runs that show how the networks of a scale vary from training to training (`stats.trainings`)."""
    # Adversarial training as it is, once for each seed.
    part = Part(title="Trainings that differ in the seed", defences=("pgd-at", "trades"), features=("clean",))
    return sections.resolve_request(part, "trainings", scale, COMMON)


def _check_names(section: str, scale: str, lists: Mapping[str, Sequence[Any] | None], changed: Mapping[str, Any]) -> None:
    if section in THEOREMS:
        raise UserError(f"{section} is computed from formulas and has no runs; `classwise render {section}` executes its page")
    check_known("section", [section], SECTIONS)
    check_known("scale", [scale], SCALES)
    for name, given in lists.items():
        if given is not None and (isinstance(given, str) or not given):
            raise UserError(f"{name} must be a list with at least one member, got {given!r}")
        check_once(name, given or [])
    for name, value in changed.items():
        if name in ("seed", "defence"):
            raise UserError(f"{name}={value!r} is one of the runs of a section; give all of them: {name}s=[{value!r}]")
    check_known("parameter", changed, [*Spec.__dataclass_fields__, "seeds", "defences", "datasets", "eval_eps"])


def scale_of(spec: Spec) -> str | None:
    """Return the scale that a run belongs to, as trained there or varied by a section; None where its fields match none."""
    # Most runs differ from those of seed 0 in the seed alone; the others name runs of their own seed.
    for defences, seed in product((None, (spec.defence,)), dict.fromkeys((0, spec.seed))):
        for name in SCALES:
            if replace(spec, seed=seed) in _trained(name, seed, defences):
                return name
    return None


@cache
def _trained(scale: str, seed: int, defences: tuple[str, ...] | None) -> frozenset[Spec]:
    """Return the runs of a scale with a seed: those of its sections, which a reader may have chosen the defences of."""
    requests = [request(name, scale, seeds=[seed], defences=defences) for name in SECTIONS]
    papers = ("", *PAPERS) if SCALES[scale].paper_recipes else ("",)
    plain = (training(scale, defence, seed, paper) for defence in defences or () for paper in papers)
    return frozenset(spec for one in requests for spec, _ in one.pairs).union(plain)


def claims_of(section: str) -> tuple[Claim, ...]:
    """Return the claims of a section; a name without claims is a UserError."""
    claims = tuple(claim for claim in CLAIMS if claim.section == section)
    if not claims:
        raise unknown("section with claims", section, list(dict.fromkeys(claim.section for claim in CLAIMS)))
    return claims


def judge(
    section: str,
    outcomes: xr.Dataset | Mapping[str, xr.Dataset],
    *,
    scale: str | None = None,
    dataset: str | None = None,
    strict: bool = True,
    bootstrap: Bootstrap = DEFAULT,
) -> list[Verdict]:
    """Return a verdict on each claim of a section.

    outcomes: one Dataset, or several by the name that claims give as `data`. scale, dataset: of the outcomes, by default as their
    attributes say. strict: a claim that cannot be measured is NotRecorded, else it is "not tested", with the reason.
    """
    claims = claims_of(section)
    if not outcomes:
        raise NotRecorded(f"the runs that the claims of {section} need are not recorded")
    first = outcomes if isinstance(outcomes, xr.Dataset) else next(iter(outcomes.values()))
    origin = {"scale": str(scale or first.attrs.get("scale", "")), "dataset": str(dataset or first.attrs.get("dataset", ""))}
    for name, value in origin.items():
        if not value:
            raise UserError(f"the outcomes have no attribute {name}, which a verdict must name; write judge(..., {name}=...)")
    return judge_all(claims, outcomes, **origin, strict=strict, bootstrap=bootstrap)
