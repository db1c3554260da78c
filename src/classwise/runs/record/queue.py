"""The queue of what is worth recording: a file of runs in order, each with a line why, and what is asked of them."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from classwise.core.errors import UserError, unknown
from classwise.core.paths import checkout
from classwise.core.spec import Evaluation, Spec
from classwise.papers import registry, scales, sections
from classwise.runs import artifacts

_KEYS = ("why", "scale", "paper", "defences", "seeds", "ask", "run", "section")


@dataclass(frozen=True)
class Item:
    """One run to record, all that is asked of it, and why.

    pictures, courses: by what some images are attacked, to be shown, and to be followed step by step.
    """

    spec: Spec
    evaluations: tuple[Evaluation, ...]
    why: str
    pictures: tuple[Evaluation, ...] = ()
    courses: tuple[Evaluation, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.spec.name} (seed {self.spec.seed})"


def default() -> Path:
    """Return the queue that comes with the project."""
    return checkout() / "data" / "recorded" / "queue.toml"


def read(path: Path) -> list[Item]:
    """Return the runs of a queue in order, each once, with every evaluation that any entry or section asks of it.

    Names of fields, scales and lists are checked; those of the tables of the torch half by `check`. A slip is a UserError that
    names the file and the entry.
    """
    try:
        told = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise UserError(f"there is no queue {path}; name one with --queue") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not TOML: {error}") from None
    for name in told:
        if name not in ("questions", "entry"):
            raise UserError(f"{path}: {unknown('table', name, ('questions', 'entry'))}")
    lists, entries = told.get("questions", {}), told.get("entry", [])
    if not isinstance(lists, dict) or not isinstance(entries, list) or not entries:
        raise UserError(f"{path}: expected a table [questions] and at least one [[entry]]")
    merged: dict[Spec, Item] = {}
    for number, entry in enumerate(entries, 1):
        try:
            items = _items(entry, lists)
        except (UserError, TypeError) as error:
            raise UserError(f"{path}, entry {number} ({_titled(entry)}): {error}") from None
        for item in items:
            old = merged.get(item.spec, Item(item.spec, (), item.why))
            merged[item.spec] = replace(
                old,
                evaluations=tuple(dict.fromkeys((*old.evaluations, *item.evaluations))),
                pictures=tuple(dict.fromkeys((*old.pictures, *item.pictures))),
                courses=tuple(dict.fromkeys((*old.courses, *item.courses))),
            )
    return list(merged.values())


def _titled(entry: Any) -> str:
    return str(entry.get("why", "no line why")) if isinstance(entry, dict) else repr(entry)


def _items(entry: Mapping[str, Any], lists: Mapping[str, Any]) -> list[Item]:
    """Return the runs of an entry, seed by seed."""
    for name in entry:
        if name not in _KEYS:
            raise unknown("key of an entry", name, _KEYS)
    if "section" in entry:
        return _section(entry)
    for name in ("why", "defences", "seeds", "ask"):
        if not entry.get(name):
            raise UserError(f"{name} is missing")
        if name != "why" and not isinstance(entry[name], list):
            raise UserError(f"{name} must be a list, got {entry[name]!r}")
    scale, paper, changed = entry.get("scale"), entry.get("paper", ""), dict(entry.get("run", {}))
    if scale is not None and scale not in scales.SCALES:
        raise unknown("scale", scale, scales.SCALES)
    if paper and paper not in scales.SCALES["paper"].papers:
        raise unknown("paper", paper, [name for name in scales.SCALES["paper"].papers if name])
    for name in changed:
        if name not in Spec.__dataclass_fields__ or name in ("defence", "seed"):
            raise unknown("field of a run", name, [one for one in Spec.__dataclass_fields__ if one not in ("defence", "seed")])
    changed = {name: tuple(value) if isinstance(value, list) else value for name, value in changed.items()}
    if scale is None and not {"dataset", "eps"} <= set(changed):
        raise UserError("an entry without a scale must say run = {dataset = ..., eps = ...}")
    asked = [one for name in entry["ask"] for one in _asked(name, lists)]
    found = []
    for seed in entry["seeds"]:
        for defence in entry["defences"]:
            whole = {**changed, "defence": defence, "seed": seed}
            spec = Spec(**whole) if scale is None else sections.training(scale, defence, seed, paper, **changed)
            own = [one.of(spec) for one in (*asked, *_of_sections(spec, scale))]
            found.append(Item(spec, tuple(dict.fromkeys(own)), entry["why"], _pictured(spec, scale), _followed(spec, scale)))
    return found


def _section(entry: Mapping[str, Any]) -> list[Item]:
    """Return all runs of a section at a scale, with those of its parts."""
    for name in entry:
        if name not in ("why", "section", "scale"):
            raise UserError(f"{name} has no meaning beside section, which says it all; leave it out")
    for name in ("why", "scale"):
        if not entry.get(name):
            raise UserError(f"{name} is missing")
    asked = registry.request(str(entry["section"]), str(entry["scale"])).asked
    return [Item(spec, tuple(one.of(spec) for one in evaluations), str(entry["why"])) for spec, evaluations in asked]


def _asked(name: str, lists: Mapping[str, Any]) -> list[Evaluation]:
    """Return the evaluations of a named list; `grid` multiplies one by the values of some options."""
    if name not in lists:
        raise unknown("list of questions", name, lists)
    found: list[Evaluation] = []
    for fields in lists[name]:
        fields = dict(fields)
        grid = fields.pop("grid", {})
        for one in fields:
            if one not in Evaluation.__dataclass_fields__:
                raise UserError(f"in the list {name!r}: {unknown('field of a question', one, Evaluation.__dataclass_fields__)}")
        found += Evaluation(**fields).grid(**grid)
    return found


def _of_sections(spec: Spec, scale: str | None) -> list[Evaluation]:
    """Return what the sections ask of a run at its scale."""
    if scale is None:
        return []
    return list(_asking(scale, spec.seed).get(spec, ()))


@cache
def _asking(scale: str, seed: int) -> dict[Spec, tuple[Evaluation, ...]]:
    """Return what all sections together ask of each of their runs with a seed."""
    found: dict[Spec, tuple[Evaluation, ...]] = {}
    for name in registry.SECTIONS:
        for spec, evaluations in registry.request(name, scale, seeds=[seed]).asked:
            found[spec] = tuple(dict.fromkeys((*found.get(spec, ()), *evaluations)))
    return found


def _pictured(spec: Spec, scale: str | None) -> tuple[Evaluation, ...]:
    """Return by what the pages of the sections show images of a run attacked."""
    if scale is None or spec.seed != scales.SCALES[scale].seeds[0]:
        return ()
    requests = [
        registry.request(name, scale, seeds=[spec.seed]) for name, section in registry.SECTIONS.items() if section.pictures
    ]
    return tuple(dict.fromkeys(one.evaluations[-1] for one in requests if spec in one.specs))


def _followed(spec: Spec, scale: str | None) -> tuple[Evaluation, ...]:
    """Return by what the pages of the sections follow images of a run step by step."""
    if scale is None or spec.seed != scales.SCALES[scale].seeds[0]:
        return ()
    requests = [
        registry.request(name, scale, seeds=[spec.seed]) for name, section in registry.SECTIONS.items() if section.courses
    ]
    asked = (one for request in requests for run, own in request.asked if run == spec for one in own)
    return tuple(dict.fromkeys(artifacts.traced_specs(asked)))


def check(items: Sequence[Item], path: Path) -> None:
    """Raise UserError where a run or a question names something that does not exist."""
    from classwise.runs.compute import validate  # torch

    for item in items:
        try:
            validate.check(item.spec)
            for evaluation in item.evaluations:
                validate.check_evaluation(evaluation, item.spec)
        except UserError as error:
            raise UserError(f"{path}, {item.title} ({item.why}): {error}") from None
