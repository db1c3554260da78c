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
from classwise.papers.claims import ON_CIFAR10, RATIO, Claim, ClaimMeasure, claims_of
from classwise.papers.sections import CLEAN_AND_PGD, Section
from classwise.papers.tian2021.section_4_1 import AGAINST_STANDARD
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
_LIES_ABOVE = partial(measures.lies_below, above=True)
_claim = claims_of(NAME, defences=_FOUR)


def _printed(
    name: str, where: str, statement: str, measure: ClaimMeasure, attacks: tuple[str, ...] = _FIVE, **fields: Any
) -> Claim:
    """Return a claim whose measure Table 1 gives, too: of all five attacks, or of one compared with another."""
    theirs = partial(from_table_1, measure, [attack.partition("|")[0] for attack in attacks])
    over = ("defence", "attack") if attacks == _FIVE else ("defence",)
    return _claim(name, where, statement, measure, attacks=attacks, over=over, reported=theirs, **fields)


CLAIMS = (
    _printed(
        "gaps-everywhere",
        "4.3, (i)",
        "Under every attack and after every defence the classes lie further apart than 6 points.",
        measures.smallest_gap,
        low=6,
    ),
    _printed(
        "same-worst-class",
        "4.3, (i)",
        "One and the same class is the most vulnerable under every attack and after every defence.",
        measures.lies_below,
    ),
    _printed(
        "same-best-class",
        "4.3, (i)",
        "One and the same class is the most robust under every attack and after every defence.",
        _LIES_ABOVE,
    ),
    _printed(
        "cats-worst",
        "4.3, (i)",
        "Cats are the most vulnerable class under every attack and after every defence.",
        partial(measures.lies_below, name="cat"),
        **ON_CIFAR10,
    ),
    _printed(
        "cars-best",
        "4.3, (i)",
        "Automobiles are the most robust class under every attack and after every defence.",
        partial(_LIES_ABOVE, name="automobile"),
        **ON_CIFAR10,
    ),
    _printed(
        "dataset-decides",
        "4.3, (i)",
        "The relative robustness of the classes depends on the dataset, and little on attack and defence.",
        measures.agreement,
        low=0.5,
        unit="correlation",
    ),
    _printed(
        "stronger-on-vulnerable",
        "4.3, (ii)",
        "The share of images that PGD breaks beyond FGSM is larger in vulnerable classes than in robust ones.",
        measures.lost_by_vulnerable,
        _WHITE,
    ),
    _printed(
        "margin-on-vulnerable",
        "4.3, (ii)",
        "The share of images that CW breaks beyond FGSM is larger in vulnerable classes than in robust ones.",
        measures.lost_by_vulnerable,
        ("fgsm", "cw|margin-20"),
    ),
    _printed(
        "stronger-larger-cv",
        "4.3, (ii)",
        "The class-wise variance (CV) is larger under PGD than under FGSM.",
        partial(measures.grown, measure=metrics.cv),
        _WHITE,
        unit="points squared",
    ),
    _printed(
        "stronger-larger-mcd",
        "4.3, (ii)",
        "The maximum class discrepancy (MCD) is larger under PGD than under FGSM.",
        partial(measures.grown, measure=metrics.mcd),
        _WHITE,
    ),
    _printed(
        "queries-on-vulnerable",
        "4.3, (iii)",
        "The share of images that N-attack breaks beyond a transfer attack is larger in vulnerable classes than in robust ones.",
        measures.lost_by_vulnerable,
        ("transfer", "n-attack"),
    ),
    _claim(
        "closer-to-the-boundary",
        "4.3, (iii); 5",
        "Images of vulnerable classes lie closer to the decision boundary: over the classes, margins rise with robust accuracy.",
        measures.close_where_weak,
        attacks=("clean", "pgd-20"),
        over=("defence",),
        values={"margin": confidence.logit_margin},
        unit="correlation",
    ),
    _claim(
        "cv-of-standard",
        "4.3",
        "The class-wise variance (CV) of adversarial training, attacked, is larger than that of standard training, not attacked.",
        partial(measures.times_standard, measure=metrics.cv),
        low=1,
        reported=partial(in_text, "times CV", "cifar10"),
        over=(),
        **RATIO,
        **AGAINST_STANDARD,
    ),
    _claim(
        "mcd-of-standard",
        "4.3",
        "The class discrepancy (MCD) of adversarial training, attacked, is larger than that of standard training, not attacked.",
        partial(measures.times_standard, measure=metrics.mcd),
        low=1,
        reported=partial(in_text, "times MCD", "cifar10"),
        over=(),
        **RATIO,
        **AGAINST_STANDARD,
    ),
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
