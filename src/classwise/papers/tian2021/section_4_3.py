"""Tian et al. 2021, section 4.3: class-wise robustness under different attacks and defences."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.core.spec import Evaluation
from classwise.papers import measures
from classwise.papers.claims import ClaimMeasure
from classwise.papers.sections import CLEAN_AND_PGD, Section
from classwise.papers.terms import claims, of
from classwise.papers.tian2021.section_4_1 import UNDER_ATTACK
from classwise.papers.tian2021.tables import HE, from_table_1, in_text
from classwise.stats import aggregate, confidence, metrics

NAME = "tian2021/4-3-attacks-and-defences"
COMPARED = ("pgd-at", "trades", "mart", "pgd-he")
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

_FOUR = ("pgd-at", "trades", "mart", HE)
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
    defences=_FOUR,
)


_SIGNS = {"robust": 1, "vulnerable": -1, "undecided": 0}


def certain_classes(robustness: xr.DataArray) -> pd.DataFrame:
    """Return in how many settings each class is robust, vulnerable or undecided (`intervals.relative_robustness`)."""
    settings = [dim for dim in robustness.dims if dim != "label"]
    numbers = {word: (robustness == sign).sum(settings).to_series() for word, sign in _SIGNS.items()}
    return pd.DataFrame(numbers).rename_axis("class").T


def agreement(rates: xr.DataArray) -> str:
    """Return in a sentence which classes are the best and the worst in how many settings, and how alike the settings are.

    rates: of classes, along label and further dimensions. Alike: the correlation over classes of each two settings.
    """
    settings = [dim for dim in rates.dims if dim != "label"]
    flat = rates.stack(setting=settings).transpose("label", "setting")
    often = [pd.Series(names.values).value_counts() for names in (flat.idxmax("label"), flat.idxmin("label"))]
    listed = [", ".join(f"class {name} in {number}" for name, number in numbers.items()) for numbers in often]
    pairs = np.corrcoef(flat.values.T)[np.triu_indices(flat.sizes["setting"], 1)] if flat.sizes["setting"] > 1 else []
    two = f"{np.mean(pairs):.2f} on average, at least {np.min(pairs):.2f}" if len(pairs) else "one setting only"
    best = f"**Of {flat.sizes['setting']} settings**, each on all of its images, the best class is {listed[0]}"
    return f"{best}; the worst is {listed[1]}. **Correlation over the classes** of two settings: {two}."


def attack_steps(outcomes: xr.Dataset, pairs: Sequence[tuple[str, str]]) -> dict[str, xr.DataArray]:
    """Return by "weaker to stronger" the counts of pairs of attacks, seeds pooled, on the images that both were evaluated on.

    NotRecorded without a pair.
    """
    if not pairs:
        raise NotRecorded("no weaker attack is recorded together with a stronger one")
    parts = {f"{weak} to {strong}": outcomes.sel(attack=[weak, strong]) for weak, strong in pairs}
    return {name: aggregate.counts(aggregate.common(part)).sum("seed") for name, part in parts.items()}


def accuracy_lost(counts: Mapping[str, xr.DataArray]) -> xr.DataArray:
    """Return by how many points each class changes along each of `steps`: dimensions step and those of the counts."""
    rates = {name: metrics.accuracy(count) for name, count in counts.items()}
    lost = [rate.isel(attack=1, drop=True) - rate.isel(attack=0, drop=True) for rate in rates.values()]
    return xr.concat(lost, pd.Index(list(rates), name="step"), coords="minimal", compat="override")


_DEFENCES = {
    "pgd-at": "*pgd-at* is Madry's training on attacked images",
    "trades": "*trades* adds a penalty for the difference between the predictions for an image and for its attacked form",
    "mart": "*mart* gives images that are misclassified without an attack a larger weight",
    "pgd-he": "*pgd-he* is HE (hypersphere embedding), whose outputs are cosines times a scale; here it is evaluated "
    "with the scale, as it was trained",
}
_ATTACKS = {
    "fgsm": "**fgsm** takes one step along the sign of the gradient",
    "pgd-20": "**pgd-20** takes 20 smaller ones",
    "margin-20": "**margin-20** takes 20 on the margin loss of Carlini and Wagner",
    "cw": "**cw** is their attack by binary search",
    "transfer": "**transfer** is pgd-20 computed on the standard network of the same seed",
    "n-attack": "**n-attack** queries logits and uses no gradients",
}


def settings(outcomes: xr.Dataset) -> str:
    """Return in Markdown what the defences and attacks of outcomes are, and how many images each attack was evaluated on.

    One that this page has no words for is listed by its name.
    """
    parts = []
    for dim, known in (("defence", _DEFENCES), ("attack", _ATTACKS)):
        texts = [text for name, text in known.items() if name in outcomes[dim]]
        texts += [f"*{name}*" for name in map(str, outcomes[dim].values) if name not in (*known, "standard", "clean")]
        parts += ["; ".join(texts) + "."] if texts else []
    present = (outcomes.truth >= 0).any([dim for dim in outcomes.truth.dims if dim not in ("attack", "image")]).sum("image")
    most, few = int(present.max()), present.where(present < present.max(), drop=True).to_series()
    of_few = ", ".join(f"{name} {int(number):,}" for name, number in few.items())
    return "\n\n".join([*parts, f"Images of each attack: {most:,}{of_few and '; fewer for the slow ones: ' + of_few}."])
