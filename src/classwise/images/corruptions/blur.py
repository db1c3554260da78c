"""Corruptions that blur. Images are float32 (n, channels, height, width) in [0, 1]."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor


def smooth(x: Tensor, sigma: float, mode: str = "nearest", truncate: float = 4.0) -> Tensor:
    """Return maps (..., height, width) after scipy's Gaussian filter, applied as matrices to the whole batch on its device."""
    from scipy.ndimage import gaussian_filter1d

    def matrix(size: int) -> Tensor:
        filtered = gaussian_filter1d(np.eye(size), sigma, axis=0, mode=mode, truncate=truncate)
        return torch.from_numpy(filtered).to(x.device, x.dtype)

    return matrix(x.shape[-2]) @ x @ matrix(x.shape[-1]).T


def gaussian(x: Tensor, severity: int, generator: Generator) -> Tensor:
    """Blur by a Gaussian."""
    return smooth(x, (0.4, 0.6, 0.7, 0.8, 1.0)[severity - 1])


def glass(x: Tensor, severity: int, generator: Generator) -> Tensor:
    """Blur, replace each pixel by one to its upper left, once or twice, and blur again.

    The published loop is meant to swap neighbours. It starts at the lower right and its offsets are -1 or 0, so that each pixel
    gets a value not yet changed, and the other half of the swap is lost: one gather is equivalent.
    """
    sigma, times = ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2))[severity - 1]
    x = (smooth(x, sigma) * 255 + 1e-3).floor() / 255
    count, _, high, wide = x.shape
    rows, columns = torch.arange(2, high, device=x.device)[:, None], torch.arange(2, wide, device=x.device)
    which = torch.arange(count, device=x.device)[:, None, None]
    for _ in range(times):
        shift = torch.randint(-1, 1, (2, count, high - 2, wide - 2), generator=generator, device=x.device)
        moved = x.clone()
        moved[:, :, 2:, 2:] = x.permute(0, 2, 3, 1)[which, rows + shift[0], columns + shift[1]].permute(0, 3, 1, 2)
        x = moved
    return smooth(x, sigma)


def defocus(x: Tensor, severity: int, generator: Generator) -> Tensor:
    """Blur by a disk with a soft edge."""
    radius, soft = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1))[severity - 1]
    reach = math.floor(radius) + 1
    places = torch.arange(-reach, reach + 1, device=x.device, dtype=x.dtype)
    disk = (places[:, None] ** 2 + places**2 <= radius**2).to(x.dtype)
    bell = torch.exp(-(places[reach - 1 : reach + 2] ** 2) / (2 * soft**2))
    bell = bell / bell.sum()
    kernel = F.conv2d((disk / disk.sum())[None, None], (bell[:, None] * bell)[None, None], padding=1)
    return F.conv2d(F.pad(x.flatten(0, 1)[:, None], [reach] * 4, mode="reflect"), kernel).view_as(x)


def blur_along_line(x: Tensor, radius: int, sigma: float, angle: Tensor) -> Tensor:
    """Return images blurred along a line at an `angle` in degrees (n,), as by ImageMagick's motion blur.

    A one-sided Gaussian of 2 x radius + 1 taps, each at the nearest whole pixel; the edge is repeated.
    """
    count, _, high, wide = x.shape
    rows, columns = torch.arange(high, device=x.device), torch.arange(wide, device=x.device)
    which = torch.arange(count, device=x.device)[:, None, None]
    taps = torch.exp(-(torch.arange(2 * radius + 1, dtype=torch.float64) ** 2) / (2 * sigma**2))
    turn, last, total = torch.deg2rad(angle), x.permute(0, 2, 3, 1), torch.zeros_like(x.permute(0, 2, 3, 1))
    for step, weight in enumerate((taps / taps.sum()).tolist()):
        down = torch.ceil(step * turn.sin() - 0.5).long()[:, None]
        right = torch.ceil(step * turn.cos() - 0.5).long()[:, None]
        shifted = (rows + down).clamp(0, high - 1)[:, :, None], (columns + right).clamp(0, wide - 1)[:, None, :]
        total = total + weight * last[which, *shifted]
    return total.permute(0, 3, 1, 2)


def motion(x: Tensor, severity: int, generator: Generator) -> Tensor:
    """Blur along a line at an angle of up to 45 degrees."""
    radius, sigma = ((6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5))[severity - 1]
    angle = torch.rand(len(x), generator=generator, device=x.device) * 90 - 45
    return (blur_along_line(x, radius, sigma, angle) * 255).round() / 255


def magnify(x: Tensor, factor: float) -> Tensor:
    """Return the middle of images, enlarged bilinearly by a factor of at least 1, at the original size."""
    size = x.shape[-2:]
    cut = [math.ceil(side / factor) for side in size]
    top, left = ((side - part) // 2 for side, part in zip(size, cut, strict=True))
    middle = x[..., top : top + cut[0], left : left + cut[1]]
    large = F.interpolate(middle, [round(part * factor) for part in cut], mode="bilinear", align_corners=True)
    top, left = ((enlarged - side) // 2 for enlarged, side in zip(large.shape[-2:], size, strict=True))
    return large[..., top : top + size[0], left : left + size[1]]


def zoom(x: Tensor, severity: int, generator: Generator) -> Tensor:
    """Average an image with enlarged copies; sizes are rounded to pixels, so that severity 1 does not change 8 x 8 images."""
    factors = np.arange(1, (1.06, 1.11, 1.16, 1.21, 1.26)[severity - 1], 0.01).tolist()
    return (x + sum(magnify(x, factor) for factor in factors)) / (len(factors) + 1)
