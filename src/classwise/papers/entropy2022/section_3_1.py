"""Entropy 2022, section 3.1: label smoothing in standard and in adversarial training."""

from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from classwise.papers.claims import claims_of
from classwise.papers.entropy2022 import gains
from classwise.papers.entropy2022.networks import AUTOATTACK, EVALUATIONS
from classwise.papers.entropy2022.tables import TABLES
from classwise.papers.extremes import extreme
from classwise.papers.sections import Section

NAME = "entropy2022/3-1-label-smoothing"
# By the training without label smoothing: the same with it, and without.
PAIRS = {
    "standard": ("standard-smoothed", "standard"),
    "pgd-at": ("label-smoothing", "pgd-at"),
    "trades": ("trades-smoothed", "trades"),
}

SECTION = Section(
    title="Label smoothing",
    defences=tuple(name for pair in PAIRS.values() for name in reversed(pair)),
    evaluations=EVALUATIONS,
    max_seeds=2,
)


def gains_over_standard(sums: xr.Dataset) -> xr.DataArray:
    """Return how much more label smoothing adds to PGD-AT and to TRADES than to standard training, along `gain`."""
    return gains.gains(sums, (PAIRS["pgd-at"], PAIRS["trades"])) - gains.gains(sums, (PAIRS["standard"],)).isel(gain=0, drop=True)


def least_gain_over_standard(sums: xr.Dataset) -> xr.DataArray:
    """Return how much more label smoothing adds to PGD-AT or to TRADES, whichever is less, than to standard training."""
    return gains_over_standard(sums).min("gain", skipna=False)


def printed(training: str, attack: str) -> float:
    """Return the printed difference by label smoothing, in points."""
    return float(TABLES.load(1)["change"].sel(defence=training, attack=attack))


def _more_than_standard() -> float:
    """Return the printed value of `least_gain_over_standard`, of clean accuracies."""
    return min(printed(name, "clean") for name in ("pgd-at", "trades")) - printed("standard", "clean")


def _of(training: str, attack: str) -> dict[str, Any]:
    """Return the fields of a claim on what label smoothing adds to a training."""
    return {
        "measure": partial(gains.least_gain, pairs=(PAIRS[training],)),
        "defences": PAIRS[training],
        "attacks": (AUTOATTACK if attack == "autoattack" else attack,),
        "reported": partial(printed, training, attack),
    }


_claim = partial(claims_of(NAME), where="3.1, Table 1")

CLAIMS = (
    _claim(
        "smoothing-clean-at",
        statement="Label smoothing raises the clean accuracy of PGD-AT.",
        **_of("pgd-at", "clean"),
    ),
    _claim(
        "smoothing-clean-trades",
        statement="Label smoothing raises the clean accuracy of TRADES.",
        **_of("trades", "clean"),
    ),
    _claim(
        "smoothing-more-than-standard",
        statement="Label smoothing raises the clean accuracy of PGD-AT and of TRADES by more than that of standard training.",
        measure=least_gain_over_standard,
        truth=extreme(gains_over_standard),
        defences=tuple(name for pair in PAIRS.values() for name in pair),
        attacks=("clean",),
        reported=_more_than_standard,
    ),
    _claim(
        "smoothing-robust-at",
        statement="Label smoothing raises the accuracy of PGD-AT under AutoAttack.",
        **_of("pgd-at", "autoattack"),
    ),
    _claim(
        "smoothing-robust-trades",
        statement="Label smoothing lowers the accuracy of TRADES under AutoAttack.",
        low=-np.inf,
        high=0.0,
        **_of("trades", "autoattack"),
    ),
)
