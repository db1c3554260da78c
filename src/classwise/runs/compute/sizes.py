"""How many images a dataset has, and of what shape: published, or counted once."""

from dataclasses import replace
from functools import cache

from classwise.core.datasets import DatasetSize, published_size
from classwise.core.errors import UserError
from classwise.core.files import folder_digest
from classwise.core.spec import Spec


def size_of(dataset: str) -> DatasetSize | None:
    """Return the size of a dataset: published, or counted where its images are present; else None."""
    return published_size(dataset) or _counted(dataset, folder_digest(dataset))


@cache
def _counted(dataset: str, digest: str) -> DatasetSize | None:
    """Return the size of a dataset whose images are present, counted once as long as the `digest` of its files is the same."""
    from classwise import images  # torch

    try:
        train, valid, test = (images.load(dataset, split) for split in images.SPLITS)
    except UserError:  # computing the run will say where to put them
        return None
    return DatasetSize(len(train), len(valid), len(test), *test.shape, classes=len(test.classes))


def training_size(spec: Spec) -> DatasetSize | None:
    """Return the size of what a run trains on.

    Of its classes only, of each no more images than it takes, and twice as many where half of each batch is extra.
    """
    full = size_of(spec.dataset)
    if full is None:
        return None
    share = len(spec.classes) / full.classes if spec.classes else 1.0
    train = full.train if spec.train_per_class is None else min(full.train, spec.train_per_class * full.classes)
    train = round(train * share) * (2 if spec.extra is not None else 1)
    valid, test = round(full.valid * share), round(full.test * share)
    return replace(full, train=train, valid=valid, test=test, classes=len(spec.classes) or full.classes)
