"""Folders of image files: one's own, Tiny-ImageNet, ImageNet; decoded once, never silently short of an image."""

import json
import shutil
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from PIL import Image

from classwise import images
from classwise.core.errors import UserError
from classwise.core.files import folder_digest
from classwise.images import cache, folders
from classwise.images.cache import FOLDER


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder of images of the test's own."""
    monkeypatch.setenv("CLASSWISE_IMAGES", str(tmp_path))
    return tmp_path


def picture(seed, size=(12, 12), channels=3):
    draw = np.random.default_rng(seed)
    return draw.integers(0, 256, (*size, channels) if channels > 1 else size, dtype=np.uint8)


def put(path, pixels, **how):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **how)


def signs(root, counts=(("go", 6), ("stop", 5)), parts=("",), **form):
    """PNG files that tell their class and number by their pixels."""
    for part in parts:
        for label, (name, count) in enumerate(counts):
            for number in range(count):
                put(root / part / name / f"{number}.png", picture(100 * label + number + 1000 * (part == "valid"), **form))


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 12 12\nshowpage\n"


def cached_arrays(home):
    return sorted((home / FOLDER).glob("*.npy"))


def test_a_folder_with_train_and_test_is_read(home):
    signs(home / "signs", parts=("train", "test"))
    parts = {split: images.load("folder:signs", split) for split in images.SPLITS}
    assert {split: len(part) for split, part in parts.items()} == {"train": 9, "valid": 2, "test": 11}
    assert parts["valid"].labels.tolist() == [0, 1]
    assert torch.cat([parts["train"].index, parts["valid"].index]).sort().values.tolist() == list(range(11))
    assert parts["test"].classes == ("go", "stop")
    assert parts["test"].pixels[7].permute(1, 2, 0).numpy().tolist() == picture(101).tolist()
    assert images.load(f"folder:{home / 'signs'}", "test").pixels.equal(parts["test"].pixels)
    assert len({tuple(images.load("folder:signs", "valid", seed).index.tolist()) for seed in range(5)}) > 1
    signs(home / "signs", parts=("valid",))
    parts = {split: images.load("folder:signs", split) for split in images.SPLITS}
    assert {split: len(part) for split, part in parts.items()} == {"train": 11, "valid": 11, "test": 11}
    assert not torch.equal(parts["train"].pixels, parts["valid"].pixels)


def test_one_folder_is_cut_into_five_by_the_seed(home):
    signs(home / "signs", (("go", 10), ("stop", 5)))
    tests = [images.load("folder:signs", "test", seed) for seed in range(5)]
    assert torch.cat([test.index for test in tests]).sort().values.tolist() == list(range(15))
    assert all(test.labels.bincount().tolist() == [2, 1] for test in tests)
    parts = [images.load("folder:signs", split, 3).index for split in images.SPLITS]
    assert torch.cat(parts).sort().values.tolist() == list(range(15))
    assert len(images.load("folder:signs?whole=1", "test")) == 15
    with pytest.raises(UserError, match=r"all of .*signs is test .whole=1.: there is nothing to train on"):
        images.load("folder:signs?whole=1", "train")
    shutil.rmtree(home / "signs" / "stop")
    signs(home / "signs", (("go", 10), ("stop", 4)))
    with pytest.raises(UserError, match="each class needs at least 5 images, one has 4"):
        images.load("folder:signs", "test")


def test_any_format_and_depth_become_eight_bits_in_colour(home):
    """A palette, transparency, sixteen bits, a bitmap, a subfolder; a text file and hidden ones are no images."""
    root, colour, grey = home / "signs" / "test", picture(1), picture(2, channels=1)
    put(root / "a" / "1.bmp", colour)
    put(root / "a" / "deeper" / "2.webp", colour, lossless=True)
    put(root / "a" / "3.tiff", grey)
    put(root / "b" / "1.png", np.dstack([colour, picture(3, channels=1)]))
    put(root / "b" / "2.png", grey.astype(np.uint16) * 257)
    put(root / "b" / "3.gif", np.full((12, 12), 7, np.uint8))
    (root / "b" / "notes.txt").write_text("none")
    (root / "b" / ".hidden.png").write_bytes(b"none")
    (root / ".checkpoints").mkdir()
    found = images.load("folder:signs", "test")
    assert found.labels.tolist() == [0, 0, 0, 1, 1, 1]
    by_name = dict(zip(("bmp", "tiff", "webp", "rgba", "deep", "gif"), found.pixels.permute(0, 2, 3, 1).numpy(), strict=True))
    for name in ("bmp", "webp", "rgba"):
        assert np.array_equal(by_name[name], colour), name
    for name in ("tiff", "deep"):
        assert np.array_equal(by_name[name], np.dstack([grey] * 3)), name
    assert (by_name["gif"] == 7).all()


