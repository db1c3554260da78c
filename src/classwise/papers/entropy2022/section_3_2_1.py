"""Entropy 2022, section 3.2.1: the entropy of predictions, which TRADES maximises with one of its terms."""

from collections.abc import Mapping
from typing import Any

import xarray as xr

from classwise.papers.entropy2022 import entropy
from classwise.papers.entropy2022.entropy import DETACHED, SLOWER, mean_entropy
from classwise.papers.sections import CLEAN_AND_PGD, Arranged, Section
from classwise.papers.terms import claims, least
from classwise.papers.variants import Variants
from classwise.stats import confidence

NAME = "entropy2022/3-2-1-maximum-entropy"


def slower(*options: Mapping[str, Any]) -> Variants:
    """Return variants of a training at a third of its learning rate, one for each mapping of options.

    At the rate of scale quick TRADES without the gradient through the clean side of its divergence ends with one and the same
    prediction for all images.
    """
    return lambda scale, plain: tuple({"options": some, "lr": round(plain.lr / 3, 6), "averages": ()} for some in options)


_TWIN: dict[str, Any] = {"defences": ("trades",), "evaluations": CLEAN_AND_PGD, "max_seeds": 1}

SECTION = Section(
    title="The entropy of predictions",
    defences=("pgd-at", "trades"),
    evaluations=CLEAN_AND_PGD,
    parts={
        "smoothed": Section(
            title="label smoothing and maximum entropy",
            defences=("label-smoothing", "me-at", "me-trades"),
            evaluations=CLEAN_AND_PGD,
            max_seeds=1,
        ),
        "slower": Section(title="TRADES at a lower rate", variants=slower({}), **_TWIN),
        "detached": Section(title="its detached twin", variants=slower({"detached": True}), **_TWIN),
    },
    arrange={
        "networks": Arranged(entropy.networks, ("",), ("smoothed", "slower", "detached")),
        "twins": Arranged(entropy.twins, ("slower", "detached")),
    },
)


def more_entropy(sums: xr.Dataset) -> xr.DataArray:
    """Return by how much the mean entropy of the second defence exceeds that of the first, under the attack."""
    mean = mean_entropy(sums).isel(attack=0)
    return mean.isel(defence=1) - mean.isel(defence=0)


def share_of_limit(sums: xr.Dataset) -> xr.DataArray:
    """Return the mean entropy over its limit, ln of the number of classes, of clean and of attacked images."""
    return mean_entropy(sums).isel(defence=0) / entropy.limit(sums.sizes["predicted"])


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
