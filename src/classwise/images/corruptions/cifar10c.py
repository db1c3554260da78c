"""CIFAR-10-C read from its published files."""

from dataclasses import replace

import numpy as np
import torch

from classwise.core.datasets import class_names
from classwise.core.errors import UserError
from classwise.core.paths import images_folder
from classwise.images.images import Images

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
