"""Folders of image files: the user's, Tiny-ImageNet, ImageNet, pseudo-labelled images; decoded by PIL, resized by torchvision."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from classwise.core.errors import UserError, check_known
from classwise.core.files import files_digest
from classwise.core.paths import find_image_folder, images_folder
from classwise.images.cache import ArraySource, read_cached
from classwise.images.images import Images, cut, fold

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


def list_files(root: Path) -> Tree:
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


def read_tree(of: Tree, form: ImageFormat, *, skip_bad: bool = False) -> Images:
    """Return the images of a tree, with their positions in it as index, decoded once and cached.

    A UserError names and counts unreadable files, unless `skip_bad` leaves them out.
    """
    # Next to the tree rather than in it, where the cache would look like a class folder.
    name, key = f"{of.root.name}.{form.name}", files_digest(of.root, of.files)[:12]
    array, bad, _ = read_cached(of.root.parent, name, key, partial(_source, of, form))
    images = Images(torch.from_numpy(array), torch.tensor(of.labels), torch.arange(len(array)), of.classes)
    if not bad:
        return images
    if not skip_bad:
        first = "; ".join(f"{of.files[place].relative_to(of.root)} ({reason})" for place, reason in list(bad.items())[:3])
        counted = f"{len(bad)} of {len(array)} image files in {of.root} cannot be read: {first}{', ...' if len(bad) > 3 else ''}"
        skip = "skip them: ?skip-bad=1 after the dataset's name, --skip-bad of an audit"
        raise UserError(f"{counted}; repair or remove them, or {skip}")
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
    from torchvision.transforms.v2 import functional

    if form.size is None or (image.height, image.width) == form.size:
        return image
    resized: Image.Image = functional.resize(image, [form.cropped] if form.cropped else list(form.size), antialias=True)
    return functional.center_crop(resized, list(form.size)) if form.cropped else resized


def _header(file: Path) -> tuple[str, tuple[int, int]] | None:
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


# Files of Tiny-ImageNet and ImageNet with the names of WordNet numbers.
_NAMES = ("classes.txt", "words.txt", "LOC_synset_mapping.txt")
_ADVICE = {
    "Tiny-ImageNet": "unpack tiny-imagenet-200.zip (cs231n.stanford.edu) into CLASSWISE_IMAGES, or write tiny-imagenet:FOLDER",
    "ImageNet": "put the folders of the ILSVRC 2012 archives there, one for each class, or write imagenet:FOLDER",
}
# The possible subfolders of each split, in order of preference.
_PARTS = {"train": ("train",), "valid": ("valid",), "test": ("test", "val")}


def _form(size: str | None, channels: int | None) -> ImageFormat:
    """Return the format of an option: "64" crops the middle square, "48x64" stretches to height x width."""
    if channels not in (None, 1, 3):
        raise UserError(f"channels={channels} cannot be had from images; write channels=1 or channels=3")
    if size is None:
        return ImageFormat(channels=channels)
    parts = size.split("x")
    if len(parts) > 2 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise UserError(f"size={size!r} is no size of images; write size=64, or size=48x64 for height x width")
    height, width = int(parts[0]), int(parts[-1])
    return ImageFormat((height, width), height if len(parts) == 1 else None, channels)


def _named(root: Path, numbers: Sequence[str]) -> tuple[str, ...]:
    """Return the names of WordNet numbers from a file next to their folders, or torchvision's of ImageNet; else the numbers."""
    names: dict[str, str] = {}
    file = next((root / name for name in _NAMES if (root / name).exists()), None)
    if file is not None:
        rows = (line.split(maxsplit=1) for line in file.read_text(encoding="utf-8").splitlines())
        names = {row[0]: row[1].split(",")[0].strip() for row in rows if len(row) == 2}
    elif len(numbers) == 1000:
        from torchvision.models import ResNet50_Weights

        names = dict(zip(numbers, ResNet50_Weights.DEFAULT.meta["categories"], strict=True))
    words = [names.get(number, number) for number in numbers]
    # ImageNet has two cranes and two maillots.
    return tuple(f"{name} ({number})" if words.count(name) > 1 else name for name, number in zip(words, numbers, strict=True))


def folder(
    split: str,
    seed: int,
    *,
    path: str,
    size: str | None = None,
    channels: int | None = None,
    skip_bad: bool = False,
    all_test: bool = False,
) -> Images:
    """Return a split of the images in a user's folder, with a subfolder for each class.

    path: in CLASSWISE_IMAGES, or any. It holds train/ and test/ (or val/) with the same classes; `valid` is drawn from train/, at
    least one image per class, unless there is a valid/. Or it holds the classes themselves, and `seed` splits it into five
    stratified folds as for the digits; with `all_test` (?whole=1 in a dataset's name) all of it is `test`. size: "64" resizes the
    shorter side and crops the middle square, "48x64" stretches to height x width; None where all images agree. channels: 1 or 3;
    None for 1 if all images are grey. Transparency is dropped; sixteen bits become eight. skip_bad: leave out unreadable files.
    """
    root, form = find_image_folder(path), _form(size, channels)
    if not root.is_dir():
        searched = "" if Path(path).is_absolute() else f", neither in {Path.cwd()} nor in {images_folder()}"
        expected = "expected one with train/ and test/, or with a folder of images for each class"
        raise UserError(f"there is no folder {path}{searched}; {expected}")
    parts = {split: next((root / name for name in names if (root / name).is_dir()), None) for split, names in _PARTS.items()}
    if parts["train"] is None and parts["test"] is None:
        images = read_tree(list_files(root), form, skip_bad=skip_bad)
        if all_test and split != "test":
            raise UserError(f"all of {root} is test (whole=1): there is nothing to train on")
        return images if all_test else images.take(fold(images.labels, split, seed))
    name = split if split == "test" or parts["valid"] else "train"
    part = parts[name]
    if part is None:
        raise UserError(f"{root} has no folder {' or '.join(_PARTS[name])}; put one there with a folder of images for each class")
    tree = list_files(part)
    for other in parts.values():
        _check_classes(tree, other)
    images = read_tree(tree, form, skip_bad=skip_bad)
    return images if parts["valid"] else cut(images, split, seed, least=1)


