"""Datasets that are folders of image files: the user's, Tiny-ImageNet, ImageNet."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from classwise.core.errors import UserError
from classwise.core.paths import find_image_folder, images_folder
from classwise.images import decoding
from classwise.images.decoding import ImageFormat, Tree
from classwise.images.images import Images
from classwise.images.splits import cut, fold

# Files of Tiny-ImageNet and ImageNet with the names of WordNet numbers.
_NAMES = ("classes.txt", "words.txt", "LOC_synset_mapping.txt")
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


def _cut(
    part: Callable[[str], Tree], form: ImageFormat, split: str, seed: int, *, least: int = 0, skip_bad: bool = False
) -> Images:
    """Return a split of a dataset with separate training and test files; `valid` is drawn from `train`."""
    of = part("test" if split == "test" else "train")
    return cut(decoding.read(of, form, skip_bad=skip_bad), split, seed, least)


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
        images = decoding.read(decoding.tree(root), form, skip_bad=skip_bad)
        if all_test and split != "test":
            raise UserError(f"all of {root} is test (whole=1): there is nothing to train on")
        return images if all_test else images.take(fold(images.labels, split, seed))
    if split != "test" and parts["valid"] is not None:
        return decoding.read(_trees_agree(root, parts, split), form, skip_bad=skip_bad)
    return _cut(lambda name: _trees_agree(root, parts, name), form, split, seed, least=1, skip_bad=skip_bad)


def _trees_agree(root: Path, parts: dict[str, Path | None], name: str) -> Tree:
    """Return the files of a split; a UserError is raised where it is missing, or another split has other classes."""
    part = parts[name]
    if part is None:
        raise UserError(f"{root} has no folder {' or '.join(_PARTS[name])}; put one there with a folder of images for each class")
    tree = decoding.tree(part)
    for other in parts.values():
        _check_classes(tree, other)
    return tree


def _check_classes(tree: Tree, other: Path | None) -> None:
    """Raise UserError where another split is there and has other classes."""
    differ = {folder.name for folder in decoding.subfolders(other)} ^ set(tree.classes) if other and other.is_dir() else ()
    if differ:
        raise UserError(f"{tree.root} and {other} differ in their classes: {', '.join(sorted(differ))} is in one of them only")


def _wordnet(root: Path, what: str, split: str, advice: str) -> Tree:
    """Return the files of a split in train/ or val/ by WordNet number, with the names of the classes."""
    part = root / ("val" if split == "test" else "train")
    if not part.is_dir():
        raise UserError(f"{what} needs {part}; {advice}")
    table = root / "val" / "val_annotations.txt"
    # Users often sort val/ into class folders and leave its table.
    mixed = table.exists() and {folder.name for folder in decoding.subfolders(root / "val")} <= {"images"}
    tree = _annotated(root, part, table) if mixed and split == "test" else decoding.tree(part)
    if not mixed:
        _check_classes(tree, root / ("train" if split == "test" else "val"))
    return replace(tree, classes=_named(root, tree.classes))


def _annotated(root: Path, part: Path, table: Path) -> Tree:
    """Return the validation files of Tiny-ImageNet as published: one folder, and a table with the class of each image."""
    rows = (line.split("\t") for line in table.read_text().splitlines())
    pairs = [(part / "images" / row[0], row[1]) for row in rows if len(row) > 1]
    numbers = sorted({number for _, number in pairs})
    if (root / "train").is_dir():
        numbers = [folder.name for folder in decoding.subfolders(root / "train")]
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
    advice = "unpack tiny-imagenet-200.zip (cs231n.stanford.edu) into CLASSWISE_IMAGES, or write tiny-imagenet:FOLDER"
    root = find_image_folder(path)
    return _cut(
        lambda name: _wordnet(root, "Tiny-ImageNet", name, advice), ImageFormat((64, 64), 64, 3), split, seed, skip_bad=skip_bad
    )


def imagenet(split: str, seed: int, *, path: str = "imagenet", size: int = 224, skip_bad: bool = False) -> Images:
    """Return ImageNet (3x224x224; 1,281,167 training and 50,000 validation images; the latter are the test split).

    path: a folder in CLASSWISE_IMAGES, or any, with train/ and val/, each with a folder of images for each WordNet number;
    evaluations need val/ only. The shorter side is resized to 8/7 of `size` (256 for 224) and the middle is cropped; 128, 224 and
    288 are the sizes of fast adversarial training (Wong 2020). Images are decoded once and mapped from the disk; training images
    are copied to memory.
    """
    advice = "put the folders of the ILSVRC 2012 archives there, one for each class, or write imagenet:FOLDER"
    root = find_image_folder(path)
    form = ImageFormat((size, size), round(size * 256 / 224), 3)
    return _cut(lambda name: _wordnet(root, "ImageNet", name, advice), form, split, seed, skip_bad=skip_bad)
