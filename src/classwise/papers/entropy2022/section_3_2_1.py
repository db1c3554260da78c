"""Entropy 2022, section 3.2.1: the entropy of predictions, which TRADES maximises with one of its terms."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from classwise.papers import extremes
from classwise.papers.claims import claims_of
from classwise.papers.entropy2022 import entropy
from classwise.papers.entropy2022.entropy import DETACHED, SLOWER, mean_entropy
from classwise.papers.sections import CLEAN_AND_PGD, Arranged, Section
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


def _shares(sums: xr.Dataset) -> xr.DataArray:
    return mean_entropy(sums).isel(defence=0) / entropy.limit(sums.sizes["predicted"])


def share_of_limit(sums: xr.Dataset) -> xr.DataArray:
    """Return the mean entropy over its limit, ln of the number of classes: the larger one of clean and attacked images."""
    return _shares(sums).max("attack", skipna=False)


_VALUES: dict[str, Any] = {"values": {"entropy": confidence.entropy}}
_claim = partial(claims_of(NAME, data="networks", unit="nats", **_VALUES), where="3.2.1, Figure 7")

CLAIMS = (
    _claim(
        "trades-more-entropy-clean",
        statement="TRADES has a larger entropy than PGD-AT on clean images.",
        measure=more_entropy,
        defences=("pgd-at", "trades"),
        attacks=("clean",),
    ),
    _claim(
        "trades-more-entropy-attacked",
        statement="TRADES has a larger entropy than PGD-AT on attacked images.",
        measure=more_entropy,
        defences=("pgd-at", "trades"),
        attacks=("pgd-20",),
    ),
    _claim(
        "entropy-far-from-limit",
        statement="The entropy of TRADES is less than three quarters of its limit, ln of the number of classes.",
        measure=share_of_limit,
        low=-np.inf,
        high=0.75,
        unit="of the limit",
        defences=("trades",),
        attacks=("clean", "pgd-20"),
        truth=extremes.extreme(_shares, largest=True, **_VALUES),
    ),
    _claim(
        "entropy-by-its-gradient",
        statement="The gradient through the clean side of the divergence raises the entropy of TRADES on clean images.",
        measure=more_entropy,
        where="3.2.1, a control of ours",
        data="twins",
        defences=(DETACHED, SLOWER),
        attacks=("clean",),
    ),
)
