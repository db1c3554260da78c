"""The claims of Tian et al. 2021, section 4.3, in the order of the paper."""

from functools import partial
from typing import Any

from classwise import answers, metrics
from classwise.claims import measures
from classwise.claims.claim import Claim, Measure
from classwise.claims.tian2021 import BESIDE_STANDARD, HE, NO_SUCH, from_table_1

_FOUR = ("pgd-at", "trades", "mart", HE)
_FIVE = ("fgsm", "cw|margin-20", "pgd-20", "transfer", "n-attack")
_WHITE = ("fgsm", "pgd-20")
_BLACK = ("transfer", "n-attack")
_MARGIN = ("fgsm", "cw|margin-20")


def _attack(name: str, where: str, says: str, measure: Measure, **rest: Any) -> Claim:
    needs: dict[str, Any] = {"defences": _FOUR, "attacks": _FIVE}
    return Claim(name, "tian2021/4-3-attacks-and-defences", where, says, measure, **(needs | rest))


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
        "cats-worst",
        "4.3, (i)",
        "Cats are the most vulnerable class under every attack and after every defence.",
        partial(measures.lies_below, name="cat"),
        reported=partial(from_table_1, partial(measures.lies_below, name="cat")),
        datasets=("cifar10",),
        because=NO_SUCH,
    ),
    _attack(
        "cars-best",
        "4.3, (i)",
        "Automobiles are the most robust class under every attack and after every defence.",
        partial(measures.lies_above, name="automobile"),
        reported=partial(from_table_1, partial(measures.lies_above, name="automobile")),
        datasets=("cifar10",),
        because=NO_SUCH,
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
        "What PGD breaks beyond FGSM is a larger share of vulnerable classes than of robust ones.",
        measures.lost_by_vulnerable,
        attacks=_WHITE,
        reported=partial(from_table_1, measures.lost_by_vulnerable, _WHITE),
    ),
    _attack(
        "margin-on-vulnerable",
        "4.3, (ii)",
        "What CW breaks beyond FGSM, too, is a larger share of vulnerable classes than of robust ones.",
        measures.lost_by_vulnerable,
        attacks=_MARGIN,
        reported=partial(from_table_1, measures.lost_by_vulnerable, ("fgsm", "cw")),
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
        "What a query-based attack breaks beyond a transferred one is a larger share of vulnerable classes than of robust ones.",
        measures.lost_by_vulnerable,
        attacks=_BLACK,
        reported=partial(from_table_1, measures.lost_by_vulnerable, _BLACK),
    ),
    _attack(
        "closer-to-the-boundary",
        "4.3, (iii); 5",
        "Images of vulnerable classes lie closer to the decision boundary: over the classes, margins rise with robust accuracy.",
        measures.close_where_weak,
        attacks=("clean", "pgd-20"),
        values={"margin": answers.margin},
        unit="correlation",
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
        **BESIDE_STANDARD,
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
        **BESIDE_STANDARD,
    ),
)
