"""Tian et al. 2021, section 4.2: the relations among classes."""

from functools import partial

import numpy as np

from classwise.papers import measures
from classwise.papers.claims import NO_GROUPS, NO_SUCH, PAIRED, claims_of
from classwise.papers.sections import CLEAN_AND_PGD, Section
from classwise.papers.tian2021.section_4_1 import BIASED, OTHERS, UNDER_ATTACK
from classwise.stats import metrics

NAME = "tian2021/4-2-class-relations"
SECTION = Section(title="The relations among classes", defences=BIASED, evaluations=CLEAN_AND_PGD, datasets=OTHERS)
_claim = claims_of(NAME, defences=("pgd-at",), attacks=(UNDER_ATTACK,))


CLAIMS = (
    _claim(
        "symmetry",
        "4.2, (i)",
        "The confusion matrix under attack is roughly symmetrical: pairs of classes are mistaken for one another both ways.",
        partial(measures.of_first, measure=metrics.symmetry),
        low=0.5,
        unit="correlation",
        truth=measures.true_symmetry,
    ),
    _claim(
        "six-and-eight",
        "4.2, (ii)",
        "Digits that look alike, such as 6 and 8, are mistaken for one another more often than other pairs on average.",
        partial(measures.pair, first="6", second="8"),
        reported_on="svhn",
        datasets=("svhn", "mnist", "digits"),
        excluded_because="its classes are not digits",
    ),
    _claim(
        "cat-and-dog",
        "4.2, (ii)",
        "Cat and dog are mistaken for one another more often than other pairs on average.",
        partial(measures.pair, first="cat", second="dog"),
        datasets=PAIRED,
        excluded_because=NO_SUCH,
    ),
    _claim(
        "same-superclass",
        "4.2, (ii)",
        "A class is more often mistaken for one of its own superclass (animals, say) than for one of another (vehicles).",
        measures.within_superclasses,
        datasets=(*PAIRED, "cifar100"),
        excluded_because=NO_GROUPS,
    ),
    _claim(
        "few-across",
        "4.2, (iii)",
        "Few mistakes cross superclasses: pair by pair at most half as many as stay within.",
        partial(measures.within_superclasses, times=2),
        datasets=PAIRED,
        excluded_because=NO_GROUPS,
    ),
    _claim(
        "dog-and-truck",
        "4.2, (iii)",
        "Dogs and trucks of STL-10 are almost never mistaken for one another, in less than one image of a hundred.",
        partial(measures.confusion_of, first="dog", second="truck"),
        low=-np.inf,
        high=1,
        reported=0,
        reported_on="stl10",
        datasets=("stl10",),
        excluded_because="the paper says this of STL-10",
    ),
)
