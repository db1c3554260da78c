"""The claims of Tian et al. 2021, section 4.3, in the order of the paper."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from classwise.papers import measures
from classwise.papers.claims import NO_SUCH, Claim, ClaimMeasure
from classwise.papers.tian2021.section_4_1 import BESIDE_STANDARD
from classwise.papers.tian2021.tables import HE, from_table_1
from classwise.stats import aggregate, confidence, metrics
from classwise.stats.combine import stacked

_FOUR = ("pgd-at", "trades", "mart", HE)
_FIVE = ("fgsm", "cw|margin-20", "pgd-20", "transfer", "n-attack")
_WHITE = ("fgsm", "pgd-20")
_BLACK = ("transfer", "n-attack")
_MARGIN = ("fgsm", "cw|margin-20")


def _attack(name: str, where: str, says: str, measure: ClaimMeasure, **rest: Any) -> Claim:
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
        values={"margin": confidence.logit_margin},
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


_SIGNS = {"robust": 1, "vulnerable": -1, "not to be told": 0}


def certain_classes(standing: xr.DataArray) -> pd.DataFrame:
    """Return in how many settings each class is surely robust, surely vulnerable or neither (`intervals.standing`)."""
    settings = [dim for dim in standing.dims if dim != "label"]
    found = {word: (standing == sign).sum(settings).to_series() for word, sign in _SIGNS.items()}
    return pd.DataFrame(found).rename_axis("class").T


def agreement(rates: xr.DataArray) -> str:
    """Return in a sentence which classes are the best and the worst in how many settings, and how alike the settings are.

    rates: of classes, along label and further dimensions. Alike: the correlation over classes of each two settings.
    """
    settings = [dim for dim in rates.dims if dim != "label"]
    flat = rates.stack(setting=settings).transpose("label", "setting")
    often = [pd.Series(one.values).value_counts() for one in (flat.idxmax("label"), flat.idxmin("label"))]
    told = [", ".join(f"class {name} in {number}" for name, number in one.items()) for one in often]
    pairs = np.corrcoef(flat.values.T)[np.triu_indices(flat.sizes["setting"], 1)] if flat.sizes["setting"] > 1 else []
    two = f"{np.mean(pairs):.2f} on average, at least {np.min(pairs):.2f}" if len(pairs) else "one setting only"
    best = f"**Of {flat.sizes['setting']} settings**, the best class is {told[0]}; the worst is {told[1]}."
    return f"{best} **Correlation over the classes** of two settings: {two}."


def attack_steps(outcomes: xr.Dataset, pairs: Sequence[tuple[str, str]]) -> dict[str, xr.DataArray]:
    """Return by "weaker to stronger" the counts of pairs of attacks, seeds pooled, on the images that both were asked about."""
    parts = {f"{weak} to {strong}": outcomes.sel(attack=[weak, strong]) for weak, strong in pairs}
    return {name: aggregate.counts(aggregate.common(part)).sum("seed") for name, part in parts.items()}


def accuracy_lost(counts: Mapping[str, xr.DataArray]) -> xr.DataArray:
    """Return by how many points each class changes along each of `steps`: dimensions step and those of the counts."""
    rates = {name: metrics.accuracy(count) for name, count in counts.items()}
    return stacked({name: one.isel(attack=1, drop=True) - one.isel(attack=0, drop=True) for name, one in rates.items()}, "step")


def who_loses(counts: Mapping[str, xr.DataArray]) -> pd.DataFrame:
    """Return how many points vulnerable and robust classes lose from a weaker to a stronger attack, the mean over the defences.

    counts: by a name, counts of two attacks along attack, the weaker first; Definition 3.3 is applied to the weaker.
    """
    rows = {}
    for name, count in counts.items():
        weak, strong = (count.isel(attack=place, drop=True) for place in (0, 1))
        lost, robust = metrics.accuracy(weak) - metrics.accuracy(strong), metrics.robust_classes(weak)
        kinds = {"vulnerable classes lose": lost.where(~robust), "robust classes lose": lost.where(robust)}
        rows[name] = {kind: f"{float(one.mean('label').mean()):.1f}" for kind, one in kinds.items()}
    return pd.DataFrame(rows).T
