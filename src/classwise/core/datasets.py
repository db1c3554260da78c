"""Superclasses: which classes of a dataset are alike in meaning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from classwise.core.errors import UserError, unknown

_KINDS = {
    "transport": ("airplane", "automobile", "car", "ship", "truck"),
    "animals": ("bird", "cat", "deer", "dog", "frog", "horse", "monkey"),
}
_CIFAR100 = {
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


def _of(groups: Mapping[str, tuple[str, ...]], *others: str) -> dict[str, str]:
    """Return the superclass of each class, in the order of the classes' names, without the `others`."""
    named = {name: group for group, names in groups.items() for name in names if name not in others}
    return {name: named[name] for name in sorted(named)}


SUPERCLASSES: dict[str, dict[str, str]] = {
    "cifar10": _of(_KINDS, "car", "monkey"),
    "stl10": _of(_KINDS, "automobile", "frog"),
    "cifar100": _of(_CIFAR100),
}


def superclasses(dataset: str) -> dict[str, str]:
    """Return the superclass of each class, in the dataset's order: transport or animals (Tian 2021, Table 2), CIFAR-100's 20.

    A UserError is raised for a dataset without any.
    """
    if dataset not in SUPERCLASSES:
        raise UserError(f"{dataset!r} has no superclasses; those that do: {', '.join(SUPERCLASSES)}")
    return dict(SUPERCLASSES[dataset])


def numbers(names: Sequence[str]) -> list[int]:
    """Return the number of each class's superclass, from the names of the classes alone; a UserError where they have none.

    Each dataset's names are its own, but for those that CIFAR-10 and STL-10 share, which mean the same.
    """
    for groups in SUPERCLASSES.values():
        if set(names) <= set(groups):
            order = list(dict.fromkeys(groups.values()))
            return [order.index(groups[name]) for name in names]
    raise UserError(f"classes {', '.join(names)} have no superclasses; those of these datasets do: {', '.join(SUPERCLASSES)}")


def table(dataset: str | None = None) -> str:
    """Return Table 2 of Tian 2021 in Markdown: the classes of each superclass; of another dataset that has any, its own below."""
    lines = ["| dataset | superclass | classes |", "|---|---|---|"]
    for name in dict.fromkeys(["cifar10", "stl10", *([dataset] if dataset in SUPERCLASSES else [])]):
        groups = SUPERCLASSES[str(name)]
        members = {group: ", ".join(one for one in groups if groups[one] == group) for group in groups.values()}
        lines += [f"| {name} | {group} | {names} |" for group, names in members.items()]
    return "\n".join(lines)


_NUMBERS = tuple("0123456789")
# In the order of their labels.
CLASS_NAMES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("digits", "mnist", "svhn"), _NUMBERS),
    **{dataset: tuple(groups) for dataset, groups in SUPERCLASSES.items()},
}


def base_dataset(dataset: str) -> str:
    """Return the name of a dataset without its backgrounds: "digits" for "digits-apart"."""
    return dataset.split("-")[0]


def class_names(dataset: str) -> tuple[str, ...]:
    """Return the names of a dataset's classes; a UserError names the datasets that are known here."""
    if base_dataset(dataset) not in CLASS_NAMES:
        raise unknown("dataset whose classes can be left out", dataset, CLASS_NAMES)
    return CLASS_NAMES[base_dataset(dataset)]


def select_classes(names: tuple[str, ...], some: Sequence[str]) -> tuple[str, ...]:
    """Return those of the classes that are trained on, all where `some` is empty; a UserError where they make no problem."""
    for name in some:
        if name not in names:
            raise unknown("class", name, names)
    if len(set(some)) == 1:
        raise UserError(f"1 class left of {', '.join(names)}: a classifier needs at least two")
    return tuple(name for name in names if name in some or not some)


@dataclass(frozen=True)
class DatasetSize:
    """Images of each split, the channels, height and width of one, and the number of classes."""

    train: int
    valid: int
    test: int
    channels: int
    height: int
    width: int
    classes: int = 10


# A fiftieth of the training images validates; of digits, a fold of five does. Classes are not all alike: give or take a few.
SIZES: dict[str, DatasetSize] = {
    "digits": DatasetSize(1077, 360, 360, 1, 8, 8),
    "mnist": DatasetSize(58_800, 1_200, 10_000, 1, 28, 28),
    "fashion-mnist": DatasetSize(58_800, 1_200, 10_000, 1, 28, 28),
    "svhn": DatasetSize(71_792, 1_465, 26_032, 3, 32, 32),
    "cifar10": DatasetSize(49_000, 1_000, 10_000, 3, 32, 32),
    "cifar100": DatasetSize(49_000, 1_000, 10_000, 3, 32, 32, 100),
    "stl10": DatasetSize(4_900, 100, 8_000, 3, 96, 96),
}
