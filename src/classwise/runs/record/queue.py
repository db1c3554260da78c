"""The queue of runs to record: a TOML file of runs in order of importance, each with its reason and its evaluations."""

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from classwise.core.errors import UserError, unknown
from classwise.core.paths import check_file, checkout
from classwise.core.spec import Evaluation, Spec
from classwise.papers import registry, scales
from classwise.papers.sections import Request, Section
from classwise.runs import artifacts, store
from classwise.runs.store import Key

_KEYS = ("why", "scale", "paper", "defences", "seeds", "evaluations", "run", "weights", "section")


@dataclass(frozen=True)
class Item:
    """A run to record, its evaluations, and the reason.

    examples, traces: the evaluations under which a few images are stored for the book, and with all steps of the attack.
    features: those of whose images the features of each class are stored. weights: whether it is filed with its weights.
    """

    spec: Spec
    evaluations: tuple[Evaluation, ...]
    why: str
    examples: tuple[Evaluation, ...] = ()
    traces: tuple[Evaluation, ...] = ()
    features: tuple[Evaluation, ...] = ()
    weights: bool = False

    @property
    def title(self) -> str:
        return f"{self.spec.name} (seed {self.spec.seed})"

    @property
    def outcomes(self) -> list[Key]:
        """The history and the outcomes."""
        return [Key(self.spec), *(Key(self.spec, store.OUTCOMES, one) for one in self.evaluations)]

    @property
    def keys(self) -> list[Key]:
        """All its results."""
        return [*self.outcomes, *self.further]

    @property
    def further(self) -> list[Key]:
        """The results that are stored apart from outcomes."""
        kinds = {store.FEATURES: self.features, store.EXAMPLES: self.examples, store.TRACE: self.traces}
        return [Key(self.spec, kind, evaluation) for kind, evaluations in kinds.items() for evaluation in evaluations]


def default(scale: str | None = None) -> Path:
    """Return the queue of the project, or its queue of one scale."""
    folder = checkout() / "data" / "recorded"
    if scale is None:
        return folder / "queue.toml"
    if scale not in scales.SCALES:
        raise unknown("scale", scale, scales.SCALES)
    path = folder / f"{scale}.toml"
    if not path.exists():
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
        except (UserError, TypeError) as error:
            raise UserError(f"{path}, entry {number} ({_title(entry)}): {error}") from None
        for item in items:
            old = merged.get(item.spec, Item(item.spec, (), item.why))
            merged[item.spec] = replace(
                old,
                evaluations=tuple(dict.fromkeys((*old.evaluations, *item.evaluations))),
                examples=tuple(dict.fromkeys((*old.examples, *item.examples))),
                traces=tuple(dict.fromkeys((*old.traces, *item.traces))),
                features=tuple(dict.fromkeys((*old.features, *item.features))),
                weights=old.weights or item.weights,
            )
    return list(merged.values())


def _title(entry: Any) -> str:
    return str(entry.get("why", "no line why")) if isinstance(entry, dict) else repr(entry)


def _items(entry: Mapping[str, Any], lists: Mapping[str, Any]) -> list[Item]:
    """Return the runs of an entry, seed by seed."""
    for name in entry:
        if name not in _KEYS:
            raise unknown("key of an entry", name, _KEYS)
    for name in ("why", "scale") if "section" in entry else ("why", "defences", "seeds"):
        if entry.get(name) in (None, "", []):
            raise UserError(f"{name} is missing")
    for name in ("defences", "seeds", "evaluations"):
        if not isinstance(entry.get(name, []), list):
            raise UserError(f"{name} must be a list, got {entry[name]!r}")
    if not isinstance(entry.get("weights", False), bool):
        raise UserError(f"weights must be true or false, got {entry['weights']!r}")
    if "section" in entry:
        return _section(entry)
    scale, paper, changed = entry.get("scale"), entry.get("paper", ""), _changed(entry)
    listed = [evaluation for name in entry.get("evaluations", []) for evaluation in _listed(name, lists)]
    if scale is None and not listed:
        raise UserError("evaluations is missing: no section evaluates a run without a scale")
    items = []
    for seed in entry["seeds"]:
        for defence in entry["defences"]:
            if scale is None:
                spec = Spec(**{**changed, "defence": defence, "seed": seed})
                items.append(Item(spec, _resolved(spec, listed), entry["why"]))
            else:
                spec = registry.training(scale, defence, seed, paper, **changed)
                evaluations = _resolved(spec, (*listed, *_of_sections(scale, seed).get(spec, ())))
                items.append(_with_shown(Item(spec, evaluations, entry["why"]), scale))
    return [replace(item, weights=entry.get("weights", False)) for item in items]


def _with_shown(item: Item, scale: str) -> Item:
    """Return a run with what is stored of it apart from outcomes; features only where the book does not compute them."""
    spec, features = item.spec, tuple[Evaluation, ...]()
    if scales.SCALES[scale].only_read:
        features = tuple(dict.fromkeys((spec.evaluation_of().resolved_for(spec), *_resolved(spec, _features(spec, scale)))))
    return replace(item, examples=_examples(spec, scale), traces=_traces(spec, scale), features=features)


