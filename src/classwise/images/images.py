"""Labelled images as uint8 arrays on the device."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from classwise.core.errors import UserError, unknown
from classwise.images.augmentation import AUGMENTATIONS

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Images:
    """Images with their labels.

    `pixels` is uint8 (n, channels, height, width), `labels` int64 (n,) indexes `classes`, and `index` int64 (n,) is the position
    of each image in the dataset, which identifies it in every split and subset.
    """

    pixels: Tensor
    labels: Tensor
    index: Tensor
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.pixels.dtype != torch.uint8 or self.pixels.ndim != 4:
            got = f"{self.pixels.dtype} of shape {tuple(self.pixels.shape)}"
            advice = "; write (255 * x).round().to(torch.uint8)" if self.pixels.is_floating_point() else ""
            raise UserError(f"pixels must be torch.uint8 (n, channels, height, width), got {got}{advice}")
        for name in ("labels", "index"):
            value = getattr(self, name)
            if value.dtype != torch.int64 or value.shape != self.pixels.shape[:1]:
                got = f"{value.dtype} of shape {tuple(value.shape)}"
                raise UserError(f"{name} must be torch.int64 (n,), one for each of {len(self.pixels)} images, got {got}")

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
        """Return a subset of the images: `which` holds positions or a mask."""
        return replace(self, pixels=self.pixels[which], labels=self.labels[which], index=self.index[which])

    def batch(
        self, which: Tensor | slice, augment: str = "none", generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the pixels, as float32 in [0, 1], and the labels of a subset; `augment` is a name of AUGMENTATIONS."""
        pixels = self.pixels[which]
        if augment != "none":
            assert generator is not None, "augmentation draws from a generator"
            pixels = AUGMENTATIONS[augment](pixels, generator)
        return pixels.float() / 255, self.labels[which]

    def batches(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all images in order, `size` at a time."""
        for start in range(0, len(self), size):
            yield self.batch(slice(start, start + size))

    def only(self, names: Sequence[str]) -> "Images":
        """Return the images of the named classes, which are renumbered in the dataset's order."""
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
        """Return the images of all classes except the named ones, renumbered."""
        for name in names:
            if name not in self.classes:
                raise unknown("class", name, self.classes)
        return self.only([name for name in self.classes if name not in names])

    def concat(self, others: "Images") -> "Images":
        """Return these images followed by others of the same classes and shape."""
        pixels, labels = torch.cat([self.pixels, others.pixels]), torch.cat([self.labels, others.labels])
        return Images(pixels, labels, torch.cat([self.index, others.index]), self.classes)

    def per_class(self, count: int, seed: int) -> "Images":
        """Return `count` images of each class (all where a class has fewer), drawn by `seed`, in their original order."""
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(self), generator=generator).to(self.labels.device)
        kept = [order[self.labels[order] == label][:count] for label in range(len(self.classes))]
        return self.take(torch.cat(kept).sort().values)
