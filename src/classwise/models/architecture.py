"""Architectures: how a model is made, its published width, the smallest image that it takes."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

Shape = tuple[int, int, int]

# From this height and width on a network has the stem of its ImageNet form, which downsamples by four; below, the stem commonly
# used for CIFAR-10. STL-10 (96 pixels) is trained with all the settings of CIFAR-10 (Tian 2021, A.1); fast adversarial training
# on ImageNet begins with 128 pixels (Wong et al. 2020).
LARGE = 128


@dataclass(frozen=True)
class Design:
    """How a model is made: `make(shape, classes, width)` returns its body and its linear head, freshly initialised.

    width: the published number of channels of the first stage; all others scale in proportion, so that half the width has about a
    quarter of the parameters. step: widths must be multiples of it, so that all numbers of channels are integers. least: the
    smallest height and width of an image in pixels.
    """

    make: Callable[[Shape, int, int], tuple[nn.Module, nn.Linear]]
    width: int
    step: int = 1
    least: int = 1


def large(shape: Shape) -> bool:
    """Return whether networks for images of a shape have their ImageNet form."""
    return min(shape[1:]) >= LARGE
