"""Images by the name of their dataset, with a background, or with a path and options in the name; transforms by theirs."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pkgutil import resolve_name
from typing import Any, get_type_hints
from urllib.parse import parse_qsl

import pandas as pd
import torch
import xarray as xr
from torch import Tensor

from classwise.core import datasets
from classwise.core.datasets import DATASETS, datasets_with_options, split_background
from classwise.core.errors import UserError, check_known, unknown
from classwise.core.options import matches_type
from classwise.core.paths import find_image_folder
from classwise.images import backgrounds
from classwise.images.corruptions import CORRUPTIONS, SEVERITIES, cifar10_c, corrupt
from classwise.images.images import SPLITS, Images

Reader = Callable[[str, int], Images]
_FIXED = ("split", "seed", "path", "return")
# Options whose spelling in the names of datasets, by which results are known, is not that of the parameter.
_SPELLING = {"all_test": "whole"}


def _with_background(split: str, seed: int, *, base: Reader, background: str) -> Images:
    images = base(split, seed)
    return replace(images, pixels=backgrounds.BACKGROUNDS[background](images.pixels, images.labels, images.index))


def reader(dataset: str) -> Reader:
    """Return what reads a split of a dataset by its seed; a UserError names an unknown dataset or option.

    dataset: a name of DATASETS, with a background after it (`digits-apart`), or where the dataset takes them a path
    (`folder:PATH`) and options (`?size=64&skip-bad=1`).
    """
    datasets.check(dataset)
    base, background = split_background(dataset)
    name, _, query = base.partition("?")
    kind, _, path = name.partition(":")
    function = DATASETS[kind].reader
    read: Reader = resolve_name(function) if isinstance(function, str) else function
    read = partial(read, **_options(kind, read, path, query)) if kind != base else read
    return partial(_with_background, base=read, background=background) if background else read


def _options(kind: str, function: Callable[..., Images], path: str, query: str) -> dict[str, object]:
    """Return the keyword arguments that a dataset's name gives to the function that reads it."""
    hints = {name: hint for name, hint in get_type_hints(function).items() if name not in _FIXED}
    names = {_SPELLING.get(name, name.replace("_", "-")): name for name in hints}
    options: dict[str, object] = {"path": path} if path else {}
    for option, value in parse_qsl(query, keep_blank_values=True):
        check_known(f"option of {kind}", [option], names)
        options[names[option]] = _value(f"{kind}?{option}", value, hints[names[option]])
    return options


def _value(option: str, value: str, hint: Any) -> object:
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
    """Return a dataset's name with any path in it made absolute, so that it names the same images in any folder."""
    name, mark, query = dataset.partition("?")
    kind, colon, path = name.partition(":")
    present = colon and kind in datasets_with_options() and find_image_folder(path).is_dir()
    return f"{kind}:{find_image_folder(path).resolve()}{mark}{query}" if present else dataset


def load(dataset: str, split: str, seed: int = 0, device: torch.device | str = "cpu") -> Images:
    """Return one split ("train", "valid" or "test") of a dataset for a `seed`, on `device`.

    A UserError names what is unknown, and a class without any image, whose accuracy is undefined.
    """
    read = reader(dataset)
    check_known("split", [split], SPLITS)
    images = read(split, seed)
    sizes = images.labels.bincount(minlength=len(images.classes)).tolist()
    lacking = ", ".join(name for name, size in zip(images.classes, sizes, strict=True) if not size)
    if lacking:
        sentence = f"{dataset} has too few images of class {lacking} for the split {split!r}: none is left"
        raise UserError(f"{sentence}, at least 1 is needed; leave the class out with classes=... or add images")
    return images.to(device)


Transform = Callable[[Images, int], Images]


def _levels(prefix: str, change: Callable[[str, int, Images, int], Images]) -> dict[str, Transform]:
    return {f"{prefix}{name}-{severity}": partial(change, name, severity) for name in CORRUPTIONS for severity in SEVERITIES}


def _replaced_background(change: Callable[[Tensor, int], Tensor], images: Images, seed: int) -> Images:
    return replace(images, pixels=change(images.pixels, seed))


# Functions of images and a seed. "fog-3" is computed; "cifar10-c-fog-3" is read from the published files, which gives other
# results.
TRANSFORMS: dict[str, Transform] = {
    "none": lambda images, seed: images,
    **_levels("", lambda name, severity, images, seed: corrupt(images, name, severity, seed)),
    **_levels("cifar10-c-", lambda name, severity, images, seed: cifar10_c(images, name, severity)),
    **{name: partial(_replaced_background, change) for name, change in backgrounds.REPLACED.items()},
}


def transform(name: str) -> Transform:
    """Return a transform by its name in TRANSFORMS; a UserError names the nearest one."""
    if name in TRANSFORMS:
        return TRANSFORMS[name]
    kinds = list(dict.fromkeys(re.sub(r"-[1-5]$", "", known) for known in TRANSFORMS if not known.startswith("cifar10-c-")))
    if name.removeprefix("cifar10-c-") in CORRUPTIONS:
        raise UserError(f"transform {name!r} needs a severity from 1 to 5; write '{name}-3'")
    problem = str(unknown("transform", name, TRANSFORMS)).split("; there are:")[0]
    raise UserError(f"{problem}; there are: {', '.join(kinds)}, corruptions with -1 to -5 after the name")


def transformed(pixels: xr.DataArray, names: Sequence[str], seed: int = 0) -> xr.DataArray:
    """Return images, their pixels (image, channel, row, column) from 0 to 1, by each transform along a new first dimension.

    What a transform draws at random is drawn for these images alone, otherwise than in evaluations with the same seed.
    """
    places = torch.arange(len(pixels))
    images = Images(torch.tensor(pixels.values).mul(255).round().byte(), 0 * places, places, ("any",))
    parts = [pixels.copy(data=transform(name)(images, seed).pixels.numpy() / 255) for name in names]
    return xr.concat(parts, pd.Index(names, name="transform"))
