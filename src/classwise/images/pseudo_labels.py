"""Pseudo-labelled images as additional training data."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from classwise.core.errors import UserError, unknown
from classwise.core.paths import images_folder
from classwise.images.images import Images


def extra_folders(name: str, classes: Sequence[str]) -> list[Path]:
    """Return the class folders in the folder `name` of CLASSWISE_IMAGES; a UserError names one that is no class."""
    root = images_folder() / name
    folders = sorted(path for path in root.glob("*") if path.is_dir())
    if not folders:
        raise UserError(f"there is no folder {root} with a folder of images for each class; put pseudo-labelled images there")
    for folder in folders:
        if folder.name not in classes:
            raise unknown(f"class in {root}", folder.name, classes)
    return folders


def extra(name: str, like: Images) -> Images:
    """Return pseudo-labelled images from the folder `name` in CLASSWISE_IMAGES, to be trained on together with `like`.

    It holds a folder for each class, named as in the dataset, with images of the dataset's size (RST, Carmon et al. 2019, whose
    500,000 images are no longer available). Their `index` counts down from -1. A UserError names what does not fit.
    """
    from PIL import Image

    pixels, labels = [], []
    channels, high, wide = like.shape
    for folder in extra_folders(name, like.classes):
        for path in sorted(path for path in folder.iterdir() if path.suffix.lower() in (".png", ".jpg", ".jpeg", ".bmp")):
            with Image.open(path) as image:
                array = np.asarray(image.convert("L" if channels == 1 else "RGB"))
            if array.shape[:2] != (high, wide):
                raise UserError(f"{path} is of {array.shape[0]} x {array.shape[1]} pixels, expected {high} x {wide}")
            pixels.append(array.reshape(high, wide, channels))
            labels.append(like.classes.index(folder.name))
    if not pixels:
        raise UserError(f"the folders in {images_folder() / name} hold no .png, .jpg or .bmp images")
    stacked = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).contiguous()
    images = Images(stacked, torch.tensor(labels), -1 - torch.arange(len(labels)), like.classes)
    return images.to(like.pixels.device)
