"""Which of our models a state dict looks like, by the shapes of its tensors."""

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache

import torch
from torch import Tensor

from classwise.models.architecture import LARGE
from classwise.models.classifier import MODELS, make

Shapes = Counter[tuple[int, ...]]
# The sizes of images that models are tried for: those whose layers count the pixels fit one size alone.
_SIDES = (8, 28, 32, 64, LARGE)
_COUNTING = ("small-cnn", "lenet", "mnist-cnn")


def guess_architecture(state: Mapping[str, Tensor], count: int = 3) -> list[str]:
    """Return the models nearest to a state dict, the nearest first, as "resnet18 of width 64 for 10 classes".

    Near is the share of tensors whose shapes occur in both, whatever their names; nothing where none is shared.
    """
    shapes = Counter(tuple(value.shape) for value in state.values() if value.ndim > 0)
    convs = [shape for shape in shapes if len(shape) == 4]
    channels, (classes, features) = min((shape[1] for shape in convs), default=3), last_layer(state)
    published = {case: _made(*case, channels, classes, MODELS[case[0]].width) for case in _tried()}
    sizes = {case: abs(other.total() - shapes.total()) for case, (other, _) in published.items()}
    found: dict[tuple[str, int], float] = {}
    for name, side in sorted(sizes, key=lambda case: sizes[case])[:8]:
        design = MODELS[name]
        # Features grow in proportion to the width, save where the layers count pixels: there each count of channels is tried.
        widths = {design.width, round(features * design.width / published[name, side][1])}
        widths |= {shape[0] for shape in convs} if name in _COUNTING else set()
        for width in sorted(one for one in widths if one > 0 and one % design.step == 0):
            near = _near(shapes, _made(name, side, channels, classes, width)[0])
            found[name, width] = max(near, found.get((name, width), 0.0))
    best = sorted((case for case in found if found[case] > 0), key=lambda case: -found[case])
    nearest = dict(reversed(best))  # of each model the width that comes nearest
    names = list(dict.fromkeys(name for name, _ in best))[:count]
    return [f"{name} of width {nearest[name]} for {classes} classes" for name in names]


def width(name: str, state: Mapping[str, Tensor], shape: tuple[int, int, int]) -> int:
    """Return the width of a model of MODELS that a state dict holds, for images (channels, height, width).

    It is read off the features of the last layer, which grow in proportion; of the small models, off the first convolution.
    """
    design, (classes, features) = MODELS[name], last_layer(state)
    if name in _COUNTING:
        return next((len(value) for value in state.values() if value.ndim == 4), design.width)
    published = _made(name, max(shape[1:]), shape[0], classes, design.width)[1]
    return max(round(features * design.width / published), 1)


def _tried() -> list[tuple[str, int]]:
    cases = [(name, side) for name in _COUNTING for side in _SIDES if side >= MODELS[name].least]
    return cases + [(name, side) for name in MODELS if name not in _COUNTING for side in (32, LARGE)]


def last_layer(state: Mapping[str, Tensor]) -> tuple[int, int]:
    """Return the classes and features of the last layer: of the matrix named like one, else of the last in the file."""
    matrices = {name: value.shape for name, value in state.items() if value.ndim == 2}
    if not matrices:
        return 10, 1
    named = [name for name in matrices if re.search(r"(^|\.)(head|linear|fc3?|logits|classifier(\.6|\.fc3)?)\.weight$", name)]
    classes, features = matrices[(named or list(matrices))[-1]]
    return classes, features


@cache
def _made(name: str, side: int, channels: int, classes: int, width: int) -> tuple[Shapes, int]:
    """Return the shapes of the tensors of a model, and how many features it has."""
    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        parts = make(name, (channels, side, side), classes, width)
    found = Counter(tuple(value.shape) for part in parts for value in part.state_dict().values() if value.ndim > 0)
    return found, parts[1].in_features


def _near(one: Shapes, other: Shapes) -> float:
    return 2 * (one & other).total() / max(one.total() + other.total(), 1)
