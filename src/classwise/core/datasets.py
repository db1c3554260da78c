"""The facts of each dataset that are known without reading its images, and without torch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from classwise.core.errors import UserError, check_known, unknown


@dataclass(frozen=True)
class DatasetSize:
    """Images of each split, the channels, height and width of an image, and the number of classes."""

    train: int
    valid: int
    test: int
    channels: int
    height: int
    width: int
    classes: int = 10


@dataclass(frozen=True)
class DatasetInfo:
    """An entry of DATASETS: all that has to be written to add a dataset, apart from the function that reads it.

    reader: a function (split, seed) -> classwise.images.Images, or its name "package.module:function", which is imported when
    images are first read. size: None where the images must be counted. classes: their names in the order of the labels, () where
    only the images tell. superclasses: the classes of each superclass; classes of other datasets among them are ignored.
    backgrounds: the variants "NAME-BACKGROUND" with other backgrounds, and how many channels each has. options: whether the name
    may go on with a path and options, as in `folder:signs?size=64`; these are keyword arguments of the reader. title: as pages
    name it, by default by its name.
    """

    reader: str | Callable[..., Any]
    size: DatasetSize | None = None
    classes: tuple[str, ...] = ()
    superclasses: Mapping[str, Sequence[str]] = field(default_factory=dict)
    backgrounds: Mapping[str, int] = field(default_factory=dict)
    options: bool = False
    title: str = ""


_DIGITS = tuple("0123456789")
_BACKGROUNDS = {"neighbours": 3, "apart": 3, "cluttered": 1}
_KINDS = {
    "transport": ("airplane", "automobile", "car", "ship", "truck"),
    "animals": ("bird", "cat", "deer", "dog", "frog", "horse", "monkey"),
}
_CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_STL10 = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
_KINDS100 = {
    "aquatic_mammals": ("beaver", "dolphin", "otter", "seal", "whale"),
    "fish": ("aquarium_fish", "flatfish", "ray", "shark", "trout"),
    "flowers": ("orchid", "poppy", "rose", "sunflower", "tulip"),
    "food_containers": ("bottle", "bowl", "can", "cup", "plate"),
    "fruit_and_vegetables": ("apple", "mushroom", "orange", "pear", "sweet_pepper"),
    "household_electrical_devices": ("clock", "keyboard", "lamp", "telephone", "television"),
    "household_furniture": ("bed", "chair", "couch", "table", "wardrobe"),
    "insects": ("bee", "beetle", "butterfly", "caterpillar", "cockroach"),
    "large_carnivores": ("bear", "leopard", "lion", "tiger", "wolf"),
    "large_man-made_outdoor_things": ("bridge", "castle", "house", "road", "skyscraper"),
    "large_natural_outdoor_scenes": ("cloud", "forest", "mountain", "plain", "sea"),
    "large_omnivores_and_herbivores": ("camel", "cattle", "chimpanzee", "elephant", "kangaroo"),
    "medium_mammals": ("fox", "porcupine", "possum", "raccoon", "skunk"),
    "non-insect_invertebrates": ("crab", "lobster", "snail", "spider", "worm"),
    "people": ("baby", "boy", "girl", "man", "woman"),
    "reptiles": ("crocodile", "dinosaur", "lizard", "snake", "turtle"),
    "small_mammals": ("hamster", "mouse", "rabbit", "shrew", "squirrel"),
    "trees": ("maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree"),
    "vehicles_1": ("bicycle", "bus", "motorcycle", "pickup_truck", "train"),
    "vehicles_2": ("lawn_mower", "rocket", "streetcar", "tank", "tractor"),
}
_CIFAR100 = tuple(sorted(chain(*_KINDS100.values())))
_STANDARD, _FOLDERS = "classwise.images.standard", "classwise.images.folders"

# A fiftieth of the training images validates; of digits, one fold of five. Classes differ in size by a few images.
_MNIST, _CIFAR = DatasetSize(58_800, 1_200, 10_000, 1, 28, 28), DatasetSize(49_000, 1_000, 10_000, 3, 32, 32)
DATASETS: dict[str, DatasetInfo] = {
    "digits": DatasetInfo(f"{_STANDARD}:digits", DatasetSize(1077, 360, 360, 1, 8, 8), _DIGITS, backgrounds=_BACKGROUNDS),
    "mnist": DatasetInfo(f"{_STANDARD}:mnist", _MNIST, _DIGITS, backgrounds=_BACKGROUNDS, title="MNIST"),
    "fashion-mnist": DatasetInfo(f"{_STANDARD}:fashion_mnist", _MNIST, title="Fashion-MNIST"),
    "svhn": DatasetInfo(f"{_STANDARD}:svhn", DatasetSize(71_792, 1_465, 26_032, 3, 32, 32), _DIGITS, title="SVHN"),
    "cifar10": DatasetInfo(f"{_STANDARD}:cifar10", _CIFAR, _CIFAR10, _KINDS, title="CIFAR-10"),
    "stl10": DatasetInfo(f"{_STANDARD}:stl10", DatasetSize(4_900, 100, 8_000, 3, 96, 96), _STL10, _KINDS, title="STL-10"),
    "cifar100": DatasetInfo(f"{_STANDARD}:cifar100", replace(_CIFAR, classes=100), _CIFAR100, _KINDS100, title="CIFAR-100"),
    "folder": DatasetInfo(f"{_FOLDERS}:folder", options=True),
    "tiny-imagenet": DatasetInfo(f"{_FOLDERS}:tiny_imagenet", options=True, title="Tiny ImageNet"),
    "imagenet": DatasetInfo(f"{_FOLDERS}:imagenet", options=True, title="ImageNet"),
}


def split_background(dataset: str) -> tuple[str, str]:
    """Return a dataset's name and its background: ("digits", "apart") for "digits-apart", ("mnist", "") for "mnist"."""
    base, _, background = dataset.rpartition("-")
    return (base, background) if base in DATASETS and background in DATASETS[base].backgrounds else (dataset, "")


