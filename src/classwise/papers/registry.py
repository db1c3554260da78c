"""Which runs and evaluations each section of each paper needs, at each scale."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import xarray as xr

from classwise.core.errors import UserError, unknown
from classwise.core.spec import Evaluation, Spec
from classwise.papers import variants
from classwise.papers.claims import Claim, Verdict
from classwise.papers.judging import judge_all
from classwise.papers.scales import OPT_IN_DATASETS, OTHER_DATASETS, SCALES
from classwise.papers.sections import Request, Section, paper_of, requested, training
from classwise.papers.tian2021 import section_4_1, section_4_2, section_4_3, section_5, section_6_1, section_6_2

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

# Tian 2021, sections 6.1 and 6.2 attack with Temperature-PGD.
_TEMPERED = (Evaluation(), Evaluation(attack="temperature-pgd-20"))

# Where a control paints the background, and the image as it is.
_REPAINTED = tuple(
    replace(one, transform=transform)
    for transform in ("none", "white-background", "flat-background", "half-white-background")
    for one in _TEMPERED
)

# On drawings with 40 steps, as Tian 2021, A.1; as they are, attacked, and with the shape of one class before another's colour.
_UNDER_PGD40 = (Evaluation(), Evaluation(attack="pgd-40"))
_SWAPPED = (*_UNDER_PGD40, Evaluation(transform="swapped-colours"))

# 40 steps as published, which reach .4 from where they start, and longer ones.
_FARTHER = Evaluation(attack="pgd-40@tian2021-mnist").grid(step=(0.01, 0.0125, 0.025))

# Runs whose course nobody looks at are measured at their first and last epoch only.
_ONCE = {"measure": 100}


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
    "tian2021/4-1-class-bias": Section("Class-biased learning", _BIASED, _UNDER_PGD, pictures=True, widely=True),
    "tian2021/4-2-class-relations": Section("The relations among classes", _BIASED, _UNDER_PGD, pictures=True, widely=True),
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
    "tian2021/6-1-training-adjustment": Section(
        "Adjusting the training",
        ("pgd-at",),
        _UNDER_PGD,
        repeats=2,
        parts={
            "without": Section("each class left out", ("pgd-at",), _UNDER_PGD, _ONCE, 2, variants=variants.without),
            "again": Section(
                "the same classes, other luck", ("pgd-at",), _UNDER_PGD, _ONCE, 2, variants=variants.reinitialised(1, 2)
            ),
            "trades": Section("one trade-off for all", ("trades",), _TEMPERED, repeats=2),
            "choosing": Section("what chooses the two classes", ("trades",), ()),
            "adjusted": Section(
                "another trade-off for one class",
                ("trades-per-class",),
                _TEMPERED,
                _ONCE,
                2,
                variants=variants.trade_offs("0.5", "2", "18"),
            ),
        },
    ),
    "tian2021/6-2-background": Section(
        "Adjusting the background",
        ("pgd-at",),
        _SWAPPED,
        repeats=2,
        variants=variants.coloured("neighbours", "apart"),
        parts={
            "plain": Section("drawings on black", ("standard", "pgd-at"), _UNDER_PGD40, repeats=2, variants=variants.drawings),
            "standard": Section(
                "standard training before colours", ("standard",), _SWAPPED, _ONCE, 2, variants=variants.coloured("neighbours")
            ),
            "published": Section(
                "the published radius",
                ("pgd-at",),
                (Evaluation(), *_FARTHER, Evaluation(transform="nearly-grey")),
                _ONCE,
                2,
                variants=variants.coloured("neighbours", "apart", eps="0.5"),
            ),
            "scenes": Section("uneven backgrounds", ("trades",), _REPAINTED, repeats=2, variants=variants.scenes),
            "adjusted": Section(
                "uneven backgrounds, another trade-off for one class",
                ("trades-per-class",),
                _REPAINTED,
                _ONCE,
                2,
                variants=variants.combined(variants.trade_offs("0.5"), variants.scenes),
            ),
        },
    ),
}


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
    """Return what a section asks for at a scale; None leaves what the scale or the section says.

    seeds, defences: other repetitions and defences. datasets: others than the one of the scale, the first as the section's own,
    each of the rest as a part by its name. eval_eps: the radius of the evaluations, by default that of the training.
    `changed`: other fields of Spec, such as dataset or eps. A slip is a UserError that names the nearest valid name.
    """
    if section not in SECTIONS:
        raise unknown("section", section, SECTIONS)
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    for name, given in (("seeds", seeds), ("defences", defences), ("datasets", datasets)):
        if given is not None and (isinstance(given, str) or not given):
            raise UserError(f"{name} must be a list with at least one member, got {given!r}")
    for name in changed:
        if name not in Spec.__dataclass_fields__:
            raise unknown("parameter", name, [*Spec.__dataclass_fields__, "seeds", "defences", "datasets", "eval_eps"])
    asked = SECTIONS[section]
    if defences is not None:
        asked = replace(asked, defences=tuple(defences))
    fields = {name: value for name, value in changed.items() if value is not None}
    if datasets is not None and "dataset" in fields:
        raise UserError(f"dataset={fields['dataset']!r} and datasets={list(datasets)} say two things: give one of them")
    names = list(datasets or [])
    if not names and asked.widely and SCALES[scale].widely and "dataset" not in fields:
        names = [str(SCALES[scale].run["dataset"]), *(name for name in OTHER_DATASETS[scale] if name not in OPT_IN_DATASETS)]
    if names:
        parts = {name: replace(asked, parts={}, run={**asked.run, "dataset": name}) for name in names}
        asked = replace(parts[names[0]], parts={**asked.parts, **{name: parts[name] for name in names[1:]}})
    return requested(asked, scale, section, seeds, eval_eps, fields)


def scale_of(spec: Spec) -> str | None:
    """Return the scale that a run belongs to, as trained there or varied by a section; None where its fields are of none."""
    for name, size in SCALES.items():
        for paper in size.papers or ("",):
            if spec == training(name, spec.defence, spec.seed, paper):
                return name
        for section, asked in SECTIONS.items():
            for fields in _varied(asked, name, str(size.run["dataset"])):
                if fields and spec == training(name, spec.defence, spec.seed, paper_of(section), **fields):
                    return name
    return None


def _varied(asked: Section, scale: str, dataset: str) -> Iterator[Mapping[str, Any]]:
    """Yield the fields in which the runs of a section and of its parts differ from those of the scale."""
    for variant in asked.variants(scale, dataset):
        yield {**asked.run, **variant}
    for part in asked.parts.values():
        yield from _varied(part, scale, dataset)
    for name, recipe in OTHER_DATASETS[scale].items() if asked.widely else ():
        yield from ({"dataset": name, **recipe.run, **recipe.defences.get(defence, {})} for defence in asked.defences)


CLAIMS: tuple[Claim, ...] = (
    *section_4_1.BIAS,
    *section_4_2.RELATIONS,
    *section_4_3.ATTACKS,
    *section_5.HEAT,
    *section_6_1.TRAINING,
    *section_6_2.BACKGROUND,
)


def claims_of(section: str) -> tuple[Claim, ...]:
    """Return the claims that a section judges; a name without claims is a UserError."""
    found = tuple(claim for claim in CLAIMS if claim.section == section)
    if not found:
        raise unknown("section with claims", section, list(dict.fromkeys(claim.section for claim in CLAIMS)))
    return found


def judge(
    section: str,
    outcomes: xr.Dataset | Mapping[str, xr.Dataset],
    *,
    scale: str | None = None,
    dataset: str | None = None,
    only: Sequence[str] | None = None,
    strict: bool = True,
    **how: Any,
) -> list[Verdict]:
    """Return a verdict on each claim of a section, or on those named in `only`.

    outcomes: one Dataset, or several by the `part` of the claims that they are for. scale, dataset: what they speak of, by
    default as they say. strict: a claim that cannot be measured is a MeasurementError, else it is "not asked", with the reason.
    `how`: draws, seed and level of the bootstrap. Holm's correction is for the claims that are judged in this call and can be
    asked of the dataset.
    """
    asked = claims_of(section)
    for name in only or ():
        if name not in [claim.name for claim in asked]:
            raise unknown(f"claim of {section}", name, [claim.name for claim in asked])
    first = outcomes if isinstance(outcomes, xr.Dataset) else next(iter(outcomes.values()))
    told = {"scale": scale or first.attrs.get("scale"), "dataset": dataset or first.attrs.get("dataset")}
    for name, value in told.items():
        if not value:
            raise UserError(f"the outcomes do not tell their {name}, and a verdict must name it; write judge(..., {name}=...)")
    chosen = [claim for claim in asked if only is None or claim.name in only]
    return judge_all(chosen, outcomes, scale=str(told["scale"]), dataset=str(told["dataset"]), strict=strict, **how)
