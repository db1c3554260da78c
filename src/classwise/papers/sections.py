"""What a section of a paper asks for, and how a scale makes runs and questions of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from classwise.core.spec import Evaluation, Spec
from classwise.papers import variants
from classwise.papers.scales import OTHER_DATASETS, SCALES, Recipe
from classwise.papers.variants import Variants


@dataclass(frozen=True)
class Section:
    """A section of a paper: its title, the defences it trains and the evaluations it asks of each.

    run: fields of Spec that differ from those of the scale. repeats: how many of the seeds of the scale it takes, the first ones;
    None for all. further: evaluations that only the defences named are asked, of a checkpoint that others have not, say.
    pictures: whether its page shows attacked images, by the last evaluation, of the runs of the first seed. courses: whether it
    follows them step by step, under each attack that climbs. variants: what is varied beside defences and seeds; it comes last,
    whatever a reader asks for. parts: by a name, runs of other kinds or asked other questions, set beside these. widely: whether
    it asks the same of further datasets (`scales.FURTHER`) where the scale does, each a part by its name.
    """

    title: str
    defences: tuple[str, ...]
    evaluations: tuple[Evaluation, ...]
    run: Mapping[str, Any] = field(default_factory=dict)
    repeats: int | None = None
    further: Mapping[str, tuple[Evaluation, ...]] = field(default_factory=dict)
    pictures: bool = False
    variants: Variants = variants.unvaried
    parts: "Mapping[str, Section]" = field(default_factory=dict)
    courses: bool = False
    widely: bool = False


@dataclass(frozen=True)
class Request:
    """Runs, and the questions to put to each of them; the same for each part of the section."""

    specs: tuple[Spec, ...]
    evaluations: tuple[Evaluation, ...]
    further: Mapping[str, tuple[Evaluation, ...]] = field(default_factory=dict)
    parts: "Mapping[str, Request]" = field(default_factory=dict)

    @property
    def asked(self) -> list[tuple[Spec, tuple[Evaluation, ...]]]:
        """Each run with the questions put to it, those for its defence alone last; then the runs of the parts."""
        own = [(spec, (*self.evaluations, *self.further.get(spec.defence, ()))) for spec in self.specs]
        return own + [one for part in self.parts.values() for one in part.asked]


def _further(scale: str, dataset: str) -> Recipe:
    """Return in which fields runs on a dataset differ from those of the scale: none on the scale's own."""
    return Recipe() if dataset == SCALES[scale].run["dataset"] else OTHER_DATASETS[scale].get(dataset, Recipe())


def requested(
    asked: Section, scale: str, section: str, seeds: Sequence[int] | None, eval_eps: str | float | None, fields: Mapping[str, Any]
) -> Request:
    """Return what a section or a part of it asks for; `fields` of Spec reach the parts, other defences do not."""
    size = SCALES[scale]
    dataset = str(fields.get("dataset") or asked.run.get("dataset") or size.run["dataset"])
    other = _further(scale, dataset)
    specs = tuple(
        training(
            scale,
            defence,
            seed,
            paper_of(section),
            **{**other.run, **other.defences.get(defence, {}), **asked.run, **fields, **variant},
        )
        for defence in asked.defences
        for variant in asked.variants(scale, dataset)
        for seed in (size.seeds[: asked.repeats] if seeds is None else seeds)
    )
    evaluations = evaluations_at(scale, section, asked.evaluations)
    own = [other.attacks.get(named.attack, {}) for named in asked.evaluations]
    evaluations = tuple(Evaluation(**{**vars(one), **some}) for one, some in zip(evaluations, own, strict=True))
    further = {defence: evaluations_at(scale, section, some) for defence, some in asked.further.items()}
    if eval_eps is not None:
        evaluations = _at(eval_eps, evaluations)
        further = {defence: _at(eval_eps, some) for defence, some in further.items()}
    parts = {name: requested(part, scale, section, seeds, eval_eps, fields) for name, part in asked.parts.items()}
    return Request(specs, evaluations, further, parts)


def _at(eps: str | float, evaluations: tuple[Evaluation, ...]) -> tuple[Evaluation, ...]:
    """Return evaluations at another radius."""
    return tuple(Evaluation(**{**vars(one), "eps": eps}) for one in evaluations)


def paper_of(section: str) -> str:
    """Return the folder of a section: the paper it belongs to, "" for none."""
    return section.rpartition("/")[0]


def training(scale: str, defence: str, seed: int, paper: str = "", **changed: Any) -> Spec:
    """Return how a scale trains a defence; `paper` decides at scale "paper" whose recipe that is."""
    return Spec(**{**SCALES[scale].fields(defence, paper), **changed, "defence": defence, "seed": seed})


def evaluations_at(scale: str, section: str, evaluations: tuple[Evaluation, ...]) -> tuple[Evaluation, ...]:
    """Return evaluations as a scale asks them for a section."""
    size, (paper, _, name) = SCALES[scale], section.rpartition("/")
    return tuple(dict.fromkeys(Evaluation(**size.question(vars(one), paper, name)) for one in evaluations))