def _changed(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of Spec that an entry changes, after checking its scale, its paper and the names of the fields."""
    if entry.get("scale") is not None and entry["scale"] not in scales.SCALES:
        raise unknown("scale", entry["scale"], scales.SCALES)
    if entry.get("paper") and entry["paper"] not in registry.PAPERS:
        raise unknown("paper", entry["paper"], registry.PAPERS)
    known = [name for name in Spec.__dataclass_fields__ if name not in ("defence", "seed")]
    for name in entry.get("run", {}):
        if name not in known:
            raise unknown("field of a run", name, known)
    changed = {name: tuple(value) if isinstance(value, list) else value for name, value in entry.get("run", {}).items()}
    if entry.get("scale") is None and not {"dataset", "eps"} <= set(changed):
        raise UserError("an entry without a scale must say run = {dataset = ..., eps = ...}")
    return changed


def _resolved(spec: Spec, evaluations: Iterable[Evaluation]) -> tuple[Evaluation, ...]:
    return tuple(dict.fromkeys(evaluation.resolved_for(spec) for evaluation in evaluations))


def _section(entry: Mapping[str, Any]) -> list[Item]:
    """Return all runs of a section at a scale, or those of some seeds, with those of its parts."""
    for name in entry:
        if name not in ("why", "section", "scale", "seeds"):
            raise UserError(f"{name} has no meaning next to section; leave it out")
    scale = str(entry["scale"])
    pairs = registry.request(str(entry["section"]), scale, seeds=entry.get("seeds")).pairs
    items = [Item(spec, _resolved(spec, evaluations), str(entry["why"])) for spec, evaluations in pairs]
    return [_with_shown(item, scale) for item in items] if scales.SCALES[scale].only_read else items


def _listed(name: str, lists: Mapping[str, Any]) -> list[Evaluation]:
    """Return the evaluations of a named list; `grid` multiplies one by the values of some options."""
    if name not in lists:
        raise unknown("list of evaluations", name, lists)
    result: list[Evaluation] = []
    for fields in lists[name]:
        fields = dict(fields)
        grid = fields.pop("grid", {})
        for field in fields:
            if field not in Evaluation.__dataclass_fields__:
                known = Evaluation.__dataclass_fields__
                raise UserError(f"in the list {name!r}: {unknown('field of an evaluation', field, known)}")
        result += Evaluation(**fields).grid(**grid)
    return result


@cache
def _of_sections(scale: str, seed: int) -> dict[Spec, tuple[Evaluation, ...]]:
    """Return by run the evaluations of all sections at a scale."""
    result: dict[Spec, tuple[Evaluation, ...]] = {}
    for name in registry.SECTIONS:
        for spec, evaluations in _request(name, scale, seed).pairs:
            result[spec] = tuple(dict.fromkeys((*result.get(spec, ()), *evaluations)))
    return result


def _features(spec: Spec, scale: str) -> list[Evaluation]:
    """Return the evaluations of whose images the sections need the features of a run."""
    names = [name for name, section in registry.SECTIONS.items() if _asks_for_features(section)]
    pairs = [pair for name in names for pair in _request(name, scale, spec.seed).feature_pairs]
    return [evaluation for run, evaluations in pairs if run == spec for evaluation in evaluations]


def _asks_for_features(section: Section) -> bool:
    return bool(section.features) or any(_asks_for_features(part) for part in section.parts.values())


def _examples(spec: Spec, scale: str) -> tuple[Evaluation, ...]:
    """Return the evaluations under which pages show images of a run."""
    requests = _requests(spec, scale, lambda section: section.gallery)
    return tuple(dict.fromkeys(request.evaluations[-1] for request in requests if spec in request.specs))


def _traces(spec: Spec, scale: str) -> tuple[Evaluation, ...]:
    """Return the evaluations of which pages show all steps of the attack."""
    requests = _requests(spec, scale, lambda section: section.traces)
    of_run = (one for request in requests for run, evaluations in request.pairs if run == spec for one in evaluations)
    return tuple(dict.fromkeys(artifacts.traced_evaluations(of_run)))


def _requests(spec: Spec, scale: str, wanted: Callable[[Section], bool]) -> list[Request]:
    """Return the requests of the wanted sections, for runs of the first seed of a scale; none for other runs."""
    if spec.seed != scales.SCALES[scale].seeds[0]:
        return []
    names = [name for name, section in registry.SECTIONS.items() if wanted(section)]
    return [_request(name, scale, spec.seed) for name in names]


@cache
def _request(section: str, scale: str, seed: int) -> Request:
    return registry.request(section, scale, seeds=[seed])


def check(items: Sequence[Item], path: Path) -> None:
    """Raise a UserError if a run or an evaluation names something that does not exist."""
    from classwise.runs.compute import validate  # torch

    for item in items:
        try:
            validate.check(item.spec)
            for evaluation in item.evaluations:
                validate.check_evaluation(evaluation, item.spec)
        except UserError as error:
            raise UserError(f"{path}, {item.title} ({item.why}): {error}") from None
