"""Trees of image files, a folder for each class: listed, decoded by PIL, resized by torchvision."""

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from classwise.core.errors import UserError
from classwise.images.cache import ArraySource, cached

# How many files are decoded at a time.
_CHUNK = 512
# Modes of PIL that hold grey alone, and those of more than eight bits.
_GREY, _DEEP = ("1", "L", "LA", "La"), ("I", "I;16", "I;16B", "I;16L", "I;16N")


@dataclass(frozen=True)
class Tree:
    """Image files with their labels: `files` in order, `labels` indexing `classes`, all below `root`."""

    root: Path
    files: tuple[Path, ...]
    labels: tuple[int, ...]
    classes: tuple[str, ...]


@dataclass(frozen=True)
class ImageFormat:
    """The form that images are brought to.

    height, width: None for that of the images, which must then agree. cropped: the shorter side is resized to this many pixels
    and the middle cut out, as torchvision's evaluation does; None to stretch. channels: 1 or 3; None for grey if all images are.
    """

    height: int | None = None
    width: int | None = None
    cropped: int | None = None
    channels: int | None = None

    @property
    def name(self) -> str:
        """What the form is called in the name of a file."""
        own = "as-is" if self.height is None else f"{self.height}x{self.width}"
        return own + (f"-of-{self.cropped}" if self.cropped else "") + (f"-{self.channels}" if self.channels else "")


@cache
def _formats() -> tuple[list[str], frozenset[str]]:
    """Return the formats that are opened and the endings of their files: all of PIL's but EPS, which runs a program."""
    Image.init()
    formats = [name for name in Image.OPEN if name != "EPS"]
    return formats, frozenset(ending for ending, name in Image.registered_extensions().items() if name in formats)


def subfolders(root: Path) -> list[Path]:
    """Return the folders in a folder by name, without hidden ones."""
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))


def files_in(folder: Path) -> list[str]:
    """Return the image files below a folder, as torchvision lists them."""
    from torchvision.datasets.folder import make_dataset

    endings = tuple(_formats()[1])
    listed = make_dataset(folder.parent, {folder.name: 0}, extensions=endings, allow_empty=True)
    return [path for path, _ in listed if not Path(path).name.startswith(".")]


def tree(root: Path) -> Tree:
    """Return the image files in the class folders of a folder, by name.

    A UserError names an empty class folder, and is raised where there are fewer than two.
    """
    folders = subfolders(root)
    if len(folders) < 2:
        found = f"the folder {folders[0].name}" if folders else "no folder"
        raise UserError(f"{root} holds {found}, expected a folder of images for each of at least two classes")
    listed = [files_in(folder) for folder in folders]
    empty = [folder.name for folder, files in zip(folders, listed, strict=True) if not files]
    if empty:
        raise UserError(f"the class folder {', '.join(empty)} in {root} holds no image; put images there or remove it")
    labels = [label for label, files in enumerate(listed) for _ in files]
    files = tuple(Path(file) for files in listed for file in files)
    return Tree(root, files, tuple(labels), tuple(folder.name for folder in folders))


def pixels(of: Tree, size: ImageFormat, *, skip_bad: bool = False) -> tuple[Tensor, Tensor]:
    """Return the images of a tree, uint8 (n, channels, height, width), and their places in it (n,), decoded once and kept.

    A UserError names and counts files that cannot be read, unless `skip_bad` leaves them out.
    """
    # Beside the tree rather than in it, where others would take the folder for a class.
    array, bad, _ = cached(of.root.parent, f"{of.root.name}.{size.name}", _key(of), partial(_making, of, size))
    places = torch.arange(len(array))
    if not bad:
        return torch.from_numpy(array), places
    if not skip_bad:
        first = "; ".join(f"{of.files[place].relative_to(of.root)} ({reason})" for place, reason in list(bad.items())[:3])
        more = ", ..." if len(bad) > 3 else ""
        counted = f"{len(bad)} of {len(array)} image files in {of.root} cannot be read"
        raise UserError(
            f"{counted}: {first}{more}; mend them, or skip them: ?skip-bad=1 after the dataset's name, --skip-bad of an audit"
        )
    good = torch.ones(len(array), dtype=torch.bool)
    good[list(bad)] = False
    return torch.from_numpy(array)[good], places[good]


