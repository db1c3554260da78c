"""What a paper and its sections are, and how a scale turns a section into runs and evaluations."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, TypeVar

import xarray as xr

from classwise.core.datasets import class_names
from classwise.core.identity import scaled_radius
from classwise.core.spec import Evaluation, Spec
from classwise.papers import variants
from classwise.papers.claims import Claim, Verdict
from classwise.papers.published import Tables
from classwise.papers.scales import FINE_TUNED, OTHER_DATASETS, SCALES, Recipe, merge
from classwise.papers.variants import Variants
from classwise.stats import combine

# What is usually evaluated: images as they are, and under PGD with 20 steps.
CLEAN_AND_PGD = (Evaluation(attack="clean"), Evaluation(attack="pgd-20"))


@dataclass(frozen=True)
class Derived:
    """A Dataset that claims name: `function` makes it of the outcomes of the parts in `needs`, "" for the section itself.

    optional: parts that it takes after these, None for each that is not recorded.
    """

    function: Callable[..., xr.Dataset]
    needs: tuple[str, ...]
    optional: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Part:
    """Runs, and how each of them is evaluated.

    Parameters
    ----------
    title, defences, run
        what pages call it; the defences that are trained; fields of Spec that differ from those of the scale.
    max_seeds, variants
        how many of the scale's seeds are computed, the first ones, where they are not only read, None for all; what varies apart
        from defences and seeds, with precedence over what a reader chooses.
    evaluations, extra_evaluations, at
        those of every run; by defence, those of it alone, at the radius of each run; multiples ("1/2") of the radius of the scale
        at which attacks are evaluated, whatever that of the run, and clean images at the first one, () for the radius of the run.
    target, features, adds
        which class of a dataset targeted attacks aim at, None for their own target; the attacks ("clean") of whose images it
        needs the features of each class; what else its outcomes hold, by name (`runs.pages.ADDED`).
    """

    title: str
    defences: tuple[str, ...]
    evaluations: tuple[Evaluation, ...] = CLEAN_AND_PGD
    run: Mapping[str, Any] = field(default_factory=dict)
    max_seeds: int | None = None
    at: tuple[str, ...] = ()
    extra_evaluations: Mapping[str, tuple[Evaluation, ...]] = field(default_factory=dict)
    target: Callable[[str], str] | None = None
    variants: Variants = variants.usual
    features: tuple[str, ...] = ()
    adds: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Section(Part):
    """A section of a paper: its own runs and evaluations, by the fields of `Part`, and its parts.

    Parameters
    ----------
    gallery, traces
        whether its page shows images attacked by the last evaluation, of the first seed; whether it records each step of attacks.
    parts, datasets, arrange
        further runs or evaluations, by name; by scale, the other datasets on which it is repeated with its parts, each a part by
        its name; by the name that claims give as `data`, how a Dataset is made of the outcomes of the section and of its parts.
    """

    gallery: bool = False
    traces: bool = False
    parts: Mapping[str, Part] = field(default_factory=dict)
    datasets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    arrange: Mapping[str, Derived] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper: its sections, its claims, its own recipe and its printed tables.

    Parameters
    ----------
    name, title, recipe, tables
        the name of its folder; what the book calls it; how it trains and attacks at scale "paper"; its printed tables, if any.
    sections, claims, theorems
        its sections by their notebook, "tian2021/4-1-..."; its claims; by the name of a page without runs, what judges its claims
        by computation alone (scale CLOSED_FORM).
    """

    name: str
    title: str
    recipe: Recipe
    sections: Mapping[str, Section] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    tables: Tables | None = None
    theorems: Mapping[str, Callable[[], Sequence[Verdict]]] = field(default_factory=dict)

    @classmethod
    def from_modules(
        cls, title: str, sections: Sequence[Any], theorems: Sequence[Any] = (), *, recipe: Recipe, tables: Tables | None
    ) -> "Paper":
        """Return the paper of the modules of its sections, which have NAME, SECTION and CLAIMS.

        theorems: modules with NAME, CLAIMS and verdicts, whose pages come first.
        """
        pages = (*theorems, *sections)
        name = pages[0].NAME.partition("/")[0]
        return cls(
            name=name,
            title=title,
            recipe=recipe,
            sections={one.NAME: one.SECTION for one in sections},
            claims=tuple(claim for one in pages for claim in one.CLAIMS),
            tables=tables,
            theorems={one.NAME: one.verdicts for one in theorems},
        )

    @property
    def pages(self) -> tuple[str, ...]:
        """The notebooks of the paper in the order of the book."""
        return (*self.theorems, *self.sections)


