"""The scales, which set the size of the runs; recipes, in which papers differ; other datasets at each scale."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Fields = Mapping[str, Any]

# In place of every WideResNet (Tian 2021, Wei 2023 and Entropy 2022 train some).
NARROW = "a ResNet-18 stands for the wide networks of the papers"


@dataclass(frozen=True)
class Recipe:
    """How one paper trains and attacks: what differs from the other papers.

    run: fields of Spec. defences: by the name of a defence, the fields in which it differs. attacks: by the name of an attack in
    a section, the fields of Evaluation that make it the paper's own. sections: by the name of a section's notebook, the attacks
    in which it differs from the others.
    """

    run: Fields = field(default_factory=dict)
    defences: Mapping[str, Fields] = field(default_factory=dict)
    attacks: Mapping[str, Fields] = field(default_factory=dict)
    sections: Mapping[str, Mapping[str, Fields]] = field(default_factory=dict)


@dataclass(frozen=True)
class Scale:
    """The same experiments, smaller or bigger: what every run of a scale shares, and its seeds.

    run: fields of Spec. seeds: the repetitions. budget: the seconds one section may take on the machine the scale is meant for.
    attacks: by the name of an attack, the fields of Evaluation in which it is reduced. own_recipes: whether each paper trains by
    its own recipe, else all papers train alike. note: what applies to all its results. all_datasets: whether sections are
    repeated on the other datasets, where they say so.
    """

    run: Fields
    seeds: tuple[int, ...]
    budget: float
    attacks: Mapping[str, Fields] = field(default_factory=dict)
    own_recipes: bool = False
    note: str = ""
    all_datasets: bool = False

    def fields(self, defence: str, recipe: Recipe) -> dict[str, Any]:
        """Return the fields of Spec that a defence is trained with."""
        used = recipe if self.own_recipes else Recipe()
        return {**self.run, **used.run, **used.defences.get(defence, {})}

    def evaluation(self, fields: Fields, recipe: Recipe, section: str = "") -> dict[str, Any]:
        """Return the fields of an Evaluation at this scale, which replace those of the same name."""
        used = recipe if self.own_recipes else Recipe()
        tables = (self.attacks, used.attacks, used.sections.get(section, {}))
        return {**fields, **{name: value for table in tables for name, value in table.get(fields["attack"], {}).items()}}


# Images of each class, and of a batch, for attacks that take hours on all images.
_FEW = {"per_class": 20, "batch": 50}
# The same for ensembles.
_SOME = {"per_class": 100, "batch": 250}
# Long searches, which sections reduce to seconds on digits.
_SEARCHES = {
    "cw": {**_FEW, "options": {"goal": "inside"}},
    "n-attack": {**_FEW, "options": {"steps": 100, "population": 100}},
}

_RESNET = {"dataset": "cifar10", "model": "resnet18", "width": 64, "augment": "crop-flip"}
STEPS = {"schedule": "step@trades", "epochs": 100, "nesterov": False, "weight_decay": 2e-4}

# Runs on MNIST of sections whose other runs are on photographs. Tian 2021, A.1: .01, tenths from epochs 55, 75 and 90 on.
MNIST: dict[str, Fields] = {
    "quick": {},
    "short": {"model": "small-cnn", "width": 32, "augment": "none", "eps": "0.3", "epochs": 10, "select": None},
    "paper": {
        "model": "small-cnn",
        "width": 32,
        "augment": "none",
        "eps": "0.3",
        "attack": "pgd-40@tian2021-mnist",
        "probe": "pgd-40@tian2021-mnist",
        "lr": 0.01,
        "schedule": "step",
        "milestones": (55, 75, 90),
    },
}

# Tian 2021, Figure 1: the other datasets. A.1: SVHN and STL-10 from .01; ImageNet by the recipe of Wong
# et al., whose three stages of growing images one schedule on images of 224 stands for.
_SLOWER = Recipe({"lr": 0.01})
OTHER_DATASETS: dict[str, dict[str, Recipe]] = {
    "quick": {},
    "short": {"mnist": Recipe(MNIST["short"]), "svhn": _SLOWER, "stl10": _SLOWER, "cifar100": Recipe()},
    "paper": {
        "mnist": Recipe(
            MNIST["paper"],
            defences={"trades": {"attack": "pgd-40@tian2021-mnist"}},
            attacks={"pgd-20": {"attack": "pgd-40@tian2021-mnist"}},
        ),
        "svhn": _SLOWER,
        "stl10": _SLOWER,
        "cifar100": Recipe(),
        "imagenet": Recipe(
            {"model": "resnet50", "eps": "0.007", "epochs": 15, "schedule": "one-cycle", "milestones": ()},
            defences={"pgd-at": {"attack": "fgsm-rs"}},
            attacks={"pgd-20": {"attack": "pgd-50@tian2021-imagenet"}},
        ),
    },
}

# Used only where a reader names it: 150 GB that nobody may hand on, and more images than a GPU holds.
OPT_IN_DATASETS = ("imagenet",)

SCALES: dict[str, Scale] = {
    # scikit-learn's digits on a CPU: five stratified folds, a few seconds a run.
    "quick": Scale(
        run={"dataset": "digits", "model": "small-cnn", "width": 8, "eps": "0.2", "epochs": 16, "measure": 2},
        seeds=(0, 1, 2, 3, 4),
        budget=120,
    ),
    # CIFAR-10 on one fast GPU: every paper's defences trained alike, so that they can be compared and share their runs.
    "short": Scale(
        run={
            **_RESNET,
            "eps": "8/255",
            "epochs": 30,
            "measure": 5,
            "precision": "bfloat16",
            "select": "pgd-10",
        },
        seeds=(0, 1, 2),
        budget=3600,
        attacks={**_SEARCHES, "strong": _SOME, "autoattack": _SOME},
        note=NARROW,
    ),
    # As the papers say; where one is silent, as its code does.
    "paper": Scale(
        run={**_RESNET, "measure": 5},
        seeds=(0, 1, 2, 3, 4),
        budget=200_000,
        attacks={"cw": _FEW, "n-attack": _FEW},
        own_recipes=True,
        note=NARROW,
        all_datasets=True,
    ),
}
