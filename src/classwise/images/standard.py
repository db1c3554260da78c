"""Datasets that are published as arrays: scikit-learn's digits, and those that torchvision downloads, checks and decodes."""

import os
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from classwise.core.datasets import class_names
from classwise.core.errors import UserError
from classwise.core.files import files_digest
from classwise.core.paths import check_folder, images_folder
from classwise.images.cache import ArraySource, read_cached
from classwise.images.images import Images, cut, fold

# The files of each dataset of torchvision in the folder of images, by the name of its class.
_FILES = {
    "MNIST": ("MNIST/raw/*-ubyte",),
    "FashionMNIST": ("FashionMNIST/raw/*-ubyte",),
    "SVHN": ("train_32x32.mat", "test_32x32.mat"),
    "CIFAR10": ("cifar-10-batches-py/*",),
    "CIFAR100": ("cifar-100-python/*",),
    "STL10": ("stl10_binary/*",),
}
# Datasets whose class takes the name of a split rather than `train`, and has no names of classes that it checks.
_BY_SPLIT = {"SVHN": "svhn", "STL10": "stl10"}


@cache
def _digits() -> tuple[Tensor, Tensor]:
    from sklearn.datasets import load_digits  # a second of importing that other datasets do not need

    pixels, labels = load_digits(return_X_y=True)
    # The scans have values from 0 to 16.
    scaled = np.round(pixels.reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8)
    return torch.from_numpy(scaled), torch.from_numpy(labels.astype(np.int64))


def digits(split: str, seed: int) -> Images:
    """Return scikit-learn's 1,797 scanned digits (1x8x8), divided by `seed` into five stratified folds.

    Seed s tests on fold s mod 5, validates on the fold after it and trains on the other three; seeds 0..4 together test every
    image once, and each further five seeds use another partition. The images come with scikit-learn; there is no download.
    """
    pixels, labels = _digits()
    which = fold(labels, split, seed)
    return Images(pixels[which], labels[which], which, class_names("digits"))


def _key(name: str, root: Path) -> str:
    files = [file for pattern in _FILES[name] for file in sorted(root.glob(pattern))]
    return files_digest(root, files)[:12] if files else ""


def _decoded(name: str, part: str, root: Path) -> ArraySource:
    from torchvision import datasets

    try:
        arguments = {"split": part} if name in _BY_SPLIT else {"train": part == "train"}
        data = getattr(datasets, name)(root, download=True, **arguments)
    except Exception as error:  # of the network, of the disk, of a file that is cut short
        state = f"in {root} is incomplete or damaged" if _key(name, root) else f"is not in {root}"
        cause: BaseException = error
        while (deeper := cause.__cause__ or cause.__context__) is not None:  # torchvision's own only names the file
            cause = deeper
        reason = f"{type(cause).__name__}: {cause}".splitlines()[0]
        advice = f"put {' and '.join(_FILES[name])} there, or set CLASSWISE_IMAGES to the folder that has them"
        raise UserError(f"{name} {state} and cannot be downloaded ({reason}); {advice}") from error
    pixels = np.asarray(data.data)
    if pixels.ndim == 3:
        pixels = pixels[:, None]
    elif name.startswith("CIFAR"):
        pixels = pixels.transpose(0, 3, 1, 2)
    labels = np.asarray(data.labels if name in _BY_SPLIT else data.targets).astype(np.int64).tolist()
    classes = [str(label).split(" - ")[0] for label in getattr(data, "classes", ())]
    return ArraySource(pixels.shape, [pixels], {"labels": labels, "classes": classes})


def _torchvision(name: str, split: str, seed: int) -> Images:
    """Return a split of a dataset that torchvision downloads and checks; `valid` is drawn from `train`, by class and seed."""
    root, part = images_folder(), "test" if split == "test" else "train"
    make = partial(_decoded, name, part, root)
    if not _key(name, root):
        check_folder(root, "CLASSWISE_IMAGES" if os.environ.get("CLASSWISE_IMAGES") else "the folder of images")
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f".{name}.lock"):
            if not _key(name, root):  # else another process has downloaded it meanwhile
                make()  # downloads
    pixels, _, metadata = read_cached(root, f"{name}.{part}", _key(name, root), make)
    labels, classes = torch.tensor(metadata["labels"]), metadata["classes"]
    names = class_names(_BY_SPLIT[name]) if name in _BY_SPLIT else tuple(classes)
    return cut(Images(torch.from_numpy(pixels), labels, torch.arange(len(labels)), names), split, seed)


def mnist(split: str, seed: int) -> Images:
    """Return MNIST (1x28x28; 60,000 and 10,000 images): the seed decides which 2 % of the training images validate."""
    return _torchvision("MNIST", split, seed)


def fashion_mnist(split: str, seed: int) -> Images:
    """Return Fashion-MNIST (1x28x28; 60,000 and 10,000 images of clothes): the seed decides which 2 % validate."""
    return _torchvision("FashionMNIST", split, seed)


def svhn(split: str, seed: int) -> Images:
    """Return SVHN (3x32x32; 73,257 and 26,032 house numbers): the seed decides which 2 % of the training images validate."""
    return _torchvision("SVHN", split, seed)


def cifar10(split: str, seed: int) -> Images:
    """Return CIFAR-10 (3x32x32; 50,000 and 10,000 images): the seed decides which 2 % of the training images validate."""
    return _torchvision("CIFAR10", split, seed)


def cifar100(split: str, seed: int) -> Images:
    """Return CIFAR-100 (3x32x32; 50,000 and 10,000 images): the seed decides which 2 % of the training images validate."""
    return _torchvision("CIFAR100", split, seed)


def stl10(split: str, seed: int) -> Images:
    """Return the labelled images of STL-10 (3x96x96; 5,000 and 8,000): the seed decides which 2 % of the first validate."""
    return _torchvision("STL10", split, seed)