@dataclass(frozen=True)
class Request:
    """Runs at a scale and their evaluations, and the same for each part of the section.

    Parameters
    ----------
    specs, evaluations, extra_evaluations
        the runs; the evaluations of each; by defence, further ones of its runs alone.
    scale, parts, features
        the name of the scale; the requests of the parts, by name; the attacks on whose images the features are needed.
    incomplete, absent
        if restricted to what is stored: defences and seeds that lack a run or an evaluation; evaluations that single runs lack.
    """

    specs: tuple[Spec, ...]
    evaluations: tuple[Evaluation, ...]
    scale: str = "quick"
    extra_evaluations: Mapping[str, tuple[Evaluation, ...]] = field(default_factory=dict)
    parts: "Mapping[str, Request]" = field(default_factory=dict)
    incomplete: frozenset[tuple[str, int]] = frozenset()
    absent: frozenset[tuple[Spec, Evaluation]] = frozenset()
    features: tuple[str, ...] = ()

    def evaluations_of(self, spec: Spec) -> tuple[Evaluation, ...]:
        """Return the evaluations of one of the runs, those of its defence alone last."""
        requested = (*self.evaluations, *self.extra_evaluations.get(spec.defence, ()))
        return tuple(evaluation for evaluation in requested if (spec, evaluation) not in self.absent)

    @property
    def feature_pairs(self) -> list[tuple[Spec, tuple[Evaluation, ...]]]:
        """Each run with the evaluations of whose images the features are needed, then those of the parts."""
        pairs = [
            (spec, [one for one in self.evaluations_of(spec) if one.attack.split("@")[0] in self.features]) for spec in self.specs
        ]
        return [(spec, tuple(some)) for spec, some in pairs] + [
            pair for part in self.parts.values() for pair in part.feature_pairs
        ]

    @property
    def pairs(self) -> list[tuple[Spec, tuple[Evaluation, ...]]]:
        """Each run with its evaluations, then those of the parts."""
        parts = [pair for part in self.parts.values() for pair in part.pairs]
        return [(spec, self.evaluations_of(spec)) for spec in self.specs] + parts


_Some = TypeVar("_Some", bound=Part)


def move_to_dataset(part: _Some, dataset: str) -> _Some:
    """Return a section or part on a dataset, with its parts, apart from those that have one of their own."""
    moved = replace(part, run={**part.run, "dataset": dataset})
    if not isinstance(moved, Section):
        return moved
    parts = {name: one if "dataset" in one.run else move_to_dataset(one, dataset) for name, one in moved.parts.items()}
    return replace(moved, parts=parts)


def resolve_request(
    section: Part,
    name: str,
    scale: str,
    recipe: Recipe,
    *,
    seeds: Sequence[int] | None = None,
    eval_eps: str | float | None = None,
    fields: Mapping[str, Any] = MappingProxyType({}),
) -> Request:
    """Return the runs and evaluations of a section, or of a part of it, at a scale.

    name: of the section's notebook. recipe: of its paper. seeds, eval_eps (the radius of the evaluations), fields of Spec: what a
    reader changes, also of the parts; None changes nothing.
    """
    size = SCALES[scale]
    dataset = str(fields.get("dataset") or section.run.get("dataset") or size.run["dataset"])
    other = Recipe() if dataset == size.run["dataset"] else OTHER_DATASETS.get(scale, {}).get(dataset, Recipe())
    listed = size.seeds if size.recorded_only else size.seeds[: section.max_seeds]
    used = listed if seeds is None else seeds
    run = size.allowed(section.run)
    plain = {one: merge(other.run, other.defences.get(one, {}), run, fields) for one in section.defences}
    bases = {one: training(scale, recipe, one, next(iter(used), 0), changed) for one, changed in plain.items()}
    specs = tuple(
        training(scale, recipe, defence, seed, merge(changed, size.allowed(variant)))
        for defence, changed in plain.items()
        for variant in section.variants(scale, bases[defence])
        for seed in used
    )
    radius = {} if eval_eps is None else {"eps": eval_eps}

    def scaled(one: Evaluation, **changes: Any) -> Evaluation:
        return Evaluation(**{**size.evaluation(vars(one), recipe, name.rpartition("/")[2]), **radius, **changes})

    aim = {"options": {"target": class_names(dataset).index(section.target(dataset))}} if section.target else {}
    # The reader's radius, if any, is in place of several.
    given = section.evaluations if radius else _at(section, next(iter(bases.values())).eps)
    evaluations = tuple(dict.fromkeys(scaled(one, **other.attacks.get(one.attack, {}), **aim) for one in given))
    extra = {defence: tuple(map(scaled, some)) for defence, some in section.extra_evaluations.items()}
    choices: dict[str, Any] = {"seeds": seeds, "eval_eps": eval_eps, "fields": fields}
    inner = section.parts if isinstance(section, Section) else {}
    parts = {part: resolve_request(one, name, scale, recipe, **choices) for part, one in inner.items()}
    return Request(specs, evaluations, scale, extra, parts, features=section.features)


