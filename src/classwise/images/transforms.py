"""Transforms that change images before an evaluation."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from classwise.core.errors import UserError, unknown
from classwise.images import backgrounds
from classwise.images.corruptions import CORRUPTIONS, SEVERITIES, cifar10_c, corrupt
from classwise.images.images import Images

Transform = Callable[[Images, int], Images]


def _corrupted(images: Images, seed: int, *, name: str, severity: int) -> Images:
    return corrupt(images, name, severity, seed)


def _published(images: Images, seed: int, *, name: str, severity: int) -> Images:
    return cifar10_c(images, name, severity)


def _replaced_background(images: Images, seed: int, *, name: str) -> Images:
    return replace(images, pixels=backgrounds.REPLACED[name](images.pixels, seed))


def _levels(prefix: str, change: Callable[..., Images]) -> dict[str, Transform]:
    return {f"{prefix}{name}-{level}": partial(change, name=name, severity=level) for name in CORRUPTIONS for level in SEVERITIES}


# Functions of images and a seed. "fog-3" is computed; "cifar10-c-fog-3" is read from the published files, which gives other
# results.
TRANSFORMS: dict[str, Transform] = {
    "none": lambda images, seed: images,
    **_levels("", _corrupted),
    **_levels("cifar10-c-", _published),
    **{name: partial(_replaced_background, name=name) for name in backgrounds.REPLACED},
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
