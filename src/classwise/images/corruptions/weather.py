"""Weather corruptions. Images are float32 (n, channels, height, width) in [0, 1]; results may leave that range."""

import numpy as np
import torch
from torch import Generator, Tensor

from classwise.images.corruptions.blur import blur_along_line, magnify, smooth


def plasma(count: int, size: int, decay: float, generator: Generator) -> Tensor:
    """Return fractal clouds (count, side, side) in [0, 1], by midpoint displacement; side: the next power of two from `size` up.

    Squares, then diamonds, get the mean of their corners plus a random shift whose range shrinks by `decay` squared per halving.
    """
    side = 1 << (size - 1).bit_length()
    cloud = torch.zeros(count, side, side, device=generator.device)
    step, reach = side, 100.0

    def shifted(total: Tensor) -> Tensor:
        return total / 4 + reach**2 * (2 * torch.rand(total.shape, generator=generator, device=total.device) - 1)

    while step >= 2:
        half = step // 2
        corners = cloud[:, ::step, ::step].clone()
        pairs = corners + corners.roll(-1, 1)
        middles = shifted(pairs + pairs.roll(-1, 2))
        cloud[:, half::step, half::step] = middles
        cloud[:, ::step, half::step] = shifted(middles + middles.roll(1, 1) + corners + corners.roll(-1, 2))
        cloud[:, half::step, ::step] = shifted(middles + middles.roll(1, 2) + corners + corners.roll(-1, 1))
        step, reach = half, reach / decay
    low = cloud.amin((1, 2), keepdim=True)
    return (cloud - low) / (cloud - low).amax((1, 2), keepdim=True)


def _over(x: Tensor, decay: float, generator: Generator) -> Tensor:
    """Return a cloud for each image, (n, 1, height, width)."""
    return plasma(len(x), max(x.shape[-2:]), decay, generator)[:, None, : x.shape[-2], : x.shape[-1]]


def fog(x: Tensor, severity: int, generator: Generator) -> Tensor:
    """Add a fractal cloud and rescale to the original maximum."""
    most, decay = ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75))[severity - 1]
    brightest = x.amax((1, 2, 3), keepdim=True)
    return (x + most * _over(x, decay, generator)) * brightest / (brightest + most)


def frost(x: Tensor, severity: int, generator: Generator) -> Tensor:
    """Overlay frost: ridges of a fractal in bluish white, not the photographs that the published files were made with.

    The weights of image and frost are the published ones. The photographs may not be redistributed, so results differ from those
    of the published files, which "cifar10-c-frost-5" reads.
    """
    weight, share = ((1.0, 0.2), (1.0, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))[severity - 1]
    ridges = 1 - (2 * _over(x, 1.4, generator) - 1).abs()
    tint = torch.tensor([0.8, 0.9, 1.0], device=x.device).view(1, 3, 1, 1)
    return weight * x + share * (0.25 + 0.75 * ridges**2) * (tint if x.shape[1] == 3 else tint.mean())


def snow(x: Tensor, severity: int, generator: Generator) -> Tensor:
    """Whiten an image and overlay motion-blurred snowflakes."""
    from torchvision.transforms.v2 import functional

    mean, spread, factor, least, radius, sigma, weight = (
        (0.1, 0.2, 1.0, 0.6, 8, 3.0, 0.95),
        (0.1, 0.2, 1.0, 0.5, 10, 4.0, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4.0, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6.0, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12.0, 0.8),
    )[severity - 1]
    flakes = mean + spread * torch.randn(len(x), 1, *x.shape[-2:], generator=generator, device=x.device)
    flakes = magnify(flakes, factor)
    flakes = torch.where(flakes < least, 0, flakes).clamp(0, 1)
    angle = torch.rand(len(x), generator=generator, device=x.device) * 90 - 135
    flakes = blur_along_line(flakes, radius, sigma, angle)
    grey = functional.rgb_to_grayscale(x) if x.shape[1] == 3 else x
    white = weight * x + (1 - weight) * torch.maximum(x, grey * 1.5 + 0.5)
    return white + flakes + flakes.rot90(2, (2, 3))


def brightness(x: Tensor, severity: int, generator: Generator) -> Tensor:
    """Raise the value of hue, saturation and value."""
    value = x.amax(1, keepdim=True)
    raised = (value + (0.05, 0.1, 0.15, 0.2, 0.3)[severity - 1]).clamp(max=1)
    # Scaling all channels alike keeps hue and saturation; black becomes grey.
    return torch.where(value > 0, x * raised / value.clamp(min=1e-8), raised)


_WATER, _MUD = (175, 238, 238), (63, 42, 20)


def spatter(x: Tensor, severity: int, generator: Generator) -> Tensor:
    """Overlay drops of water (severities 1 to 3) or mud (4 and 5).

    The drops follow the published steps, with scipy and torchvision in place of OpenCV, whose chamfer distance and edge thinning
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
    """Return the highlights of drops (n, height, width), integers up to 255, lit from one side."""
    from scipy import ndimage
    from torchvision.transforms.v2 import functional

    edges = _edges(drops.cpu().numpy())
    # The sampling separates images so far that no edge of one is near another.
    far = ndimage.distance_transform_edt(~edges, sampling=(1e6, 1, 1)) if edges.any() else np.full(edges.shape, 20.0)
    soft = ndimage.uniform_filter(far.clip(max=20), size=(1, 3, 3), mode="mirror").astype(np.uint8)
    even = functional.equalize(torch.from_numpy(soft)[:, None])[:, 0].numpy().astype(np.float64)
    light = np.array([[[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]])
    lit = ndimage.correlate(even, light, mode="mirror").clip(0, 255)
    return torch.from_numpy(np.round(ndimage.uniform_filter(lit, size=(1, 3, 3), mode="mirror")))


def _edges(maps: np.ndarray) -> np.ndarray:
    """Return the edges of maps (n, height, width) after Canny (1986): thinned, above 50 where connected to one above 150."""
    from scipy import ndimage

    sobel = np.outer([-1.0, 0.0, 1.0], [1.0, 2.0, 1.0])
    down, right = (ndimage.correlate(maps, kernel[None], mode="nearest") for kernel in (sobel, sobel.T))
    strength = np.abs(down) + np.abs(right)
    padded = np.pad(strength, ((0, 0), (1, 1), (1, 1)))

    def neighbour(row: int, column: int) -> np.ndarray:
        return padded[:, 1 + row : 1 + row + maps.shape[1], 1 + column : 1 + column + maps.shape[2]]

    tangent = np.tan(np.pi / 8)
    level, upright = np.abs(down) <= tangent * np.abs(right), np.abs(right) <= tangent * np.abs(down)
    falling = down * right >= 0
    ridges = [(level, 0, 1), (upright, 1, 0), (~level & ~upright & falling, 1, 1), (~level & ~upright & ~falling, 1, -1)]
    crest = np.zeros(maps.shape, bool)
    for here, row, column in ridges:
        crest |= here & (strength > neighbour(-row, -column)) & (strength >= neighbour(row, column))
    weak = crest & (strength > 50)
    return np.asarray(ndimage.binary_propagation(weak & (strength > 150), structure=np.ones((1, 3, 3), bool), mask=weak))
