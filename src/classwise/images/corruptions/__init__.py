"""The 15 + 4 corruptions of CIFAR-10-C at five severities, with the constants for small images (Hendrycks and Dietterich 2019).

Each is a function of images float32 (n, channels, height, width) in [0, 1], a severity from 1 to 5 and a generator on their
device. The constants are those for CIFAR's 32 x 32 pixels at every image size: on larger images most corruptions are milder
than ImageNet-C's.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Generator, Tensor

from classwise.core.datasets import class_names
from classwise.core.errors import UserError, check_known
from classwise.core.paths import images_folder
from classwise.images.corruptions import blur, digital, weather
from classwise.images.images import Images

__all__ = ["CORRUPTIONS", "SEVERITIES", "cifar10_c", "corrupt"]

SEVERITIES = (1, 2, 3, 4, 5)
# Images per batch; another number draws other noise.
_BATCH = 500
_SMALLEST = 8

CORRUPTIONS: dict[str, Callable[[Tensor, int, Generator], Tensor]] = {
    "gaussian-noise": digital.gaussian,
    "shot-noise": digital.shot,
    "impulse-noise": digital.impulse,
    "defocus-blur": blur.defocus,
    "glass-blur": blur.glass,
    "motion-blur": blur.motion,
    "zoom-blur": blur.zoom,
    "snow": weather.snow,
    "frost": weather.frost,
    "fog": weather.fog,
    "brightness": weather.brightness,
    "contrast": digital.contrast,
    "elastic-transform": digital.elastic,
    "pixelate": digital.pixelate,
    "jpeg-compression": digital.jpeg,
    # The four corruptions reserved for choosing hyper-parameters.
    "speckle-noise": digital.speckle,
    "gaussian-blur": blur.gaussian,
    "spatter": weather.spatter,
    "saturate": digital.saturate,
}


def corrupt(images: Images, name: str, severity: int, seed: int) -> Images:
    """Return the same images corrupted: `name` of CORRUPTIONS, `severity` 1 to 5, the randomness drawn from `seed`.

    Equal images, seed and kind of device give equal results. A UserError names an unknown corruption, and images that are not
    greyscale or RGB of at least 8 x 8 pixels.
    """
    check_known("corruption", [name], CORRUPTIONS)
    if severity not in SEVERITIES:
        raise UserError(f"{name} has the severities 1 to 5, got {severity}")
    channels, high, wide = images.shape
    if channels not in (1, 3) or min(high, wide) < _SMALLEST:
        got = f"{channels} x {high} x {wide}"
        raise UserError(f"corruptions need images of 1 or 3 channels and at least 8 x 8 pixels, got {got}")
    if name == "saturate" and channels == 1:
        raise UserError("saturate needs images in colour, got grey ones; use brightness or contrast")
    generator = Generator(images.pixels.device).manual_seed(seed)
    parts = (CORRUPTIONS[name](x, severity, generator) for x, _ in images.batches(_BATCH))
    # Pixels are truncated to integers, as published; 1e-3 makes up for the rounding of float32.
    truncated = [(x.clamp(0, 1) * 255 + 1e-3).to(torch.uint8) for x in parts]
    return replace(images, pixels=torch.cat(truncated) if truncated else images.pixels)


_COUNT, _AGAIN = 10_000, "unpack CIFAR-10-C.tar again"


def cifar10_c(images: Images, name: str, severity: int) -> Images:
    """Return CIFAR-10 test images from the published file of a corruption ("fog", 1 to 5), from CIFAR-10-C/ in CLASSWISE_IMAGES.

    A UserError is raised for missing files, and for files of other images (Hendrycks and Dietterich 2019).
    """
    folder = images_folder() / "CIFAR-10-C"
    file = folder / f"{name.replace('-', '_')}.npy"
    try:
        pixels, labels = (np.load(path, mmap_mode="r", allow_pickle=False) for path in (file, folder / "labels.npy"))
    except FileNotFoundError as error:
        advice = "unpack CIFAR-10-C.tar (zenodo.org/records/2535967) into CLASSWISE_IMAGES"
        raise UserError(f"there is no {error.filename}; {advice}, or use '{name}-{severity}', which is computed") from None
    except (ValueError, EOFError, OSError) as error:
        raise UserError(f"{file} or labels.npy in its folder is not an array of images ({error}); {_AGAIN}") from None
    if pixels.shape != (5 * _COUNT, 32, 32, 3) or pixels.dtype != np.uint8 or labels.shape != (5 * _COUNT,):
        raise UserError(f"{file} holds {pixels.dtype} {pixels.shape}, expected uint8 (50000, 32, 32, 3); {_AGAIN}")
    places, names = images.index.cpu().numpy(), class_names("cifar10")
    fits = not len(places) or (places.min() >= 0 and places.max() < _COUNT)
    if not fits or [names[label] for label in labels[places]] != [images.classes[label] for label in images.labels.tolist()]:
        raise UserError(f"{file} shows the test images of CIFAR-10, not the requested ones; use dataset='cifar10', split='test'")
    rows = torch.from_numpy(np.asarray(pixels[(severity - 1) * _COUNT + places])).permute(0, 3, 1, 2).contiguous()
    return replace(images, pixels=rows.to(images.pixels.device))
