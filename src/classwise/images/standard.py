"""Datasets that are published as arrays: scikit-learn's digits, and those that torchvision downloads, checks and decodes."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from classwise.core.datasets import class_names
from classwise.core.errors import UserError
from classwise.core.paths import check_folder, images_folder
from classwise.images.cache import ArraySource, cached, digest
from classwise.images.images import Images
from classwise.images.splits import cut, fold


@dataclass(frozen=True)
class _Source:
    """A dataset of torchvision: the name of its class, patterns of its files in the folder of images, and these in words.

    by_split: whether the class takes the name of a split rather than `train`.
    """

    name: str
    patterns: tuple[str, ...]
    files: str
    by_split: bool = False


# Images per write to the disk.
_CHUNK = 10_000


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


def _published(name: str) -> list[tuple[str, str | None]]:
    """Return the files that torchvision reads of a dataset, in the folder of images, with the md5 of those that it checks."""
    from torchvision import datasets

    cls = getattr(datasets, name)
    if name == "SVHN":
        return [(file, md5) for part, (_, file, md5) in cls.split_list.items() if part != "extra"]
    if name in ("MNIST", "FashionMNIST"):
        return [(f"{name}/raw/{file.removesuffix('.gz')}", None) for file, _ in cls.resources]
    return [(f"{cls.base_folder}/{file}", md5) for file, md5 in (*cls.train_list, *cls.test_list) if "unlabeled" not in file]


def _cause(error: BaseException) -> str:
    """Return the first line of the error at the start of a chain: torchvision's own only names the file."""
    while (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    line = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def _unreadable(source: _Source, root: Path, error: Exception) -> UserError:
    """Return the error for a dataset that torchvision could neither read nor download: which files are missing or differ."""
    from torchvision.datasets.utils import check_integrity

    name, published = source.name, _published(source.name)
    present = [file for file, _ in published if (root / file).exists()]
    if not present:
        return UserError(
            f"{name} is not in {root} and cannot be downloaded ({_cause(error)}); put {source.files} there, "
            "or set CLASSWISE_IMAGES to the folder that has it"
        )
    missing = [f"{file} is missing" for file, _ in published if file not in present]
    other = [file for file, md5 in published if file in present and md5 and not check_integrity(str(root / file), md5)]
    changed = [f"{file} has another md5 than published" for file in other]
    what = ", ".join([*missing, *changed]) or "a file cannot be read"
    return UserError(
        f"{name} in {root} is incomplete or damaged and cannot be downloaded again ({_cause(error)}): {what}; "
        f"put {source.files} there again"
    )


def _key(source: _Source, root: Path) -> str:
    """Return a digest of a dataset's files; "" without any."""
    files = [file for pattern in source.patterns for file in sorted(root.glob(pattern))]
    return digest(root, files) if files else ""


def _decoded(source: _Source, part: str, root: Path) -> ArraySource:
    """Return "train" or "test" of a dataset as torchvision downloads, checks and decodes it, with its labels and classes."""
    from torchvision import datasets

    try:
        arguments = {"split": part} if source.by_split else {"train": part == "train"}
        data = getattr(datasets, source.name)(root, download=True, **arguments)
    except Exception as error:  # of the network, of the disk, of a file that is cut short
        raise _unreadable(source, root, error) from error
    pixels = np.asarray(data.data)
    if pixels.ndim == 3:
        pixels = pixels[:, None]
    elif source.name.startswith("CIFAR"):
        pixels = pixels.transpose(0, 3, 1, 2)
    labels = np.asarray(data.labels if source.by_split else data.targets).astype(np.int64).tolist()
    classes = [str(name).split(" - ")[0] for name in getattr(data, "classes", ())]

    def parts(_: ArraySource) -> Iterator[np.ndarray]:
        yield from (pixels[start : start + _CHUNK] for start in range(0, len(pixels), _CHUNK))

    return ArraySource(pixels.shape, parts, {"labels": labels, "classes": classes})


def _torchvision(source: _Source, split: str, seed: int, classes: tuple[str, ...] = ()) -> Images:
    """Return a split of a dataset that torchvision downloads and checks; `valid` is drawn from `train`, by class and seed.

    classes: the names of its classes where torchvision has none that it checks. The decoded images are cached until the files
    change.
    """
    root, part = images_folder(), "test" if split == "test" else "train"
    make = partial(_decoded, source, part, root)
    if not _key(source, root):
        check_folder(root, "CLASSWISE_IMAGES" if os.environ.get("CLASSWISE_IMAGES") else "the folder of images")
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f".{source.name}.lock"):
            if not _key(source, root):  # else another process has downloaded it meanwhile
                make()  # downloads
    pixels, _, metadata = cached(root, f"{source.name}.{part}", _key(source, root), make)
    labels = torch.tensor(metadata["labels"])
    images = Images(torch.from_numpy(pixels), labels, torch.arange(len(labels)), classes or tuple(metadata["classes"]))
    return cut(images, split, seed)


def mnist(split: str, seed: int) -> Images:
    """Return MNIST (1x28x28; 60,000 and 10,000 images): the seed decides which 2 % of the training images validate."""
    return _torchvision(_Source("MNIST", ("MNIST/raw/*-ubyte",), "MNIST/raw/ with its four idx files"), split, seed)


def fashion_mnist(split: str, seed: int) -> Images:
    """Return Fashion-MNIST (1x28x28; 60,000 and 10,000 images of clothes): the seed decides which 2 % validate."""
    return _torchvision(
        _Source("FashionMNIST", ("FashionMNIST/raw/*-ubyte",), "FashionMNIST/raw/ with its four idx files"), split, seed
    )


def svhn(split: str, seed: int) -> Images:
    """Return SVHN (3x32x32; 73,257 and 26,032 house numbers): the seed decides which 2 % of the training images validate."""
    files = ("train_32x32.mat", "test_32x32.mat")
    return _torchvision(_Source("SVHN", files, " and ".join(files), by_split=True), split, seed, class_names("svhn"))


def cifar10(split: str, seed: int) -> Images:
    """Return CIFAR-10 (3x32x32; 50,000 and 10,000 images): the seed decides which 2 % of the training images validate."""
    return _torchvision(_Source("CIFAR10", ("cifar-10-batches-py/*",), "cifar-10-batches-py/"), split, seed)


def cifar100(split: str, seed: int) -> Images:
    """Return CIFAR-100 (3x32x32; 50,000 and 10,000 images): the seed decides which 2 % of the training images validate."""
    return _torchvision(_Source("CIFAR100", ("cifar-100-python/*",), "cifar-100-python/"), split, seed)


def stl10(split: str, seed: int) -> Images:
    """Return the labelled images of STL-10 (3x96x96; 5,000 and 8,000): the seed decides which 2 % of the first validate."""
    source = _Source("STL10", ("stl10_binary/*",), "stl10_binary/", by_split=True)
    return _torchvision(source, split, seed, class_names("stl10"))  # torchvision does not check the file with their names
