"""Norm balls: the images within a radius of an image and inside [0, 1]."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from classwise.core.errors import UserError

# Tolerance for the rounding of a projected float32 image: a few units in the last place of 1.0.
TOLERANCE = 1e-6


def _broadcast(value: float | Tensor, x: Tensor) -> float | Tensor:
    """Return a single value unchanged, one value per image in a shape that broadcasts over the pixels of `x`."""
    return value.view(-1, *[1] * (x.ndim - 1)) if isinstance(value, Tensor) else value


@dataclass(frozen=True)
class Ball(ABC):
    """Base class of the balls; `name` is the name of the norm.

    radius: one number, or a tensor (n,) with one per image, in the units of the pixels.
    """

    radius: float | Tensor
    name: ClassVar[str]

    def __post_init__(self) -> None:
        if not isinstance(self.radius, int | float | Tensor):
            raise UserError(f"a radius is a number or a tensor, in pixels of 0 to 1, like 8 / 255; got {self.radius!r}")

    def select(self, images: Tensor) -> Self:
        """Return the ball of some images of the batch: `images` holds positions or is a mask."""
        return replace(self, radius=self.radius[images]) if isinstance(self.radius, Tensor) else self

    @abstractmethod
    def norm(self, delta: Tensor) -> Tensor:
        """Return the norm of each perturbation: (n, ...) -> (n,)."""

    @abstractmethod
    def sample(self, x: Tensor, generator: torch.Generator, *, surface: bool = False) -> Tensor:
        """Return random points of the ball around `x`, not clipped to [0, 1]; with `surface`, at the full radius."""

    @abstractmethod
    def step(self, x: Tensor, gradient: Tensor, size: float | Tensor) -> Tensor:
        """Return `x` after a step of steepest ascent of the given size in this norm: one number, or one per image."""

    @abstractmethod
    def project(self, x: Tensor, centre: Tensor) -> Tensor:
        """Return `x` projected onto the ball around `centre` and into [0, 1]."""

    def distance(self, x: Tensor, centre: Tensor) -> Tensor:
        """Return the distance of each image from its centre: (n, ...) -> (n,)."""
        return self.norm(x - centre)

    def contains(self, x: Tensor, centre: Tensor) -> Tensor:
        """Return whether each image lies in the ball and in [0, 1], up to float32 rounding: (n,) bool."""
        inside = self.distance(x, centre) <= self.radius + TOLERANCE
        flat = x.flatten(1)
        return inside & (flat.amin(1) >= -TOLERANCE) & (flat.amax(1) <= 1 + TOLERANCE)


@dataclass(frozen=True)
class Linf(Ball):
    """The Linf ball: no pixel changes by more than the radius."""

    name: ClassVar[str] = "linf"

    def norm(self, delta: Tensor) -> Tensor:
        return delta.flatten(1).abs().amax(1)

    def sample(self, x: Tensor, generator: torch.Generator, *, surface: bool = False) -> Tensor:
        noise = 2 * torch.rand(x.shape, generator=generator, device=x.device, dtype=x.dtype) - 1
        if surface:
            noise = noise / _broadcast(self.norm(noise), x)
        return x + _broadcast(self.radius, x) * noise

    def step(self, x: Tensor, gradient: Tensor, size: float | Tensor) -> Tensor:
        """Return `x` with every pixel moved by `size` along the sign of its gradient."""
        # torch.sign(nan) is 0: an attack on broken gradients would not move, and the model would look robust.
        return x + _broadcast(size, x) * gradient.sign().add_(gradient, alpha=0)

    def project(self, x: Tensor, centre: Tensor) -> Tensor:
        """Return the image nearest to `x` in the ball around `centre` and in [0, 1]."""
        radius = _broadcast(self.radius, x)
        return torch.clamp(x, centre - radius, centre + radius).clamp_(0, 1)


@dataclass(frozen=True)
class L2(Ball):
    """The L2 ball: the Euclidean norm of the perturbation is at most the radius."""

    name: ClassVar[str] = "l2"

    def norm(self, delta: Tensor) -> Tensor:
        norms: Tensor = torch.linalg.vector_norm(delta.flatten(1), dim=1)
        return norms

    def sample(self, x: Tensor, generator: torch.Generator, *, surface: bool = False) -> Tensor:
        noise = torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
        noise = noise / _broadcast(self.norm(noise), x)
        if not surface:
            share = torch.rand(len(x), generator=generator, device=x.device, dtype=x.dtype)
            noise = noise * _broadcast(share ** (1 / x[0].numel()), x)
        return x + _broadcast(self.radius, x) * noise

    def step(self, x: Tensor, gradient: Tensor, size: float | Tensor) -> Tensor:
        """Return `x` with each image moved by `size` along its normalised gradient; a zero gradient moves nothing."""
        norm = self.norm(gradient)
        return x + _broadcast(size, x) * gradient / _broadcast(torch.where(norm > 0, norm, 1.0), x)

    def project(self, x: Tensor, centre: Tensor) -> Tensor:
        """Return `x` scaled back to the ball around `centre`, then clipped to [0, 1], which only shortens the perturbation."""
        delta = x - centre
        shrink = (self.radius / self.norm(delta).clamp_min(1e-12)).clamp(max=1)
        return (centre + delta * _broadcast(shrink, x)).clamp(0, 1)


BALLS: dict[str, type[Linf] | type[L2]] = {Linf.name: Linf, L2.name: L2}