def _key(of: Tree) -> str:
    """Return what changes when any file does."""
    digest = hashlib.sha256()
    for file in of.files:
        told = file.stat()
        digest.update(f"{file.relative_to(of.root)} {told.st_size} {told.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:12]


def _making(of: Tree, size: ImageFormat) -> ArraySource:
    if None in (size.height, size.channels):
        size = _agreed(of, size)
    assert size.channels is not None
    assert size.height is not None
    assert size.width is not None
    shape = (len(of.files), size.channels, size.height, size.width)
    return ArraySource(shape, partial(_decoded, of.files, size))


def _decoded(files: Sequence[Path], size: ImageFormat, making: ArraySource) -> Iterator[np.ndarray]:
    """Yield images in chunks; one that cannot be read is noted and is black."""
    with ThreadPoolExecutor() as pool:
        for start in range(0, len(files), _CHUNK):
            rows = np.zeros((len(files[start : start + _CHUNK]), *making.shape[1:]), np.uint8)
            for place, found in enumerate(pool.map(partial(_one, size=size), files[start : start + _CHUNK])):
                if isinstance(found, str):
                    making.bad[start + place] = found
                else:
                    rows[place] = found
            yield rows


def _one(file: Path, size: ImageFormat) -> np.ndarray | str:
    """Return one image (channels, height, width), or what is wrong with it."""
    try:
        with Image.open(file, formats=_formats()[0]) as image:
            image.load()
            return _formed(_eight_bits(image, size.channels), size)
    except UserError:
        raise
    except Exception as error:  # PIL raises a dozen kinds for a file that is cut short or foreign
        return _said(error)


def _said(error: Exception) -> str:
    return "no image" if "cannot identify" in str(error) else str(error) or type(error).__name__


def _eight_bits(image: Image.Image, channels: int | None) -> Image.Image:
    """Return an image in grey or colour of eight bits; transparency is left out, as torchvision does."""
    if image.mode == "F":
        raise ValueError("pixels are floating-point numbers of no known range")
    if image.mode in _DEEP:
        image = Image.fromarray(np.round(np.asarray(image).astype(np.float64).clip(0, 65535) / 257).astype(np.uint8))
    elif image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("L" if channels == 1 else "RGB")


def _formed(image: Image.Image, size: ImageFormat) -> np.ndarray:
    """Return an image (channels, height, width) in its form."""
    from torchvision.transforms.v2 import functional

    if size.height and size.width and (image.height, image.width) != (size.height, size.width):
        if size.cropped:
            image = functional.resize(image, [size.cropped], antialias=True)
            image = functional.center_crop(image, [size.height, size.width])
        else:
            image = functional.resize(image, [size.height, size.width], antialias=True)
    array = np.asarray(image)
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)


def _header(file: Path) -> tuple[str, tuple[int, int]] | None:
    """Return the mode and size of an image file, None where it has none."""
    try:
        with Image.open(file, formats=_formats()[0]) as image:
            return image.mode, (image.height, image.width)
    except Exception:  # what is wrong is told when it is decoded
        return None


def _agreed(of: Tree, size: ImageFormat) -> ImageFormat:
    """Return the form that all images of a tree have; a UserError names two of different size."""
    with ThreadPoolExecutor() as pool:
        headers = list(pool.map(_header, of.files))
    known = [(file, *header) for file, header in zip(of.files, headers, strict=True) if header is not None]
    if not known:
        raise UserError(f"none of the {len(of.files)} files in {of.root} can be read as an image; expected PNG, JPEG or the like")
    grey = all(mode in (*_GREY, *_DEEP) for _, mode, _ in known)
    told: dict[str, Any] = {"channels": size.channels or (1 if grey else 3)}
    if size.height is None:
        first, _, (height, width) = known[0]
        for file, _, other in known:
            if other != (height, width):
                sizes = f"{first.relative_to(of.root)} {height} x {width}, {file.relative_to(of.root)} {other[0]} x {other[1]}"
                raise UserError(
                    f"images in {of.root} differ in size ({sizes}); resize them with ?size=64 after the dataset's name"
                )
        told |= {"height": height, "width": width}
    return ImageFormat(told.get("height", size.height), told.get("width", size.width), size.cropped, told["channels"])
