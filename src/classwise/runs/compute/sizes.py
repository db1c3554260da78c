"""How many images a dataset has, and of what shape, without reading them: enough to plan with."""

from functools import cache

from classwise.core import datasets
from classwise.core.datasets import SIZES, DatasetSize
from classwise.core.errors import UserError
from classwise.core.files import folder_digest
from classwise.core.spec import Spec


def size_of(dataset: str) -> DatasetSize | None:
    """Return the size of a dataset: published, or counted where its images are here; None where nobody knows."""
    if dataset in SIZES:
        return SIZES[dataset]
    base, _, dress = dataset.partition("-")
    if base in SIZES and base in datasets.CLASS_NAMES and dress:
        bare = SIZES[base]
        channels = bare.channels if dress == "cluttered" else 3
        return DatasetSize(bare.train, bare.valid, bare.test, channels, bare.height, bare.width, bare.classes)
    return _counted(dataset, folder_digest(dataset))


@cache
def _counted(dataset: str, files: str) -> DatasetSize | None:
    """Return the size of a dataset whose images are here, counted once as long as its `files` are the same."""
    from classwise import images  # torch

    try:
        train, valid, test = (images.load(dataset, split) for split in images.SPLITS)
    except UserError:  # whoever computes the run will hear where to put them
        return None
    return DatasetSize(len(train), len(valid), len(test), *test.shape, classes=len(test.classes))


def training_size(spec: Spec) -> DatasetSize | None:
    """Return the size of what a run trains on: of its classes only, twice as much where half of each batch is extra."""
    whole = size_of(spec.dataset)
    if whole is None:
        return None
    share = len(spec.classes) / whole.classes if spec.classes else 1.0
    train = round(whole.train * share) * (2 if spec.extra is not None else 1)
    shape = (whole.channels, whole.height, whole.width)
    return DatasetSize(train, round(whole.valid * share), round(whole.test * share), *shape, len(spec.classes) or whole.classes)
