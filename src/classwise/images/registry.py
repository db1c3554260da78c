"""The table of datasets, and names with a path and options in them."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, get_type_hints
from urllib.parse import parse_qsl

import torch

from classwise.core.errors import UserError, unknown
from classwise.core.options import matches_type
from classwise.core.paths import find_image_folder
from classwise.images import backgrounds, folders, standard
from classwise.images.images import SPLITS, Images

Reader = Callable[[str, int], Images]
# Datasets whose name may go on with a path and options: folder:signs?size=64, tiny-imagenet:tiny20, imagenet?size=128.
FAMILIES: dict[str, Callable[..., Images]] = {
    "folder": folders.folder,
    "tiny-imagenet": folders.tiny_imagenet,
    "imagenet": folders.imagenet,
}


def _dressed(split: str, seed: int, *, base: Reader, dress: str) -> Images:
    """Return a split of a dataset before other backgrounds."""
    images = base(split, seed)
    return replace(images, pixels=backgrounds.BACKGROUNDS[dress](images.pixels, images.labels, images.index))


_DRAWINGS: dict[str, Reader] = {"digits": standard.digits, "mnist": standard.mnist}
DATASETS: dict[str, Reader] = {
    "digits": standard.digits,
    "mnist": standard.mnist,
    "fashion-mnist": standard.fashion_mnist,
    "svhn": standard.svhn,
    "cifar10": standard.cifar10,
    "cifar100": standard.cifar100,
    "stl10": standard.stl10,
    "tiny-imagenet": folders.tiny_imagenet,
    "imagenet": folders.imagenet,
    **{
        f"{n}-{dress}": partial(_dressed, base=one, dress=dress)
        for n, one in _DRAWINGS.items()
        for dress in backgrounds.BACKGROUNDS
    },
}
_FIXED = ("split", "seed", "path", "return")


def reader(dataset: str) -> Reader:
    """Return what reads a split of a dataset by its seed; a UserError names an unknown dataset or option of one.

    dataset: a name of DATASETS, or one of FAMILIES with a path (`folder:PATH`) and options (`?size=64&skip-bad=1`).
    """
    if dataset in DATASETS:
        return DATASETS[dataset]
    name, _, asked = dataset.partition("?")
    kind, _, path = name.partition(":")
    if kind in DATASETS and kind not in FAMILIES:
        raise UserError(f"dataset {dataset!r}: {kind} takes no path or options, {', '.join(FAMILIES)} do; write {kind!r}")
    if kind not in FAMILIES:
        raise unknown("dataset", dataset, [*DATASETS, "folder:PATH"])
    if kind == "folder" and not path:
        raise UserError(f"dataset {dataset!r} names no folder; write folder:PATH, like folder:data/images/signs?size=64")
    hints = {name.replace("_", "-"): hint for name, hint in get_type_hints(FAMILIES[kind]).items() if name not in _FIXED}
    options: dict[str, object] = {"path": path} if path else {}
    for option, value in parse_qsl(asked, keep_blank_values=True):
        if option not in hints:
            raise unknown(f"option of {kind}", option, hints)
        options[option.replace("-", "_")] = _value(f"{kind}?{option}", value, hints[option])
    return partial(FAMILIES[kind], **options)


def _value(option: str, value: str, hint: Any) -> object:
    """Return an option of a dataset as its function takes it; a UserError says what was expected."""
    if hint is bool:
        if value not in ("0", "1"):
            raise UserError(f"{option}={value!r} must be 0 or 1")
        return value == "1"
    if matches_type(1, hint):
        if not (value.isdigit() and int(value) > 0):
            raise UserError(f"{option}={value!r} must be a whole number above 0")
        return int(value)
    return value


def absolute(dataset: str) -> str:
    """Return a dataset's name with the path in it, if there is one, made absolute, so that it means the same from any folder."""
    name, mark, asked = dataset.partition("?")
    kind, colon, path = name.partition(":")
    there = colon and kind in FAMILIES and find_image_folder(path).is_dir()
    return f"{kind}:{find_image_folder(path).resolve()}{mark}{asked}" if there else dataset


def load(dataset: str, split: str, seed: int = 0, device: torch.device | str = "cpu") -> Images:
    """Return one split ("train", "valid" or "test") of a dataset as `seed` cuts it, on `device`."""
    read = reader(dataset)
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    return require_every_class(read(split, seed), dataset, split).to(device)


def require_every_class(images: Images, dataset: str, split: str) -> Images:
    """Return the images of a split; a UserError names a class that has none, whose accuracy nobody could tell."""
    sizes = images.labels.bincount(minlength=len(images.classes))
    lacking = [name for name, size in zip(images.classes, sizes.tolist(), strict=True) if not size]
    if lacking:
        sentence = f"{dataset} has too few images of class {', '.join(lacking)} for the split {split!r}: none is left"
        raise UserError(f"{sentence}, at least 1 is needed; leave the class out with classes=... or add images")
    return images
