import shutil
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from classwise import images
from classwise.core.errors import UserError
from classwise.images.images import cut


@pytest.fixture
def test_split():
    return images.load("digits", "test", seed=0)


def test_five_seeds_test_every_image_once_in_balanced_folds():
    folds = [images.load("digits", "test", seed) for seed in range(6)]
    assert torch.cat([fold.index for fold in folds[:5]]).sort().values.tolist() == list(range(1797))
    assert folds[0].index.tolist() != folds[5].index.tolist(), "the next five seeds use another partition"
    for seed in (0, 3, 7):
        parts = [images.load("digits", split, seed).index for split in images.SPLITS]
        assert torch.cat(parts).sort().values.tolist() == list(range(1797))
        counted = images.load("digits", "test", seed).labels.bincount()
        assert 34 <= counted.min() <= counted.max() <= 37


def test_pixels_are_bytes_and_batches_are_floats_up_to_one(test_split):
    x, y = test_split.batch(slice(0, 10))
    assert test_split.pixels.dtype == torch.uint8
    assert x.shape == (10, 1, 8, 8)
    assert (x.dtype, float(x.min()), float(x.max())) == (torch.float32, 0.0, 1.0)
    assert y.tolist() == test_split.labels[:10].tolist()
    assert sum(len(part) for _, part in test_split.batches(100)) == len(test_split)


def test_only_numbers_the_classes_again_and_keeps_the_names_of_images(test_split):
    some = test_split.only(["8", "3"])
    assert some.classes == ("3", "8")
    assert some.labels.unique().tolist() == [0, 1]
    names = {int(place): test_split.classes[label] for place, label in zip(test_split.index, test_split.labels, strict=True)}
    assert all(names[int(place)] == some.classes[label] for place, label in zip(some.index, some.labels, strict=True))
    assert len(some) == sum(name in "38" for name in names.values())


def test_per_class_is_stratified_and_repeats(test_split):
    some = test_split.per_class(4, seed=1)
    assert some.labels.bincount().tolist() == [4] * 10
    assert some.index.tolist() == test_split.per_class(4, seed=1).index.tolist()
    assert some.index.tolist() != test_split.per_class(4, seed=2).index.tolist()
    assert len(test_split.per_class(1000, seed=0)) == len(test_split)


def test_a_class_without_images_for_a_split_is_named(monkeypatch):
    """Two images of class 8: validation, a fiftieth of them, gets none."""
    labels = torch.tensor([0] * 60 + [1] * 2)
    few = images.Images(torch.zeros(62, 1, 4, 4, dtype=torch.uint8), labels, torch.arange(62), ("3", "8"))
    monkeypatch.setitem(images.DATASETS, "few", images.DatasetInfo(lambda split, seed: cut(few, split, seed)))
    assert images.load("few", "train").labels.bincount().tolist() == [59, 2]
    with pytest.raises(UserError, match=r"few has too few images of class 8 for the split 'valid': none is left, at least 1"):
        images.load("few", "valid")


def numbered(count=64, size=9):
    """Images whose pixels tell where they were: row x size + column + 1, alike in two channels."""
    one = torch.arange(1, size * size + 1, dtype=torch.uint8).view(1, 1, size, size)
    return one.expand(count, 2, -1, -1).contiguous()


@pytest.mark.parametrize("name", ["crop-flip", "crop-flip-reflect"])
def test_augmented_images_are_crops_of_the_padded_ones(name):
    """Against padding by 4, cutting out and mirroring, one image at a time."""
    pixels = numbered()
    mode = "reflect" if name.endswith("reflect") else "constant"
    padded = F.pad(pixels.float(), (4, 4, 4, 4), mode=mode).byte()
    windows = {
        (row, column, mirrored): padded[0, :, row : row + 9, column : column + 9].flip([2] * mirrored)
        for row in range(9)
        for column in range(9)
        for mirrored in (False, True)
    }
    moved = images.AUGMENTATIONS[name](pixels, torch.Generator().manual_seed(0))
    assert moved.shape == pixels.shape
    assert moved.dtype == torch.uint8
    found = [[key for key, window in windows.items() if torch.equal(one, window)] for one in moved]
    assert all(found)
    # A window that a mirror makes at the edge may be its own mirror image.
    plain = [keys[0] for keys in found if len(keys) == 1]
    assert len({key[:2] for key in plain}) > 25
    assert 12 < sum(key[2] for key in plain) < 48


def test_a_batch_is_augmented_only_when_asked_and_follows_its_generator():
    data = images.load("digits", "train")
    plain, labels = data.batch(slice(0, 32))
    again, _ = data.batch(slice(0, 32), "none", torch.Generator())
    draws = (torch.Generator().manual_seed(seed) for seed in (0, 0, 1))
    (moved, kept), (same, _), (other, _) = (data.batch(slice(0, 32), "crop-flip", one) for one in draws)
    assert torch.equal(plain, again)
    assert torch.equal(moved, same)
    assert not torch.equal(plain, moved)
    assert not torch.equal(moved, other)
    assert torch.equal(labels, kept)
    assert 0 <= moved.min() <= moved.max() <= 1


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Four digits as pseudo-labelled images."""
    monkeypatch.setenv("CLASSWISE_IMAGES", str(tmp_path))
    data = images.load("digits", "test")
    for number, label in enumerate((3, 3, 8, 0)):
        path = tmp_path / "found" / str(label) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(data.pixels[number, 0].numpy()).save(path)
    return tmp_path / "found"


def test_pseudo_labelled_images_come_from_a_folder(folder):
    data = images.load("digits", "test")
    found = images.extra("found", data)
    assert found.labels.tolist() == [0, 3, 3, 8]
    assert torch.equal(found.pixels, data.pixels[[3, 0, 1, 2]])
    assert found.index.tolist() == [-1, -2, -3, -4]
    both = data.concat(found)
    assert len(both) == len(data) + 4
    assert both.only(["3", "8"]).labels[-3:].tolist() == [0, 0, 1]


def emptied(folder):
    for name in ("3", "8"):
        shutil.rmtree(folder / name)
    (folder / "0" / "3.png").unlink()


DAMAGES = [
    (lambda folder: shutil.rmtree(folder), "put pseudo-labelled images there"),
    (lambda folder: Image.new("L", (8, 9)).save(folder / "3" / "a.png"), "size .0/3.png 8 x 8, 3/a.png 9 x 8.; resize them"),
    (lambda folder: (folder / "3" / "a.png").write_bytes(b"no"), r"1 of 5 image files .* cannot be read: 3/a.png"),
    (emptied, "hold no images; put pseudo-labelled images there"),
    (lambda folder: (folder / "eight").mkdir(), r"unknown class in .* 'eight'"),
]


@pytest.mark.parametrize(("damage", "says"), DAMAGES)
def test_pseudo_labelled_images_that_do_not_fit_are_named(folder, damage, says):
    damage(folder)
    with pytest.raises(UserError, match=says):
        images.extra("found", images.load("digits", "test"))


OTHERS = [
    (lambda one: images.load("digits", "tests"), "unknown split 'tests'"),
    (lambda one: one.only(["3", "eight"]), "unknown class 'eight'"),
    (lambda one: one.only(["3"]), "at least two"),
    (lambda one: images.extra("found", replace(one, pixels=one.pixels[..., :7])), "8 x 8 pixels, expected 8 x 7; resize them"),
]


@pytest.mark.parametrize(("call", "says"), OTHERS)
def test_what_does_not_fit_is_named(folder, test_split, call, says):
    with pytest.raises(UserError, match=says):
        call(test_split)
