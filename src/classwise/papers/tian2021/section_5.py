"""The claims of Tian et al. 2021, section 5, in the order of the paper.

They need along `inverse` the inverse temperatures of temperature-pgd-20, and for HE the readout "cosines".
"""

from functools import partial
from typing import Any

import numpy as np

from classwise.papers.claims import NO_GROUPS, NO_SUCH, PAIRED, Claim, ClaimMeasure
from classwise.papers.tian2021 import temperature
from classwise.papers.tian2021.tables import BOTH_ATTACKS, HE, from_table_3
from classwise.stats import confidence, metrics


def _heat(name: str, where: str, says: str, measure: ClaimMeasure, **rest: Any) -> Claim:
    return Claim(name, "tian2021/5-temperature-pgd", where, says, measure, **rest)


_ATTACKED: dict[str, Any] = {"defences": ("pgd-at", "trades", "mart", HE), "attacks": BOTH_ATTACKS, "dims": ("inverse",)}
_SMOOTH: dict[str, Any] = {
    "defences": ("pgd-at", "trades", "mart", HE),
    "attacks": ("pgd-20",),
    "values": {"variance": confidence.confidence_variance},
}
_CV = partial(temperature.least_grown_by_temperature, measure=metrics.cv)
_MCD = partial(temperature.least_grown_by_temperature, measure=metrics.mcd)

HEAT = (
    _heat(
        "smooth-where-weak",
        "5, Figure 3a",
        "Less robust classes have smoother confidences: over the classes, CVC rises with robust accuracy.",
        temperature.smooth_where_weak,
        unit="correlation",
        **_SMOOTH,
    ),
    _heat(
        "smooth-where-weak-clean",
        "5, Figure 3a",
        "The same where it is not half true by itself: CVC of images as they are rises with accuracy on attacked ones.",
        temperature.smooth_where_weak,
        unit="correlation",
        **(_SMOOTH | {"attacks": ("clean", "pgd-20"), "readout": "logits"}),
    ),
    _heat(
        "animals-smoother",
        "5, Figure 3a",
        "After every defence animals have smoother confidences than vehicles.",
        temperature.smoother_animals,
        low=0,
        high=1,
        unit="times",
        log=True,
        datasets=PAIRED,
        because=NO_GROUPS,
        **_SMOOTH,
    ),
    _heat(
        "deer-and-cat-smoothest",
        "5, Figure 3a",
        "After every defence deer and cat have the two smoothest confidences.",
        partial(temperature.smoothest, names=("deer", "cat")),
        low=1,
        unit="times",
        log=True,
        datasets=("cifar10",),
        because=NO_SUCH,
        **_SMOOTH,
    ),
    _heat(
        "deer-smoothest",
        "5, Figure 3a",
        "After every defence deer have the smoothest confidences of all classes.",
        partial(temperature.smoothest, names=("deer",)),
        low=1,
        unit="times",
        log=True,
        datasets=("cifar10",),
        because=NO_SUCH,
        **_SMOOTH,
    ),
    _heat(
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
    _heat(
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
    _heat(
        "breaks-more",
        "5, results",
        "At the temperature best on the test images, as in the paper, Temperature-PGD breaks more than PGD, after every defence.",
        temperature.least_lost_to_temperature,
        reported=partial(from_table_3, temperature.least_lost_to_temperature),
        **_ATTACKED,
    ),
    _heat(
        "larger-cv",
        "5, results (i)",
        "There the class-wise variance (CV) is larger than under PGD, after every defence (best on the test images).",
        _CV,
        unit="points squared",
        reported=partial(from_table_3, _CV),
        **_ATTACKED,
    ),
    _heat(
        "larger-mcd",
        "5, results (i)",
        "There, too, the class discrepancy (MCD) is larger than under PGD, after every defence (best on the test images).",
        _MCD,
        reported=partial(from_table_3, _MCD),
        **_ATTACKED,
    ),
    _heat(
        "hits-vulnerable",
        "5, results (ii)",
        "What Temperature-PGD (best on the test images, as in the paper) breaks beyond PGD is more of vulnerable classes.",
        temperature.lost_to_temperature_by_vulnerable,
        reported=partial(from_table_3, temperature.lost_to_temperature_by_vulnerable),
        **_ATTACKED,
    ),
    _heat(
        "he-loses-most",
        "5, results (iii)",
        "HE loses more to Temperature-PGD, best on the test images as in the paper, than plain adversarial training.",
        temperature.more_lost_to_temperature,
        reported=partial(from_table_3, temperature.more_lost_to_temperature, ("pgd-at", "pgd-he")),
        **(_ATTACKED | {"defences": ("pgd-at", HE)}),
    ),
    _heat(
        "plain-hardly-loses",
        "5, results (iii)",
        "Madry's training loses less than a point to Temperature-PGD, though best on the test images, as in the paper.",
        temperature.lost_to_temperature,
        low=-np.inf,
        high=1,
        reported=partial(from_table_3, temperature.lost_to_temperature, ("pgd-at",)),
        **(_ATTACKED | {"defences": ("pgd-at",)}),
    ),
    _heat(
        "plain-steepest",
        "5, results (iii)",
        "Madry's training has steeper confidences (a larger CVC) than the other defences, HE read from its cosines.",
        temperature.steeper_than_others,
        low=1,
        unit="times",
        log=True,
        **_SMOOTH,
    ),
    _heat(
        "he-loses",
        "5, results (iii)",
        "After HE, read from its cosines, Temperature-PGD, best on the test images, breaks more than a point beyond PGD.",
        temperature.lost_to_temperature,
        low=1,
        reported=partial(from_table_3, temperature.lost_to_temperature, ("pgd-he",)),
        **(_ATTACKED | {"defences": (HE,)}),
    ),
    _heat(
        "he-loses-the-vulnerable",
        "5, results (iii)",
        "What it breaks there (best on the test images) is a larger share of vulnerable classes than of robust ones.",
        temperature.lost_to_temperature_by_vulnerable,
        reported=partial(from_table_3, temperature.lost_to_temperature_by_vulnerable, ("pgd-he",)),
        **(_ATTACKED | {"defences": (HE,)}),
    ),
)
