"""Entropy 2022, section 3.1: label smoothing in standard and in adversarial training."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import xarray as xr

from classwise.papers.entropy2022 import gains, likeness
from classwise.papers.entropy2022.networks import AUTOATTACK, EVALUATIONS
from classwise.papers.entropy2022.tables import TABLES
from classwise.papers.sections import Section
from classwise.papers.terms import claims, least, of
from classwise.stats import metrics

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


def printed(training: str, attack: str) -> float:
    """Return the printed difference by label smoothing, in points."""
    return float(TABLES.load(1)["change"].sel(defence=training, attack=attack))


def _more_than_standard() -> float:
    """Return the least of the printed values of `gains_over_standard`, of clean accuracies."""
    return min(printed(name, "clean") for name in ("pgd-at", "trades")) - printed("standard", "clean")


def _gain(training: str, attack: str = "clean") -> dict[str, Any]:
    """Return the fields of a claim on what label smoothing adds to the accuracy of a training."""
    smoothed, plain = (of(metrics.overall, name, attack) for name in PAIRS[training])
    return {"measure": smoothed - plain, "reported": partial(printed, training, attack.partition("|")[0])}


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
            "measure": least(gains_over_standard),
            "defences": SECTION.defences,
            "reported": _more_than_standard,
        },
        "smoothing-robust-at": _gain("pgd-at", AUTOATTACK),
        "smoothing-robust-trades": _gain("trades", AUTOATTACK),
    },
    attacks=("clean",),
)
