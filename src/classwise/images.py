"""Labelled images, whole, as uint8 on the device."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from classwise import backgrounds
from classwise.errors import UserError, unknown
from classwise.places import images_folder

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

    def __post_init__(self) -> None:
        if self.pixels.dtype != torch.uint8 or self.pixels.ndim != 4:
            found = f"{self.pixels.dtype} of shape {tuple(self.pixels.shape)}"
            advice = "; write (255 * x).round().to(torch.uint8)" if self.pixels.is_floating_point() else ""
            raise UserError(f"pixels must be torch.uint8 (n, channels, height, width), got {found}{advice}")
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
        """Return some of the images: `which` holds positions or a mask."""
        return replace(self, pixels=self.pixels[which], labels=self.labels[which], index=self.index[which])

    def batch(
        self, which: Tensor | slice, augment: str = "none", generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return pixels as float32 in [0, 1] and labels, of some of the images; `augment` names one of AUGMENTATIONS."""
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

    def and_also(self, others: "Images") -> "Images":
        """Return these images followed by others of the same classes and shape."""
        pixels, labels = torch.cat([self.pixels, others.pixels]), torch.cat([self.labels, others.labels])
        return Images(pixels, labels, torch.cat([self.index, others.index]), self.classes)

    def per_class(self, count: int, seed: int) -> "Images":
        """Return `count` images of each class (all where a class has fewer), drawn with `seed`, in the old order."""
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(self), generator=generator).to(self.labels.device)
        kept = [order[self.labels[order] == label][:count] for label in range(len(self.classes))]
        return self.take(torch.cat(kept).sort().values)


# How many pixels an image may move each way when it is cropped (all four papers).
_PAD = 4


def crop_flip(pixels: Tensor, generator: torch.Generator, *, reflect: bool = False) -> Tensor:
    """Return a batch (n, channels, height, width), each image moved at random by up to 4 pixels and mirrored or not.

    The same as padding by 4 on all sides and cropping: what moves in is black (TRADES, MART, FAT, Rice), or with `reflect` the
    image mirrored at its edge (CFA). One gather for the whole batch, in the type of the pixels, on their device.
    """
    count, _, high, wide = pixels.shape
    if reflect and min(high, wide) <= _PAD:
        raise UserError(f"reflecting {_PAD} pixels needs images larger than that, got {high} x {wide}; use augment='crop-flip'")
    device = pixels.device
    shift = torch.randint(-_PAD, _PAD + 1, (2, count, 1), generator=generator, device=device)
    mirrored = torch.rand(count, 1, generator=generator, device=device) < 0.5
    rows = torch.arange(high, device=device) + shift[0]
    columns = torch.arange(wide, device=device).expand(count, -1)
    columns = torch.where(mirrored, columns.flip(1), columns) + shift[1]
    inside = ((rows >= 0) & (rows < high))[:, None, :, None] & ((columns >= 0) & (columns < wide))[:, None, None, :]
    rows, columns = _folded(rows, high), _folded(columns, wide)
    which = torch.arange(count, device=device)[:, None, None]
    moved = pixels.permute(0, 2, 3, 1)[which, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    return moved if reflect else moved * inside


def _folded(places: Tensor, size: int) -> Tensor:
    """Return places outside 0 to size - 1 mirrored back into it, without repeating the edge."""
    return (size - 1) - ((size - 1) - places.abs()).abs()


Augmentation = Callable[[Tensor, torch.Generator], Tensor]
AUGMENTATIONS: dict[str, Augmentation] = {
    "none": lambda pixels, generator: pixels,
    "crop-flip": crop_flip,
    "crop-flip-reflect": partial(crop_flip, reflect=True),
}


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


# Of each class, the share of the training images that is kept for validation (CFA: 100 of 5,000).
_VALID = 0.02


def _torchvision(name: str, split: str, seed: int, files: str) -> Images:
    """Return a split of a dataset that torchvision downloads and checks; `valid` is drawn from `train`, by class and seed."""
    from torchvision import datasets

    root = images_folder()
    try:
        whole = getattr(datasets, name)(root, train=split != "test", download=True)
    except (OSError, RuntimeError) as error:
        raise UserError(
            f"{name} is not in {root} and cannot be downloaded ({type(error).__name__}); put {files} there, "
            "or set CLASSWISE_IMAGES to the folder that has it"
        ) from None
    pixels = torch.as_tensor(whole.data)
    pixels = pixels[:, None] if pixels.ndim == 3 else pixels.permute(0, 3, 1, 2)
    labels = torch.as_tensor(whole.targets)
    classes = tuple(str(one).split(" - ")[0] for one in whole.classes)
    found = Images(pixels.contiguous(), labels, torch.arange(len(labels)), classes)
    if split == "test":
        return found
    order = torch.randperm(len(found), generator=torch.Generator().manual_seed(seed))
    valid = torch.zeros(len(found), dtype=torch.bool)
    for label in range(len(classes)):
        own = order[labels[order] == label]
        valid[own[: round(_VALID * len(own))]] = True
    return found.take(valid if split == "valid" else ~valid)


def mnist(split: str, seed: int) -> Images:
    """Return MNIST (1x28x28; 60,000 and 10,000 images): the seed decides which 2 % of the training images validate."""
    return _torchvision("MNIST", split, seed, "MNIST/raw/ with its four idx files")


def cifar10(split: str, seed: int) -> Images:
    """Return CIFAR-10 (3x32x32; 50,000 and 10,000 images): the seed decides which 2 % of the training images validate."""
    return _torchvision("CIFAR10", split, seed, "cifar-10-batches-py/")


def extra_folders(name: str, classes: Sequence[str]) -> list[Path]:
    """Return the folders of pseudo-labelled images in the folder `name` of CLASSWISE_IMAGES, each named like a class."""
    root = images_folder() / name
    folders = sorted(path for path in root.glob("*") if path.is_dir())
    if not folders:
        raise UserError(f"there is no folder {root} with a folder of images for each class; put pseudo-labelled images there")
    for folder in folders:
        if folder.name not in classes:
            raise unknown(f"class in {root}", folder.name, classes)
    return folders


def extra(name: str, like: Images) -> Images:
    """Return pseudo-labelled images to train on beside those of a dataset, from the folder `name` in CLASSWISE_IMAGES.

    It holds a folder for each class, named as in the dataset, of images of the dataset's size (RST, Carmon et al. 2019; its own
    500,000 are withdrawn). Their `index` counts down from -1. A UserError names what does not fit.
    """
    from PIL import Image

    pixels, labels = [], []
    channels, high, wide = like.shape
    for folder in extra_folders(name, like.classes):
        for path in sorted(path for path in folder.iterdir() if path.suffix.lower() in (".png", ".jpg", ".jpeg", ".bmp")):
            with Image.open(path) as image:
                array = np.asarray(image.convert("L" if channels == 1 else "RGB"))
            if array.shape[:2] != (high, wide):
                raise UserError(f"{path} is of {array.shape[0]} x {array.shape[1]} pixels, expected {high} x {wide}")
            pixels.append(array.reshape(high, wide, channels))
            labels.append(like.classes.index(folder.name))
    if not pixels:
        raise UserError(f"the folders in {images_folder() / name} hold no .png, .jpg or .bmp images")
    stacked = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).contiguous()
    found = Images(stacked, torch.tensor(labels), -1 - torch.arange(len(labels)), like.classes)
    return found.to(like.pixels.device)


