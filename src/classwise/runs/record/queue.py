"""The queue of runs to record: a TOML file of runs in order of importance, each with its reason and its evaluations."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from classwise.core.errors import UserError, check_known, unknown
from classwise.core.paths import check_file, checkout
from classwise.core.spec import Evaluation, Spec
from classwise.papers import registry, scales
from classwise.runs import store
from classwise.runs.store import Key

# The keys of an entry, and what their values must be.
_KINDS = {str: "a text", list: "a list", dict: "a table", bool: "true or false"}
_KEYS: dict[str, type] = {"why": str, "scale": str, "paper": str, "section": str, "defences": list, "seeds": list}
_KEYS |= {"evaluations": list, "run": dict, "weights": bool}

# Attacks of seconds or minutes; at their defaults they come before all others.
_FIRST = ("clean", "fgsm", "pgd-20")


@dataclass(frozen=True)
class Item:
    """A run to record, its evaluations, and the reason.

    shown: results that are stored apart from outcomes: features of each class, a few images for the book, and with all steps of
    the attack. weights: whether it is filed with its weights.
    """

    spec: Spec
    evaluations: tuple[Evaluation, ...]
    why: str
    shown: tuple[Key, ...] = ()
    weights: bool = False

    @property
    def title(self) -> str:
        return f"{self.spec.name} (seed {self.spec.seed})"

    @property
    def outcomes(self) -> list[Key]:
        """The history and the outcomes."""
        return store.outcomes_of([(self.spec, self.evaluations)])

    @property
    def keys(self) -> list[Key]:
        """All results but the history in order: quick attacks, then what pages show, then the other attacks."""
        # Weights of other checkpoints are filed only while few of them are needed: one after another, before the last.
        ordered = sorted(self.evaluations, key=lambda one: (one.checkpoint == "last", one.checkpoint))
        outcomes = [Key(self.spec, store.OUTCOMES, one) for one in ordered]
        first = [Key(self.spec, store.OUTCOMES, Evaluation(attack=name)) for name in _FIRST]
        return [*(key for key in outcomes if key in first), *self.shown, *(key for key in outcomes if key not in first)]


def default(scale: str | None = None) -> Path:
    """Return the queue of the project, or its queue of one scale."""
    path = checkout() / "data" / "recorded" / f"{scale or 'queue'}.toml"
    if scale is not None and not path.exists():
        raise UserError(f"scale {scale!r} has no queue of its own ({path}); leave --scale out, or name a queue with --queue")
    return path


def read(path: Path) -> list[Item]:
    """Return the runs of a queue in order, each once, with the evaluations of all its entries and of the sections.

    Names of fields, scales and lists are checked here, those of models, defences and attacks by `check`. A UserError names the
    file and the entry.
    """
    check_file(path, "queue", "name a file .toml with --queue")
    try:
        tables = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not TOML: {error}") from None
    for name in tables:
        if name not in ("evaluations", "entry"):
            raise UserError(f"{path}: {unknown('table', name, ('evaluations', 'entry'))}")
    lists, entries = tables.get("evaluations", {}), tables.get("entry", [])
    if not isinstance(lists, dict) or not isinstance(entries, list) or not entries:
        raise UserError(f"{path}: expected a table [evaluations] and at least one [[entry]]")
    merged: dict[Spec, Item] = {}
    for number, entry in enumerate(entries, 1):
        try:
            items = _items(entry, lists)
        except (UserError, TypeError, AttributeError) as error:
            why = entry.get("why", "no line why") if isinstance(entry, dict) else repr(entry)
            raise UserError(f"{path}, entry {number} ({why}): {error}") from None
        for item in items:
            old = merged.get(item.spec, item)
            evaluations = tuple(dict.fromkeys((*old.evaluations, *item.evaluations)))
            shown = tuple(dict.fromkeys((*old.shown, *item.shown)))
            merged[item.spec] = Item(item.spec, evaluations, old.why, shown, old.weights or item.weights)
    return list(merged.values())


def _items(entry: Mapping[str, Any], lists: Mapping[str, Any]) -> list[Item]:
    """Return the runs of an entry, seed by seed."""
    for name, value in entry.items():
        check_known("key of an entry", [name], _KEYS)
        if not isinstance(value, _KEYS[name]):
            raise UserError(f"{name} must be {_KINDS[_KEYS[name]]}, got {value!r}")
        if "section" in entry and name not in ("why", "section", "scale", "seeds", "weights"):
            raise UserError(f"{name} has no meaning next to section; leave it out")
    for name in ("why", "scale") if "section" in entry else ("why", "defences", "seeds"):
        if not entry.get(name):
            raise UserError(f"{name} is missing")
    section, scale = entry.get("section"), entry.get("scale")
    check_known("scale", [] if scale is None else [scale], scales.SCALES)
    listed = tuple(one for name in entry.get("evaluations", []) for one in _listed(name, lists))
    if scale is None and not listed:
        raise UserError("evaluations is missing: no section evaluates a run without a scale")
    pairs = (
        [(spec, listed) for spec in _specs(entry)]
        if section is None
        else registry.request(section, str(scale), seeds=entry.get("seeds")).pairs
    )
    recorded_only = scale is not None and scales.SCALES[scale].recorded_only
    items = []
    for spec, evaluations in pairs:
        # The book computes no features of what is only read.
        shown = [Key(spec, store.FEATURES, spec.evaluation_of())] * recorded_only
        for key in _of_sections(scale, spec.seed).get(spec, ()) if scale and (recorded_only or section is None) else ():
            if key.kind != store.OUTCOMES:
                shown.append(key)
            elif section is None and key.evaluation is not None:
                evaluations = (*evaluations, key.evaluation)
        resolved = dict.fromkeys(one.resolve_for(spec) for one in evaluations)
        items.append(Item(spec, tuple(resolved), entry["why"], tuple(dict.fromkeys(shown)), entry.get("weights", False)))
    return items


def _specs(entry: Mapping[str, Any]) -> list[Spec]:
    scale, paper, run = entry.get("scale"), entry.get("paper", ""), entry.get("run", {})
    check_known("paper", [paper] if paper else [], registry.PAPERS)
    known = [name for name in Spec.__dataclass_fields__ if name not in ("defence", "seed")]
    check_known("field of a run", run, known)
    changed = {name: tuple(value) if isinstance(value, list) else value for name, value in run.items()}
    if scale is None and not {"dataset", "eps"} <= set(changed):
        raise UserError("an entry without a scale must say run = {dataset = ..., eps = ...}")
    pairs = [(defence, seed) for seed in entry["seeds"] for defence in entry["defences"]]
    if scale is None:
        return [Spec(**{**changed, "defence": defence, "seed": seed}) for defence, seed in pairs]
    return [registry.training(scale, defence, seed, paper, **changed) for defence, seed in pairs]


def _listed(name: str, lists: Mapping[str, Any]) -> list[Evaluation]:
    """Return the evaluations of a named list; `grid` multiplies one by the values of some options."""
    check_known("list of evaluations", [name], lists)
    result, known = list[Evaluation](), Evaluation.__dataclass_fields__
    for given in lists[name]:
        fields: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in given.items()}
        grid = fields.pop("grid", {})
        for field in fields:
            if field not in known:
                raise UserError(f"in the list {name!r}: {unknown('field of an evaluation', field, known)}")
        result += Evaluation(**fields).grid(**grid)
    return result


@cache
def _of_sections(scale: str, seed: int) -> dict[Spec, list[Key]]:
    """Return by run what all sections at a scale need of it: its outcomes, and what is stored apart from them.

    Images and traces are shown of the first seed of a scale alone; features are needed where the book does not compute them.
    """
    from classwise.runs.schedule import plan  # torch

    size = scales.SCALES[scale]
    kinds = (store.OUTCOMES,) + (store.FEATURES,) * size.recorded_only
    kinds += (store.EXAMPLES, store.TRACE) * (seed == size.seeds[0])
    sections = registry.SECTIONS.items()
    wanted = plan.merge(plan.section_keys(some, registry.request(name, scale, seeds=[seed])) for name, some in sections)
    return {spec: [key for key in keys if key.kind in kinds] for spec, keys in wanted.items()}


def check(items: Sequence[Item], path: Path) -> None:
    """Raise a UserError if a run or an evaluation names something that does not exist."""
    from classwise.runs.compute import validate  # torch

    planned = {item.spec.id for item in items}
    for item in items:
        try:
            validate.check(item.spec, planned)
            for evaluation in item.evaluations:
                validate.check_evaluation(evaluation, item.spec)
        except UserError as error:
            raise UserError(f"{path}, {item.title} ({item.why}): {error}") from None
