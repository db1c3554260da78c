"""Datasets that are published as arrays: scikit-learn's digits, and those that torchvision downloads, checks and decodes."""

import hashlib
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from classwise.core.errors import UserError
from classwise.core.paths import images_folder
from classwise.images.cache import ArraySource, cached
from classwise.images.images import Images
from classwise.images.splits import fold, held_out

_DIGITS = tuple(str(digit) for digit in range(10))
# In the order of the labels; torchvision takes them from a file that it does not check.
_STL10 = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")

# The files of each dataset that torchvision reads, in its folder of images.
_FILES = {
    "MNIST": ("MNIST/raw/*-ubyte",),
    "FashionMNIST": ("FashionMNIST/raw/*-ubyte",),
    "SVHN": ("train_32x32.mat", "test_32x32.mat"),
    "CIFAR10": ("cifar-10-batches-py/*",),
    "CIFAR100": ("cifar-100-python/*",),
    "STL10": ("stl10_binary/*",),
}
# How many images are written to the disk at a time.
_CHUNK = 10_000


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
    pixels, labels = _digits()
    which = fold(labels, split, seed)
    return Images(pixels[which], labels[which], which, _DIGITS)


def _published(name: str) -> list[tuple[str, str | None]]:
    """Return the files that torchvision reads of a dataset, in its folder of images, with their md5 where it checks one."""
    from torchvision import datasets

    cls = getattr(datasets, name)
    if name == "SVHN":
        return [(file, md5) for part, (_, file, md5) in cls.split_list.items() if part != "extra"]
    if name in ("MNIST", "FashionMNIST"):
        return [(f"{name}/raw/{file.removesuffix('.gz')}", None) for file, _ in cls.resources]
    return [(f"{cls.base_folder}/{file}", md5) for file, md5 in (*cls.train_list, *cls.test_list) if "unlabeled" not in file]


def _cause(error: BaseException) -> str:
    """Return the first line of what began a chain of errors: torchvision's own says no more than which file it is."""
    while (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    said = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _trouble(name: str, root: Path, files: str, error: Exception) -> UserError:
    """Return what is wrong with a dataset that torchvision could neither read nor download."""
    from torchvision.datasets.utils import check_integrity

    published = _published(name)
    there = [file for file, _ in published if (root / file).exists()]
    if not there:
        return UserError(
            f"{name} is not in {root} and cannot be downloaded ({_cause(error)}); put {files} there, "
            "or set CLASSWISE_IMAGES to the folder that has it"
        )
    missing = [f"{file} is missing" for file, _ in published if file not in there]
    other = [file for file, md5 in published if file in there and md5 and not check_integrity(str(root / file), md5)]
    changed = [f"{file} has another md5 than published" for file in other]
    what = ", ".join([*missing, *changed]) or "a file cannot be read"
    return UserError(
        f"{name} in {root} is incomplete or damaged and cannot be downloaded anew ({_cause(error)}): {what}; "
        f"put {files} there again"
    )


def _key(name: str, root: Path) -> str:
    """Return what changes when any file of a dataset does; "" where there is none. torchvision takes seconds to import."""
    told = [(file.relative_to(root), file.stat()) for pattern in _FILES[name] for file in sorted(root.glob(pattern))]
    said = "".join(f"{file} {one.st_size} {one.st_mtime_ns}\n" for file, one in told)
    return hashlib.sha256(said.encode()).hexdigest()[:12] if told else ""


def _decoded(name: str, part: str, root: Path, files: str, *, named: bool) -> ArraySource:
    """Return a part of a dataset as torchvision downloads, checks and decodes it, with its labels and classes."""
    from torchvision import datasets

    try:
        whole = getattr(datasets, name)(root, download=True, **({"split": part} if named else {"train": part == "train"}))
    except Exception as error:  # of the network, of the disk, of a file that is cut short
        raise _trouble(name, root, files, error) from error
    pixels = np.asarray(whole.data)
    if pixels.ndim == 3:
        pixels = pixels[:, None]
    elif name.startswith("CIFAR"):
        pixels = pixels.transpose(0, 3, 1, 2)
    labels = np.asarray(whole.labels if named else whole.targets).astype(np.int64).tolist()
    classes = [str(one).split(" - ")[0] for one in getattr(whole, "classes", ())]

    def parts(_: ArraySource) -> Iterator[np.ndarray]:
        yield from (pixels[start : start + _CHUNK] for start in range(0, len(pixels), _CHUNK))

    return ArraySource(pixels.shape, parts, {"labels": labels, "classes": classes})


def _torchvision(name: str, split: str, seed: int, files: str, classes: tuple[str, ...] = (), *, named: bool = False) -> Images:
    """Return a split of a dataset that torchvision downloads and checks; `valid` is drawn from `train`, by class and seed.

    files: what it lies in, for the error. classes: the names of its classes where torchvision tells none. named: whether it takes
    the name of a split rather than `train`. What was checked and decoded once is kept as long as the files are the same.
    """
    root, part = images_folder(), "test" if split == "test" else "train"
    make = partial(_decoded, name, part, root, files, named=named)
    if not _key(name, root):
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f".{name}.lock"):
            if not _key(name, root):  # else another process has it by now
                make()  # downloads
    pixels, _, told = cached(root, f"{name}.{part}", _key(name, root), make)
    labels = torch.tensor(told["labels"])
    found = Images(torch.from_numpy(pixels), labels, torch.arange(len(labels)), classes or tuple(told["classes"]))
    if split == "test":
        return found
    valid = held_out(labels, seed)
    return found.take(valid if split == "valid" else ~valid)


def mnist(split: str, seed: int) -> Images:
    """Return MNIST (1x28x28; 60,000 and 10,000 images): the seed decides which 2 % of the training images validate."""
    return _torchvision("MNIST", split, seed, "MNIST/raw/ with its four idx files")


def fashion_mnist(split: str, seed: int) -> Images:
    """Return Fashion-MNIST (1x28x28; 60,000 and 10,000 images of clothes): the seed decides which 2 % validate."""
    return _torchvision("FashionMNIST", split, seed, "FashionMNIST/raw/ with its four idx files")


def svhn(split: str, seed: int) -> Images:
    """Return SVHN (3x32x32; 73,257 and 26,032 house numbers): the seed decides which 2 % of the training images validate."""
    return _torchvision("SVHN", split, seed, "train_32x32.mat and test_32x32.mat", _DIGITS, named=True)


def cifar10(split: str, seed: int) -> Images:
    """Return CIFAR-10 (3x32x32; 50,000 and 10,000 images): the seed decides which 2 % of the training images validate."""
    return _torchvision("CIFAR10", split, seed, "cifar-10-batches-py/")


def cifar100(split: str, seed: int) -> Images:
    """Return CIFAR-100 (3x32x32; 50,000 and 10,000 images): the seed decides which 2 % of the training images validate."""
    return _torchvision("CIFAR100", split, seed, "cifar-100-python/")


def stl10(split: str, seed: int) -> Images:
    """Return the labelled images of STL-10 (3x96x96; 5,000 and 8,000): the seed decides which 2 % of the first validate."""
    return _torchvision("STL10", split, seed, "stl10_binary/", _STL10, named=True)
