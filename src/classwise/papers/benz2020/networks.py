"""The networks, optimisers, schedules and weight decays of section 3.1, by the names that readers see.

Each differs from the training of the scale in its network, or in one setting of its training, and at scale quick also in its
epochs. The paper names nine networks, two optimisers and two schedules, and "different factors" of the weight decay; widths,
rates and epochs are ours. Without batch norm, and with Adam, the rate of the scale ends in a network that predicts one class,
so these have their own.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core.datasets import base_dataset
from classwise.core.errors import NotAtScale, NotRecorded
from classwise.papers.sections import Part, Request
from classwise.papers.selection import VULNERABLE_PAIRS
from classwise.papers.variants import ONCE, Variant, Variants
from classwise.stats import combine, intervals, metrics, pooling

Labelled = Mapping[str, Variant]

_SHORT: Variant = {"epochs": 30, **ONCE}
# The epochs of the training whose weights are kept after each epoch but the first.
KEPT_EPOCHS = 30
_KEPT: Variant = {"epochs": KEPT_EPOCHS, "keep_last": KEPT_EPOCHS - 1}
_PUBLISHED: Labelled = {
    "LeNet": {"model": "lenet", "width": 6, "lr": 0.02},
    "VGG16": {"model": "vgg16"},
    "VGG19": {"model": "vgg19"},
    "ResNet50": {"model": "resnet50"},
    "DenseNet121": {"model": "densenet121"},
    "DenseNet169": {"model": "densenet169"},
    "GoogLeNet": {"model": "googlenet"},
    "Inception-v3": {"model": "inception-v3", "width": 32},
}
# By scale, networks other than that of the scale. An epoch of the deep ones takes longer at scale quick, so that they have fewer.
NETWORKS: Mapping[str, Labelled] = {
    "quick": {
        "LeNet": {"model": "lenet", "width": 6, "lr": 0.1, "epochs": 40, **ONCE},
        "VGG16": {"model": "vgg16", "width": 8, "lr": 0.05, "epochs": 40, **ONCE},
        "ResNet18": {"model": "resnet18", "width": 4, "lr": 0.1, "epochs": 15, **ONCE},
    },
    "matched": {},
    "laptop": {"LeNet": _PUBLISHED["LeNet"], "VGG16": {"model": "vgg16", "width": 12}},
    "short": _PUBLISHED,
    "paper": _PUBLISHED,
}

ADAM, STEP, CYCLE, CYCLIC, DECAY = "Adam", "SGD, steps", "SGD, one cycle", "SGD, cyclic", "weight decay × 10"
_ADAM: Variant = {"optimiser": "adam", "lr": 0.001}
# By scale, other trainings of the network of the scale, at scale quick with half of its epochs. STEP keeps the weights after each
# epoch but the first.
TRAININGS: Mapping[str, Labelled] = {
    "quick": {
        ADAM: {"optimiser": "adam", "lr": 0.03, **_SHORT},
        STEP: {"schedule": "step", **ONCE, **_KEPT},
        DECAY: {"weight_decay": 5e-3, **_SHORT},
    },
    "matched": {},
    "laptop": {ADAM: _ADAM},
    "short": {ADAM: _ADAM, STEP: {"schedule": "step", **_KEPT}, CYCLIC: {"schedule": "cyclic"}, DECAY: {"weight_decay": 5e-3}},
    "paper": {ADAM: _ADAM, CYCLIC: {"schedule": "cyclic"}, DECAY: {"weight_decay": 2e-3}},
}
NETWORK_LABELS, TRAINING_LABELS = (
    tuple(dict.fromkeys(name for some in table.values() for name in some)) for table in (NETWORKS, TRAININGS)
)


def base_network(scale: str) -> str:
    """Return the network of a scale itself: smaller ones at scales quick, matched and laptop, else the paper's ResNet18."""
    return {"quick": "small CNN", "matched": "ResNet10", "laptop": "ResNet10"}.get(scale, "ResNet18")


def network_variant(label: str) -> Variants:
    """Return the one variant of a label of NETWORKS or TRAININGS, none at scales that do not train it."""
    return lambda scale, plain: tuple(some[label] for some in (NETWORKS[scale], TRAININGS[scale]) if label in some)


def part(label: str, defence: str = "pgd-at") -> Part:
    """Return the part of a section that trains and evaluates what a label of NETWORKS or TRAININGS names."""
    return Part(title=label, defences=(defence,), max_seeds=1, variants=network_variant(label))


def parts(labels: Sequence[str], *, standard: bool = False) -> dict[str, Part]:
    """Return the parts of labels by their names; standard: also those with the standard training of each."""
    twins = {f"{label}, standard": part(label, "standard") for label in labels} if standard else {}
    return {label: part(label) for label in labels} | twins


