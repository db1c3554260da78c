"""Tian et al. 2021, section 5: improving the attack with Temperature-PGD."""

from dataclasses import replace
from functools import partial
from typing import Any

from classwise.core.spec import Evaluation
from classwise.papers.claims import ClaimMeasure
from classwise.papers.sections import CLEAN_AND_PGD, Section
from classwise.papers.terms import claims
from classwise.papers.tian2021 import temperature
from classwise.papers.tian2021.networks import COMPARED, FOUR, HE
from classwise.papers.tian2021.tables import BOTH_ATTACKS, from_table_3
from classwise.stats import confidence, metrics

NAME = "tian2021/5-temperature-pgd"
# Table 3: the full grid, in exact and in single precision; and the same with the cosines of HE as outputs.
_GRID = Evaluation(attack="temperature-pgd-20").grid(inverse=temperature.INVERSE, form=("stable", "published"))
_OF_COSINES = tuple(replace(evaluation, readout="cosines") for evaluation in (Evaluation(attack="pgd-20"), *_GRID))
SECTION = Section(
    title="Improving the attack: Temperature-PGD",
    defences=COMPARED,
    evaluations=CLEAN_AND_PGD,
    max_seeds=3,
    extra_evaluations={**dict.fromkeys(COMPARED, _GRID), "pgd-he": (*_GRID, *_OF_COSINES)},
    gallery=True,
    traces=True,
)

# The best temperature is that of the whole grid.
_HEATS = {"inverse": tuple(map(str, temperature.INVERSE))}


def _heated(measure: ClaimMeasure, *defences: str) -> dict[str, Any]:
    """Return fields of a claim on Temperature-PGD, whose measure Table 3 gives, too; of all defences by default."""
    defences = defences or FOUR
    theirs = partial(from_table_3, measure, defences)
    return {"measure": measure, "defences": defences, "attacks": BOTH_ATTACKS, "grid": _HEATS, "values": {}, "reported": theirs}


CLAIMS = claims(
    NAME,
    {
        "smooth-where-weak": temperature.smooth_where_weak,
        "smooth-where-weak-clean": {
            "measure": temperature.smooth_where_weak,
            "attacks": ("clean", "pgd-20"),
            "readout": "logits",
        },
        "animals-smoother": temperature.smoother_animals,
        "deer-and-cat-smoothest": partial(temperature.smoothest, names=("deer", "cat")),
        "deer-smoothest": partial(temperature.smoothest, names=("deer",)),
        "he-smoothest": temperature.smoother_than_others,
        "he-smoothest-scaled": {"measure": temperature.smoother_than_others, "readout": "logits"},
        "breaks-more": _heated(temperature.least_lost_to_temperature),
        "larger-cv": _heated(partial(temperature.least_grown_by_temperature, measure=metrics.cv)),
        "larger-mcd": _heated(partial(temperature.least_grown_by_temperature, measure=metrics.mcd)),
        "hits-vulnerable": _heated(temperature.lost_to_temperature_by_vulnerable),
        "he-loses-most": _heated(temperature.more_lost_to_temperature, "pgd-at", HE),
        "plain-hardly-loses": _heated(temperature.least_lost_to_temperature, "pgd-at"),
        "plain-steepest": temperature.steeper_than_others,
        "he-loses": _heated(temperature.least_lost_to_temperature, HE),
        "he-loses-cat": _heated(partial(temperature.least_lost_to_temperature, name="cat"), HE),
        "he-loses-deer": _heated(partial(temperature.least_lost_to_temperature, name="deer"), HE),
        "he-loses-the-vulnerable": _heated(temperature.lost_to_temperature_by_vulnerable, HE),
    },
    defences=FOUR,
    attacks=("pgd-20",),
    values={"variance": confidence.confidence_variance},
)
