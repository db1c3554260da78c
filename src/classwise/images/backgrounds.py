"""Backgrounds: coloured by class, cluttered, or replaced (Tian 2021, section 6.2).

Pixels are uint8 (n, channels, height, width) throughout; functions of drawings expect light ink on black.
"""

import hashlib
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from classwise.core.errors import UserError

# Red, yellow, green, blue, magenta: corners of the colour cube, so that any two differ by 1 in some channel and no attack with a
# radius below .5 turns one into another. The ink is white on the darker three and black on yellow and magenta, so that it differs
# by 1 from each in exactly two channels: white ink on yellow stands out in blue alone, and adversarially trained networks never
# learnt to distinguish the pairs on yellow and magenta.
COLOURS = ((255, 0, 0), (255, 255, 0), (0, 255, 0), (0, 0, 255), (255, 0, 255))
_BLACK_INK = (False, True, False, False, True)
WHITE = 255

# How dark a cluttered background may get, as a share, and how many are drawn; image i has the i-th.
_DEPTH, _DRAWN = 0.55, 4096
# Pixels with at least a quarter of full ink are the object, which is darker than any background.
_INK, _DARK = 64, 0.3


def neighbours(labels: Tensor) -> Tensor:
    """Return the colour index of each label if neighbours share a colour: 0 and 1, 2 and 3, ... (as in Figure 5a)."""
    return labels // 2 % len(COLOURS)


def apart(labels: Tensor) -> Tensor:
    """Return the colour index of each label if 0 and 5, 1 and 6, ... share a colour: the control for `neighbours`."""
    return labels % len(COLOURS)


def colour_background(ink: Tensor, colour: Tensor) -> Tensor:
    """Return drawings with three channels, in white or black ink on backgrounds of COLOURS[colour]; `colour` (n,) holds indices.

    ink: pixels with one channel, the amount of ink.
    """
    behind = torch.tensor(COLOURS, dtype=torch.float32, device=ink.device)[colour].view(-1, 3, 1, 1)
    black = torch.tensor(_BLACK_INK, device=ink.device)[colour].view(-1, 1, 1, 1)
    share, front = ink.float() / 255, torch.where(black, 0.0, 255.0)
    return (front * share + (1 - share) * behind).round().to(torch.uint8)


