"""How far the networks of a scale are from those of the paper's Table 1: their level, and the order of their classes."""

from functools import partial
from typing import Any

import xarray as xr
from scipy import stats

from classwise.core.spec import Spec
from classwise.papers.sections import CLEAN_AND_PGD, Request
from classwise.papers.tian2021.tables import TABLES
from classwise.stats import metrics, pooling
from classwise.stats.bootstrap import bootstrap

_ATTACK = "pgd-20"


def _earlier(defence: str) -> Spec:
    attack: dict[str, Any] = {} if defence == "standard" else {"attack_options": {"steps": 3}}
    network: dict[str, Any] = {"model": "resnet18", "width": 16, "augment": "crop-flip", "precision": "bfloat16", "epochs": 15}
    return Spec(dataset="cifar10", eps="8/255", defence=defence, probe="pgd-5", measure=3, **network, **attack)


# An earlier recipe of scale laptop: a bigger network with more steps of the attack, recorded to compare the two.
EARLIER = Request(tuple(_earlier(name) for name in ("standard", "pgd-at", "trades")), CLEAN_AND_PGD, "laptop")


def correlation(count: xr.DataArray, others: xr.DataArray) -> xr.DataArray:
    """Return the rank correlation of the accuracies of the classes with those in `others`, along label in the same order."""
    result: xr.DataArray = xr.corr(_ranks(metrics.accuracy(count)), _ranks(others), "label")
    return result


def _ranks(rates: xr.DataArray) -> xr.DataArray:
    how = partial(stats.rankdata, axis=-1)
    ranks: xr.DataArray = xr.apply_ufunc(how, rates, input_core_dims=[["label"]], output_core_dims=[["label"]])
    return ranks


def _ordered(outcomes: xr.Dataset, others: xr.DataArray) -> str:
    bounds = bootstrap(outcomes, partial(correlation, others=others.sel(label=outcomes.predicted.values)))
    low, value, high = (float(bounds.sel(bound=name).clip(-1, 1)) for name in ("low", "value", "high"))
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def summary(outcomes: xr.Dataset, earlier: xr.Dataset | None) -> str:
    """Return in sentences the level next to the paper's and the rank correlation of the classes, of CIFAR-10 under pgd-20.

    earlier: the outcomes of EARLIER, None at other scales than its own.
    """
    if earlier is None:
        return "Level and order of the classes are compared with those of the paper on CIFAR-10, where they are recorded."
    printed = TABLES.load(1).sel(attack=_ATTACK)
    texts = []
    for name in (str(one) for one in outcomes.defence.values if one in printed.defence.values):
        mine, theirs = outcomes.sel(defence=name, attack=_ATTACK, drop=True), printed.sel(defence=name)
        level = float(metrics.overall(pooling.pooled(mine)))
        text = f"**{name}**: {level:.1f} % of all images, {float(theirs.overall) - level:.1f} points below the paper"
        text += f"; rank correlation of the classes with the paper's {_ordered(mine, theirs.accuracy)}"
        if name in earlier.defence.values:
            bigger = metrics.accuracy(pooling.pooled(earlier.sel(defence=name, attack=_ATTACK, drop=True)))
            text += f", with those of the ResNet-18 {_ordered(mine, bigger)}"
        texts.append(text)
    return f"Under {_ATTACK}, with 95 % intervals over the images: {'. '.join(texts)}."
