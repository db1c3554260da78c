"""Stratified splits of a dataset into training, validation and test images, decided by a seed."""

import torch
from torch import Tensor

from classwise.core.errors import UserError
from classwise.images.images import Images

# The share of each class's training images that is held out for validation (CFA: 100 of 5,000).
VALID = 0.02


def cut(images: Images, split: str, seed: int, least: int = 0) -> Images:
    """Return the "train" or "valid" images of a training set, or a test set as it is.

    A fiftieth of each class validates, at least `least` images, drawn by `seed`.
    """
    if split == "test":
        return images
    labels = images.labels
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    valid = torch.zeros(len(labels), dtype=torch.bool)
    for label in range(len(labels.bincount())):
        members = order[labels[order] == label]
        valid[members[: max(least, round(VALID * len(members)))]] = True
    return images.take(valid if split == "valid" else ~valid)


def fold(labels: Tensor, split: str, seed: int) -> Tensor:
    """Return the positions (n,) of one split of a dataset that `seed` divides into five stratified folds.

    Seed s tests on fold s mod 5, validates on the fold after it and trains on the other three; seeds 0..4 together test every
    image once, and each further five seeds use another partition. A UserError is raised for a class of fewer than five images.
    """
    from sklearn.model_selection import StratifiedKFold

    fewest = int(labels.bincount().min())
    if fewest < 5:
        raise UserError(
            f"a dataset without a test split is split into five folds: each class needs at least 5 images, one has {fewest}"
        )
    cut = StratifiedKFold(5, shuffle=True, random_state=seed // 5)
    folds = [torch.from_numpy(test) for _, test in cut.split(torch.zeros(len(labels), 1), labels)]
    test, valid, *train = folds[seed % 5 :] + folds[: seed % 5]
    return {"train": torch.cat(train).sort().values, "valid": valid, "test": test}[split]
