"""Corruptions by sensors, cameras and image files. Images are float32 (n, channels, height, width) in [0, 1].

Results may leave that range.
"""

from io import BytesIO

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Generator, Tensor

from classwise.images.corruptions.blur import smooth


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


def contrast(x: Tensor, severity: int, generator: Generator) -> Tensor:
    """Move each channel towards its mean."""
    mean = x.mean((2, 3), keepdim=True)
    return (x - mean) * (0.75, 0.5, 0.4, 0.3, 0.15)[severity - 1] + mean


def saturate(x: Tensor, severity: int, generator: Generator) -> Tensor:
    """Change the saturation of hue, saturation and value; grey, which has no hue, counts as red."""
    factor, more = ((0.3, 0.0), (0.1, 0.0), (1.5, 0.0), (2.0, 0.1), (2.5, 0.2))[severity - 1]
    value = x.amax(1, keepdim=True)
    span = value - x.amin(1, keepdim=True)
    saturation = span / value.clamp(min=1e-8)
    wanted = (saturation * factor + more).clamp(0, 1)
    # The distance of each channel from the value, relative to the span: equivalent to the hue.
    red = torch.tensor([0.0, 1.0, 1.0], device=x.device).view(1, 3, 1, 1)
    below = torch.where(span > 0, (value - x) / span.clamp(min=1e-8), red)
    return value * (1 - below * wanted)


def jpeg(x: Tensor, severity: int, generator: Generator) -> Tensor:
    """Compress as JPEG, on the CPU."""
    quality, read = (80, 65, 58, 50, 40)[severity - 1], []
    for image in (x * 255).round().to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy():
        file = BytesIO()
        Image.fromarray(image.squeeze(-1) if x.shape[1] == 1 else image).save(file, "JPEG", quality=quality)
        read.append(np.asarray(Image.open(file)).reshape(image.shape))
    return torch.from_numpy(np.stack(read)).permute(0, 3, 1, 2).to(x.device) / 255


def pixelate(x: Tensor, severity: int, generator: Generator) -> Tensor:
    """Shrink and enlarge with a box filter."""
    share = (0.95, 0.9, 0.85, 0.75, 0.65)[severity - 1]

    def boxed(start: int, end: int) -> Tensor:
        """Return the matrix with which PIL's box filter resizes a line of pixels."""
        lines = Image.fromarray(np.eye(start, dtype=np.float32)).resize((start, end), Image.Resampling.BOX)
        return torch.from_numpy(np.array(lines)).to(x)

    (high, wide), (low, narrow) = x.shape[-2:], [int(side * share) for side in x.shape[-2:]]
    # PIL resizes rows first and rounds to integers after each direction.
    for start, end, across in ((wide, narrow, True), (high, low, False), (narrow, wide, True), (low, high, False)):
        matrix = boxed(start, end)
        x = ((x @ matrix.T if across else matrix @ x) * 255).round() / 255
    return x


def elastic(x: Tensor, severity: int, generator: Generator) -> Tensor:
    """Apply a random affine map, given by three points, then shift each pixel by a smooth random field.

    The published constants are shares of the image side, which is 32 pixels there.
    """
    alpha, sigma, reach = ((0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03))[
        severity - 1
    ]
    count, _, high, wide = x.shape
    side = min(high, wide)
    rows, columns = torch.meshgrid(*(torch.arange(size, device=x.device, dtype=x.dtype) for size in (high, wide)), indexing="ij")
    middle, span = torch.tensor([wide // 2, high // 2], device=x.device, dtype=x.dtype), side // 3
    corners = middle + span * torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]], device=x.device)
    drawn = 2 * torch.rand(count, 3, 2, generator=generator, device=x.device) - 1
    placed = torch.cat([corners + reach * side * drawn, torch.ones(count, 3, 1, device=x.device)], 2)
    back = torch.linalg.solve(placed, corners.expand(count, -1, -1))
    points = torch.stack([columns, rows, torch.ones_like(rows)], -1) @ back[:, None]
    x = _sampled(x, points[..., 0], points[..., 1], edge_repeated=False)
    if not alpha:
        return x
    shift = 2 * torch.rand(2, count, high, wide, generator=generator, device=x.device) - 1
    shift = smooth(shift, sigma * side, mode="reflect", truncate=3) * alpha * side
    return _sampled(x, columns + shift[0], rows + shift[1], edge_repeated=True)


def _sampled(x: Tensor, columns: Tensor, rows: Tensor, *, edge_repeated: bool) -> Tensor:
    """Return images sampled bilinearly at positions (n, height, width), reflected at the edge, which is repeated or not."""
    high, wide = x.shape[-2:]
    if edge_repeated:
        grid = torch.stack([(2 * columns + 1) / wide - 1, (2 * rows + 1) / high - 1], -1)
    else:
        grid = torch.stack([2 * columns / (wide - 1) - 1, 2 * rows / (high - 1) - 1], -1)
    return F.grid_sample(x, grid, padding_mode="reflection", align_corners=not edge_repeated)
