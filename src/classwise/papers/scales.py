"""The scales, which set the size of the runs; recipes, in which papers differ; other datasets at each scale."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from classwise.core import datasets
from classwise.core.identity import exact_radius

Fields = Mapping[str, Any]

# The variable of the environment under which stored results are shown and none is computed.
READ_ONLY = "CLASSWISE_READ_ONLY"

# In place of every WideResNet (Tian 2021, Wei 2023 and Entropy 2022 train some).
NARROW = "a ResNet-18 stands for the wide networks of the papers"
SLIM = "a ResNet-10 of width 24, trained for 13 epochs, stands for the networks of the papers: patterns can agree, not numbers"
MATCHED = (
    "a ResNet-10 of width 24 at a radius of 4/255, trained for 200 epochs of 3,200 images, stands for the networks of the papers "
    "at 8/255: at half of the radius it is about as hard pressed as they are"
)

# The scale and the dataset of verdicts that are computed from formulas, without any run.
CLOSED_FORM, MODEL = "closed form", "Gaussian model"

# Defences whose training takes no steps of an inner attack that a scale could reduce; a test compares them with DEFENCES.
WITHOUT_STEPS = ("standard", "standard-smoothed", "fgsm-rs", "n-fgsm", "free-at")
# Defences that fine-tune the run of another one, by its name, and how: at a constant rate, for CSR as its code has it.
FINE_TUNED = {"csr": "trades"}
_FINE_TUNING: Fields = {"epochs": 2, "schedule": "constant", "milestones": (), "lr": 0.001}
# Defences by TRADES divided by 1 + beta; a test compares them with DEFENCES.
NORMALISED = ("trades-normalised", "trades-ema", "trades-ccm", "trades-ccr", "trades-ccm-ccr", "trades-cfa")
# Fields whose values are options by name.
_OPTIONS = ("options", "attack_options")


def merge(*layers: Fields) -> dict[str, Any]:
    """Return the fields of all layers, of which later ones take precedence; options are merged name by name."""
    result: dict[str, Any] = {}
    for name, value in (item for layer in layers for item in layer.items()):
        result[name] = {**result.get(name, {}), **value} if name in _OPTIONS else value
    return result


@dataclass(frozen=True)
class Recipe:
    """How one paper trains and attacks: what differs from the other papers.

    Parameters
    ----------
    run, defences, datasets
        fields of Spec; by the name of a defence or of a dataset, those in which it differs.
    attacks, sections
        by the name of an attack in a section, the fields of Evaluation that make it the paper's own; by the name of a section's
        notebook, the attacks in which it differs from the others.
    """

    run: Fields = field(default_factory=dict)
    defences: Mapping[str, Fields] = field(default_factory=dict)
    datasets: Mapping[str, Fields] = field(default_factory=dict)
    attacks: Mapping[str, Fields] = field(default_factory=dict)
    sections: Mapping[str, Mapping[str, Fields]] = field(default_factory=dict)


@dataclass(frozen=True)
class Scale:
    """The same experiments, smaller or bigger: what every run of a scale shares, and its seeds.

    Parameters
    ----------
    run, seeds, shared
        fields of Spec; the repetitions; fields of Spec that no section changes, so that one training serves all its readers.
    inner_attack, inner_elsewhere
        options of the inner attack, for defences that take steps; the same at larger radii or on other datasets than in `run`.
    defences, attacks
        by name, the fields of Spec in which a defence differs, and the fields of Evaluation in which an attack is reduced.
    paper_recipes, recorded_only, levels
        whether each paper trains by its own recipe, else all papers train alike; whether book and notebooks show what is recorded
        and compute nothing; whether its networks are as strong as those of the papers, so that claims on levels are judged.
    note, unsound
        what applies to all its results; by the end of the name of a defence in claims, why it is not tested here.
    """

    run: Fields
    seeds: tuple[int, ...]
    inner_attack: Fields = field(default_factory=dict)
    inner_elsewhere: Fields = field(default_factory=dict)
    shared: tuple[str, ...] = ()
    defences: Mapping[str, Fields] = field(default_factory=dict)
    attacks: Mapping[str, Fields] = field(default_factory=dict)
    paper_recipes: bool = False
    note: str = ""
    recorded_only: bool = False
    levels: bool = False
    unsound: Mapping[str, str] = field(default_factory=dict)

    def fields(self, defence: str, recipe: Recipe, changed: Fields) -> dict[str, Any]:
        """Return the fields of Spec that a defence is trained with, where some are changed."""
        used = recipe if self.paper_recipes else Recipe()
        dataset, eps = self.run["dataset"], str(self.run.get("eps", 0))
        elsewhere = changed.get("dataset", dataset) != dataset or exact_radius(changed.get("eps", eps)) > exact_radius(eps)
        steps = {**self.inner_attack, **(self.inner_elsewhere if elsewhere else {})}
        inner = {} if defence in WITHOUT_STEPS else {"attack_options": steps}
        recipes = (used.run, used.defences.get(defence, {}), used.datasets.get(str(changed.get("dataset")), {}))
        tuned = _FINE_TUNING if defence in FINE_TUNED else {}
        return merge(self.run, inner, *recipes, tuned, self.defences.get(defence, {}), changed)

    def allowed(self, fields: Fields) -> dict[str, Any]:
        """Return what a section may change of some fields: all but the shared ones, unless it gives them the value of `run`."""
        return {name: value for name, value in fields.items() if name not in self.shared or value == self.run[name]}

    def evaluation(self, fields: Fields, recipe: Recipe, section: str = "") -> dict[str, Any]:
        """Return the fields of an Evaluation at this scale, which replace those of the same name.

        One that names its classes keeps all their images.
        """
        used = recipe if self.paper_recipes else Recipe()
        tables = () if fields.get("classes") else (self.attacks, used.attacks, used.sections.get(section, {}))
        return {**fields, **{name: value for table in tables for name, value in table.get(fields["attack"], {}).items()}}


# Images of each class, and of a batch, for attacks that take hours on all images.
_FEW = {"per_class": 20, "batch": 50}
# The same for ensembles.
_SOME = {"per_class": 100, "batch": 250}
# Long searches, which sections reduce to seconds on digits.
_SEARCHES = {"cw": {**_FEW, "options": {"goal": "inside"}}, "n-attack": {**_FEW, "options": {"steps": 100, "population": 100}}}

_RESNET = {"dataset": "cifar10", "model": "resnet18", "width": 64, "augment": "crop-flip"}
_SMALL_RESNET = {**_RESNET, "model": "resnet10-s2", "width": 24, "batch": 64}
# A hundred images of each class where an attack takes long.
_SLOW_ON_A_CPU = dict.fromkeys(("strong", "temperature-pgd-20", "autoattack", "cw", "n-attack", "square", "apgd-ce"), _SOME)
STEPS = {"schedule": "step@trades", "epochs": 100, "nesterov": False, "weight_decay": 2e-4}

_HE = {"schedule": "step", "milestones": (75,), "epochs": 77, "attack": "pgd-10@trades"}
# Tian 2021, A.1: .031, 100 epochs, tenths from 75 and 90 on; other defences as their authors' code has them (ResNet-18 where it
# names one). Papers that print no settings, and sections of no paper, train alike, so that they share runs.
COMMON = Recipe(
    run={**STEPS, "eps": "0.031", "probe": "pgd-10@tian2021"},
    defences={
        "pgd-at": {"attack": "pgd-10@tian2021"},
        "trades": {"attack": "pgd-10@trades"},
        "trades-per-class": {"attack": "pgd-10@trades"},
        "mart": {"attack": "pgd-10@trades", "lr": 0.01, "weight_decay": 3.5e-3, "epochs": 120, "schedule": "step@mart"},
        "pgd-he": {**_HE, "weight_decay": 5e-4},
        "trades-he": _HE,
        "fat": {"attack": "friendly-10@fat", "epochs": 120, "schedule": "step@fat"},
    },
)

# Runs on MNIST of sections whose other runs are on photographs. Tian 2021, A.1: .01, tenths from epochs 55, 75 and 90 on.
_SMALL: Fields = {"model": "small-cnn", "augment": "none", "eps": "0.3"}
_PGD_40: Fields = {"attack": "pgd-40@tian2021-mnist"}
MNIST: dict[str, Fields] = {
    "quick": {},
    "laptop": {**_SMALL, "epochs": 5},
    "short": {**_SMALL, "width": 32, "epochs": 10, "select": None},
    "paper": {
        **_SMALL,
        **_PGD_40,
        "probe": "pgd-40@tian2021-mnist",
        "width": 32,
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
    "laptop": {"mnist": Recipe(MNIST["laptop"])},
    "short": {"mnist": Recipe(MNIST["short"]), "svhn": _SLOWER, "stl10": _SLOWER, "cifar100": Recipe()},
    "paper": {
        "mnist": Recipe(MNIST["paper"], defences={"trades": _PGD_40}, attacks={"pgd-20": _PGD_40}),
        "svhn": _SLOWER,
        "stl10": _SLOWER,
        "cifar100": Recipe(),
        "imagenet": Recipe(
            {"model": "resnet50", "eps": "0.007", "epochs": 15, "schedule": "one-cycle", "milestones": ()},
            defences={"pgd-at": {"attack": "fast"}},
            attacks={"pgd-20": {"attack": "pgd-50@tian2021-imagenet"}},
        ),
    },
}

_QUICK_RATE = 0.3
# Chosen by the pilots (benchmarks/pilots.toml).
_MATCHED_RATE = 0.1

# With as many steps as tau, friendly PGD would be PGD: of three steps one, as of ten three.
_FRIENDLY: dict[str, Fields] = {name: {"attack_options": {"tau": 1}} for name in ("fat-constant", "fat-ccm", "fat-cfa")}


def _by_defence(*tables: Mapping[str, Fields]) -> dict[str, Fields]:
    return {name: merge(*(table.get(name, {}) for table in tables)) for table in tables for name in table}


def _steps_of_trades(rate: float) -> dict[str, Fields]:
    """Return how the defences by a normalised loss take the steps of TRADES: their loss is that of TRADES over 1 + beta = 7."""
    return {name: {"lr": round(7 * rate, 6), "weight_decay": 5e-4 / 7} for name in NORMALISED}


SCALES: dict[str, Scale] = {
    # scikit-learn's digits on a CPU: five stratified folds, a few seconds a run, trained until twice the epochs gain little.
    "quick": Scale(
        run={
            "dataset": "digits",
            "model": "small-cnn",
            "width": 8,
            "eps": "0.2",
            "batch": 64,
            "lr": _QUICK_RATE,
            "epochs": 60,
            "measure": 6,
        },
        seeds=(0, 1, 2, 3, 4),
        inner_attack={"steps": 3},
        defences=_by_defence(
            # The averages of their weights are rows of other pages; they do not influence the training.
            {name: {"averages": ("ema", "fawa")} for name in ("pgd-at", "trades", "frl-rmrw")},
            # No page shows the epochs between.
            {
                name: {"measure": 60}
                for name in ("at-ccm", "trades-ccm-ccr", "fat-constant", "fat-ccm", "trades-smoothed", "standard-smoothed")
            },
            _steps_of_trades(_QUICK_RATE),
            _FRIENDLY,
            # They converge more slowly (`make converged`).
            {name: {"epochs": 90} for name in ("pgd-he", "trades-he", "ldam", "ldam-drw", "fat", "fat-trades")},
            {
                # Its robustness against the untargeted attack, for which it is not trained, grows for long.
                "targeted-at": {"epochs": 120},
                # It diverges at the rate of the others.
                "faal": {"lr": 0.1},
                # An update costs half, and larger rates end in catastrophic overfitting.
                "fgsm-rs": {"epochs": 120, "lr": 0.2},
                "n-fgsm": {"epochs": 120, "lr": 0.2},
                # An epoch is eight passes over the images.
                "free-at": {"epochs": 24},
            },
        ),
        # It misclassifies more images in less time (`strong_eval` of `make bench` compares it with AutoAttack).
        attacks={"strong": {"attack": "cr"}},
    ),
    # CIFAR-10 at the level of the papers: a small network at half of their radius. One of their epochs is one of 50 steps, so
    # that what they count by epochs keeps its printed value.
    "matched": Scale(
        run={
            **_SMALL_RESNET,
            "eps": "4/255",
            "lr": _MATCHED_RATE,
            "schedule": "step",
            "epochs": 200,
            "epoch_images": 3200,
            # The gate of FAWA, which selects, too.
            "select": "pgd-5-any",
            "probe": "pgd-5-any",
            "select_from": 0.25,
            "select_averages_every": 10,
            "measure": 50,
            "averages": ("ema", "fawa", "sham"),
            "renewed": True,
            "half": True,
        },
        seeds=(0, 1, 2, 3, 4),
        inner_attack={"steps": 2},
        inner_elsewhere={"steps": 3},
        shared=("averages", "measure", "renewed", "select"),
        defences=_by_defence(
            _steps_of_trades(_MATCHED_RATE),
            _FRIENDLY,
            {name: {"attack_options": {"steps": 3}} for name in ("fat", "fat-trades", *_FRIENDLY)},
            # 40 epochs of weights, as published.
            {name: {"options": {"warm_up": 0.8}} for name in ("frl-rw", "frl-rmrw")},
            {
                # As many passes as other trainings: it takes eight of each batch, and others three.
                "free-at": {"epoch_images": 1216},
                # The source of transfer attacks has no averages.
                "standard": {"averages": (), "renewed": False},
                # Its two epochs fine-tune a finished network: two passes over all images.
                "csr": {"epoch_images": None, "averages": (), "renewed": False},
            },
        ),
        attacks=_SLOW_ON_A_CPU,
        note=MATCHED,
        recorded_only=True,
        levels=True,
    ),
    # CIFAR-10 on one CPU core: 15 to 40 minutes a run, so its results are recorded.
    "laptop": Scale(
        run={
            **_SMALL_RESNET,
            "eps": "8/255",
            "epochs": 13,
            # The attack that selects is the probe, so that the validation images are measured once after each epoch.
            "select": "pgd-5",
            "probe": "pgd-5",
            "measure": 6,
            "averages": ("ema", "fawa"),
        },
        seeds=(0, 1, 2),
        inner_attack={"steps": 2},
        inner_elsewhere={"steps": 3},
        shared=("averages", "measure", "select"),
        unsound={"EMA": "averages over whole epochs of so short a training are far less accurate than its weights"},
        defences=_by_defence(
            _steps_of_trades(0.1),
            _FRIENDLY,
            # Of two steps, friendly PGD would leave one.
            {name: {"attack_options": {"steps": 3}} for name in ("fat", "fat-trades", *_FRIENDLY)},
            {
                # An epoch is eight passes over the images.
                "free-at": {"epochs": 4},
                # The source of transfer attacks has no averages.
                "standard": {"averages": ()},
            },
        ),
        attacks=_SLOW_ON_A_CPU,
        note=SLIM,
        recorded_only=True,
    ),
    # CIFAR-10 on one fast GPU: every paper's defences trained alike, so that they can be compared and share their runs.
    "short": Scale(
        run={**_RESNET, "eps": "8/255", "epochs": 30, "measure": 5, "precision": "bfloat16", "select": "pgd-10"},
        seeds=(0, 1, 2),
        defences=_steps_of_trades(0.1),
        attacks={**_SEARCHES, "strong": _SOME, "autoattack": _SOME},
        note=NARROW,
    ),
    # As the papers say; where one is silent, as its code does.
    "paper": Scale(
        run={**_RESNET, "measure": 5},
        seeds=(0, 1, 2, 3, 4),
        attacks={"cw": _FEW, "n-attack": _FEW},
        paper_recipes=True,
        note=NARROW,
        levels=True,
    ),
}


def selection_seeds(dataset: str) -> tuple[int, ...]:
    """Return the seeds whose validation images select classes that are judged on the test images of the first two; () for all.

    None of their validation images is a test image of the first two seeds.
    """
    return (1, 2, 3) if datasets.base_dataset(dataset) == "digits" else ()


def display_order(scale: str) -> int:
    """Return where a scale stands in a list: first those recorded elsewhere, then those computed here, CLOSED_FORM last."""
    return 2 if scale == CLOSED_FORM else 0 if SCALES[scale].recorded_only else 1


def dataset_of(scale: str) -> str:
    """Return the dataset of a scale, MODEL for CLOSED_FORM."""
    return MODEL if scale == CLOSED_FORM else str(SCALES[scale].run["dataset"])


def origin(dataset: str, scale: str) -> str:
    """Return where verdicts are from: "CIFAR-10 at 8/255", with the name of the scale where several are alike in this."""
    alike = [name for name in SCALES if where(name) == where(scale)]
    return location(dataset, scale) + f", scale {scale}" * (len(alike) > 1)


def title_of(scale: str) -> str:
    """Return what a scale shows: "CIFAR-10 at 8/255, recorded", "digits, computed here" or "Gaussian model, closed form"."""
    how = "recorded", "computed here", CLOSED_FORM
    return f"{where(scale)}, {how[display_order(scale)]}"


def where(scale: str) -> str:
    """Return the dataset of a scale, of one that is only read with its radius: "CIFAR-10 at 8/255"."""
    return location(dataset_of(scale), scale)


def location(dataset: str, scale: str) -> str:
    """Return the title of a dataset, with the radius where it is that of a scale that is only read: "CIFAR-10 at 8/255"."""
    radius = f" at {SCALES[scale].run['eps']}" if scale in SCALES and SCALES[scale].recorded_only else ""
    return datasets.title(dataset) + (radius if dataset == dataset_of(scale) else "")


def is_only_read(scale: str) -> bool:
    """Return whether nothing is computed at a scale: at those recorded elsewhere, and where CLASSWISE_READ_ONLY is set at all."""
    return SCALES[scale].recorded_only or bool(os.environ.get(READ_ONLY))


def scales_beside(scale: str) -> list[str]:
    """Return the scales whose recorded results are shown next to those of a computed scale, that of the papers' level first.

    [] for one that is only read.
    """
    return [] if SCALES[scale].recorded_only else [name for name, size in SCALES.items() if size.recorded_only]
