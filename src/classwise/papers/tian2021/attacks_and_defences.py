"""Tian et al. 2021, section 4.3: class-wise robustness under different attacks and defences."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from classwise.core.spec import Evaluation, Spec
from classwise.papers.claims import ClaimMeasure
from classwise.papers.measures import extra_drop_of_vulnerable
from classwise.papers.sections import CLEAN_AND_PGD, Request, Section
from classwise.papers.terms import claims, least, value
from classwise.papers.tian2021.recipe import COMPARED, FOUR, UNDER_ATTACK
from classwise.papers.tian2021.tables import table_1_value, text_number
from classwise.stats import aggregate, bootstrap, confidence, intervals, metrics, pooling
from classwise.stats.agreement import rank_correlation

NAME = "tian2021/4-3-attacks-and-defences"
# Table 1. Attacks that are too slow for all images are evaluated on 20 of each class, with fewer steps.
_ROWS = (
    Evaluation(attack="fgsm"),
    Evaluation(attack="margin-20"),
    Evaluation(attack="pgd-20", substitute="standard"),
    Evaluation(attack="cw", options={"goal": "inside", "rounds": 2, "steps": 100}, per_class=20),
    Evaluation(attack="n-attack", options={"steps": 30, "population": 50}, per_class=20),
)
SECTION = Section(
    title="The class-wise robustness under different attacks and defences",
    defences=("standard", *COMPARED),
    max_seeds=3,
    extra_evaluations=dict.fromkeys(COMPARED, _ROWS),
)


def gaps(sums: xr.Dataset) -> xr.DataArray:
    """Return the gap between best and worst class, of each defence and attack."""
    return metrics.mcd(sums["count"])


def distances(sums: xr.Dataset, name: str = "", *, above: bool = False) -> xr.DataArray:
    """Return by how much a class lies below (`above`) each other one, in each defence and attack.

    name: of the class; by default all classes, along label.
    """
    rates = metrics.accuracy(sums["count"])
    others = rates.rename(label="other")
    beyond = (rates - others if above else others - rates).where(rates.label != others.other, np.inf)
    return beyond.sel(label=name, drop=True) if name else beyond


def close_where_weak(sums: xr.Dataset) -> xr.DataArray:
    """Return the correlation over classes of the mean margin under the first attack with the accuracy under the second.

    The mean over the defences; `margin` is that of the logits of each image.
    """
    count = sums["count"]
    mean = sums["margin"].isel(attack=0).sum("predicted") / metrics.images(count.isel(attack=0))
    return xr.corr(mean, metrics.accuracy(count.isel(attack=1)), dim="label").mean("defence", skipna=False)


def agreement(sums: xr.Dataset) -> xr.DataArray:
    """Return how alike the accuracies of the classes are: the mean correlation of each two settings (defence and attack)."""
    rates = metrics.accuracy(sums["count"]).stack(setting=("defence", "attack")).reset_index("setting")
    off = rates - rates.mean("label", skipna=False)
    unit = off / np.sqrt((off**2).sum("label", skipna=False))
    settings = rates.sizes["setting"]
    return ((unit.sum("setting", skipna=False) ** 2).sum("label", skipna=False) - settings) / (settings * (settings - 1))


def vulnerable_drop(sums: xr.Dataset) -> xr.DataArray:
    """Return how much more the vulnerable classes lose from the first attack to the second than the robust ones, over defences.

    Vulnerable are the classes below the overall accuracy under the first attack (Definition 3.3).
    """
    weak, strong = (sums["count"].isel(attack=place) for place in (0, 1))
    return extra_drop_of_vulnerable(weak, strong).mean("defence", skipna=False)


def grown(sums: xr.Dataset, measure: metrics.Metric) -> xr.DataArray:
    """Return by how much a measure grows from the first attack to the second, the mean over the defences."""
    count = sums["count"]
    return (measure(count.isel(attack=1)) - measure(count.isel(attack=0))).mean("defence", skipna=False)


_FIVE = ("fgsm", "cw|margin-20", "pgd-20", "transfer", "n-attack")
_WHITE = ("fgsm", "pgd-20")


def _printed(measure: ClaimMeasure, *attacks: str) -> dict[str, Any]:
    attacks = attacks or _FIVE
    return {"measure": measure, "attacks": attacks, "reported": partial(table_1_value, measure, attacks)}


CLAIMS = claims(
    NAME,
    {
        "gaps-everywhere": _printed(least(gaps)),
        "same-worst-class": _printed(least(distances, outer="label")),
        "same-best-class": _printed(least(partial(distances, above=True), outer="label")),
        "cats-worst": _printed(least(partial(distances, name="cat"))),
        "cars-best": _printed(least(partial(distances, above=True, name="automobile"))),
        "dataset-decides": _printed(agreement) | {"permuted": "each defence"},
        "stronger-on-vulnerable": _printed(vulnerable_drop, *_WHITE),
        "margin-on-vulnerable": _printed(vulnerable_drop, "fgsm", "cw|margin-20"),
        "stronger-larger-cv": _printed(partial(grown, measure=metrics.cv), *_WHITE),
        "stronger-larger-mcd": _printed(partial(grown, measure=metrics.mcd), *_WHITE),
        "queries-on-vulnerable": _printed(vulnerable_drop, "transfer", "n-attack"),
        "closer-to-the-boundary": {
            "measure": close_where_weak,
            "permuted": "count",
            "attacks": ("clean", "pgd-20"),
            "values": {"margin": confidence.logit_margin},
        },
        "cv-of-standard": {
            "measure": value(metrics.cv, "pgd-at", UNDER_ATTACK) / value(metrics.cv, "standard"),
            "reported": partial(text_number, "times CV", "cifar10"),
        },
        "mcd-of-standard": {
            "measure": value(metrics.mcd, "pgd-at", UNDER_ATTACK) / value(metrics.mcd, "standard"),
            "reported": partial(text_number, "times MCD", "cifar10"),
        },
    },
    defences=FOUR,
)


_RESNET: dict[str, Any] = {"model": "resnet18", "width": 16, "augment": "crop-flip", "precision": "bfloat16", "epochs": 15}
_EARLIER = Spec(dataset="cifar10", eps="8/255", defence="standard", probe="pgd-5", measure=3, **_RESNET)
_ATTACKED = tuple(replace(_EARLIER, defence=name, attack_options={"steps": 3}) for name in ("pgd-at", "trades"))
# An earlier recipe of scale laptop: a bigger network with more steps of the attack, recorded to compare the two.
EARLIER = Request((_EARLIER, *_ATTACKED), CLEAN_AND_PGD, "laptop")


def correlation(count: xr.DataArray, others: xr.DataArray) -> xr.DataArray:
    """Return the rank correlation of the accuracies of the classes with those in `others`, along label in the same order."""
    return rank_correlation(metrics.accuracy(count), others)


def correlation_bounds(outcomes: xr.Dataset, others: xr.DataArray) -> xr.DataArray:
    """Return `correlation` with the percentiles of its 95 % interval, from a bootstrap over images and seeds, along bound.

    Classes that are nearly level change an order in steps: draws reflected at the value would lie where no order of theirs does.
    On few images of a class it lies too low, as noise lowers a correlation.
    """
    drawn = xr.concat([correlation(part["count"], others) for part in bootstrap.bootstrap_sums(outcomes, {}, 2000)], "draw")
    low, high = (drawn.quantile(end, "draw").drop_vars("quantile") for end in (0.025, 0.975))
    return intervals.interval_bounds(low, correlation(pooling.pool(outcomes), others), high)


def order(outcomes: xr.Dataset, rates: xr.DataArray) -> xr.DataArray:
    """Return the rank correlation of the accuracies of our classes with `rates`, and its bounds, along defence and attack.

    rates: along label and these; of the defences, adversarially trained, and attacks that both have.
    """
    shared = {dim: [name for name in outcomes[dim].values if name in rates[dim].values] for dim in ("defence", "attack")}
    shared["defence"] = [name for name in shared["defence"] if name != "standard"]
    others = rates.sel({**shared, "label": outcomes.predicted.values})
    return correlation_bounds(aggregate.common_images(outcomes.sel(shared), "defence", "attack"), others)
