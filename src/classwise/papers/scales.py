"""How big the runs are: the scales, and the papers' own recipes for the biggest of them."""

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
    SECTIONS, the fields of Evaluation that make it the paper's own. sections: by the name of a section's notebook, the attacks in
    which it differs from the others.
    """

    run: Fields = field(default_factory=dict)
    defences: Mapping[str, Fields] = field(default_factory=dict)
    attacks: Mapping[str, Fields] = field(default_factory=dict)
    sections: Mapping[str, Mapping[str, Fields]] = field(default_factory=dict)


@dataclass(frozen=True)
class Scale:
    """The same experiments, smaller or bigger: what every run of a scale shares, and its seeds.

    run: fields of Spec. seeds: the repetitions. budget: the seconds one section may take on the machine the scale is meant for.
    attacks: by the name of an attack, the fields of Evaluation in which it is cut down. papers: by the folder of a section, the
    recipe of its paper; "" for sections of none. says: what a reader must know of all its results.
    """

    run: Fields
    seeds: tuple[int, ...]
    budget: float
    attacks: Mapping[str, Fields] = field(default_factory=dict)
    papers: Mapping[str, Recipe] = field(default_factory=dict)
    says: str = ""
    widely: bool = False

    def recipe(self, paper: str = "") -> Recipe:
        """Return the recipe of a paper at this scale: an empty one where the scale trains all papers alike."""
        return self.papers.get(paper, self.papers.get("", Recipe()))

    def fields(self, defence: str, paper: str = "") -> dict[str, Any]:
        """Return the fields of Spec that a defence is trained with."""
        recipe = self.recipe(paper)
        return {**self.run, **recipe.run, **recipe.defences.get(defence, {})}

    def question(self, fields: Fields, paper: str = "", section: str = "") -> dict[str, Any]:
        """Return the fields of an Evaluation as this scale asks it; what is cut down replaces options of the same name."""
        recipe = self.recipe(paper)
        tables = (self.attacks, recipe.attacks, recipe.sections.get(section, {}))
        changed = {name: value for table in tables for name, value in table.get(fields["attack"], {}).items()}
        return {**fields, **changed}


# So many images of each class are put to the attacks that take hours on all, a few at a time.
_FEW = {"per_class": 20, "batch": 50}
# And so many to ensembles.
_SOME = {"per_class": 100, "batch": 250}
# Long searches, which sections cut down to seconds on digits.
_SEARCHES = {
    "cw": {**_FEW, "options": {"goal": "inside"}},
    "n-attack": {**_FEW, "options": {"steps": 100, "population": 100}},
}

_RESNET = {"dataset": "cifar10", "model": "resnet18", "width": 64, "augment": "crop-flip"}
_STEPS = {"schedule": "step@trades", "epochs": 100, "nesterov": False, "weight_decay": 2e-4}
_HE = {"schedule": "step", "milestones": (75,), "epochs": 77, "attack": "pgd-10@trades"}

# Tian 2021, A.1: .031, 100 epochs, tenths from 75 and 90 on; other defences as their authors' code has them (ResNet-18 where it
# names one). Tested by steps of .007 in sections 4.1 and 4.2, of .003 in 4.3 and 5 (A.2); 2,000 images for long searches.
_SHORT_STEPS = {"pgd-20": {"attack": "pgd-20@tian2021"}}
_TIAN = Recipe(
    run={**_STEPS, "eps": "0.031", "probe": "pgd-10@tian2021"},
    defences={
        "pgd-at": {"attack": "pgd-10@tian2021"},
        "trades": {"attack": "pgd-10@trades"},
        "trades-per-class": {"attack": "pgd-10@trades"},
        "mart": {"attack": "pgd-10@trades", "lr": 0.01, "weight_decay": 3.5e-3, "epochs": 120, "schedule": "step@mart"},
        "pgd-he": {**_HE, "weight_decay": 5e-4},
        "trades-he": _HE,
        "fat": {"attack": "friendly-10@fat", "epochs": 120, "schedule": "step@fat"},
    },
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

# Wei 2023: PreActResNet-18, 8/255, 200 epochs, tenths at 100 and 150, inner attacks by steps of 2/255 in train mode, mirrored
# edges; the best epoch by average plus worst class (its code looks at the test images for that: test_selected).
_WEI = Recipe(
    run={
        "model": "preact-resnet18",
        "eps": "8/255",
        "augment": "crop-flip-reflect",
        "schedule": "step",
        "epochs": 200,
        "nesterov": False,
        "weight_decay": 5e-4,
        "batch_norm": "train",
        "select": "pgd-10@wei2023",
        "select_by": "sum",
        "test_selected": True,
        "probe": "pgd-10@wei2023",
    },
    defences={name: {"attack": "pgd-10@wei2023"} for name in ("pgd-at", "at-ema", "at-fawa", "at-ccm", "at-cfa")},
)

# Entropy 2022: .03125, batches of 64, 100 epochs, tenths from 75 and 90 on; the mean over the last five epochs.
_ENTROPY = Recipe(
    run={**_STEPS, "eps": "0.03125", "batch": 64, "keep_last": 5, "probe": "pgd-10@entropy2022"},
    defences={name: {"attack": "pgd-10@entropy2022"} for name in ("pgd-at", "label-smoothing", "me-at", "trades", "me-trades")},
    attacks={"pgd-20": {"attack": "pgd-20@entropy2022"}, "margin-20": {"attack": "margin-20@entropy2022"}},
)

# The runs on MNIST of sections whose other runs are on photographs. Tian 2021, A.1: .01, tenths from epochs 55, 75 and 90 on.
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

# Tian 2021, Figure 1: the other datasets, where they are to be had. A.1: SVHN and STL-10 from .01; ImageNet by the recipe of Wong
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

# Asked only where it is named: 150 GB that nobody may hand on, and more images than a GPU holds.
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
        says=NARROW,
    ),
    # As the papers say; where one is silent, as its code does.
    "paper": Scale(
        run={**_RESNET, "measure": 5},
        seeds=(0, 1, 2, 3, 4),
        budget=200_000,
        attacks={"cw": _FEW, "n-attack": _FEW},
        papers={
            "": Recipe(_TIAN.run, _TIAN.defences),
            "tian2021": _TIAN,
            "wei2023": _WEI,
            "entropy2022": _ENTROPY,
            # It gives no numbers; its predecessors' serve.
            "benz2020": Recipe({**_TIAN.run, "eps": "8/255"}, _TIAN.defences),
        },
        says=NARROW,
        widely=True,
    ),
}