def test_images_are_resized_and_get_channels_as_told(home):
    signs(home / "grey", parts=("test",), channels=1)
    assert images.load("folder:grey", "test").shape == (1, 12, 12)
    assert images.load("folder:grey?channels=3", "test").shape == (3, 12, 12)
    signs(home / "colour", parts=("test",))
    told = Image.fromarray(picture(0)).convert("L")
    assert np.array_equal(images.load("folder:colour?channels=1", "test").pixels[0, 0], np.asarray(told))
    signs(home / "signs", parts=("test",), size=(20, 10))
    assert images.load("folder:signs", "test").shape == (3, 20, 10)
    middle = images.load("folder:signs?size=10", "test").pixels[0].permute(1, 2, 0).numpy()
    assert np.array_equal(middle, picture(0, (20, 10))[5:15])
    stretched = images.load("folder:signs?size=8x6", "test")
    assert stretched.shape == (3, 8, 6)
    told = Image.fromarray(picture(0, (20, 10))).resize((6, 8), Image.Resampling.BILINEAR)
    assert np.array_equal(stretched.pixels[0].permute(1, 2, 0), np.asarray(told))
    put(home / "signs" / "test" / "stop" / "wide.png", picture(0, (12, 20)))
    says = r"differ in size \(go/0.png 20 x 10, stop/wide.png 12 x 20\); resize them, or write .size=64"
    with pytest.raises(UserError, match=says):
        images.load("folder:signs", "test")
    assert images.load("folder:signs?size=8", "test").shape == (3, 8, 8)


