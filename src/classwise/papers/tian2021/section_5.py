"""Tian et al. 2021, section 5: improving the attack with Temperature-PGD.

The claims need along `inverse` the inverse temperatures of temperature-pgd-20, and for HE the readout "cosines".
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from classwise.core.spec import Evaluation
from classwise.papers.claims import NO_GROUPS, ON_CIFAR10, PAIRED, RATIO, Claim, ClaimMeasure, claims_of
from classwise.papers.sections import CLEAN_AND_PGD, Section
from classwise.papers.tian2021 import temperature
from classwise.papers.tian2021.section_4_3 import COMPARED
from classwise.papers.tian2021.tables import BOTH_ATTACKS, HE, from_table_3
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
_HEATS = tuple(map(str, temperature.INVERSE))
_FOUR = ("pgd-at", "trades", "mart", HE)
_heated = claims_of(NAME, attacks=BOTH_ATTACKS, dims=("inverse",), grid={"inverse": _HEATS})
_compared = claims_of(NAME, defences=_FOUR, attacks=("pgd-20",), values={"variance": confidence.confidence_variance})
_smooth = partial(_compared, over=("defence",))


def _attacked(
    name: str, where: str, statement: str, measure: ClaimMeasure, defences: tuple[str, ...] = _FOUR, **fields: Any
) -> Claim:
    """Return a claim whose measure Table 3 gives, too."""
    theirs = partial(from_table_3, measure, [defence.partition("|")[0] for defence in defences])
    return _heated(name, where, statement, measure, defences=defences, reported=theirs, **fields)


CLAIMS = (
    _smooth(
        "smooth-where-weak",
        "5, Figure 3a",
        "Less robust classes have smoother confidences: under attack, CVC (the variance of an image's confidences) "
        "rises with robust accuracy.",
        temperature.smooth_where_weak,
        unit="correlation",
    ),
    _smooth(
        "smooth-where-weak-clean",
        "5, a control of ours",
        "Less robust classes have smoother confidences: on clean images, CVC (the variance of an image's confidences) "
        "rises with robust accuracy.",
        temperature.smooth_where_weak,
        unit="correlation",
        attacks=("clean", "pgd-20"),
        readout="logits",
    ),
    _smooth(
        "animals-smoother",
        "5, Figure 3a",
        "After every defence animals have smoother confidences than vehicles: a smaller CVC (variance of an image's "
        "confidences).",
        temperature.smoother_animals,
        low=0,
        high=1,
        **RATIO,
        datasets=PAIRED,
        excluded_because=NO_GROUPS,
    ),
    _smooth(
        "deer-and-cat-smoothest",
        "5, Figure 3a",
        "After every defence deer and cat have the smoothest confidences: the two smallest CVC (variance of an image's "
        "confidences).",
        partial(temperature.smoothest, names=("deer", "cat")),
        low=1,
        **RATIO,
        **ON_CIFAR10,
    ),
    _smooth(
        "deer-smoothest",
        "5, Figure 3a",
        "After every defence deer have the smoothest confidences of all classes: the smallest CVC (variance of an "
        "image's confidences).",
        partial(temperature.smoothest, names=("deer",)),
        low=1,
        **RATIO,
        **ON_CIFAR10,
    ),
    _compared(
        "he-smoothest",
        "5, Figure 3a",
        "HE, evaluated on its cosines, has at most half the CVC (variance of an image's confidences) of any other defence.",
        temperature.smoother_than_others,
        low=0,
        high=0.5,
        **RATIO,
    ),
    _compared(
        "he-smoothest-scaled",
        "5, a control of ours",
        "HE, evaluated on its scaled cosines as in training, has at most half the CVC (variance of an image's "
        "confidences) of any other defence.",
        temperature.smoother_than_others,
        low=0,
        high=0.5,
        **RATIO,
        readout="logits",
    ),
    _attacked(
        "breaks-more",
        "5, results",
        "At the temperature best on the test images, Temperature-PGD breaks more images than PGD, after every defence.",
        temperature.least_lost_to_temperature,
    ),
    _attacked(
        "larger-cv",
        "5, results (i)",
        "At the temperature best on the test images, the class-wise variance (CV) is larger than under PGD, after every defence.",
        partial(temperature.least_grown_by_temperature, measure=metrics.cv),
        unit="points squared",
    ),
    _attacked(
        "larger-mcd",
        "5, results (i)",
        "At the temperature best on the test images, the class discrepancy (MCD) is larger than under PGD, after every defence.",
        partial(temperature.least_grown_by_temperature, measure=metrics.mcd),
    ),
    _attacked(
        "hits-vulnerable",
        "5, results (ii)",
        "The share of images that Temperature-PGD (best on the test images) breaks beyond PGD is larger in vulnerable "
        "classes than in robust ones.",
        temperature.lost_to_temperature_by_vulnerable,
    ),
    _attacked(
        "he-loses-most",
        "5, results (iii)",
        "From PGD to Temperature-PGD (best on the test images), HE on its cosines loses more robust accuracy than "
        "Madry's training.",
        temperature.more_lost_to_temperature,
        defences=("pgd-at", HE),
    ),
    _attacked(
        "plain-hardly-loses",
        "5, results (iii)",
        "From PGD to Temperature-PGD (best on the test images), Madry's training loses less than a point of robust accuracy.",
        temperature.lost_to_temperature,
        low=-np.inf,
        high=1,
        defences=("pgd-at",),
    ),
    _compared(
        "plain-steepest",
        "5, results (iii)",
        "Madry's training has a larger CVC (variance of an image's confidences) than the other defences, with HE "
        "evaluated on its cosines.",
        temperature.steeper_than_others,
        low=1,
        **RATIO,
    ),
    _attacked(
        "he-loses",
        "5, results (iii)",
        "From PGD to Temperature-PGD (best on the test images), HE on its cosines loses more than a point of robust accuracy.",
        temperature.lost_to_temperature,
        low=1,
        defences=(HE,),
    ),
    *(
        _attacked(
            f"he-loses-{name}",
            "5, results (ii), (iii)",
            f"From PGD to Temperature-PGD (best on the test images), HE on its cosines loses more than a point in class {name}.",
            partial(temperature.lost_to_temperature, name=name),
            low=1,
            defences=(HE,),
            **ON_CIFAR10,
        )
        for name in ("cat", "deer")
    ),
    _attacked(
        "he-loses-the-vulnerable",
        "5, results (iii)",
        "After HE, the share of images that Temperature-PGD (best on the test images) breaks beyond PGD is larger in "
        "vulnerable classes.",
        temperature.lost_to_temperature_by_vulnerable,
        defences=(HE,),
    ),
)
