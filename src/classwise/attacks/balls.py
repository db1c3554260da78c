"""The sets an attack may search: points within a radius of an image, under one norm, inside [0, 1].

A radius is one number for all images or a tensor of shape (n,) with one per image, in the units of the pixels.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from classwise.core.errors import UserError

# Rounding room of a projected float32 image: a few units in the last place of 1.0.
TOLERANCE = 1e-6


def _each(value: Tensor, x: Tensor) -> Tensor:
    """Return a value per image in a shape that broadcasts over the pixels of `x`."""
    return value.view(-1, *[1] * (x.ndim - 1))


def _all(value: float | Tensor, x: Tensor) -> float | Tensor:
    """Return one value for all images as it is, a value per image in a shape that broadcasts."""
    return _each(value, x) if isinstance(value, Tensor) else value


def _normal(x: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)


@dataclass(frozen=True)
class Ball(ABC):
    """What the two norms share."""

    radius: float | Tensor
    name: ClassVar[str]

    def __post_init__(self) -> None:
        if not isinstance(self.radius, int | float | Tensor):
            raise UserError(f"a radius is a number or a tensor, in pixels of 0 to 1, like 8 / 255; got {self.radius!r}")

    def at(self, images: Tensor) -> Self:
        """Return the ball of some of the images: `images` indexes the batch (positions or a mask)."""
        return replace(self, radius=self.radius[images]) if isinstance(self.radius, Tensor) else self

    @abstractmethod
    def length(self, delta: Tensor) -> Tensor:
        """Return the norm of each perturbation: (n, ...) -> (n,)."""

    @abstractmethod
    def sample(self, x: Tensor, generator: torch.Generator, *, surface: bool = False) -> Tensor:
        """Return random points of the ball round `x`, not clipped to [0, 1]; `surface` puts them at the full radius."""

    @abstractmethod
    def ascend(self, x: Tensor, gradient: Tensor, step: float | Tensor) -> Tensor:
        """Return `x` moved uphill by `step`, one number or one per image, as the norm measures it."""

    @abstractmethod
    def project(self, x: Tensor, centre: Tensor) -> Tensor:
        """Return `x` brought back into the ball round `centre` and into [0, 1]."""

    def distance(self, x: Tensor, centre: Tensor) -> Tensor:
        """Return how far each image is from its centre: (n, ...) -> (n,)."""
        return self.length(x - centre)

    def contains(self, x: Tensor, centre: Tensor) -> Tensor:
        """Return for each image whether it lies in the ball and in [0, 1], up to float32 rounding: (n,) bool."""
        inside = self.distance(x, centre) <= self.radius + TOLERANCE
        flat = x.flatten(1)
        return inside & (flat.amin(1) >= -TOLERANCE) & (flat.amax(1) <= 1 + TOLERANCE)


@dataclass(frozen=True)
class Linf(Ball):
    """Every pixel may move by at most the radius."""

    name: ClassVar[str] = "linf"

    def length(self, delta: Tensor) -> Tensor:
        return delta.flatten(1).abs().amax(1)

    def sample(self, x: Tensor, generator: torch.Generator, *, surface: bool = False) -> Tensor:
        noise = 2 * torch.rand(x.shape, generator=generator, device=x.device, dtype=x.dtype) - 1
        if surface:
            noise = noise / _each(self.length(noise), x)
        return x + _all(self.radius, x) * noise

    def ascend(self, x: Tensor, gradient: Tensor, step: float | Tensor) -> Tensor:
        """Return `x` moved uphill: every pixel by `step` along the sign of its gradient."""
        # torch.sign takes nan for 0: an attack on broken gradients would stand still, and its victim look robust.
        return x + _all(step, x) * (gradient.sign() + 0 * gradient)

    def project(self, x: Tensor, centre: Tensor) -> Tensor:
        """Return the nearest image to `x` in the ball round `centre` and in [0, 1]."""
        radius = _all(self.radius, x)
        return torch.minimum(torch.maximum(x, centre - radius), centre + radius).clamp(0, 1)


@dataclass(frozen=True)
class L2(Ball):
    """The Euclidean length of the perturbation is at most the radius."""

    name: ClassVar[str] = "l2"

    def length(self, delta: Tensor) -> Tensor:
        lengths: Tensor = torch.linalg.vector_norm(delta.flatten(1), dim=1)
        return lengths

    def sample(self, x: Tensor, generator: torch.Generator, *, surface: bool = False) -> Tensor:
        noise = _normal(x, generator)
        noise = noise / _each(self.length(noise), x)
        if not surface:
            share = torch.rand(len(x), generator=generator, device=x.device, dtype=x.dtype)
            noise = noise * _each(share ** (1 / x[0].numel()), x)
        return x + _all(self.radius, x) * noise

    def ascend(self, x: Tensor, gradient: Tensor, step: float | Tensor) -> Tensor:
        """Return `x` moved uphill: each image by the length `step` along its gradient (a zero gradient moves nothing)."""
        length = _each(self.length(gradient), x)
        return x + _all(step, x) * gradient / torch.where(length > 0, length, torch.ones_like(length))

    def project(self, x: Tensor, centre: Tensor) -> Tensor:
        """Return `x` pulled back to the ball round `centre`, then clipped to [0, 1] (clipping only shortens it)."""
        delta = x - centre
        length = self.length(delta)
        shrink = (self.radius / length.clamp_min(1e-12)).clamp(max=1)
        return (centre + delta * _each(shrink, x)).clamp(0, 1)


BALLS: dict[str, type[Linf] | type[L2]] = {Linf.name: Linf, L2.name: L2}
