"""Trees of image files with a folder for each class: listed, decoded by PIL, resized by torchvision."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from classwise.core.errors import UserError
from classwise.images.cache import ArraySource, cached, digest
from classwise.images.images import Images

# How many files are decoded at a time.
_CHUNK = 512
# Modes of PIL for greyscale images, and those with more than eight bits.
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
    """The format that images are converted to.

    height, width: None for those of the images, which must then agree. cropped: the shorter side is resized to this many pixels
    and the middle is cropped, as in torchvision's evaluation; None to stretch. channels: 1 or 3; None for 1 if all images are
    grey, else 3.
    """

    height: int | None = None
    width: int | None = None
    cropped: int | None = None
    channels: int | None = None

    @property
    def name(self) -> str:
        """The format as part of a file name."""
        size = "as-is" if self.height is None else f"{self.height}x{self.width}"
        return size + (f"-of-{self.cropped}" if self.cropped else "") + (f"-{self.channels}" if self.channels else "")


@cache
def _formats() -> tuple[list[str], frozenset[str]]:
    """Return the accepted formats and their file extensions: all of PIL's except EPS, which runs a program."""
    Image.init()
    formats = [name for name in Image.OPEN if name != "EPS"]
    return formats, frozenset(ending for ending, name in Image.registered_extensions().items() if name in formats)


def subfolders(root: Path) -> list[Path]:
    """Return the folders in a folder, sorted by name, without hidden ones."""
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))


def files_in(folder: Path) -> list[str]:
    """Return the image files below a folder in torchvision's order."""
    from torchvision.datasets.folder import make_dataset

    endings = tuple(_formats()[1])
    listed = make_dataset(folder.parent, {folder.name: 0}, extensions=endings, allow_empty=True)
    return [path for path, _ in listed if not Path(path).name.startswith(".")]


def tree(root: Path) -> Tree:
    """Return the image files in the class folders of a folder, sorted by name.

    A UserError is raised for an empty class folder, and for fewer than two of them.
    """
    folders = subfolders(root)
    if len(folders) < 2:
        content = f"the folder {folders[0].name}" if folders else "no folder"
        raise UserError(f"{root} holds {content}, expected a folder of images for each of at least two classes")
    listed = [files_in(folder) for folder in folders]
    empty = [folder.name for folder, files in zip(folders, listed, strict=True) if not files]
    if empty:
        raise UserError(f"the class folder {', '.join(empty)} in {root} holds no image; put images there or remove it")
    labels = [label for label, files in enumerate(listed) for _ in files]
    files = tuple(Path(file) for files in listed for file in files)
    return Tree(root, files, tuple(labels), tuple(folder.name for folder in folders))


def read(of: Tree, size: ImageFormat, *, skip_bad: bool = False) -> Images:
    """Return the images of a tree, with their positions in it as index, decoded once and cached.

    A UserError names and counts unreadable files, unless `skip_bad` leaves them out.
    """
    # Next to the tree rather than in it, where the cache would look like a class folder.
    array, bad, _ = cached(of.root.parent, f"{of.root.name}.{size.name}", digest(of.root, of.files), partial(_source, of, size))
    images = Images(torch.from_numpy(array), torch.tensor(of.labels), torch.arange(len(array)), of.classes)
    if not bad:
        return images
    if not skip_bad:
        first = "; ".join(f"{of.files[place].relative_to(of.root)} ({reason})" for place, reason in list(bad.items())[:3])
        more = ", ..." if len(bad) > 3 else ""
        counted = f"{len(bad)} of {len(array)} image files in {of.root} cannot be read"
        raise UserError(
            f"{counted}: {first}{more}; repair them, or skip them: ?skip-bad=1 after the dataset's name, --skip-bad of an audit"
        )
    good = torch.ones(len(array), dtype=torch.bool)
    good[list(bad)] = False
    return images.take(good)


def _source(of: Tree, size: ImageFormat) -> ArraySource:
    if None in (size.height, size.channels):
        size = _agreed(of, size)
    assert size.channels is not None
    assert size.height is not None
    assert size.width is not None
    shape = (len(of.files), size.channels, size.height, size.width)
    return ArraySource(shape, partial(_chunks, of.files, size))


def _chunks(files: Sequence[Path], size: ImageFormat, source: ArraySource) -> Iterator[np.ndarray]:
    """Yield images in chunks; an unreadable image is noted in `bad` and is black."""
    with ThreadPoolExecutor() as pool:
        for start in range(0, len(files), _CHUNK):
            rows = np.zeros((len(files[start : start + _CHUNK]), *source.shape[1:]), np.uint8)
            for place, image in enumerate(pool.map(partial(_decode, size=size), files[start : start + _CHUNK])):
                if isinstance(image, str):
                    source.bad[start + place] = image
                else:
                    rows[place] = image
            yield rows


def _decode(file: Path, size: ImageFormat) -> np.ndarray | str:
    """Return an image (channels, height, width), or why it cannot be read."""
    try:
        with Image.open(file, formats=_formats()[0]) as image:
            image.load()
            return _resized(_eight_bits(image, size.channels), size)
    except UserError:
        raise
    except Exception as error:  # PIL raises a dozen kinds for a file that is cut short or foreign
        return "no image" if "cannot identify" in str(error) else str(error) or type(error).__name__


def _eight_bits(image: Image.Image, channels: int | None) -> Image.Image:
    """Return an image as eight-bit greyscale or RGB; transparency is dropped, as by torchvision."""
    if image.mode == "F":
        raise ValueError("pixels are floating-point numbers of no known range")
    if image.mode in _DEEP:
        image = Image.fromarray(np.round(np.asarray(image).astype(np.float64).clip(0, 65535) / 257).astype(np.uint8))
    elif image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("L" if channels == 1 else "RGB")


def _resized(image: Image.Image, size: ImageFormat) -> np.ndarray:
    """Return an image (channels, height, width) in its final size."""
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
    """Return the mode and the size of an image file, None for an unreadable one."""
    try:
        with Image.open(file, formats=_formats()[0]) as image:
            return image.mode, (image.height, image.width)
    except Exception:  # decoding gives the reason
        return None


def _agreed(of: Tree, size: ImageFormat) -> ImageFormat:
    """Return the format that all images of a tree share; a UserError names two of different size."""
    with ThreadPoolExecutor() as pool:
        headers = list(pool.map(_header, of.files))
    known = [(file, *header) for file, header in zip(of.files, headers, strict=True) if header is not None]
    if not known:
        raise UserError(f"none of the {len(of.files)} files in {of.root} can be read as an image; expected PNG, JPEG or the like")
    grey = all(mode in (*_GREY, *_DEEP) for _, mode, _ in known)
    channels, height, width = size.channels or (1 if grey else 3), size.height, size.width
    if size.height is None:
        first, _, shape = known[0]
        height, width = shape
        for file, _, other in known:
            if other != shape:
                sizes = f"{first.relative_to(of.root)} {height} x {width}, {file.relative_to(of.root)} {other[0]} x {other[1]}"
                raise UserError(
                    f"images in {of.root} differ in size ({sizes}); resize them with ?size=64 after the dataset's name"
                )
    return ImageFormat(height, width, size.cropped, channels)
