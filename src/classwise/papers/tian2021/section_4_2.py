"""The claims of Tian et al. 2021, sections 4.1 and 4.2, in the order of the paper; those of 4.3, 5 and 6 stand beside.

Ranges are the widest that the words allow: "larger" is more than 0, "almost 0" less than 1, "roughly" a correlation
above .5. Where a sentence names classes of CIFAR-10 but means a kind of class (the most vulnerable one), the measure finds that
class on the images at hand.
"""

from functools import partial
from typing import Any

import numpy as np

from classwise.papers import measures
from classwise.papers.claims import NO_GROUPS, NO_SUCH, PAIRED, Claim, ClaimMeasure
from classwise.papers.tian2021.section_4_1 import UNDER_ATTACK


def _relation(name: str, where: str, says: str, measure: ClaimMeasure, **rest: Any) -> Claim:
    needs: dict[str, Any] = {"defences": ("pgd-at",), "attacks": (UNDER_ATTACK,)}
    return Claim(name, "tian2021/4-2-class-relations", where, says, measure, **(needs | rest))


RELATIONS = (
    _relation(
        "symmetry",
        "4.2, (i)",
        "The confusion matrix under attack is roughly symmetrical: pairs of classes are taken for one another both ways.",
        measures.symmetry,
        low=0.5,
        unit="correlation",
    ),
    _relation(
        "six-and-eight",
        "4.2, (ii)",
        "Digits that look alike, such as 6 and 8, are taken for one another more often than other pairs on average.",
        partial(measures.pair, first="6", second="8"),
        reported_on="svhn",
        datasets=("svhn", "mnist", "digits"),
        because="its classes are not digits",
    ),
    _relation(
        "cat-and-dog",
        "4.2, (ii)",
        "Cat and dog are taken for one another more often than other pairs on average.",
        partial(measures.pair, first="cat", second="dog"),
        datasets=PAIRED,
        because=NO_SUCH,
    ),
    _relation(
        "same-superclass",
        "4.2, (ii)",
        "A class is more often taken for one of its own superclass (animals, say) than for one of another (vehicles).",
        measures.within_superclasses,
        datasets=(*PAIRED, "cifar100"),
        because=NO_GROUPS,
    ),
    _relation(
        "few-across",
        "4.2, (iii)",
        "Few mistakes cross superclasses: pair by pair at most half as many as stay within.",
        partial(measures.within_superclasses, times=2),
        datasets=PAIRED,
        because=NO_GROUPS,
    ),
    _relation(
        "dog-and-truck",
        "4.2, (iii)",
        "Dogs and trucks of STL-10 are almost never taken for one another, in less than one image of a hundred.",
        partial(measures.confusion_of, first="dog", second="truck"),
        low=-np.inf,
        high=1,
        reported=0,
        reported_on="stl10",
        datasets=("stl10",),
        because="the paper says this of STL-10",
    ),
)
