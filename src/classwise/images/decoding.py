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

    size: height and width, None for those of the images, which must then agree. cropped: the shorter side is resized to this many
    pixels and the middle is cropped, as in torchvision's evaluation; None to stretch. channels: 1 or 3; None for 1 if all images
    are grey, else 3.
    """

    size: tuple[int, int] | None = None
    cropped: int | None = None
    channels: int | None = None

    @property
    def name(self) -> str:
        """The format as part of a file name."""
        size = "x".join(map(str, self.size)) if self.size else "as-is"
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


def files_in(root: Path, names: Sequence[str]) -> tuple[tuple[Path, ...], tuple[int, ...]]:
    """Return the image files below the named folders of a folder, in torchvision's order, and the position of each one's name."""
    from torchvision.datasets.folder import make_dataset

    def accepted(path: str) -> bool:
        return Path(path).suffix.lower() in _formats()[1] and not Path(path).name.startswith(".")

    places = {name: place for place, name in enumerate(names)}
    listed = make_dataset(root, places, is_valid_file=accepted, allow_empty=True)
    return tuple(Path(file) for file, _ in listed), tuple(place for _, place in listed)


def tree(root: Path) -> Tree:
    """Return the image files in the class folders of a folder, sorted by name.

    A UserError is raised for an empty class folder, and for fewer than two of them.
    """
    names = [path.name for path in subfolders(root)]
    if len(names) < 2:
        content = f"the folder {names[0]}" if names else "no folder"
        raise UserError(f"{root} holds {content}, expected a folder of images for each of at least two classes")
    files, labels = files_in(root, names)
    empty = [name for label, name in enumerate(names) if label not in labels]
    if empty:
        raise UserError(f"the class folder {', '.join(empty)} in {root} holds no image; put images there or remove it")
    return Tree(root, files, labels, tuple(names))


def read(of: Tree, form: ImageFormat, *, skip_bad: bool = False) -> Images:
    """Return the images of a tree, with their positions in it as index, decoded once and cached.

    A UserError names and counts unreadable files, unless `skip_bad` leaves them out.
    """
    # Next to the tree rather than in it, where the cache would look like a class folder.
    array, bad, _ = cached(of.root.parent, f"{of.root.name}.{form.name}", digest(of.root, of.files), partial(_source, of, form))
    images = Images(torch.from_numpy(array), torch.tensor(of.labels), torch.arange(len(array)), of.classes)
    if not bad:
        return images
    if not skip_bad:
        first = "; ".join(f"{of.files[place].relative_to(of.root)} ({reason})" for place, reason in list(bad.items())[:3])
        counted = f"{len(bad)} of {len(array)} image files in {of.root} cannot be read: {first}{', ...' if len(bad) > 3 else ''}"
        raise UserError(
            f"{counted}; repair or remove them, or skip them: ?skip-bad=1 after the dataset's name, --skip-bad of an audit"
        )
    good = torch.ones(len(array), dtype=torch.bool)
    good[list(bad)] = False
    return images.take(good)


def _source(of: Tree, form: ImageFormat) -> ArraySource:
    size, channels = (form.size, form.channels) if form.size and form.channels else _agreed(of, form)
    shape, bad = (channels, *size), dict[int, str]()
    parts = _chunks(of.files, ImageFormat(size, form.cropped, channels), shape, bad)
    return ArraySource((len(of.files), *shape), parts, bad=bad)


def _chunks(files: Sequence[Path], form: ImageFormat, shape: tuple[int, ...], bad: dict[int, str]) -> Iterator[np.ndarray]:
    """Yield images of a shape in chunks; an unreadable image is noted in `bad` and is black."""
    with ThreadPoolExecutor() as pool:
        for start in range(0, len(files), _CHUNK):
            rows = np.zeros((len(files[start : start + _CHUNK]), *shape), np.uint8)
            for place, image in enumerate(pool.map(partial(_decode, form=form), files[start : start + _CHUNK])):
                if isinstance(image, str):
                    bad[start + place] = image
                else:
                    rows[place] = image
            yield rows


def _decode(file: Path, form: ImageFormat) -> np.ndarray | str:
    """Return an image (channels, height, width), or why it cannot be read."""
    try:
        with Image.open(file, formats=_formats()[0]) as image:
            array = np.asarray(_resized(_eight_bits(image, form.channels), form))
    except Exception as error:  # PIL raises a dozen kinds for a file that is cut short or foreign
        return "no image" if "cannot identify" in str(error) else str(error) or type(error).__name__
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)


def _eight_bits(image: Image.Image, channels: int | None) -> Image.Image:
    """Return an image as eight-bit greyscale or RGB; transparency is dropped, as by torchvision."""
    image.load()
    if image.mode == "F":
        raise ValueError("pixels are floating-point numbers of no known range")
    if image.mode in _DEEP:
        image = Image.fromarray(np.round(np.asarray(image).astype(np.float64).clip(0, 65535) / 257).astype(np.uint8))
    elif image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("L" if channels == 1 else "RGB")


def _resized(image: Image.Image, form: ImageFormat) -> Image.Image:
    """Return an image in its final size."""
    from torchvision.transforms.v2 import functional

    if form.size is None or (image.height, image.width) == form.size:
        return image
    resized: Image.Image = functional.resize(image, [form.cropped] if form.cropped else list(form.size), antialias=True)
    return functional.center_crop(resized, list(form.size)) if form.cropped else resized


def _header(file: Path) -> tuple[str, tuple[int, int]] | None:
    """Return the mode and the size of an image file, None for an unreadable one."""
    try:
        with Image.open(file, formats=_formats()[0]) as image:
            return image.mode, (image.height, image.width)
    except Exception:  # decoding gives the reason
        return None


def _agreed(of: Tree, form: ImageFormat) -> tuple[tuple[int, int], int]:
    """Return the size and the channels that a format leaves to the images of a tree; a UserError names two of different size."""
    with ThreadPoolExecutor() as pool:
        headers = zip(of.files, pool.map(_header, of.files), strict=True)
        known = [(file, *header) for file, header in headers if header is not None]
    if not known:
        raise UserError(f"none of the {len(of.files)} files in {of.root} can be read as an image; expected PNG, JPEG or the like")
    first, _, size = known[0]
    other = next(((file, shape) for file, _, shape in known if shape != size), None)
    if form.size is None and other is not None:
        (high, wide), (file, shape) = size, other
        sizes = f"{first.relative_to(of.root)} {high} x {wide}, {file.relative_to(of.root)} {shape[0]} x {shape[1]}"
        raise UserError(f"images in {of.root} differ in size ({sizes}); resize them, or write ?size=64 after the dataset's name")
    grey = all(mode in (*_GREY, *_DEEP) for _, mode, _ in known)
    return form.size or size, form.channels or (1 if grey else 3)
