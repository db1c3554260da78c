"""Tian et al. 2021, section 4.1: class-biased learning.

In all sections ranges are the widest that the words allow: "larger" is more than 0, "almost 0" less than 1, "roughly" a
correlation above .5.
"""

from functools import partial
from typing import Any

from classwise.papers import measures
from classwise.papers.claims import claims_of
from classwise.papers.sections import CLEAN_AND_PGD, Section
from classwise.papers.tian2021.tables import in_text

NAME = "tian2021/4-1-class-bias"
BIASED = ("standard", "pgd-at", "trades")
# Figure 1. ImageNet, too, where a reader names it: 150 GB that nobody may hand on, and more images than a GPU holds.
OTHERS = {"paper": ("mnist", "svhn", "stl10", "cifar100")}
SECTION = Section(title="Class-biased learning", defences=BIASED, evaluations=CLEAN_AND_PGD, gallery=True, datasets=OTHERS)

UNDER_ATTACK = "pgd-20|pgd-40|pgd-50"
AGAINST_STANDARD: dict[str, Any] = {"defences": ("standard", "pgd-at"), "attacks": ("clean", UNDER_ATTACK)}
_claim = claims_of(NAME, defences=("pgd-at",), attacks=(UNDER_ATTACK,))
_GREY = "the paper says this of other datasets"
_FOUR = "svhn, cifar10, stl10 or cifar100"

CLAIMS = (
    _claim(
        "gap",
        "4.1",
        "Under attack the classes of an adversarially trained network lie over 6 points apart, the smallest gap reported.",
        measures.gap,
        low=6,
        reported=partial(in_text, "gap", "mnist"),
        reported_on="mnist",
    ),
    _claim(
        "gap-of-40-to-50",
        "4.1",
        "On SVHN, CIFAR-10, STL-10 and CIFAR-100 the best and the worst of a dozen classes can be 40 to 50 points apart, "
        "here read as 40 or more.",
        measures.gap,
        low=40,
        reported=partial(in_text, "gap", _FOUR),
        reported_on=_FOUR,
        datasets=("svhn", "cifar10", "stl10", "cifar100"),
        excluded_because=_GREY,
    ),
    _claim(
        "gap-of-80",
        "4.1",
        "On ImageNet the best and the worst of a dozen classes end about 80 points apart, here read as 75 or more.",
        measures.gap,
        low=75,
        reported=partial(in_text, "gap", "imagenet"),
        reported_on="imagenet",
        datasets=("imagenet",),
        excluded_because=_GREY,
    ),
    _claim(
        "simple-is-robust",
        "4.1",
        "Trained adversarially on MNIST, a network classifies more than 95 % of the attacked images correctly.",
        measures.overall,
        low=95,
        unit="%",
        reported=partial(in_text, "overall", "mnist"),
        reported_on="mnist",
        datasets=("mnist",),
        excluded_because="the paper says this of MNIST",
    ),
    _claim(
        "wider-than-standard",
        "1, 4.1",
        "Classes drift further apart in adversarial training, attacked, than in standard training, not attacked.",
        measures.over_standard,
        **AGAINST_STANDARD,
    ),
)
