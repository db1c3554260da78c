"""Augmentation of training images: random crops and flips, on their device, in one batch operation."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from classwise.core.errors import UserError

# Padding in pixels on each side (all four papers).
_PAD = 4


def crop_flip(pixels: Tensor, generator: torch.Generator, *, reflect: bool = False) -> Tensor:
    """Return a batch (n, channels, height, width), randomly cropped after padding by 4 pixels and flipped horizontally.

    The padding is black (TRADES, MART, FAT, Rice), or with `reflect` the image mirrored at its edge (CFA). One gather serves the
    whole batch, in the type of the pixels, on their device. A UserError is raised for images too small to be reflected.
    """
    count, _, high, wide = pixels.shape
    if reflect and min(high, wide) <= _PAD:
        raise UserError(f"reflecting {_PAD} pixels needs images larger than that, got {high} x {wide}; use augment='crop-flip'")
    device = pixels.device
    shift = torch.randint(-_PAD, _PAD + 1, (2, count, 1), generator=generator, device=device)
    mirrored = torch.rand(count, 1, generator=generator, device=device) < 0.5
    rows = torch.arange(high, device=device) + shift[0]
    columns = torch.arange(wide, device=device).expand(count, -1)
    columns = torch.where(mirrored, columns.flip(1), columns) + shift[1]
    inside = ((rows >= 0) & (rows < high))[:, None, :, None] & ((columns >= 0) & (columns < wide))[:, None, None, :]
    rows, columns = _reflected(rows, high), _reflected(columns, wide)
    which = torch.arange(count, device=device)[:, None, None]
    moved = pixels.permute(0, 2, 3, 1)[which, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    return moved if reflect else moved * inside


def _reflected(places: Tensor, size: int) -> Tensor:
    """Return positions, those outside 0 to size - 1 reflected into it without repeating the edge."""
    return (size - 1) - ((size - 1) - places.abs()).abs()


Augmentation = Callable[[Tensor, torch.Generator], Tensor]
AUGMENTATIONS: dict[str, Augmentation] = {
    "none": lambda pixels, generator: pixels,
    "crop-flip": crop_flip,
    "crop-flip-reflect": partial(crop_flip, reflect=True),
}
