"""Entropy 2022, section 3.2.1: the entropy of predictions in nats, which TRADES maximises with one of its terms.

Outcomes are of networks along `defence`, under "clean" and one attack, with the logits of each image.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from classwise.papers.entropy2022.gains import Pair, known_pairs
from classwise.papers.sections import Member, Part, Section, join_parts
from classwise.papers.terms import claims, least
from classwise.papers.variants import Variants
from classwise.stats import bootstrap, confidence, metrics
from classwise.stats.aggregate import clean_and_attacked, measured_epochs
from classwise.stats.combine import concat_named

NAME = "entropy2022/3-2-1-maximum-entropy"
# TRADES at a lower learning rate, and the same without the gradient through the clean side of its divergence, and so without
# that of the entropy.
SLOWER, DETACHED = "trades, lower rate", "trades, lower rate, detached"


def slower(*options: Mapping[str, Any]) -> Variants:
    """Return variants of a training at a third of its learning rate, one for each mapping of options.

    At the rate of scale quick TRADES without the gradient through the clean side of its divergence ends with one and the same
    prediction for all images.
    """
    return lambda scale, plain: tuple({"options": some, "lr": round(plain.lr / 3, 6), "averages": ()} for some in options)


_TWINS = Member("slower", SLOWER, by="defence"), Member("detached", DETACHED, by="defence")
_ROWS = Member("", by="defence"), Member("smoothed", by="defence"), *_TWINS


_TWIN: dict[str, Any] = {"defences": ("trades",), "max_seeds": 1}

SECTION = Section(
    title="The entropy of predictions",
    defences=("pgd-at", "trades"),
    parts={
        "smoothed": Part(
            title="label smoothing and maximum entropy", defences=("label-smoothing", "me-at", "me-trades"), max_seeds=1
        ),
        "slower": Part(title="TRADES at a lower rate", variants=slower({}), **_TWIN),
        "detached": Part(title="its detached twin", variants=slower({"detached": True}), **_TWIN),
    },
    arrange={"networks": join_parts("defence", *_ROWS, optional=True, any_seeds=True), "twins": join_parts("defence", *_TWINS)},
)


def mean_entropy(sums: xr.Dataset) -> xr.DataArray:
    """Return the mean entropy of the predictions of each network."""
    both = ["label", "predicted"]
    return sums["entropy"].sum(both) / sums["count"].sum(both)


def difference(sums: xr.Dataset) -> xr.DataArray:
    """Return by how much the mean entropy of the second defence exceeds that of the first, under each attack."""
    mean = mean_entropy(sums)
    return mean.isel(defence=1, drop=True) - mean.isel(defence=0, drop=True)


def more_entropy(sums: xr.Dataset) -> xr.DataArray:
    """Return by how much the mean entropy of the second defence exceeds that of the first, under the attack."""
    return difference(sums).isel(attack=0)


def limit(classes: int) -> float:
    """Return the largest entropy of a prediction: ln of the number of classes."""
    return float(np.log(classes))


def share_of_limit(sums: xr.Dataset) -> xr.DataArray:
    """Return the mean entropy over its limit, ln of the number of classes, of clean and of attacked images."""
    return mean_entropy(sums).isel(defence=0) / limit(sums.sizes["predicted"])


_NETWORKS: dict[str, Any] = {"measure": more_entropy, "defences": SECTION.defences}

CLAIMS = claims(
    NAME,
    {
        "trades-more-entropy-clean": _NETWORKS,
        "trades-more-entropy-attacked": {**_NETWORKS, "attacks": ("pgd-20",)},
        "entropy-far-from-limit": {
            "measure": least(share_of_limit, largest=True),
            "defences": ("trades",),
            "attacks": ("clean", "pgd-20"),
        },
        "entropy-by-its-gradient": {"measure": more_entropy, "defences": (DETACHED, SLOWER)},
    },
    attacks=("clean",),
    values={"entropy": confidence.entropy},
)

# By the title of a comparison: a network, and the one that it is compared with.
PAIRS: Mapping[str, Pair] = {
    "TRADES minus PGD-AT": ("trades", "pgd-at"),
    "label smoothing minus PGD-AT": ("label-smoothing", "pgd-at"),
    "ME-AT minus PGD-AT": ("me-at", "pgd-at"),
    "ME-TRADES minus TRADES": ("me-trades", "trades"),
    "TRADES minus its twin": (SLOWER, DETACHED),
}


def right_in_all(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes of the images that all networks classify correctly, under each attack alone; others have truth -1.

    Of the seeds that have any.
    """
    right = (~outcomes.misclassified & (outcomes.truth >= 0)).all("defence")
    return outcomes.assign(truth=outcomes.truth.where(right, -1)).sel(seed=right.any(["attack", "image"]))


def _bounds(outcomes: xr.Dataset, measure: Callable[[xr.Dataset], xr.DataArray]) -> xr.DataArray:
    span = (-limit(outcomes.sizes["predicted"]), limit(outcomes.sizes["predicted"]))
    return bootstrap.paired_bounds(outcomes, measure, draws=1000, span=span, values={"entropy": confidence.entropy(outcomes)})


def if_both_right(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the difference of the mean entropy of the networks of PAIRS on images that both classify correctly.

    Along comparison, attack and bound.
    """
    pairs = known_pairs(outcomes, PAIRS)
    return concat_named(
        "comparison", pairs, lambda pair: _bounds(right_in_all(outcomes.sel(defence=list(pair[::-1]))), difference)
    )


def entropy_by_class(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the mean entropy of each class with its interval, along `images_are` of right images and of wrong ones."""

    def means(sums: xr.Dataset) -> xr.DataArray:
        right = sums["count"].label == sums["count"].predicted
        kept = {"right": sums.where(right, 0), "wrong": sums.where(~right, 0)}
        return concat_named("images_are", kept, lambda some: some["entropy"].sum("predicted") / some["count"].sum("predicted"))

    return _bounds(outcomes, means)


def course(history: xr.Dataset) -> xr.DataArray:
    """Return the mean entropy of test images along defence, images_are and epoch, the mean over the seeds.

    history: of the networks, whose inner attack differs from that which measures.
    """
    count = measured_epochs(history["count"].sel(split="test", drop=True))
    nats = history["uncertainty"].sel(split="test", epoch=count.epoch, drop=True)
    number = metrics.images(count).where(nats.notnull(), 0)
    total, images = (clean_and_attacked(some).sum("label") for some in (nats.fillna(0) * number, number))
    return (total / images).mean("seed")