def _at(section: Part, eps: str) -> tuple[Evaluation, ...]:
    radii = [scaled_radius(eps, Fraction(multiple)) for multiple in section.at]
    several = [(one, radii[:1] if one.attack == "clean" else radii) for one in section.evaluations]
    return tuple(replace(one, eps=radius) for one, some in several for radius in some) or section.evaluations


def training(scale: str, recipe: Recipe, defence: str, seed: int, changed: Mapping[str, Any]) -> Spec:
    """Return how a defence is trained at a scale by a recipe, with changed fields; in FINE_TUNED, from which run."""
    base = FINE_TUNED.get(defence)
    start = {"warm_start": training(scale, recipe, base, seed, changed).id} if base else {}
    fixed = {"defence": defence, "seed": seed} | ({"keep_last": 1} if base else {})
    return Spec(**merge(start, SCALES[scale].fields(defence, recipe, changed), fixed))


# What is made of a joined Dataset and of its members by name.
Then = Callable[[xr.Dataset, Mapping[str, xr.Dataset]], xr.Dataset]


@dataclass(frozen=True)
class Member:
    """A part ("" is the section itself) as one member of the new dimension, or as several, one for each of its own along `by`.

    name: of the member, or how it is made from its Dataset; "" with `by`: as there. at: what is selected of the part first.
    """

    part: str
    name: str | Callable[[xr.Dataset], str] = ""
    by: str = ""
    at: Mapping[str, Any] = field(default_factory=dict)

    def members(self, data: xr.Dataset) -> Iterator[tuple[str, xr.Dataset]]:
        """Yield the members with their names."""
        chosen = data.sel({dim: [one] for dim, one in self.at.items()})
        known = list(map(str, chosen[self.by].values)) if self.by in chosen.dims else [""]
        for place, name in enumerate(known):
            one = chosen.isel({self.by: place}, drop=True) if self.by in chosen.dims else chosen
            yield self.name(one) if callable(self.name) else self.name or name, one


def join_parts(
    along: str, *rows: Member, optional: bool = False, any_seeds: bool = False, like: str = "", then: Then | None = None
) -> Derived:
    """Return how parts are joined along a dimension, on the seeds that all of them have; `any_seeds`: each on its own.

    All have the attack names of the last one, where each has a single attack, and the attributes of the first part. optional:
    all parts but the first may be missing. like: the part whose defence and attributes the result has instead. then: what is made
    of the result and of its members by name.
    """
    parts = tuple(dict.fromkeys(row.part for row in rows))
    origin = like or parts[0]

    def function(*data: xr.Dataset | None) -> xr.Dataset:
        known = {name: one for name, one in zip(parts, data, strict=True) if one is not None}
        members = dict(pair for row in rows if row.part in known for pair in row.members(known[row.part]))
        if all(one.sizes["attack"] == 1 for one in members.values()):
            last = list(members.values())[-1].attack.values
            members = {name: one.assign_coords(attack=last) for name, one in members.items()}
        members = members if any_seeds else combine.shared_seeds(members)
        result = combine.combine(along, members).assign_attrs(known[origin].attrs)
        result = result.assign_coords(defence=known[origin].defence.values) if like else result
        return then(result, members) if then else result

    return Derived(function, parts[:1] if optional else parts, parts[1:] if optional else ())
