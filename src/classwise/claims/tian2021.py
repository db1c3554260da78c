"""The claims of Tian et al. 2021, sections 4.1 and 4.2, in the order of the paper; those of 4.3, 5 and 6 stand beside.

Ranges are the widest that the words allow: "larger" is more than 0, "almost 0" less than 1, "roughly" a correlation
above .5. Where a sentence names classes of CIFAR-10 but means a kind of class (the most vulnerable one), the measure finds that
class on the images at hand.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from classwise import published
from classwise.claims import measures
from classwise.claims.claim import Claim, Measure

HE = "pgd-he|trades-he"
PAIRED = ("cifar10", "stl10")
NO_GROUPS = "its classes form no superclasses"
NO_SUCH = "it has no such classes"


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
    needs: dict[str, Any] = {"defences": ("pgd-at",), "attacks": (_UNDER,)}
    return Claim(name, "tian2021/4-2-class-relations", where, says, measure, **(needs | rest))


_UNDER = "pgd-20|pgd-40|pgd-50"
_GAP: dict[str, Any] = {"defences": ("pgd-at",), "attacks": (_UNDER,)}
BESIDE_STANDARD: dict[str, Any] = {"defences": ("standard", "pgd-at"), "attacks": ("clean", _UNDER)}
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
