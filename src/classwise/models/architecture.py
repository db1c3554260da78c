"""What a model is before it is built: how it is made, how wide the published one is, the smallest image it takes."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

Shape = tuple[int, int, int]

# From this height and width on a network has the stem of its ImageNet form, which shrinks the image by four at once; below, the
# stem that the field gives it for CIFAR-10. STL-10 (96 pixels) is trained with all the settings of CIFAR-10 (Tian 2021, A.1);
# the phases of ImageNet begin at 128 pixels (Wong et al. 2020).
LARGE = 128


@dataclass(frozen=True)
class Design:
    """How a model is made: `make(shape, classes, width)` returns its body and its linear head, freshly initialised.

    width: the published number of channels of the first stage; every other number of channels follows in proportion, so that
    half the width is about a quarter of the parameters. step: what a width must be a multiple of, for that to come out even.
    least: the smallest height and width of an image in pixels.
    """

    make: Callable[[Shape, int, int], tuple[nn.Module, nn.Linear]]
    width: int
    step: int = 1
    least: int = 1


def large(shape: Shape) -> bool:
    """Return whether images of a shape get the ImageNet form of a network."""
    return min(shape[1:]) >= LARGE
