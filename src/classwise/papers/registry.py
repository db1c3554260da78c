"""All papers, with the sections of no paper: the runs and evaluations of each section, and the verdicts on its claims."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import xarray as xr

from classwise.core.errors import NotRecorded, UserError, check_once, unknown
from classwise.core.spec import Spec
from classwise.papers import benz2020, entropy2022, overview, sections, tian2021, wei2023
from classwise.papers.claims import Claim, Verdict
from classwise.papers.judging import DEFAULT, Bootstrap, judge_all
from classwise.papers.published import Tables
from classwise.papers.scales import COMMON, OTHER_DATASETS, SCALES, Recipe
from classwise.papers.sections import Choices, Paper, Request, Section

_PAPERS = (benz2020.PAPER, tian2021.PAPER, wei2023.PAPER, entropy2022.PAPER)
PAPERS: dict[str, Paper] = {paper.name: paper for paper in _PAPERS}
SECTIONS: dict[str, Section] = {
    **{name: section for paper in PAPERS.values() for name, section in paper.sections.items()},
    **overview.SECTIONS,
}
THEOREMS: dict[str, Callable[[], Sequence[Verdict]]] = {
    name: judged for paper in PAPERS.values() for name, judged in paper.theorems.items()
}
CLAIMS: tuple[Claim, ...] = tuple(claim for paper in PAPERS.values() for claim in paper.claims)


def paper_of(section: str) -> str:
    """Return the name of the paper that a section belongs to, "" for none."""
    return section.rpartition("/")[0]


def tables_of(paper: str) -> Tables:
    """Return the printed tables of a paper; UserError for a paper without any."""
    known = {name: some.tables for name, some in PAPERS.items() if some.tables is not None}
    if paper not in known:
        raise unknown("paper with tables", paper, known)
    return known[paper]


def misprints() -> pd.DataFrame:
    """Return what the papers misprint or leave unclear, a row each: paper, where, printed, read as, why."""
    return pd.concat([some.tables.misprints() for some in PAPERS.values() if some.tables is not None], ignore_index=True)


def _recipe(paper: str) -> Recipe:
    if paper and paper not in PAPERS:
        raise unknown("paper", paper, PAPERS)
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
        first, *further = (sections.on_dataset(definition, name) for name in names)
        definition = replace(first, parts={**first.parts, **dict(zip(names[1:], further, strict=True))})
    choices = Choices(seeds=seeds, eval_eps=eval_eps, fields=fields)
    return sections.requested(definition, section, scale, _recipe(paper_of(section)), choices)


def _check_names(section: str, scale: str, lists: Mapping[str, Sequence[Any] | None], changed: Mapping[str, Any]) -> None:
    """Raise UserError where an argument of `request` names something that does not exist."""
    if section in THEOREMS:
        raise UserError(f"{section} is computed from formulas and has no runs; `classwise render {section}` executes its page")
    if section not in SECTIONS:
        raise unknown("section", section, SECTIONS)
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    for name, given in lists.items():
        if given is not None and (isinstance(given, str) or not given):
            raise UserError(f"{name} must be a list with at least one member, got {given!r}")
        check_once(name, given or [])
    for name in changed:
        if name not in Spec.__dataclass_fields__:
            raise unknown("parameter", name, [*Spec.__dataclass_fields__, "seeds", "defences", "datasets", "eval_eps"])


# Fields of Spec without a second notation, in one of which most variants differ from a run.
_AS_GIVEN = ("dataset", "model", "width", "epochs", "measure", "redraw")


def scale_of(spec: Spec) -> str | None:
    """Return the scale that a run belongs to, as trained there or varied by a section; None where its fields match none."""
    for name, size in SCALES.items():
        plain = {paper: training(name, spec.defence, spec.seed, paper) for paper in ("", *PAPERS)}
        if any(spec == plain[paper] for paper in (plain if size.paper_recipes else ("",))):
            return name
        for section, definition in SECTIONS.items():
            paper = paper_of(section)
            for fields in _varied(definition, name, plain[paper]):
                near = bool(fields) and _agrees(spec, plain[paper], fields)
                if near and spec == training(name, spec.defence, spec.seed, paper, **fields):
                    return name
    return None


def _agrees(spec: Spec, plain: Spec, fields: Mapping[str, Any]) -> bool:
    """Return whether a run agrees with a changed one in _AS_GIVEN; comparing these is faster than making a Spec."""
    return all(getattr(spec, name) == fields.get(name, getattr(plain, name)) for name in _AS_GIVEN)


def _varied(section: Section, scale: str, plain: Spec) -> Iterator[Mapping[str, Any]]:
    """Yield the fields in which the runs of a section and of its parts differ from that of the scale."""
    for variant in section.variants(scale, plain):
        yield SCALES[scale].allowed({**section.run, **variant})
    for part in section.parts.values():
        yield from _varied(part, scale, plain)
    for name in section.datasets.get(scale, ()):
        recipe = OTHER_DATASETS[scale].get(name, Recipe())
        yield from ({"dataset": name, **recipe.run, **recipe.defences.get(defence, {})} for defence in section.defences)


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
    only: Sequence[str] | None = None,
    strict: bool = True,
    bootstrap: Bootstrap = DEFAULT,
) -> list[Verdict]:
    """Return a verdict on each claim of a section, or on those named in `only`.

    outcomes: one Dataset, or several by the name that claims give as `data`. scale, dataset: of the outcomes, by default as their
    attributes say. strict: a claim that cannot be measured is a MeasurementError, else it is "not tested", with the reason.
    Holm's correction is for the claims that this call tests.
    """
    claims = claims_of(section)
    for name in only or ():
        if name not in [claim.name for claim in claims]:
            raise unknown(f"claim of {section}", name, [claim.name for claim in claims])
    if not outcomes:
        raise NotRecorded(f"the runs that the claims of {section} need are not recorded")
    first = outcomes if isinstance(outcomes, xr.Dataset) else next(iter(outcomes.values()))
    origin = {"scale": scale or first.attrs.get("scale"), "dataset": dataset or first.attrs.get("dataset")}
    for name, value in origin.items():
        if not value:
            raise UserError(f"the outcomes have no attribute {name}, which a verdict must name; write judge(..., {name}=...)")
    selected = [claim for claim in claims if only is None or claim.name in only]
    attributes = {name: str(value) for name, value in origin.items()}
    return judge_all(selected, outcomes, **attributes, strict=strict, bootstrap=bootstrap)
