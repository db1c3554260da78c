"""Pseudo-labelled images as additional training data."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from classwise.core.errors import UserError, unknown
from classwise.core.paths import images_folder
from classwise.images import decoding
from classwise.images.decoding import ImageFormat, Tree
from classwise.images.images import Images


def extra_folders(name: str, classes: Sequence[str]) -> list[Path]:
    """Return the class folders in the folder `name` of CLASSWISE_IMAGES; a UserError names one that is no class."""
    root = images_folder() / name
    folders = decoding.subfolders(root) if root.is_dir() else []
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
    root, names = images_folder() / name, [folder.name for folder in extra_folders(name, like.classes)]
    files, places = decoding.files_in(root, names)
    if not files:
        raise UserError(f"the folders in {root} hold no images; put pseudo-labelled images there")
    labels = tuple(like.classes.index(names[place]) for place in places)
    images = decoding.read(Tree(root, files, labels, like.classes), ImageFormat(channels=like.shape[0]))
    if images.shape != like.shape:
        sizes = [f"{high} x {wide}" for _, high, wide in (images.shape, like.shape)]
        raise UserError(f"the images in {root} are of {sizes[0]} pixels, expected {sizes[1]}; resize them")
    return replace(images, index=-1 - images.index).to(like.pixels.device)
