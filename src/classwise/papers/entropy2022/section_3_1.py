"""Entropy 2022, section 3.1: label smoothing in standard and in adversarial training."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from classwise.papers.claims import RATIO, claims_of
from classwise.papers.entropy2022 import gains, likeness
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
ADVERSARIAL = {"PGD-AT": PAIRS["pgd-at"], "TRADES": PAIRS["trades"]}

SECTION = Section(
    title="Label smoothing",
    defences=tuple(name for pair in PAIRS.values() for name in reversed(pair)),
    evaluations=EVALUATIONS,
    max_seeds=2,
    features=("clean",),
)


def shown(names: Sequence[str]) -> tuple[str, str]:
    """Return two of the networks with these names, if possible PGD-AT with label smoothing and without."""
    both = next((pair for pair in (PAIRS["pgd-at"], PAIRS["trades"]) if set(pair) <= set(names)), None)
    return both or (names[0], names[-1])


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


def _of_features(training: str, panel: str) -> dict[str, Any]:
    """Return the fields of a claim on the features of a training with and without label smoothing."""
    network, base = PAIRS[training]
    return {
        "measure": partial(_CHANGES[panel], network=network, base=base),
        "where": f"3.1, Figure 6{panel}",
        "defences": PAIRS[training],
        "attacks": ("clean",),
        "of": "features",
        "low": -np.inf,
        **_BOUNDS[panel],
    }


_CHANGES: dict[str, Callable[..., xr.DataArray]] = {"a": likeness.similarity_change, "b": likeness.variance_ratio}
_CHANGES |= {"c": _CHANGES["a"], "d": _CHANGES["b"]}
_LOWER, _SMALLER = {"high": 0.0, "unit": ""}, {**RATIO, "high": 1.0}
_BOUNDS: dict[str, dict[str, Any]] = {"a": _LOWER, "b": _SMALLER, "c": _LOWER, "d": _SMALLER}

_claim = partial(claims_of(NAME), where="3.1, Table 1")

CLAIMS = (
    _claim(
        "smoothing-similarity-at",
        statement="Label smoothing lowers the similarity of classes in PGD-AT.",
        **_of_features("pgd-at", "a"),
    ),
    _claim(
        "smoothing-variance-at",
        statement="Label smoothing lowers the variance of classes in PGD-AT.",
        **_of_features("pgd-at", "b"),
    ),
    _claim(
        "smoothing-similarity-trades",
        statement="Label smoothing lowers the similarity of classes in TRADES.",
        **_of_features("trades", "c"),
    ),
    _claim(
        "smoothing-variance-trades",
        statement="Label smoothing lowers the variance of classes in TRADES.",
        **_of_features("trades", "d"),
    ),
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
