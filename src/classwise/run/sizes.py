"""How many images a dataset has, and of what shape, without reading them: enough to plan with."""

from dataclasses import dataclass
from functools import cache

from classwise import variants
from classwise.errors import UserError
from classwise.places import contents
from classwise.spec import Spec


@dataclass(frozen=True)
class Size:
    """Images of each split, the channels, height and width of one, and the number of classes."""

    train: int
    valid: int
    test: int
    channels: int
    height: int
    width: int
    classes: int = 10


# A fiftieth of the training images validates; of digits, a fold of five does. Classes are not all alike: give or take a few.
SIZES: dict[str, Size] = {
    "digits": Size(1077, 360, 360, 1, 8, 8),
    "mnist": Size(58_800, 1_200, 10_000, 1, 28, 28),
    "fashion-mnist": Size(58_800, 1_200, 10_000, 1, 28, 28),
    "svhn": Size(71_792, 1_465, 26_032, 3, 32, 32),
    "cifar10": Size(49_000, 1_000, 10_000, 3, 32, 32),
    "cifar100": Size(49_000, 1_000, 10_000, 3, 32, 32, 100),
    "stl10": Size(4_900, 100, 8_000, 3, 96, 96),
}


def size(dataset: str) -> Size | None:
    """Return the size of a dataset: published, or counted where its images are here; None where nobody knows."""
    if dataset in SIZES:
        return SIZES[dataset]
    base, _, dress = dataset.partition("-")
    if base in SIZES and base in variants.CLASSES and dress:
        bare = SIZES[base]
        channels = bare.channels if dress == "cluttered" else 3
        return Size(bare.train, bare.valid, bare.test, channels, bare.height, bare.width, bare.classes)
    return _counted(dataset, contents(dataset))


@cache
def _counted(dataset: str, files: str) -> Size | None:
    """Return the size of a dataset whose images are here, counted once as long as its `files` are the same."""
    from classwise import images  # torch

    try:
        train, valid, test = (images.load(dataset, split) for split in images.SPLITS)
    except UserError:  # whoever computes the run will hear where to put them
        return None
    return Size(len(train), len(valid), len(test), *test.shape, classes=len(test.classes))


def of(spec: Spec) -> Size | None:
    """Return the size of what a run trains on: of its classes only, twice as much where half of each batch is extra."""
    whole = size(spec.dataset)
    if whole is None:
        return None
    share = len(spec.classes) / whole.classes if spec.classes else 1.0
    train = round(whole.train * share) * (2 if spec.extra is not None else 1)
    shape = (whole.channels, whole.height, whole.width)
    return Size(train, round(whole.valid * share), round(whole.test * share), *shape, len(spec.classes) or whole.classes)