def base_dataset(dataset: str) -> str:
    """Return the name of a dataset without its background: "digits" for "digits-apart"; any other name as it is."""
    return split_background(dataset)[0]


def title(dataset: str) -> str:
    """Return how pages name a dataset: "CIFAR-10", "digits (apart)"; a name that is not in DATASETS as it is."""
    base, background = split_background(dataset)
    name = (DATASETS[base].title if base in DATASETS else "") or base
    return f"{name} ({background})" if background else name


def known_classes(dataset: str) -> tuple[str, ...]:
    """Return the names of a dataset's classes in the order of the labels, () where only its images tell."""
    name = base_dataset(dataset)
    return DATASETS[name].classes if name in DATASETS else ()


def class_names(dataset: str) -> tuple[str, ...]:
    """Return the names of a dataset's classes in the order of the labels; a UserError where only its images tell."""
    names = known_classes(dataset)
    if not names:
        known = [name for name, info in DATASETS.items() if info.classes]
        raise unknown("dataset whose classes can be left out", dataset, known)
    return names


def select_classes(names: tuple[str, ...], some: Sequence[str]) -> tuple[str, ...]:
    """Return the classes to train on, all of `names` where `some` is empty; a UserError for an unknown class or a single one."""
    check_known("class", some, names)
    if len(set(some)) == 1:
        raise UserError(f"1 class left of {', '.join(names)}: a classifier needs at least two")
    return tuple(name for name in names if name in some or not some)


def check(dataset: str) -> None:
    """Raise a UserError if the name of a dataset is unknown, or has a path or options that the dataset does not take.

    Its options are checked where it is read (`images.reader`).
    """
    kind, _, path = dataset.partition("?")[0].partition(":")
    if split_background(dataset)[1]:
        return
    if kind not in DATASETS:
        variants = [f"{name}-{background}" for name, info in DATASETS.items() for background in info.backgrounds]
        raise unknown("dataset", dataset, [*(name for name in DATASETS if name != "folder"), *variants, "folder:PATH"])
    if kind not in datasets_with_options() and kind != dataset:
        others = ", ".join(datasets_with_options())
        raise UserError(f"dataset {dataset!r}: {kind} takes no path or options, {others} do; write {kind!r}")
    if kind == "folder" and not path:
        raise UserError(f"dataset {dataset!r} names no folder; write folder:PATH, like folder:data/images/signs?size=64")


def datasets_with_options() -> list[str]:
    """Return the names of the datasets whose name may go on with a path and options."""
    return [name for name, info in DATASETS.items() if info.options]


def datasets_with_superclasses() -> list[str]:
    """Return the names of the datasets that have superclasses."""
    return [name for name, info in DATASETS.items() if info.superclasses]


def superclasses(dataset: str) -> dict[str, str]:
    """Return the superclass of each class, in the dataset's order: transport or animals (Tian 2021, Table 2), CIFAR-100's 20.

    A UserError is raised for a dataset without superclasses.
    """
    if dataset not in datasets_with_superclasses():
        raise UserError(f"{dataset!r} has no superclasses; those that do: {', '.join(datasets_with_superclasses())}")
    info = DATASETS[dataset]
    groups = {name: group for group, names in info.superclasses.items() for name in names}
    return {name: groups[name] for name in info.classes}


def superclass_numbers(names: Sequence[str]) -> list[int]:
    """Return the number of each class's superclass, from the names of the classes alone; a UserError where they have none.

    No two datasets share a name, apart from CIFAR-10 and STL-10, where it means the same.
    """
    for dataset in datasets_with_superclasses():
        groups = superclasses(dataset)
        if set(names) <= set(groups):
            order = list(dict.fromkeys(groups.values()))
            return [order.index(groups[name]) for name in names]
    known = ", ".join(datasets_with_superclasses())
    raise UserError(f"classes {', '.join(names)} have no superclasses; those of these datasets do: {known}")
