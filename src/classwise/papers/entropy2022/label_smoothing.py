"""Entropy 2022, section 3.1: label smoothing in standard and in adversarial training."""

from collections.abc import Callable
from functools import partial
from typing import Any

import xarray as xr

from classwise.papers.entropy2022 import likeness
from classwise.papers.entropy2022.networks import AUTOATTACK, EVALUATIONS
from classwise.papers.entropy2022.tables import TABLES
from classwise.papers.sections import Section
from classwise.papers.terms import Term, claims, least, of
from classwise.stats.metrics import overall

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


def printed(training: str, attack: str) -> float:
    """Return the printed difference by label smoothing, in points."""
    return float(TABLES.load(1)["change"].sel(defence=training, attack=attack))


def _more_than_standard() -> float:
    """Return the least printed difference of clean accuracies by which adversarial training gains more than standard training."""
    return min(printed(name, "clean") for name in ("pgd-at", "trades")) - printed("standard", "clean")


def _added(training: str, attack: str = "clean") -> Term:
    smoothed, plain = (of(overall, name, attack) for name in PAIRS[training])
    return smoothed - plain


def _gain(training: str, attack: str = "clean") -> dict[str, Any]:
    """Return the fields of a claim on what label smoothing adds to the accuracy of a training."""
    return {"measure": _added(training, attack), "reported": partial(printed, training, attack.partition("|")[0])}


def _features(change: Callable[..., xr.DataArray], training: str) -> dict[str, Any]:
    """Return the fields of a claim on the features of a training with and without label smoothing."""
    network, base = PAIRS[training]
    return {"measure": partial(change, network=network, base=base), "defences": PAIRS[training], "of": "features"}


CLAIMS = claims(
    NAME,
    {
        "smoothing-similarity-at": _features(likeness.similarity_change, "pgd-at"),
        "smoothing-variance-at": _features(likeness.variance_ratio, "pgd-at"),
        "smoothing-similarity-trades": _features(likeness.similarity_change, "trades"),
        "smoothing-variance-trades": _features(likeness.variance_ratio, "trades"),
        "smoothing-clean-at": _gain("pgd-at"),
        "smoothing-clean-trades": _gain("trades"),
        "smoothing-more-than-standard": {
            "measure": least(*(_added(name) - _added("standard") for name in ("pgd-at", "trades"))),
            "defences": SECTION.defences,
            "reported": _more_than_standard,
        },
        "smoothing-robust-at": _gain("pgd-at", AUTOATTACK),
        "smoothing-robust-trades": _gain("trades", AUTOATTACK),
    },
    attacks=("clean",),
)