def extract_ink(pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the ink of coloured drawings, (n, 1, height, width), and the index of the background colour of each."""
    inks = [255 - pixels.amax(1, keepdim=True) if black else pixels.amin(1, keepdim=True) for black in _BLACK_INK]
    count, device = len(pixels), pixels.device
    # Redrawn on its true colour, a drawing does not change.
    redrawn = (colour_background(ink, torch.full((count,), number, device=device)) for number, ink in enumerate(inks))
    colour = torch.stack([(drawing.int() - pixels.int()).abs().flatten(1).sum(1) for drawing in redrawn]).argmin(0)
    return torch.stack(inks)[colour, torch.arange(count, device=device)], colour


def swap_background(pixels: Tensor) -> Tensor:
    """Return coloured drawings, each on the next of COLOURS: the shape of one class on the background of another."""
    ink, colour = extract_ink(pixels)
    return colour_background(ink, (colour + 1) % len(COLOURS))


def clutter_background(pixels: Tensor, index: Tensor) -> Tensor:
    """Return drawings as dark ink on patches of 2 x 2 light grey pixels, (n, 1, height, width).

    Image `index` always has the same patches; some backgrounds are light and uniform, others dark and uneven.
    """
    generator = torch.Generator().manual_seed(0)
    high, wide = (-(-size // 2) for size in pixels.shape[2:])
    depth, patches = torch.rand(_DRAWN, 1, 1, 1, generator=generator), torch.rand(_DRAWN, 1, high, wide, generator=generator)
    behind = (1 - _DEPTH * depth * patches)[index.cpu() % _DRAWN].repeat_interleave(2, 2).repeat_interleave(2, 3)
    behind = behind[..., : pixels.shape[2], : pixels.shape[3]].to(pixels.device)
    dark = _DARK * (1 - pixels.float() / 255)
    return (255 * torch.where(pixels >= _INK, dark, behind)).round().to(torch.uint8)


def nearly_grey(pixels: Tensor) -> Tensor:
    """Return images of the two middle greys, the darker one where the image is dark: within a radius of .5 of every image."""
    return torch.where(pixels < 128, 127, 128).to(torch.uint8)


def object_mask(pixels: Tensor) -> Tensor:
    """Return the mask of the object, bool (n, height, width): the dark ink of a cluttered drawing; in a photograph, by GrabCut.

    GrabCut (Rother et al. 2004) replaces the masks that the paper's authors drew by hand: it starts from the middle of the image
    as object and its edge as background. A UserError is raised for drawings without dark ink.
    """
    if pixels.shape[1] == 3:
        return _cut_out(pixels)
    dark = pixels[:, 0] < round(255 * _DARK)
    if not 0 < float(dark.float().mean()) < 0.6:
        raise UserError("these drawings are not dark ink on light backgrounds; use digits-cluttered or photographs in colour")
    return dark


def paint_background(pixels: Tensor, value: int) -> Tensor:
    """Return images whose background has the same value, 0 to 255, in all channels."""
    return torch.where(object_mask(pixels)[:, None], pixels, torch.tensor(value, dtype=torch.uint8, device=pixels.device))


def flatten_background(pixels: Tensor) -> Tensor:
    """Return images whose background is uniform, in its mean colour: the control for white ones, which are uniform too."""
    behind = ~object_mask(pixels)[:, None]
    mean = (pixels * behind).flatten(2).sum(2, dtype=torch.float32) / behind.flatten(2).sum(2).clamp_min(1)
    return torch.where(behind, mean.round().to(torch.uint8)[..., None, None], pixels)


def half_painted(pixels: Tensor, seed: int) -> Tensor:
    """Return images in which a random half of the background pixels is white: light, but not uniform."""
    chance = torch.rand(len(pixels), 1, *pixels.shape[2:], generator=torch.Generator().manual_seed(seed)).to(pixels.device)
    white = ~object_mask(pixels)[:, None] & (chance < 0.5)
    return torch.where(white, torch.tensor(WHITE, dtype=torch.uint8, device=pixels.device), pixels)


def whiteness(pixels: Tensor) -> Tensor:
    """Return the mean lightness of the background, 0 to 1, float32 (n,); NaN for an image without background."""
    behind = ~object_mask(pixels)
    light = pixels.float().amin(1) / 255
    return (light * behind).flatten(1).sum(1) / behind.flatten(1).sum(1)


# Distances from the middle as shares of the shorter side: up to _CORE all is object; up to _REACH it may be.
_CORE, _REACH, _ROUNDS = 7 / 32, 15 / 32, 5
_cut: dict[str, Tensor] = {}


def _cut_out(pixels: Tensor) -> Tensor:
    """Return the object masks of photographs (n, 3, height, width), computed once per process for the same photographs."""
    array = pixels.cpu().permute(0, 2, 3, 1).contiguous().numpy()
    key = hashlib.sha256(array.tobytes()).hexdigest()
    if key not in _cut:
        _cut[key] = torch.from_numpy(np.stack([_grab(image) for image in array]))
    return _cut[key].to(pixels.device)


def _grab(image: np.ndarray) -> np.ndarray:
    import cv2

    high, wide = image.shape[:2]
    rows, columns = np.ogrid[:high, :wide]
    away = np.hypot(rows - (high - 1) / 2, columns - (wide - 1) / 2) / min(high, wide)
    mask = np.where(away <= _REACH, cv2.GC_PR_FGD, cv2.GC_PR_BGD).astype(np.uint8)
    mask[[0, -1]] = mask[:, [0, -1]] = cv2.GC_BGD
    mask[away <= _CORE] = cv2.GC_FGD
    cv2.setRNGSeed(0)
    cv2.grabCut(image, mask, (0, 0, 0, 0), np.zeros((1, 65)), np.zeros((1, 65)), _ROUNDS, cv2.GC_INIT_WITH_MASK)
    return np.isin(mask, (cv2.GC_FGD, cv2.GC_PR_FGD))


# Backgrounds of datasets: pixels, labels and index in, pixels out. One whose pixels change gets another name, since the name is
# part of the identity of a run.
BACKGROUNDS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "neighbours": lambda pixels, labels, index: colour_background(pixels, neighbours(labels)),
    "apart": lambda pixels, labels, index: colour_background(pixels, apart(labels)),
    "cluttered": lambda pixels, labels, index: clutter_background(pixels, index),
}

# Transforms of an evaluation: pixels and a seed in, pixels out.
REPLACED: dict[str, Callable[[Tensor, int], Tensor]] = {
    "white-background": lambda pixels, seed: paint_background(pixels, WHITE),
    "flat-background": lambda pixels, seed: flatten_background(pixels),
    "half-white-background": half_painted,
    "swapped-colours": lambda pixels, seed: swap_background(pixels),
    "nearly-grey": lambda pixels, seed: nearly_grey(pixels),
}
