"""How Tian et al. 2021 train and attack."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from classwise.core.datasets import base_dataset, class_names
from classwise.core.spec import Evaluation, Spec
from classwise.papers.scales import COMMON, MNIST
from classwise.papers.selection import vulnerable_pair
from classwise.papers.variants import Variant, Variants

# What the sections train and attack; claims take the first of "a|b" that has results.
# Figures 1 and 2. ImageNet, too, where a reader names it: 150 GB that nobody may hand on, and more images than a GPU holds.
BIASED = ("standard", "pgd-at", "trades")
OTHERS = {"paper": ("mnist", "svhn", "stl10", "cifar100")}

# Tables 1 and 3.
COMPARED = ("pgd-at", "trades", "mart", "pgd-he")
HE = "pgd-he|trades-he"
FOUR = ("pgd-at", "trades", "mart", HE)

UNDER_ATTACK = "pgd-20|pgd-40|pgd-50"

# Tested by steps of .007 in sections 4.1 and 4.2, of .003 in 4.3 and 5 (A.2); 2,000 images for long searches.
_SHORT_STEPS = {"pgd-20": {"attack": "pgd-20@tian2021"}}
RECIPE = replace(
    COMMON,
    attacks={
        "pgd-20": {"attack": "pgd-20@tian2021-a1"},
        "pgd-40": {"attack": "pgd-40@tian2021-mnist"},
        "fgsm": {"attack": "fgsm@tian2021"},
        "temperature-pgd-20": {"attack": "temperature-pgd-20@tian2021"},
        "n-attack": {"attack": "n-attack@tian2021", "options": {}, "per_class": 200, "batch": 50},
        "cw": {"attack": "cw@tian2021", "options": {}, "per_class": 200, "batch": 50},
    },
    sections={"4-3-attacks-and-defences": _SHORT_STEPS, "5-temperature-pgd": _SHORT_STEPS},
)

# Sections 6.1 and 6.2 attack with Temperature-PGD.
TEMPERED = (Evaluation(), Evaluation(attack="temperature-pgd-20"))


def trade_offs(*values: str) -> Variants:
    """Return variants of "trades-per-class" with another beta (eq. 5) for the partner of the most vulnerable class."""
    return lambda scale, plain: tuple(
        {"options": {"betas": f"{class_names(plain.dataset).index(vulnerable_pair(plain.dataset)[1])}:{value}"}}
        for value in values
    )


def drawings(scale: str, plain: Spec) -> Sequence[Variant]:
    """Return drawings as they are: of MNIST where the dataset is none, and none at scales without that."""
    base = base_dataset(plain.dataset)
    if base in ("digits", "mnist"):
        return ({"dataset": base},)
    return ({"dataset": "mnist", **MNIST[scale]},) if scale in MNIST else ()


def colour_variants(*colourings: str, **fields: Any) -> Variants:
    """Return variants on drawings on the colour of their class, for each colouring (`core.datasets`)."""
    return lambda scale, plain: tuple(
        {**base, "dataset": f"{base['dataset']}-{colouring}", **fields}
        for base in drawings(scale, plain)
        for colouring in colourings
    )


def scenes(scale: str, plain: Spec) -> Sequence[Variant]:
    """Return a dataset of objects on uneven backgrounds: photographs as they are, drawings on clutter."""
    base = base_dataset(plain.dataset)
    return ({"dataset": f"{base}-cluttered"} if base in ("digits", "mnist") else {},)
