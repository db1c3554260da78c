"""Labelled images as uint8 arrays on their device: subsets, splits, augmentation in training."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from classwise.core.datasets import select_classes
from classwise.core.errors import UserError, check_known

# Padding in pixels on each side (all four papers).
_PAD = 4


def crop_flip(pixels: Tensor, generator: torch.Generator, *, reflect: bool = False) -> Tensor:
    """Return a batch (n, channels, height, width), randomly cropped after padding by 4 pixels and flipped horizontally.

    The padding is black (TRADES, MART, FAT, Rice), or with `reflect` the image mirrored at its edge (CFA). One gather serves the
    whole batch, in the type of the pixels, on their device.
    """
    count, _, high, wide = pixels.shape
    device = pixels.device
    shift = torch.randint(-_PAD, _PAD + 1, (2, count, 1), generator=generator, device=device)
    mirrored = torch.rand(count, 1, generator=generator, device=device) < 0.5
    rows = torch.arange(high, device=device) + shift[0]
    columns = torch.arange(wide, device=device).expand(count, -1)
    columns = torch.where(mirrored, columns.flip(1), columns) + shift[1]
    inside = ((rows >= 0) & (rows < high))[:, None, :, None] & ((columns >= 0) & (columns < wide))[:, None, None, :]
    rows, columns = _reflected(rows, high), _reflected(columns, wide)
    which = torch.arange(count, device=device)[:, None, None]
    moved = pixels.permute(0, 2, 3, 1)[which, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    return moved if reflect else moved * inside


def _reflected(places: Tensor, size: int) -> Tensor:
    """Return positions, those outside 0 to size - 1 reflected into it without repeating the edge."""
    return (size - 1) - ((size - 1) - places.abs()).abs()


AUGMENTATIONS: dict[str, Callable[[Tensor, torch.Generator], Tensor]] = {
    "none": lambda pixels, generator: pixels,
    "crop-flip": crop_flip,
    "crop-flip-reflect": partial(crop_flip, reflect=True),
}


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
        """Return the images of the named classes (all where none is named), which are renumbered in the dataset's order.

        A UserError is raised for an unknown class or a single one.
        """
        chosen = select_classes(self.classes, names)
        kept = [self.classes.index(name) for name in chosen]
        fresh = torch.full((len(self.classes),), -1, dtype=self.labels.dtype, device=self.labels.device)
        fresh[kept] = torch.arange(len(kept), dtype=self.labels.dtype, device=self.labels.device)
        some = self.take(fresh[self.labels] >= 0)
        return replace(some, labels=fresh[some.labels], classes=chosen)

    def select_classes(self, *names: str) -> "Images":
        """Return the images of some classes, with the labels of all; a UserError for an unknown one."""
        check_known("class", names, self.classes)
        numbers = torch.tensor([self.classes.index(name) for name in names], device=self.labels.device)
        return self.take(torch.isin(self.labels, numbers))

    def concat(self, others: "Images") -> "Images":
        """Return these images followed by others of the same classes and shape."""
        pixels, labels = torch.cat([self.pixels, others.pixels]), torch.cat([self.labels, others.labels])
        return Images(pixels, labels, torch.cat([self.index, others.index]), self.classes)

    def per_class(self, count: int, seed: int) -> "Images":
        """Return `count` images of each class (all where a class has fewer), drawn by `seed`, in their original order."""
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed)).to(self.labels.device)
        kept = [order[self.labels[order] == label][:count] for label in range(len(self.classes))]
        return self.take(torch.cat(kept).sort().values)


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
        problem = f"each class needs at least 5 images, one has {fewest}"
        raise UserError(f"a dataset without a test split is split into five folds: {problem}")
    cut = StratifiedKFold(5, shuffle=True, random_state=seed // 5)
    folds = [torch.from_numpy(test) for _, test in cut.split(torch.zeros(len(labels), 1), labels)]
    test, valid, *train = folds[seed % 5 :] + folds[: seed % 5]
    return {"train": torch.cat(train).sort().values, "valid": valid, "test": test}[split]
