"""Tian et al. 2021, section 5: improving the attack with Temperature-PGD.

The claims need along `inverse` the inverse temperatures of temperature-pgd-20, and for HE the readout "cosines".
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from classwise.core.spec import Evaluation
from classwise.papers.claims import NO_GROUPS, NO_SUCH, PAIRED, Claim, ClaimMeasure
from classwise.papers.sections import CLEAN_AND_PGD, Section
from classwise.papers.tian2021 import temperature
from classwise.papers.tian2021.section_4_3 import COMPARED
from classwise.papers.tian2021.tables import BOTH_ATTACKS, HE, from_table_3
from classwise.stats import confidence, metrics

NAME = "tian2021/5-temperature-pgd"
# Table 3: the full grid, in exact and in single precision; and the same with the cosines of HE as outputs.
_GRID = Evaluation(attack="temperature-pgd-20").grid(inverse=(2, 5, 10, 50), form=("stable", "published"))
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


def _claim(name: str, where: str, statement: str, measure: ClaimMeasure, **rest: Any) -> Claim:
    return Claim(name, NAME, where, statement, measure, **rest)


_ATTACKED: dict[str, Any] = {"defences": ("pgd-at", "trades", "mart", HE), "attacks": BOTH_ATTACKS, "dims": ("inverse",)}
_SMOOTH: dict[str, Any] = {
    "defences": ("pgd-at", "trades", "mart", HE),
    "attacks": ("pgd-20",),
    "values": {"variance": confidence.confidence_variance},
}
_CV = partial(temperature.least_grown_by_temperature, measure=metrics.cv)
_MCD = partial(temperature.least_grown_by_temperature, measure=metrics.mcd)

CLAIMS = (
    _claim(
        "smooth-where-weak",
        "5, Figure 3a",
        "Less robust classes have smoother confidences: over the classes, CVC rises with robust accuracy.",
        temperature.smooth_where_weak,
        unit="correlation",
        **_SMOOTH,
    ),
    _claim(
        "smooth-where-weak-clean",
        "5, Figure 3a",
        "The same where it is not half true by itself: CVC of images as they are rises with accuracy on attacked ones.",
        temperature.smooth_where_weak,
        unit="correlation",
        **(_SMOOTH | {"attacks": ("clean", "pgd-20"), "readout": "logits"}),
    ),
    _claim(
        "animals-smoother",
        "5, Figure 3a",
        "After every defence animals have smoother confidences than vehicles.",
        temperature.smoother_animals,
        low=0,
        high=1,
        unit="times",
        log=True,
        datasets=PAIRED,
        excluded_because=NO_GROUPS,
        **_SMOOTH,
    ),
    _claim(
        "deer-and-cat-smoothest",
        "5, Figure 3a",
        "After every defence deer and cat have the two smoothest confidences.",
        partial(temperature.smoothest, names=("deer", "cat")),
        low=1,
        unit="times",
        log=True,
        datasets=("cifar10",),
        excluded_because=NO_SUCH,
        **_SMOOTH,
    ),
    _claim(
        "deer-smoothest",
        "5, Figure 3a",
        "After every defence deer have the smoothest confidences of all classes.",
        partial(temperature.smoothest, names=("deer",)),
        low=1,
        unit="times",
        log=True,
        datasets=("cifar10",),
        excluded_because=NO_SUCH,
        **_SMOOTH,
    ),
    _claim(
        "he-smoothest",
        "5, Figure 3a",
        "HE, read from its cosines, has at most half the CVC of any other defence: that readout alone caps it.",
        temperature.smoother_than_others,
        low=0,
        high=0.5,
        unit="times",
        log=True,
        **_SMOOTH,
    ),
    _claim(
        "he-smoothest-scaled",
        "5, Figure 3a",
        "HE, read as it was trained, from its scaled cosines, too has at most half the CVC of any other defence.",
        temperature.smoother_than_others,
        low=0,
        high=0.5,
        unit="times",
        log=True,
        **_SMOOTH,
        readout="logits",
    ),
    _claim(
        "breaks-more",
        "5, results",
        "At the temperature best on the test images, as in the paper, Temperature-PGD breaks more than PGD, after every defence.",
        temperature.least_lost_to_temperature,
        reported=partial(from_table_3, temperature.least_lost_to_temperature),
        **_ATTACKED,
    ),
    _claim(
        "larger-cv",
        "5, results (i)",
        "There the class-wise variance (CV) is larger than under PGD, after every defence (best on the test images).",
        _CV,
        unit="points squared",
        reported=partial(from_table_3, _CV),
        **_ATTACKED,
    ),
    _claim(
        "larger-mcd",
        "5, results (i)",
        "There, too, the class discrepancy (MCD) is larger than under PGD, after every defence (best on the test images).",
        _MCD,
        reported=partial(from_table_3, _MCD),
        **_ATTACKED,
    ),
    _claim(
        "hits-vulnerable",
        "5, results (ii)",
        "What Temperature-PGD (best on the test images, as in the paper) breaks beyond PGD is more of vulnerable classes.",
        temperature.lost_to_temperature_by_vulnerable,
        reported=partial(from_table_3, temperature.lost_to_temperature_by_vulnerable),
        **_ATTACKED,
    ),
    _claim(
        "he-loses-most",
        "5, results (iii)",
        "HE loses more to Temperature-PGD, best on the test images as in the paper, than plain adversarial training.",
        temperature.more_lost_to_temperature,
        reported=partial(from_table_3, temperature.more_lost_to_temperature, ("pgd-at", "pgd-he")),
        **(_ATTACKED | {"defences": ("pgd-at", HE)}),
    ),
    _claim(
        "plain-hardly-loses",
        "5, results (iii)",
        "Madry's training loses less than a point to Temperature-PGD, though best on the test images, as in the paper.",
        temperature.lost_to_temperature,
        low=-np.inf,
        high=1,
        reported=partial(from_table_3, temperature.lost_to_temperature, ("pgd-at",)),
        **(_ATTACKED | {"defences": ("pgd-at",)}),
    ),
    _claim(
        "plain-steepest",
        "5, results (iii)",
        "Madry's training has steeper confidences (a larger CVC) than the other defences, HE read from its cosines.",
        temperature.steeper_than_others,
        low=1,
        unit="times",
        log=True,
        **_SMOOTH,
    ),
    _claim(
        "he-loses",
        "5, results (iii)",
        "After HE, read from its cosines, Temperature-PGD, best on the test images, breaks more than a point beyond PGD.",
        temperature.lost_to_temperature,
        low=1,
        reported=partial(from_table_3, temperature.lost_to_temperature, ("pgd-he",)),
        **(_ATTACKED | {"defences": (HE,)}),
    ),
    _claim(
        "he-loses-the-vulnerable",
        "5, results (iii)",
        "What it breaks there (best on the test images) is a larger share of vulnerable classes than of robust ones.",
        temperature.lost_to_temperature_by_vulnerable,
        reported=partial(from_table_3, temperature.lost_to_temperature_by_vulnerable, ("pgd-he",)),
        **(_ATTACKED | {"defences": (HE,)}),
    ),
)
