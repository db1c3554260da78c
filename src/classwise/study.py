"""Which runs and evaluations each section of each paper needs, at each scale."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from classwise.errors import UserError, unknown
from classwise.scales import SCALES
from classwise.spec import Evaluation, Spec

__all__ = ["SCALES", "SECTIONS", "Request", "Section", "questions", "request", "scale_of", "training"]


@dataclass(frozen=True)
class Section:
    """A section of a paper: its title, the defences it trains and the evaluations it asks of each.

    run: fields of Spec that differ from those of the scale. repeats: how many of the seeds of the scale it takes, the first ones;
    None for all. further: evaluations that only the defences named are asked, of a checkpoint that others have not, say.
    pictures: whether its page shows attacked images, by the last evaluation, of the runs of the first seed. courses: whether it
    follows them step by step, under each attack that climbs.
    """

    title: str
    defences: tuple[str, ...]
    evaluations: tuple[Evaluation, ...]
    run: Mapping[str, Any] = field(default_factory=dict)
    repeats: int | None = None
    further: Mapping[str, tuple[Evaluation, ...]] = field(default_factory=dict)
    pictures: bool = False
    courses: bool = False


@dataclass(frozen=True)
class Request:
    """Runs, and the questions to put to each of them."""

    specs: tuple[Spec, ...]
    evaluations: tuple[Evaluation, ...]
    further: Mapping[str, tuple[Evaluation, ...]] = field(default_factory=dict)

    @property
    def asked(self) -> list[tuple[Spec, tuple[Evaluation, ...]]]:
        """Each run with the questions put to it, those for its defence alone last."""
        return [(spec, (*self.evaluations, *self.further.get(spec.defence, ()))) for spec in self.specs]


_UNDER_PGD = (Evaluation(attack="clean"), Evaluation(attack="pgd-20"))

_BIASED = ("standard", "pgd-at", "trades")
_COMPARED = ("pgd-at", "trades", "mart", "pgd-he")

# From weak to strong; the slow ones cut down to a budget of seconds.
_ATTACKS = (
    *(Evaluation(attack=name) for name in ("clean", "fgsm", "pgd-20", "margin-20", "temperature-pgd-20", "apgd-ce", "strong")),
    Evaluation(attack="square", options={"queries": 500}),
    Evaluation(attack="n-attack", options={"steps": 30, "population": 50}),
    Evaluation(attack="cw", options={"goal": "inside", "rounds": 2, "steps": 100}),
    *(Evaluation(attack=name, precision="bfloat16") for name in ("pgd-20", "apgd-ce")),
)

# All but five: *-per-class are told the classes by options, single-class-at is a diagnostic, rst and me-rst need more images.
_OBJECTIVES = ("standard", "pgd-at", "trades", "trades-normalised", "mart", "pgd-he", "trades-he", "fat", "fat-trades")
_SOFTENED = ("label-smoothing", "me-at", "me-trades", "similarity", "targeted-at", "fgsm-rs", "free-at")
_CALIBRATED = ("at-ccm", "at-cfa", "trades-ccm", "trades-ccr", "trades-cfa", "fat-cfa")
_PEERS = ("frl-rw", "frl-rmrw", "dafa", "wat", "faal")
_REWEIGHTED = ("cost-sensitive", "class-balanced", "ldam", "ldam-drw")
_AVERAGED = ("at-ema", "at-fawa", "trades-ema")
_OF_THE_AVERAGE = tuple(Evaluation(attack=name, checkpoint="average") for name in ("clean", "pgd-20", "strong"))

# Tian 2021, table 1: what is too slow for all images is asked of 20 of each class, with fewer steps.
_ROWS = (
    Evaluation(attack="fgsm"),
    Evaluation(attack="margin-20"),
    Evaluation(attack="pgd-20", substitute="standard"),
    Evaluation(attack="cw", options={"goal": "inside", "rounds": 2, "steps": 100}, per_class=20),
    Evaluation(attack="n-attack", options={"steps": 30, "population": 50}, per_class=20),
)

# Tian 2021, table 3: the whole grid, in exact and in short arithmetic; and the same read from the cosines of HE.
_GRID = Evaluation(attack="temperature-pgd-20").grid(inverse=(2, 5, 10, 50), form=("stable", "published"))
_OF_COSINES = tuple(replace(one, readout="cosines") for one in (Evaluation(attack="pgd-20"), *_GRID))

SECTIONS: dict[str, Section] = {
    "tian2021/4-1-class-bias": Section("Class-biased learning", _BIASED, _UNDER_PGD, pictures=True),
    "tian2021/4-2-class-relations": Section("The relations among classes", _BIASED, _UNDER_PGD, pictures=True),
    "tian2021/4-3-attacks-and-defences": Section(
        "The class-wise robustness under different attacks and defences",
        ("standard", *_COMPARED),
        _UNDER_PGD,
        repeats=2,
        further=dict.fromkeys(_COMPARED, _ROWS),
        pictures=True,
    ),
    "tian2021/5-temperature-pgd": Section(
        "Improving the attack: Temperature-PGD",
        _COMPARED,
        _UNDER_PGD,
        repeats=3,
        further={**dict.fromkeys(_COMPARED, _GRID), "pgd-he": (*_GRID, *_OF_COSINES)},
        pictures=True,
        courses=True,
    ),
    "performance": Section("How strong and how fast the attacks are", ("pgd-at",), _ATTACKS),
    "defences": Section(
        "The defences, class by class",
        (*_OBJECTIVES, *_SOFTENED, *_REWEIGHTED, *_CALIBRATED, *_PEERS, *_AVERAGED),
        (*_UNDER_PGD, Evaluation(attack="strong")),
        repeats=1,
        further=dict.fromkeys((*_AVERAGED, "at-cfa", "trades-cfa", "fat-cfa"), _OF_THE_AVERAGE),
    ),
}


def request(
    section: str,
    scale: str = "quick",
    *,
    seeds: Sequence[int] | None = None,
    defences: Sequence[str] | None = None,
    eval_eps: str | float | None = None,
    **changed: Any,
) -> Request:
    """Return what a section asks for at a scale; None leaves what the scale or the section says.

    seeds, defences: other repetitions and defences. eval_eps: the radius of the evaluations, by default that of the training.
    `changed`: other fields of Spec, such as dataset or eps. A slip is a UserError that names the nearest valid name.
    """
    if section not in SECTIONS:
        raise unknown("section", section, SECTIONS)
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    asked, size = SECTIONS[section], SCALES[scale]
    for name, given in (("seeds", seeds), ("defences", defences)):
        if given is not None and (isinstance(given, str) or not given):
            raise UserError(f"{name} must be a list with at least one member, got {given!r}")
    for name in changed:
        if name not in Spec.__dataclass_fields__:
            raise unknown("parameter", name, [*Spec.__dataclass_fields__, "seeds", "defences", "eval_eps"])
    fields = {**asked.run, **{name: value for name, value in changed.items() if value is not None}}
    specs = tuple(
        training(scale, defence, seed, _paper(section), **fields)
        for defence in (asked.defences if defences is None else defences)
        for seed in (size.seeds[: asked.repeats] if seeds is None else seeds)
    )
    evaluations = questions(section, scale)
    further = {defence: _asked(section, scale, some) for defence, some in asked.further.items()}
    if eval_eps is not None:
        evaluations = _at(eval_eps, evaluations)
        further = {defence: _at(eval_eps, some) for defence, some in further.items()}
    return Request(specs, evaluations, further)


def _at(eps: str | float, evaluations: tuple[Evaluation, ...]) -> tuple[Evaluation, ...]:
    """Return evaluations at another radius."""
    return tuple(Evaluation(**{**vars(one), "eps": eps}) for one in evaluations)


def _paper(section: str) -> str:
    """Return the folder of a section: the paper it belongs to, "" for none."""
    return section.rpartition("/")[0]


def training(scale: str, defence: str, seed: int, paper: str = "", **changed: Any) -> Spec:
    """Return how a scale trains a defence; `paper` decides at scale "paper" whose recipe that is."""
    return Spec(**{**SCALES[scale].fields(defence, paper), **changed, "defence": defence, "seed": seed})


def questions(section: str, scale: str) -> tuple[Evaluation, ...]:
    """Return what a section asks of each of its runs at a scale."""
    return _asked(section, scale, SECTIONS[section].evaluations)


def _asked(section: str, scale: str, evaluations: tuple[Evaluation, ...]) -> tuple[Evaluation, ...]:
    size, (paper, _, name) = SCALES[scale], section.rpartition("/")
    return tuple(dict.fromkeys(Evaluation(**size.question(vars(one), paper, name)) for one in evaluations))


def scale_of(spec: Spec) -> str | None:
    """Return the scale that a run belongs to, None where its fields are of none."""
    for name, size in SCALES.items():
        for paper in size.papers or ("",):
            if spec == training(name, spec.defence, spec.seed, paper):
                return name
    return None
