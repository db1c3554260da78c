"""The architecture of a state dict, guessed from the shapes of its tensors."""

import math
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache

import torch
from torch import Tensor

from classwise.models.architecture import LARGE
from classwise.models.classifier import MODELS, make

Shapes = Counter[tuple[int, ...]]
# Image sizes to try. Models with linear layers over pixels (_SIZED) fit a single size.
_SIDES = (8, 28, 32, 64, LARGE)
_SIZED = ("small-cnn", "lenet", "mnist-cnn")


def guess_architecture(state: Mapping[str, Tensor]) -> list[str]:
    """Return the models most similar to a state dict, best first, as "resnet18 of width 64 for 10 classes".

    Similarity is the share of tensors whose shapes occur in both, whatever their names; models without any are left out.
    """
    shapes = Counter(tuple(value.shape) for value in state.values() if value.ndim > 0)
    convs = [shape for shape in shapes if len(shape) == 4]
    channels, (classes, features) = min((shape[1] for shape in convs), default=3), last_layer(state)
    published = {case: _made(*case, channels, classes, MODELS[case[0]].width) for case in _cases()}
    sizes = {case: abs(other.total() - shapes.total()) for case, (other, _) in published.items()}
    similarity: dict[tuple[str, int], float] = {}
    for name, side in sorted(sizes, key=lambda case: sizes[case])[:8]:
        design = MODELS[name]
        # Features are proportional to the width, except in _SIZED models: there all numbers of channels are tried.
        widths = {design.width, round(features * design.width / published[name, side][1])}
        widths |= {shape[0] for shape in convs} if name in _SIZED else set()
        for width in sorted(width for width in widths if width > 0 and width % design.step == 0):
            other = _made(name, side, channels, classes, width)[0]
            score = 2 * (shapes & other).total() / max(shapes.total() + other.total(), 1)
            similarity[name, width] = max(score, similarity.get((name, width), 0.0))
    best = sorted((case for case in similarity if similarity[case] > 0), key=lambda case: -similarity[case])
    widths_of = dict(reversed(best))  # the best width of each model
    return [f"{name} of width {widths_of[name]} for {classes} classes" for name in dict.fromkeys(name for name, _ in best)]


def width(name: str, state: Mapping[str, Tensor], shape: tuple[int, int, int]) -> int:
    """Return the width of a model of MODELS that a state dict holds, for images (channels, height, width).

    It follows from the features of the last layer, which are proportional to it; for small models, from the first convolution.
    """
    design, (classes, features) = MODELS[name], last_layer(state)
    if name in _SIZED:
        return next((len(value) for value in state.values() if value.ndim == 4), design.width)
    published = _made(name, max(shape[1:]), shape[0], classes, design.width)[1]
    return max(round(features * design.width / published), 1)


def parameters(name: str, state: Mapping[str, Tensor], shape: tuple[int, int, int], width: int) -> tuple[int, int]:
    """Return the number of weights of a model of MODELS of some width, and that of a state dict; no memory is taken."""
    made, _ = _made(name, max(shape[1:]), shape[0], last_layer(state)[0], width)
    return sum(math.prod(form) * times for form, times in made.items()), sum(value.numel() for value in state.values())


def _cases() -> list[tuple[str, int]]:
    """Return the models and image sizes to try."""
    cases = [(name, side) for name in _SIZED for side in _SIDES if side >= MODELS[name].least]
    return cases + [(name, side) for name in MODELS if name not in _SIZED for side in (32, LARGE)]


def last_layer(state: Mapping[str, Tensor]) -> tuple[int, int]:
    """Return the classes and features of the last layer: of a matrix with the name of one, else of the last in the file."""
    matrices = {name: value.shape for name, value in state.items() if value.ndim == 2}
    if not matrices:
        return 10, 1
    named = [name for name in matrices if re.search(r"(^|\.)(head|linear|fc3?|logits|classifier(\.6|\.fc3)?)\.weight$", name)]
    classes, features = matrices[(named or list(matrices))[-1]]
    return classes, features


@cache
def _made(name: str, side: int, channels: int, classes: int, width: int) -> tuple[Shapes, int]:
    """Return the shapes of a model's tensors and its number of features."""
    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        parts = make(name, (channels, side, side), classes, width)
    shapes = Counter(tuple(value.shape) for part in parts for value in part.state_dict().values() if value.ndim > 0)
    return shapes, parts[1].in_features
