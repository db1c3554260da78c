"""The claims of Tian et al. 2021, section 4, in the order of the paper; those of 5 and 6 stand beside.

Ranges are the widest that the words allow: "larger" is more than 0, "almost 0" less than 1. Where a sentence names classes of
CIFAR-10 but means a kind of class (the most vulnerable one), the measure finds that class on the images at hand.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from classwise import metrics, published
from classwise.claims import measures
from classwise.claims.claim import Claim, Measure

HE = "pgd-he|trades-he"
PAIRED = ("cifar10", "stl10")
NO_GROUPS = "its classes form no superclasses"
NO_SUCH = "it has no such classes"

_FOUR = ("pgd-at", "trades", "mart", HE)
_FIVE = ("fgsm", "cw|margin-20", "pgd-20", "transfer", "n-attack")


def from_table_1(measure: Measure, attacks: Sequence[str] = ()) -> float:
    """Return a measure of the paper's Table 1, of all attacks or of some in order."""
    rates = published.load("tian2021", 1).accuracy
    return of_rates(measure, rates.sel(attack=list(attacks)) if attacks else rates)


def of_rates(measure: Measure, rates: xr.DataArray) -> float:
    """Return a measure of published rates."""
    return float(measure(xr.Dataset({"count": published.counts(rates)})))


def _bias(name: str, says: str, measure: Measure, where: str = "4.1", **rest: Any) -> Claim:
    return Claim(name, "tian2021/4-1-class-bias", where, says, measure, **rest)


def _relation(name: str, where: str, says: str, measure: Measure, **rest: Any) -> Claim:
    needs: dict[str, Any] = {"defences": ("pgd-at",), "attacks": ("pgd-20",)}
    return Claim(name, "tian2021/4-2-class-relations", where, says, measure, **(needs | rest))


def _attack(name: str, where: str, says: str, measure: Measure, **rest: Any) -> Claim:
    needs: dict[str, Any] = {"defences": _FOUR, "attacks": _FIVE}
    return Claim(name, "tian2021/4-3-attacks-and-defences", where, says, measure, **(needs | rest))


_GAP: dict[str, Any] = {"defences": ("pgd-at",), "attacks": ("pgd-20",)}
_BESIDE_STANDARD: dict[str, Any] = {"defences": ("standard", "pgd-at"), "attacks": ("clean", "pgd-20")}
_WHITE = ("fgsm", "pgd-20")
_BLACK = ("transfer", "n-attack")
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
        "On SVHN, CIFAR-10, STL-10 and CIFAR-100 the best and the worst class lie at least 40 points apart.",
        measures.gap,
        low=40,
        reported=50,
        datasets=("svhn", "cifar10", "stl10", "cifar100"),
        because=_GREY,
        **_GAP,
    ),
    _bias(
        "gap-of-80",
        "On ImageNet the gap between classes grows up to 80 points.",
        measures.gap,
        low=75,
        reported=80,
        reported_on="imagenet",
        datasets=("imagenet",),
        because=_GREY,
        **_GAP,
    ),
    _bias(
        "wider-than-standard",
        "Classes drift further apart in adversarial training, attacked, than in standard training, not attacked.",
        measures.over_standard,
        where="1, 4.1",
        **_BESIDE_STANDARD,
    ),
)

RELATIONS = (
    _relation(
        "symmetry",
        "4.2, (i)",
        "The confusion matrix under attack is roughly symmetrical: pairs of classes are taken for one another both ways.",
        measures.symmetry,
        unit="correlation",
    ),
    _relation(
        "six-and-eight",
        "4.2, (ii)",
        "Digits that look alike, such as 6 and 8, are taken for one another more often than other pairs.",
        partial(measures.pair, first="6", second="8"),
        reported_on="svhn",
        datasets=("svhn", "mnist", "digits"),
        because="its classes are not digits",
    ),
    _relation(
        "cat-and-dog",
        "4.2, (ii)",
        "Cat and dog are taken for one another more often than other pairs.",
        partial(measures.pair, first="cat", second="dog"),
        datasets=PAIRED,
        because=NO_SUCH,
    ),
    _relation(
        "same-superclass",
        "4.2, (ii)",
        "A class is more often taken for one of its own superclass (animals, vehicles) than for one of the other.",
        measures.within_superclasses,
        low=1,
        unit="times",
        log=True,
        datasets=PAIRED,
        because=NO_GROUPS,
    ),
    _relation(
        "few-across",
        "4.2, (iii)",
        "Few mistakes cross superclasses: pair by pair at most half as many as stay within.",
        measures.within_superclasses,
        low=2,
        unit="times",
        log=True,
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

ATTACKS = (
    _attack(
        "gaps-everywhere",
        "4.3, (i)",
        "Under every attack and after every defence the classes lie further apart than 6 points.",
        measures.smallest_gap,
        low=6,
        reported=partial(from_table_1, measures.smallest_gap),
    ),
    _attack(
        "same-worst-class",
        "4.3, (i)",
        "One and the same class is the most vulnerable under every attack and after every defence.",
        measures.same_worst,
        reported=partial(from_table_1, measures.same_worst),
    ),
    _attack(
        "same-best-class",
        "4.3, (i)",
        "One and the same class is the most robust under every attack and after every defence.",
        measures.same_best,
        reported=partial(from_table_1, measures.same_best),
    ),
    _attack(
        "dataset-decides",
        "4.3, (i)",
        "How robust the classes are beside one another hangs on the dataset, and little on attack and defence.",
        measures.agreement,
        low=0.5,
        unit="correlation",
        reported=partial(from_table_1, measures.agreement),
    ),
    _attack(
        "stronger-on-vulnerable",
        "4.3, (ii)",
        "What PGD breaks beyond FGSM are images of vulnerable classes more than of robust ones.",
        measures.lost_by_vulnerable,
        attacks=_WHITE,
        reported=partial(from_table_1, measures.lost_by_vulnerable, _WHITE),
    ),
    _attack(
        "stronger-larger-cv",
        "4.3, (ii)",
        "The class-wise variance (CV) is larger under PGD than under FGSM.",
        partial(measures.grown, measure=metrics.cv),
        attacks=_WHITE,
        unit="points squared",
        reported=partial(from_table_1, partial(measures.grown, measure=metrics.cv), _WHITE),
    ),
    _attack(
        "stronger-larger-mcd",
        "4.3, (ii)",
        "The maximum class discrepancy (MCD) is larger under PGD than under FGSM.",
        partial(measures.grown, measure=metrics.mcd),
        attacks=_WHITE,
        reported=partial(from_table_1, partial(measures.grown, measure=metrics.mcd), _WHITE),
    ),
    _attack(
        "queries-on-vulnerable",
        "4.3, (iii)",
        "What the query-based attack breaks beyond the transferred one are images of vulnerable more than of robust classes.",
        measures.lost_by_vulnerable,
        attacks=_BLACK,
        reported=partial(from_table_1, measures.lost_by_vulnerable, _BLACK),
    ),
    _attack(
        "cv-of-standard",
        "4.3",
        "The class-wise variance (CV) of adversarial training, attacked, is larger than that of standard training, not attacked.",
        partial(measures.times_standard, measure=metrics.cv),
        low=1,
        unit="times",
        reported=28,
        log=True,
        **_BESIDE_STANDARD,
    ),
    _attack(
        "mcd-of-standard",
        "4.3",
        "The class discrepancy (MCD) of adversarial training, attacked, is larger than that of standard training, not attacked.",
        partial(measures.times_standard, measure=metrics.mcd),
        low=1,
        unit="times",
        reported=5,
        log=True,
        **_BESIDE_STANDARD,
    ),
)
