"""Labelled images, whole, as uint8 on the device."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from torch import Tensor

from classwise.errors import UserError, unknown

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Images:
    """Images with their labels.

    `pixels` is uint8 (n, channels, height, width), `labels` int64 (n,) indexing `classes`, `index` int64 (n,) the place of
    each image in the dataset's own order (so that an image keeps its name in every split and subset).
    """

    pixels: Tensor
    labels: Tensor
    index: Tensor
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one image."""
        channels, height, width = self.pixels.shape[1:]
        return channels, height, width

    def to(self, device: torch.device | str) -> "Images":
        """Return the same images on another device."""
        return replace(self, pixels=self.pixels.to(device), labels=self.labels.to(device), index=self.index.to(device))

    def take(self, which: Tensor) -> "Images":
        """Return some of the images: `which` holds positions or a mask."""
        return replace(self, pixels=self.pixels[which], labels=self.labels[which], index=self.index[which])

    def batch(self, which: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Return pixels as float32 in [0, 1] and labels, of some of the images."""
        return self.pixels[which].float() / 255, self.labels[which]

    def batches(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all images in order, `size` at a time."""
        for start in range(0, len(self), size):
            yield self.batch(slice(start, start + size))

    def only(self, names: Sequence[str]) -> "Images":
        """Return the images of the named classes, numbered anew in the order of the dataset."""
        for name in names:
            if name not in self.classes:
                raise unknown("class", name, self.classes)
        kept = [number for number, name in enumerate(self.classes) if name in names]
        if len(kept) < 2:
            raise UserError(f"{len(kept)} class left of {', '.join(self.classes)}: a classifier needs at least two")
        fresh = torch.full((len(self.classes),), -1, dtype=self.labels.dtype, device=self.labels.device)
        fresh[kept] = torch.arange(len(kept), dtype=self.labels.dtype, device=self.labels.device)
        some = self.take(fresh[self.labels] >= 0)
        return replace(some, labels=fresh[some.labels], classes=tuple(self.classes[number] for number in kept))

    def without(self, names: Sequence[str]) -> "Images":
        """Return the images of all classes but the named ones, numbered anew."""
        for name in names:
            if name not in self.classes:
                raise unknown("class", name, self.classes)
        return self.only([name for name in self.classes if name not in names])

    def per_class(self, count: int, seed: int) -> "Images":
        """Return `count` images of each class (all where a class has fewer), drawn with `seed`, in the old order."""
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(self), generator=generator).to(self.labels.device)
        kept = [order[self.labels[order] == label][:count] for label in range(len(self.classes))]
        return self.take(torch.cat(kept).sort().values)


@cache
def _digits() -> tuple[Tensor, Tensor]:
    from sklearn.datasets import load_digits  # a second of importing that other datasets do not need

    pixels, labels = load_digits(return_X_y=True)
    # The scans count ink from 0 to 16.
    scaled = np.round(pixels.reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8)
    return torch.from_numpy(scaled), torch.from_numpy(labels.astype(np.int64))


def digits(split: str, seed: int) -> Images:
    """Return scikit-learn's 1,797 scanned digits (1x8x8), cut by `seed` into five stratified folds.

    Seed s tests on fold s mod 5, validates on the fold after it and trains on the other three; seeds 0..4 together test every
    image once, and each further five seeds cut anew. No download: the images come in scikit-learn's wheel.
    """
    from sklearn.model_selection import StratifiedKFold

    pixels, labels = _digits()
    cut = StratifiedKFold(5, shuffle=True, random_state=seed // 5)
    folds = [torch.from_numpy(test) for _, test in cut.split(pixels, labels)]
    test, valid, *train = folds[seed % 5 :] + folds[: seed % 5]
    which = {"train": torch.cat(train).sort().values, "valid": valid, "test": test}[split]
    return Images(pixels[which], labels[which], which, tuple(str(digit) for digit in range(10)))


DATASETS: dict[str, Callable[[str, int], Images]] = {"digits": digits}


def load(dataset: str, split: str, seed: int = 0, device: torch.device | str = "cpu") -> Images:
    """Return one split ("train", "valid" or "test") of a dataset as `seed` cuts it, on `device`."""
    if dataset not in DATASETS:
        raise unknown("dataset", dataset, DATASETS)
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    return DATASETS[dataset](split, seed).to(device)
