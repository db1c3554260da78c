"""The claims of Tian et al. 2021, sections 4.1 and 4.2, in the order of the paper; those of 4.3, 5 and 6 stand beside.

Ranges are the widest that the words allow: "larger" is more than 0, "almost 0" less than 1, "roughly" a correlation
above .5. Where a sentence names classes of CIFAR-10 but means a kind of class (the most vulnerable one), the measure finds that
class on the images at hand.
"""

from typing import Any

from classwise.papers import measures
from classwise.papers.claims import Claim, ClaimMeasure


def _bias(name: str, says: str, measure: ClaimMeasure, where: str = "4.1", **rest: Any) -> Claim:
    return Claim(name, "tian2021/4-1-class-bias", where, says, measure, **rest)


UNDER_ATTACK = "pgd-20|pgd-40|pgd-50"
_GAP: dict[str, Any] = {"defences": ("pgd-at",), "attacks": (UNDER_ATTACK,)}
BESIDE_STANDARD: dict[str, Any] = {"defences": ("standard", "pgd-at"), "attacks": ("clean", UNDER_ATTACK)}
_GREY = "the paper says this of other datasets"

BIAS = (
    _bias(
        "gap",
        "Under attack the classes of an adversarially trained network lie over 6 points apart, the smallest gap reported.",
        measures.gap,
        low=6,
        reported=6,
        reported_on="mnist",
        **_GAP,
    ),
    _bias(
        "gap-of-40-to-50",
        "On SVHN, CIFAR-10, STL-10 and CIFAR-100 the best and the worst of a dozen classes can reach a gap of 40 points.",
        measures.gap,
        low=40,
        reported=50,
        datasets=("svhn", "cifar10", "stl10", "cifar100"),
        because=_GREY,
        **_GAP,
    ),
    _bias(
        "gap-of-80",
        "On ImageNet the gap between the best and the worst of a dozen classes grows up to 80 points.",
        measures.gap,
        low=75,
        reported=80,
        reported_on="imagenet",
        datasets=("imagenet",),
        because=_GREY,
        **_GAP,
    ),
    _bias(
        "simple-is-robust",
        "Trained adversarially on MNIST, a network answers more than 95 % of the attacked images right.",
        measures.whole,
        low=95,
        unit="%",
        reported=95,
        reported_on="mnist",
        datasets=("mnist",),
        because="the paper says this of MNIST",
        **_GAP,
    ),
    _bias(
        "wider-than-standard",
        "Classes drift further apart in adversarial training, attacked, than in standard training, not attacked.",
        measures.over_standard,
        where="1, 4.1",
        **BESIDE_STANDARD,
    ),
)