def stack_settings(base: str, labels: Sequence[str], plain: xr.Dataset, *parts: xr.Dataset | None) -> xr.Dataset:
    """Return outcomes along `setting`, with the names that readers see, of the seeds that all adversarial trainings have.

    base: the name of the training of the scale itself, whose outcomes are `plain`; it comes first. parts: the adversarial
    training of each of the labels, then the standard one of some, None for one without results. Defences without results have
    no images.
    """
    adversarial, twins = (
        {label: one for label, one in zip(labels, some, strict=False) if one is not None}
        for some in (parts[: len(labels)], parts[len(labels) :])
    )
    shared = combine.shared_seeds({base: plain, **adversarial})
    rows = [*shared.items(), *((label, twin.sel(seed=twin.seed.isin(shared[base].seed))) for label, twin in twins.items())]
    keyed = [
        ({"setting": label, "defence": str(name)}, data.sel(defence=name, drop=True))
        for label, data in rows
        for name in data.defence.values
        if label in shared
    ]
    return combine.combine_rows(keyed).assign_attrs(plain.attrs)


def is_above_chance(outcomes: xr.Dataset, along: str = "setting") -> xr.DataArray:
    """Return along a dimension whether the overall accuracy of pgd-at is significantly above chance under each attack.

    outcomes: also along defence and attack. Significantly: the 95 % interval (Wilson) lies above the share of the largest class.
    NotRecorded without pgd-at.
    """
    if "pgd-at" not in outcomes.defence:
        raise NotRecorded("results of PGD-AT are not recorded")
    count = pooling.pool(outcomes).sel(defence="pgd-at", drop=True)
    rates, images = intervals.wilson_of(metrics.overall, count), metrics.images(count)
    assert rates is not None
    above: xr.DataArray = rates.sel(bound="low", drop=True) > 100 * images.max("label") / images.sum("label")
    return above.all([dim for dim in above.dims if dim != along])


def only_learned(outcomes: xr.Dataset, along: str = "setting") -> xr.Dataset:
    """Return outcomes without the members of a dimension that have not `is_above_chance`."""
    return outcomes.isel({along: is_above_chance(outcomes, along).values})


def merge_seeds(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes of seeds with different images (folds) as those of one seed; of seeds that share images as they are.

    Each image is classified by the networks of its fold, which are taken as given: a bootstrap draws images alone. One of two
    seeds, which a bootstrap of seeds draws, has half of the images.
    """
    if pooling.seeds_share_images(outcomes):
        return outcomes
    present, missing = outcomes.truth >= 0, {"truth": -1, "prediction": -1, "misclassified": False}
    merged = {name: outcomes[name].where(present, value).max("seed").expand_dims(seed=[0]) for name, value in missing.items()}
    data = xr.Dataset(merged).transpose(*outcomes.truth.dims, ...)
    return data.assign_coords(predicted=outcomes.predicted).assign_attrs(outcomes.attrs, runs=outcomes.sizes["seed"])


def mark_vulnerable(outcomes: xr.Dataset, name: str = "vulnerable") -> xr.Dataset:
    """Return outcomes with a coordinate of that name: the class that is the weakest on validation images of PGD-AT.

    Without it where that class is not known.
    """
    dataset = base_dataset(str(outcomes.attrs.get("dataset", "")))
    if dataset not in VULNERABLE_PAIRS:
        return outcomes
    return outcomes.assign_coords({name: ("predicted", outcomes.predicted.values == VULNERABLE_PAIRS[dataset][0])})


def weakest(values: xr.DataArray) -> np.ndarray:
    """Return which class is the one that `mark_vulnerable` names; NotAtScale where none is."""
    if "vulnerable" not in values.coords:
        raise NotAtScale("the class of this dataset that is the weakest on validation images is not known")
    marks: np.ndarray = values.vulnerable.values
    return marks


def training_table(request: Request) -> pd.DataFrame:
    """Return what the adversarial trainings of a request and its parts differ in, a row for each."""
    adversarial = {name: [spec for spec in part.specs if spec.defence == "pgd-at"] for name, part in request.parts.items()}
    base = next(spec for spec in request.specs if spec.defence == "pgd-at")
    specs = {base_network(request.scale): base} | {name: some[0] for name, some in adversarial.items() if some}
    columns = {"model": "network", "width": "width", "optimiser": "optimiser", "schedule": "schedule", "lr": "learning rate"}
    columns |= {"weight_decay": "weight decay", "epochs": "epochs"}
    rows = {name: {title: str(getattr(spec, field)) for field, title in columns.items()} for name, spec in specs.items()}
    return pd.DataFrame(rows).T.rename_axis("setting")
