"""Spatter of water or mud on the lens."""

import numpy as np
import torch
from torch import Generator, Tensor

from classwise.images.corruptions.blur import smooth

_WATER, _MUD = (175, 238, 238), (63, 42, 20)


def spatter(x: Tensor, severity: int, generator: Generator) -> Tensor:
    """Put drops of water (severities 1 to 3) or mud (4 and 5) on images float32 (n, channels, height, width) in [0, 1].

    The drops follow the published steps by scipy and torchvision in place of OpenCV, whose chamfer distance and thinning of edges
    differ in detail.
    """
    mean, spread, sigma, least, share, mud = (
        (0.62, 0.1, 0.7, 0.7, 0.5, False),
        (0.65, 0.1, 0.8, 0.7, 0.5, False),
        (0.65, 0.3, 1.0, 0.69, 0.5, False),
        (0.65, 0.1, 0.7, 0.69, 0.6, True),
        (0.65, 0.1, 0.5, 0.68, 0.6, True),
    )[severity - 1]
    liquid = mean + spread * torch.randn(len(x), *x.shape[-2:], generator=generator, device=x.device)
    liquid = smooth(liquid, sigma)
    liquid = torch.where(liquid < least, 0, liquid)
    colour = torch.tensor(_MUD if mud else _WATER, device=x.device).view(1, 3, 1, 1) / 255
    colour = colour if x.shape[1] == 3 else colour.mean(1, keepdim=True)
    if mud:
        cover = smooth((liquid > least).to(x.dtype), share)
        cover = torch.where(cover < 0.8, 0, cover)[:, None]
        return x * (1 - cover) + cover * colour
    drops = (liquid.clamp(0, 1) * 255).floor()
    shine = drops * _shine(drops).to(x)
    shine = shine / shine.amax((1, 2), keepdim=True).clamp(min=1e-8)
    return x + share * shine[:, None] * colour


def _shine(drops: Tensor) -> Tensor:
    """Return how drops (n, height, width) of whole values to 255 shine: by the distance from their edge, lit from one side."""
    from scipy import ndimage
    from torchvision.transforms.v2 import functional

    edges = _edges(drops.cpu().numpy())
    # Images lie so far apart that none is near an edge of another.
    far = ndimage.distance_transform_edt(~edges, sampling=(1e6, 1, 1)) if edges.any() else np.full(edges.shape, 20.0)
    soft = ndimage.uniform_filter(far.clip(max=20), size=(1, 3, 3), mode="mirror").astype(np.uint8)
    even = functional.equalize(torch.from_numpy(soft)[:, None])[:, 0].numpy().astype(np.float64)
    light = np.array([[[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]])
    lit = ndimage.correlate(even, light, mode="mirror").clip(0, 255)
    return torch.from_numpy(np.round(ndimage.uniform_filter(lit, size=(1, 3, 3), mode="mirror")))


def _edges(maps: np.ndarray) -> np.ndarray:
    """Return where maps (n, height, width) have an edge, after Canny (1986): thinned, over 50 where it leads to one over 150."""
    from scipy import ndimage

    across = np.array([1.0, 2.0, 1.0])
    down = ndimage.correlate1d(ndimage.correlate1d(maps, [-1, 0, 1], axis=1, mode="nearest"), across, axis=2, mode="nearest")
    right = ndimage.correlate1d(ndimage.correlate1d(maps, [-1, 0, 1], axis=2, mode="nearest"), across, axis=1, mode="nearest")
    strength = np.abs(down) + np.abs(right)
    padded = np.pad(strength, ((0, 0), (1, 1), (1, 1)))

    def beside(row: int, column: int) -> np.ndarray:
        return padded[:, 1 + row : 1 + row + maps.shape[1], 1 + column : 1 + column + maps.shape[2]]

    tangent = np.tan(np.pi / 8)
    level, upright = np.abs(down) <= tangent * np.abs(right), np.abs(right) <= tangent * np.abs(down)
    falling = down * right >= 0
    ridges = [(level, 0, 1), (upright, 1, 0), (~level & ~upright & falling, 1, 1), (~level & ~upright & ~falling, 1, -1)]
    crest = np.zeros(maps.shape, bool)
    for here, row, column in ridges:
        crest |= here & (strength > beside(-row, -column)) & (strength >= beside(row, column))
    weak = crest & (strength > 50)
    return np.asarray(ndimage.binary_propagation(weak & (strength > 150), structure=np.ones((1, 3, 3), bool), mask=weak))
