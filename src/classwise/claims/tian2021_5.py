"""The claims of Tian et al. 2021, section 5, in the order of the paper.

They need along `inverse` the inverse temperatures of temperature-pgd-20, and for HE the readout "cosines".
"""

from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from classwise import answers, metrics, published
from classwise.claims import heat
from classwise.claims.claim import Claim, Measure
from classwise.claims.tian2021 import HE, NO_GROUPS, NO_SUCH, PAIRED, of_rates

_HOT = ("pgd-20", "temperature-pgd-20")


def from_table_3(measure: Measure, defences: tuple[str, ...] = ()) -> float:
    """Return a measure of the paper's Table 3 beside the PGD of its Table 1, at the best temperature of each defence."""
    hot, plain = published.load("tian2021", 3).accuracy, published.load("tian2021", 1).accuracy.sel(attack="pgd-20", drop=True)
    best = hot.isel(inverse=hot.mean("label", skipna=False).fillna(np.inf).argmin("inverse")).drop_vars("inverse")
    rates = xr.concat([plain, best], "attack").assign_coords(attack=list(_HOT))
    return of_rates(measure, rates.sel(defence=list(defences)) if defences else rates)


def _heat(name: str, where: str, says: str, measure: Measure, **rest: Any) -> Claim:
    return Claim(name, "tian2021/5-temperature-pgd", where, says, measure, **rest)


_ATTACKED: dict[str, Any] = {"defences": ("pgd-at", "trades", "mart", HE), "attacks": _HOT, "dims": ("inverse",)}
_SMOOTH: dict[str, Any] = {
    "defences": ("pgd-at", "trades", "mart", HE),
    "attacks": ("pgd-20",),
    "values": {"variance": answers.confidence_variance},
}
_CV = partial(heat.least_grown_by_heat, measure=metrics.cv)
_MCD = partial(heat.least_grown_by_heat, measure=metrics.mcd)

HEAT = (
    _heat(
        "smooth-where-weak",
        "5, Figure 3a",
        "Less robust classes have smoother confidences: over the classes, CVC rises with robust accuracy.",
        heat.smooth_where_weak,
        unit="correlation",
        **_SMOOTH,
    ),
    _heat(
        "animals-smoother",
        "5, Figure 3a",
        "After every defence animals have smoother confidences than vehicles.",
        heat.smoother_animals,
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
        partial(heat.smoothest, names=("deer", "cat")),
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
        "After every defence deer have the smoothest confidences of all classes, cats the next.",
        partial(heat.smoothest, names=("deer",)),
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
        "HE, read from its cosines, has confidences at most half as varied (CVC) as any other defence.",
        heat.smoother_than_others,
        low=0,
        high=0.5,
        unit="times",
        log=True,
        **_SMOOTH,
    ),
    _heat(
        "breaks-more",
        "5, results",
        "At the best temperature, Temperature-PGD breaks more images than PGD, after every defence.",
        heat.least_lost_to_heat,
        reported=partial(from_table_3, heat.least_lost_to_heat),
        **_ATTACKED,
    ),
    _heat(
        "larger-cv",
        "5, results (i)",
        "The class-wise variance (CV) is larger under Temperature-PGD than under PGD, after every defence.",
        _CV,
        unit="points squared",
        reported=partial(from_table_3, _CV),
        **_ATTACKED,
    ),
    _heat(
        "larger-mcd",
        "5, results (i)",
        "The maximum class discrepancy (MCD) is larger under Temperature-PGD than under PGD, after every defence.",
        _MCD,
        reported=partial(from_table_3, _MCD),
        **_ATTACKED,
    ),
    _heat(
        "hits-vulnerable",
        "5, results (ii)",
        "What Temperature-PGD breaks beyond PGD are images of vulnerable classes more than of robust ones.",
        heat.lost_to_heat_by_vulnerable,
        reported=partial(from_table_3, heat.lost_to_heat_by_vulnerable),
        **_ATTACKED,
    ),
    _heat(
        "he-loses-most",
        "5, results (iii)",
        "HE loses more to Temperature-PGD than plain adversarial training, which hardly feels it.",
        heat.more_lost_to_heat,
        reported=partial(from_table_3, heat.more_lost_to_heat, ("pgd-at", "pgd-he")),
        **(_ATTACKED | {"defences": ("pgd-at", HE)}),
    ),
    _heat(
        "plain-hardly-loses",
        "5, results (iii)",
        "Madry's training is not sensitive to Temperature-PGD: it loses less than a point to it.",
        heat.lost_to_heat,
        low=-np.inf,
        high=1,
        reported=partial(from_table_3, heat.lost_to_heat, ("pgd-at",)),
        **(_ATTACKED | {"defences": ("pgd-at",)}),
    ),
    _heat(
        "plain-steepest",
        "5, results (iii)",
        "Madry's training has steeper confidences (a larger CVC) than the other defences.",
        heat.steeper_than_others,
        low=1,
        unit="times",
        log=True,
        **_SMOOTH,
    ),
    _heat(
        "he-loses",
        "5, results (iii)",
        "Temperature-PGD breaks many more images than PGD after HE, read from its cosines: more than a point.",
        heat.lost_to_heat,
        low=1,
        reported=partial(from_table_3, heat.lost_to_heat, ("pgd-he",)),
        **(_ATTACKED | {"defences": (HE,)}),
    ),
    _heat(
        "he-loses-the-vulnerable",
        "5, results (iii)",
        "What it breaks after HE are images of vulnerable classes more than of robust ones.",
        heat.lost_to_heat_by_vulnerable,
        reported=partial(from_table_3, heat.lost_to_heat_by_vulnerable, ("pgd-he",)),
        **(_ATTACKED | {"defences": (HE,)}),
    ),
)