def _check_classes(tree: Tree, other: Path | None) -> None:
    if other and other.is_dir() and (differ := {folder.name for folder in subfolders(other)} ^ set(tree.classes)):
        raise UserError(f"{tree.root} and {other} differ in their classes: {', '.join(sorted(differ))} is in one of them only")


def _wordnet(what: str, path: str, form: ImageFormat, split: str, seed: int, skip_bad: bool) -> Images:
    root = find_image_folder(path)
    part, other = (root / name for name in (("val", "train") if split == "test" else ("train", "val")))
    if not part.is_dir():
        raise UserError(f"{what} needs {part}; {_ADVICE[what]}")
    table = root / "val" / "val_annotations.txt"
    # Users often sort val/ into class folders and leave its table.
    mixed = table.exists() and {folder.name for folder in subfolders(root / "val")} <= {"images"}
    tree = _annotated(root, part, table) if mixed and split == "test" else list_files(part)
    if not mixed:
        _check_classes(tree, other)
    return cut(read_tree(replace(tree, classes=_named(root, tree.classes)), form, skip_bad=skip_bad), split, seed)


def _annotated(root: Path, part: Path, table: Path) -> Tree:
    """Return the validation files of Tiny-ImageNet as published: one folder, and a table with the class of each image."""
    rows = (line.split("\t") for line in table.read_text().splitlines())
    pairs = [(part / "images" / row[0], row[1]) for row in rows if len(row) > 1]
    numbers = sorted({number for _, number in pairs})
    if (root / "train").is_dir():
        numbers = [folder.name for folder in subfolders(root / "train")]
    labelled = [(file, numbers.index(number)) for file, number in pairs if number in set(numbers) and file.exists()]
    if not labelled:
        raise UserError(f"none of the images listed in {table} is in {part / 'images'}; unpack the whole archive")
    labelled.sort(key=lambda pair: (pair[1], pair[0].name))
    return Tree(part, tuple(file for file, _ in labelled), tuple(label for _, label in labelled), tuple(numbers))


def tiny_imagenet(split: str, seed: int, *, path: str = "tiny-imagenet-200", skip_bad: bool = False) -> Images:
    """Return Tiny-ImageNet (3x64x64; 500 training and 50 validation images per class; the latter are the test split).

    path: its folder in CLASSWISE_IMAGES, as published or with a folder for each class in val/ too; it may hold some of the 200
    classes. words.txt or classes.txt names the classes. The seed decides which 2 % of the training images validate.
    """
    return _wordnet("Tiny-ImageNet", path, ImageFormat((64, 64), 64, 3), split, seed, skip_bad)


def imagenet(split: str, seed: int, *, path: str = "imagenet", size: int = 224, skip_bad: bool = False) -> Images:
    """Return ImageNet (3x224x224; 1,281,167 training and 50,000 validation images; the latter are the test split).

    path: a folder in CLASSWISE_IMAGES, or any, with train/ and val/, each with a folder of images for each WordNet number;
    evaluations need val/ only. The shorter side is resized to 8/7 of `size` (256 for 224) and the middle is cropped; 128, 224 and
    288 are the sizes of fast adversarial training (Wong 2020). Images are decoded once and mapped from the disk; training images
    are copied to memory.
    """
    return _wordnet("ImageNet", path, ImageFormat((size, size), round(size * 256 / 224), 3), split, seed, skip_bad)


def extra_folders(name: str, classes: Sequence[str]) -> list[Path]:
    """Return the class folders in the folder `name` of CLASSWISE_IMAGES; a UserError names one that is no class."""
    root = images_folder() / name
    folders = subfolders(root) if root.is_dir() else []
    if not folders:
        raise UserError(f"there is no folder {root} with a folder of images for each class; put pseudo-labelled images there")
    check_known(f"class in {root}", (folder.name for folder in folders), classes)
    return folders


def extra(name: str, like: Images) -> Images:
    """Return pseudo-labelled images from the folder `name` in CLASSWISE_IMAGES, to be trained on together with `like`.

    It holds a folder for each class, named as in the dataset, with images of the dataset's size (RST, Carmon et al. 2019, whose
    500,000 images are no longer available). Their `index` counts down from -1. A UserError names what does not fit.
    """
    root, names = images_folder() / name, [folder.name for folder in extra_folders(name, like.classes)]
    files, places = files_in(root, names)
    if not files:
        raise UserError(f"the folders in {root} hold no images; put pseudo-labelled images there")
    labels = tuple(like.classes.index(names[place]) for place in places)
    images = read_tree(Tree(root, files, labels, like.classes), ImageFormat(channels=like.shape[0]))
    if images.shape != like.shape:
        sizes = [f"{high} x {wide}" for _, high, wide in (images.shape, like.shape)]
        raise UserError(f"the images in {root} are of {sizes[0]} pixels, expected {sizes[1]}; resize them")
    return replace(images, index=-1 - images.index).to(like.pixels.device)
