"""The networks, optimisers, schedules and weight decays of section 3.1, by the names that readers see.

Each differs from the training of the scale in its network, or in one setting of its training. The paper names nine networks, two
optimisers and two schedules, and "different factors" of the weight decay; widths, rates and epochs are ours. Without batch norm,
and with Adam, the rate of the scale ends in a network that predicts one class, so these have their own.
"""

from collections.abc import Mapping, Sequence

import xarray as xr

from classwise.core.spec import Spec
from classwise.papers.sections import CLEAN_AND_PGD, Section
from classwise.papers.variants import Variant, Variants
from classwise.stats import combine, intervals, metrics, pooling

Labelled = Mapping[str, Variant]

# Runs of scale quick of which no page shows the course over the epochs.
_ONCE: Variant = {"measure": 100, "averages": ()}
_SHORT: Variant = {"epochs": 30, **_ONCE}
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
# By scale, networks other than that of the scale. An epoch of the deep ones takes longer at scale quick, and they need fewer.
NETWORKS: Mapping[str, Labelled] = {
    "quick": {
        "LeNet": {"model": "lenet", "width": 6, "lr": 0.1, "epochs": 40, **_ONCE},
        "VGG16": {"model": "vgg16", "width": 8, "lr": 0.02, "epochs": 20, **_ONCE},
        "ResNet18": {"model": "resnet18", "width": 4, "lr": 0.1, "epochs": 15, **_ONCE},
    },
    "laptop": {name: _PUBLISHED[name] for name in ("LeNet", "VGG16")},
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
        STEP: {"schedule": "step", "keep_last": 29, **_SHORT},
        DECAY: {"weight_decay": 5e-3, **_SHORT},
    },
    "laptop": {ADAM: _ADAM},
    "short": {
        ADAM: _ADAM,
        STEP: {"schedule": "step", "keep_last": 29},
        CYCLIC: {"schedule": "cyclic"},
        DECAY: {"weight_decay": 5e-3},
    },
    "paper": {ADAM: _ADAM, CYCLIC: {"schedule": "cyclic"}, DECAY: {"weight_decay": 2e-3}},
}
NETWORK_LABELS, TRAINING_LABELS = (
    tuple(dict.fromkeys(name for some in table.values() for name in some)) for table in (NETWORKS, TRAININGS)
)


def base_network(scale: str) -> str:
    """Return the network of a scale itself: small at scale quick, else the paper's ResNet18."""
    return "small CNN" if scale == "quick" else "ResNet18"


def base_training(scale: str) -> str:
    """Return the optimiser and the schedule of a scale itself."""
    return STEP if scale == "paper" else CYCLE


def varied(label: str) -> Variants:
    """Return the one variant of a label of NETWORKS or TRAININGS, none at scales that do not train it."""

    def variants(scale: str, plain: Spec) -> Sequence[Variant]:
        fields = {**NETWORKS[scale], **TRAININGS[scale]}.get(label)
        return () if fields is None else (fields,)

    return variants


def standard_of(label: str) -> str:
    """Return the name of the part with the standard training of a network."""
    return f"{label}, standard"


def part(label: str, defence: str = "pgd-at") -> Section:
    """Return the part of a section that trains and evaluates what a label of NETWORKS or TRAININGS names."""
    return Section(title=label, defences=(defence,), evaluations=CLEAN_AND_PGD, max_seeds=2, variants=varied(label))


def parts(labels: Sequence[str], *, standard: bool = False) -> dict[str, Section]:
    """Return the parts of labels by their names; standard: also those with the standard training of each."""
    twins = {standard_of(label): part(label, "standard") for label in labels} if standard else {}
    return {label: part(label) for label in labels} | twins


def by_setting(base: str, labels: Sequence[str], plain: xr.Dataset, *parts: xr.Dataset | None) -> xr.Dataset:
    """Return outcomes along `setting`, with the names that readers see, of the seeds that all adversarial trainings have.

    base: the name of the training of the scale itself, whose outcomes are `plain`; it comes first. parts: the adversarial
    training of each of the labels, then the standard one of some, None for one without results. Defences without results have
    no images.
    """
    adversarial, twins = parts[: len(labels)], dict(zip(labels, parts[len(labels) :], strict=False))
    names = {base: plain} | {label: one for label, one in zip(labels, adversarial, strict=True) if one is not None}
    shared = combine.shared_seeds(names)
    seeds = shared[base].seed.values
    rows = [(label, shared[label]) for label in shared]
    rows += [(label, twin.sel(seed=twin.seed.isin(seeds))) for label, twin in twins.items() if twin is not None]
    keyed = [
        ({"setting": label, "defence": str(name)}, data.sel(defence=name, drop=True))
        for label, data in rows
        for name in data.defence.values
        if label in shared
    ]
    return combine.combine_rows(keyed).assign_attrs(plain.attrs)


def learned(count: xr.DataArray) -> list[str]:
    """Return the settings whose overall accuracy in pgd-at is surely above chance under each attack.

    count: pooled, along setting, defence and attack. Surely: the 95 % interval (Wilson) lies above what one class for all images
    would give.
    """
    rates = intervals.wilson_of(metrics.overall, count.sel(defence="pgd-at", drop=True))
    assert rates is not None
    images = metrics.images(count.sel(defence="pgd-at", drop=True))
    above = rates.sel(bound="low", drop=True) > 100 * images.max("label") / images.sum("label")
    return [str(name) for name in count.setting.values[above.all("attack").values]]


def only_learned(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes without the settings that are not among `learned`."""
    return outcomes.sel(setting=learned(pooling.pooled(outcomes)))
