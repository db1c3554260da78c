"""Tian et al. 2021, section 4.3: class-wise robustness under different attacks and defences."""

from functools import partial
from typing import Any

import xarray as xr

from classwise.core.spec import Evaluation, Spec
from classwise.papers import measures
from classwise.papers.claims import ClaimMeasure
from classwise.papers.sections import CLEAN_AND_PGD, Request, Section
from classwise.papers.terms import claims, of
from classwise.papers.tian2021.networks import COMPARED, FOUR, UNDER_ATTACK
from classwise.papers.tian2021.tables import TABLES, from_table_1, in_text
from classwise.stats import confidence, metrics, pooling
from classwise.stats.bootstrap import bootstrap

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
    evaluations=CLEAN_AND_PGD,
    max_seeds=2,
    extra_evaluations=dict.fromkeys(COMPARED, _ROWS),
)

_FIVE = ("fgsm", "cw|margin-20", "pgd-20", "transfer", "n-attack")
_WHITE = ("fgsm", "pgd-20")


def _printed(measure: ClaimMeasure, *attacks: str) -> dict[str, Any]:
    """Return fields of a claim whose measure Table 1 gives, too: of all five attacks, or of one compared with another."""
    attacks = attacks or _FIVE
    return {"measure": measure, "attacks": attacks, "reported": partial(from_table_1, measure, attacks)}


CLAIMS = claims(
    NAME,
    {
        "gaps-everywhere": _printed(measures.smallest_gap),
        "same-worst-class": _printed(measures.lies_below),
        "same-best-class": _printed(partial(measures.lies_below, above=True)),
        "cats-worst": _printed(partial(measures.lies_below, name="cat")),
        "cars-best": _printed(partial(measures.lies_below, above=True, name="automobile")),
        "dataset-decides": _printed(measures.agreement),
        "stronger-on-vulnerable": _printed(measures.lost_by_vulnerable, *_WHITE),
        "margin-on-vulnerable": _printed(measures.lost_by_vulnerable, "fgsm", "cw|margin-20"),
        "stronger-larger-cv": _printed(partial(measures.grown, measure=metrics.cv), *_WHITE),
        "stronger-larger-mcd": _printed(partial(measures.grown, measure=metrics.mcd), *_WHITE),
        "queries-on-vulnerable": _printed(measures.lost_by_vulnerable, "transfer", "n-attack"),
        "closer-to-the-boundary": {
            "measure": measures.close_where_weak,
            "attacks": ("clean", "pgd-20"),
            "values": {"margin": confidence.logit_margin},
        },
        "cv-of-standard": {
            "measure": of(metrics.cv, "pgd-at", UNDER_ATTACK) / of(metrics.cv, "standard"),
            "reported": partial(in_text, "times CV", "cifar10"),
        },
        "mcd-of-standard": {
            "measure": of(metrics.mcd, "pgd-at", UNDER_ATTACK) / of(metrics.mcd, "standard"),
            "reported": partial(in_text, "times MCD", "cifar10"),
        },
    },
    defences=FOUR,
)


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
    from scipy import stats  # slow to import

    how = partial(stats.rankdata, axis=-1)
    ranks: xr.DataArray = xr.apply_ufunc(how, rates, input_core_dims=[["label"]], output_core_dims=[["label"]])
    return ranks


def order(outcomes: xr.Dataset, earlier: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return the rank correlation of the classes of CIFAR-10 with those of Table 1, and with those of EARLIER, under pgd-20.

    Bounds along the defences that both have.
    """
    mine, attack = outcomes.sel(attack="pgd-20"), {"attack": "pgd-20"}
    others = {"with Table 1": TABLES.load(1).accuracy, "with a ResNet-18": metrics.accuracy(pooling.pooled(earlier))}
    result = {}
    for name, rates in others.items():
        both = [one for one in mine.defence.values if one in rates.defence.values and one != "standard"]
        known = rates.sel(attack, drop=True).sel(defence=both, label=mine.predicted.values)
        result[name] = bootstrap(mine.sel(defence=both), partial(correlation, others=known)).clip(-1, 1)
    return result
