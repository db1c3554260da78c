"""Folders of the project, its data and its images."""

import os
import sysconfig
import tempfile
from pathlib import Path

import classwise
from classwise.core.errors import UserError

_ROOT = Path(classwise.__file__).resolve().parents[2]


def checkout() -> Path:
    """Return the root of the checkout that this package runs from, or the current folder if there is none."""
    return _ROOT if (_ROOT / "pyproject.toml").exists() else Path.cwd()


def data_folder() -> Path:
    """Return the folder of all data: CLASSWISE_DATA, by default data/ in the checkout."""
    return Path(os.environ.get("CLASSWISE_DATA") or checkout() / "data").expanduser()


def images_folder() -> Path:
    """Return the folder of downloaded images: CLASSWISE_IMAGES, by default images/ in the data folder."""
    return Path(os.environ.get("CLASSWISE_IMAGES") or data_folder() / "images").expanduser()


def find_image_folder(path: str) -> Path:
    """Return the folder that the name of a dataset gives, relative to CLASSWISE_IMAGES, else to the current folder."""
    given = Path(path).expanduser()
    inside = images_folder() / given
    return next((folder for folder in (inside, given) if folder.is_dir()), inside)


def is_users(file: Path) -> bool:
    """Return whether a file of code is a user's, neither of this package nor installed."""
    installed = [str(Path(__file__).parents[1]), *map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))]
    return not any(file.is_relative_to(folder) for folder in installed)


def check_data_folder(*, writing: bool = False) -> None:
    """Raise a UserError if the data folder is a file, or if nothing can be written to it."""
    name, folder = "CLASSWISE_DATA" if os.environ.get("CLASSWISE_DATA") else "the data folder", data_folder()
    if writing:
        check_folder(folder, name)
    elif folder.exists() and not folder.is_dir():
        raise UserError(f"{name} {folder} is a file; name a folder")


def check_folder(folder: Path, name: str) -> None:
    """Raise a UserError, which calls the folder `name`, if it cannot be made or nothing can be written to it.

    A folder that does not exist is not made.
    """
    place = folder.absolute()
    try:
        place = next(path for path in (place, *place.parents) if path.exists())
        with tempfile.TemporaryDirectory(prefix=".classwise-", dir=place):
            pass
    except NotADirectoryError:
        what = f"{folder} is a file" if place == folder.absolute() else f"{folder} cannot be made, since {place} is a file"
        raise UserError(f"{name} {what}; name a folder") from None
    except OSError as error:
        raise UserError(f"{name} {folder}: nothing can be written to {place} ({error.strerror}); name another folder") from None


def check_file(path: Path, name: str, advice: str) -> None:
    """Raise a UserError, which calls the file `name` and ends with `advice`, if it does not exist, or is a folder or a device."""
    if path.is_dir():
        raise UserError(f"{path} is a folder; {advice}")
    if not path.exists():
        raise UserError(f"there is no {name} {path}; {advice}")
    if not path.is_file():  # what a device or a pipe holds can be read once only
        raise UserError(f"{path} is no regular file; {advice}")


def build_folder() -> Path:
    """Return the folder of everything that is built from sources and results."""
    return checkout() / "build"