def test_files_that_cannot_be_read_are_counted_named_and_skipped_only_when_told(home):
    signs(home / "signs", parts=("test",))
    root = home / "signs" / "test"
    (root / "go" / "2.png").write_bytes(b"no image at all")
    whole = (root / "stop" / "1.png").read_bytes()
    (root / "stop" / "1.png").write_bytes(whole[: len(whole) // 2])
    for _ in range(2):  # decoded, then from what was kept
        says = r"2 of 11 image files in .* cannot be read: go/2.png \(no image\); stop/1.png .*skip-bad"
        with pytest.raises(UserError, match=says):
            images.load("folder:signs", "test")
    found = images.load("folder:signs?skip-bad=1", "test")
    assert found.index.tolist() == [0, 1, 3, 4, 5, 6, 8, 9, 10]
    assert found.labels.tolist() == [0] * 5 + [1] * 4
    assert found.pixels[2].permute(1, 2, 0).numpy().tolist() == picture(3).tolist()


def test_links_that_lead_nowhere_are_unreadable_files_and_no_classes(home):
    signs(home / "signs", parts=("test",))
    for name in ("yield", "go/6.png"):
        (home / "signs" / "test" / name).symlink_to(home / "gone")
    with pytest.raises(UserError, match=r"1 of 12 image files in .* cannot be read: go/6.png \(.*No such file"):
        images.load("folder:signs", "test")
    assert images.load("folder:signs?skip-bad=1", "test").classes == ("go", "stop")
    before = folder_digest("folder:signs")
    (home / "gone").write_bytes(b"no image")
    assert folder_digest("folder:signs") != before


DAMAGES = [
    (lambda root: (root / "test" / "yield").mkdir(), "the class folder yield in .*test holds no image; put images there"),
    (lambda root: shutil.rmtree(root / "test" / "stop"), "holds the folder go, expected .* at least two classes"),
    (lambda root: [shutil.rmtree(path) for path in (root / "test").iterdir()], "holds no folder, expected"),
    (lambda root: (root / "train" / "stop").rename(root / "train" / "halt"), "in their classes: halt, stop is in one"),
    (lambda root: shutil.rmtree(root / "test"), "signs has no folder test or val; put one there"),
    (lambda root: [file.write_bytes(b"none") for file in root.rglob("*.png")], "none of the 11 files .* can be read"),
    # PIL would hand it to Ghostscript, whatever its name ends in.
    (lambda root: (root / "test" / "go" / "1.png").write_bytes(POSTSCRIPT), r"1 of 11 image files .* go/1.png \(no image\)"),
]


@pytest.mark.parametrize(("damage", "says"), DAMAGES)
def test_folders_and_files_that_do_not_fit_are_named(home, monkeypatch, damage, says):
    monkeypatch.setattr("subprocess.check_call", lambda *_, **__: pytest.fail("a program was run"))
    signs(home / "signs", parts=("train", "test"))
    damage(home / "signs")
    with pytest.raises(UserError, match=says):
        images.load("folder:signs", "test")


@pytest.fixture
def decoded(monkeypatch):
    """Counts the files that are decoded."""
    seen, own = [], folders._decode
    monkeypatch.setattr(folders, "_decode", lambda file, form: (seen.append(file), own(file, form))[1])
    return seen


@pytest.mark.parametrize("change", ["changed", "added", "removed"])
def test_files_are_decoded_once_until_they_change(home, decoded, change):
    signs(home / "signs", parts=("test",))
    first = images.load("folder:signs", "test").pixels
    images.load("folder:signs?size=8", "test")
    assert torch.equal(images.load("folder:signs", "test").pixels, first)
    assert len(decoded) == 22, "another size is kept beside the first"
    file = home / "signs" / "test" / "go" / "5.png"
    if change == "removed":
        file.unlink()
    else:
        put(file if change == "changed" else file.with_name("6.png"), picture(999))
    found = images.load("folder:signs", "test")
    assert len(found) == {"changed": 11, "added": 12, "removed": 10}[change]
    if change != "removed":
        assert found.pixels[5 + (change == "added")].permute(1, 2, 0).numpy().tolist() == picture(999).tolist()
    assert len(cached_arrays(home / "signs")) == 2, "the stale array is gone"


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("damage", ["short", "foreign", "told", "none"])
def test_a_damaged_cache_is_made_anew(home, decoded, monkeypatch, damage, large):
    """Cut short, no array, or without what is told of it or its file."""
    if large:
        monkeypatch.setattr(cache, "LARGE", 100)
    signs(home / "signs", parts=("test",))
    first = images.load("folder:signs", "test").pixels.clone()
    (file,) = cached_arrays(home / "signs")
    content = file.read_bytes()
    assert isinstance(cache._read(file)[0], np.memmap) == large
    images.load("folder:signs", "test").pixels[:] = 0  # a copy in memory, whether mapped or read
    assert file.read_bytes() == content
    if damage in ("short", "foreign"):
        file.write_bytes(content[:-5] if damage == "short" else b"no array")
    elif damage == "told":
        file.with_suffix(".json").write_text(json.dumps({"bad": {}}))
    else:
        file.with_suffix(".json").unlink()
    assert torch.equal(images.load("folder:signs", "test").pixels, first)
    assert len(decoded) == 22
    assert file.read_bytes() == content


@pytest.mark.parametrize("error", [PermissionError("read-only"), OSError(28, "No space left on device")])
def test_a_folder_that_cannot_be_written_is_read_all_the_same(home, decoded, monkeypatch, error):
    signs(home / "signs", parts=("test",))
    monkeypatch.setattr(np.lib.format, "write_array_header_1_0", Mock(side_effect=error))
    first, second = (images.load("folder:signs", "test").pixels for _ in range(2))
    assert torch.equal(first, second)
    assert len(decoded) == 22
    assert not list((home / "signs" / FOLDER).glob("*.[njp]*"))


def test_a_kill_while_writing_leaves_nothing_that_is_read(home, monkeypatch):
    signs(home / "signs", parts=("test",))

    def killed(file, form):
        if file.name == "5.png":
            raise KeyboardInterrupt
        return np.zeros((3, 12, 12), np.uint8)

    with monkeypatch.context() as patch:
        patch.setattr(folders, "_decode", killed)
        with pytest.raises(KeyboardInterrupt):
            images.load("folder:signs", "test")
    assert not list((home / "signs" / FOLDER).glob("*.[njp]*"))
    assert images.load("folder:signs", "test").pixels.any()


WNIDS = {"n01443537": "goldfish", "n01629819": "European fire salamander", "n02058221": "albatross"}


def tiny(root, published, count=3):
    """Tiny-ImageNet with three classes: as it is published, or with a folder for each class in val/."""
    for number, wnid in enumerate(WNIDS):
        for place in range(count):
            own = root / "train" / wnid / "images" if published else root / "train" / wnid
            put(own / f"{wnid}_{place}.JPEG", picture(number, (64, 64), 1 if place == 2 else 3))
    rows = []
    for place in range(6):
        wnid = list(WNIDS)[place % 3]
        put(root / "val" / ("images" if published else wnid) / f"val_{place}.JPEG", picture(50 + place % 3, (64, 64)))
        rows.append(f"val_{place}.JPEG\t{wnid}\t0\t32\t44\t62\n")
    if published:
        (root / "val" / "val_annotations.txt").write_text("".join(rows))
        words = [f"{wnid}\t{name}, other\n" for wnid, name in WNIDS.items()]
        (root / "words.txt").write_text("n00001740\tentity\n" + "".join(words))


@pytest.mark.parametrize("published", [True, False])
def test_tiny_imagenet_is_read_in_either_layout(home, published):
    root = home / ("tiny-imagenet-200" if published else "three")
    tiny(root, published)
    name = "tiny-imagenet" if published else "tiny-imagenet:three"
    train, test = images.load(name, "train"), images.load(name, "test")
    assert train.shape == test.shape == (3, 64, 64)
    assert train.labels.tolist() == [0] * 3 + [1] * 3 + [2] * 3
    assert test.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert test.classes == train.classes == (tuple(WNIDS.values()) if published else tuple(WNIDS))
    # The same picture for each image of a class.
    assert [int((test.pixels[2 * label].int() - test.pixels[2 * label + 1].int()).abs().max()) for label in range(3)] == [0] * 3
    decoded = np.asarray(Image.open(next((root / "val").rglob("val_1.JPEG"))))
    assert np.array_equal(test.pixels[2].permute(1, 2, 0), decoded)


def test_tiny_imagenet_without_a_class_or_its_validation_images_is_named(home):
    for published in (False, True):
        tiny(home / str(published), published)
    shutil.rmtree(home / "False" / "train" / "n01443537")
    with pytest.raises(UserError, match=r"differ in their classes: n01443537 is in one of them only"):
        images.load("tiny-imagenet:False", "test")
    shutil.rmtree(home / "True" / "val" / "images")
    with pytest.raises(UserError, match=r"none of the images listed in .*val_annotations.txt is in .*; unpack the whole"):
        images.load("tiny-imagenet:True", "test")


def test_imagenet_is_resized_and_cut_as_it_is_evaluated(home):
    from torchvision.transforms import v2

    wnids = ("n02012849", "n03126707", "n02123045")
    for number, wnid in enumerate(wnids):
        put(home / "imagenet" / "val" / wnid / "ILSVRC2012_val_1.JPEG", picture(number, (300, 400)))
    (home / "imagenet" / "LOC_synset_mapping.txt").write_text("n02012849 crane\nn02123045 tabby, tabby cat\nn03126707 crane\n")
    found = images.load("imagenet", "test")
    assert found.classes == ("crane (n02012849)", "tabby", "crane (n03126707)")
    evaluated = v2.Compose([v2.Resize(256), v2.CenterCrop(224)])
    told = evaluated(Image.open(home / "imagenet" / "val" / "n02123045" / "ILSVRC2012_val_1.JPEG"))
    assert np.array_equal(found.pixels[1].permute(1, 2, 0), np.asarray(told))
    assert images.load("imagenet?size=128", "test").shape == (3, 128, 128)
    with pytest.raises(UserError, match=r"ImageNet needs .*train; put the folders"):
        images.load("imagenet", "train")


def test_a_thousand_wordnet_numbers_have_torchvisions_names(home):
    from classwise.images.folders import _named

    names = _named(home, [f"n{number:08}" for number in range(1000)])
    assert names[0] == "tench"
    assert len(set(names)) == 1000
