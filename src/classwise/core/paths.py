"""Folders of the project, its data and its images."""

import os
from pathlib import Path

import classwise


def checkout() -> Path:
    """Return the root of the checkout that this package runs from, or the current folder if there is none."""
    root = Path(classwise.__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").exists() else Path.cwd()


def data_folder() -> Path:
    """Return the folder of all data: CLASSWISE_DATA, by default data/ in the checkout."""
    return Path(os.environ.get("CLASSWISE_DATA") or checkout() / "data")


def images_folder() -> Path:
    """Return the folder of downloaded images: CLASSWISE_IMAGES, by default images/ in the data folder."""
    return Path(os.environ.get("CLASSWISE_IMAGES") or data_folder() / "images")


def find_image_folder(path: str) -> Path:
    """Return the folder that the name of a dataset gives, relative to CLASSWISE_IMAGES, else to the current folder."""
    given = Path(path).expanduser()
    inside = images_folder() / given
    return next((folder for folder in (inside, given) if folder.is_dir()), inside)


def build_folder() -> Path:
    """Return the folder of everything that is built from sources and results."""
    return checkout() / "build"