def _dressed(base: Callable[[str, int], Images], dress: str, split: str, seed: int) -> Images:
    """Return a split of a dataset before other backgrounds."""
    images = base(split, seed)
    return replace(images, pixels=backgrounds.DRESSES[dress](images.pixels, images.labels, images.index))


DATASETS: dict[str, Callable[[str, int], Images]] = {"digits": digits, "mnist": mnist, "cifar10": cifar10}
DATASETS |= {f"digits-{dress}": partial(_dressed, digits, dress) for dress in backgrounds.DRESSES}
DATASETS |= {f"mnist-{dress}": partial(_dressed, mnist, dress) for dress in backgrounds.DRESSES}


def _replaced(name: str, images: Images, seed: int) -> Images:
    return replace(images, pixels=backgrounds.REPLACED[name](images.pixels, seed))


# What an evaluation may do to the images before they are attacked, given its seed.
TRANSFORMS = {name: partial(_replaced, name) for name in backgrounds.REPLACED}


def load(dataset: str, split: str, seed: int = 0, device: torch.device | str = "cpu") -> Images:
    """Return one split ("train", "valid" or "test") of a dataset as `seed` cuts it, on `device`."""
    if dataset not in DATASETS:
        raise unknown("dataset", dataset, DATASETS)
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    return peopled(DATASETS[dataset](split, seed), dataset, split).to(device)


def peopled(images: Images, dataset: str, split: str) -> Images:
    """Return the images of a split; a UserError names a class that has none, whose accuracy nobody could tell."""
    sizes = images.labels.bincount(minlength=len(images.classes))
    lacking = [name for name, size in zip(images.classes, sizes.tolist(), strict=True) if not size]
    if lacking:
        sentence = f"{dataset} has too few images of class {', '.join(lacking)} for the split {split!r}: none is left"
        raise UserError(f"{sentence}, at least 1 is needed; leave the class out with classes=... or add images")
    return images
