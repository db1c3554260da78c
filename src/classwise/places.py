"""Folders: of the project, of its data, of its images."""

import hashlib
import os
from pathlib import Path

import classwise


def checkout() -> Path:
    """Return the root of the project: the folder of the checkout that this package runs from, else the current one."""
    root = Path(classwise.__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").exists() else Path.cwd()


def data_folder() -> Path:
    """Return the folder of all data: CLASSWISE_DATA, by default data/ in the checkout."""
    return Path(os.environ.get("CLASSWISE_DATA") or checkout() / "data")


def images_folder() -> Path:
    """Return the folder of downloaded images: CLASSWISE_IMAGES, by default images/ in the data folder."""
    return Path(os.environ.get("CLASSWISE_IMAGES") or data_folder() / "images")


def own_images(path: str) -> Path:
    """Return the folder that a dataset's name gives: in CLASSWISE_IMAGES, else from the current folder."""
    given = Path(path).expanduser()
    inside = images_folder() / given
    return next((found for found in (inside, given) if found.is_dir()), inside)


def contents(dataset: str, *, times: bool = False) -> str:
    """Return what tells the files of a `folder:PATH` from others: a digest of names and sizes, and with `times` of changes.

    "" for other datasets, which are published and do not change, and for a folder that is not here.
    """
    kind, _, path = dataset.partition("?")[0].partition(":")
    if kind != "folder" or not own_images(path).is_dir():
        return ""
    root, digest = own_images(path), hashlib.sha256()
    for place, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for file in sorted(Path(place, name) for name in files if not name.startswith(".")):
            told = file.stat()
            digest.update(f"{file.relative_to(root)} {told.st_size} {told.st_mtime_ns if times else ''}\n".encode())
    return digest.hexdigest()[:16]


def build_folder() -> Path:
    """Return the folder of everything that is made from sources and results."""
    return checkout() / "build"
