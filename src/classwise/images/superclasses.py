"""Superclasses: which classes of a dataset are alike in meaning."""

from collections.abc import Mapping

from classwise.errors import UserError

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
