"""Noise corruptions. Images are float32 (n, channels, height, width) in [0, 1]; results may leave that range."""

import torch
from torch import Generator, Tensor


def _normal(like: Tensor, generator: Generator) -> Tensor:
    return torch.randn(like.shape, generator=generator, device=like.device)


def gaussian(x: Tensor, severity: int, generator: Generator) -> Tensor:
    """Add normal noise."""
    return x + (0.04, 0.06, 0.08, 0.09, 0.10)[severity - 1] * _normal(x, generator)


def shot(x: Tensor, severity: int, generator: Generator) -> Tensor:
    """Draw each pixel from a Poisson distribution, like photon counts."""
    photons = (500, 250, 100, 75, 50)[severity - 1]
    return torch.poisson(x * photons, generator) / photons


def impulse(x: Tensor, severity: int, generator: Generator) -> Tensor:
    """Set a share of the values to 0 or 1."""
    amount = (0.01, 0.02, 0.03, 0.05, 0.07)[severity - 1]
    hit = torch.rand(x.shape, generator=generator, device=x.device) < amount
    salt = torch.rand(x.shape, generator=generator, device=x.device) < 0.5
    return torch.where(hit, salt.to(x.dtype), x)


def speckle(x: Tensor, severity: int, generator: Generator) -> Tensor:
    """Add normal noise proportional to the value."""
    return x + (0.06, 0.1, 0.12, 0.16, 0.2)[severity - 1] * x * _normal(x, generator)
