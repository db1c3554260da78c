"""Datasets that are published as arrays: each is read from small files in its real format, written here."""

import gzip
import hashlib
import os
import pickle
import struct

import numpy as np
import pytest
import scipy.io
import torch
from torchvision import datasets

from classwise import images
from classwise.core.datasets import class_names, datasets_with_superclasses, superclass_numbers
from classwise.core.errors import UserError
from classwise.images import standard

REAL = pytest.mark.skipif("CLASSWISE_IMAGES" not in os.environ, reason="CLASSWISE_IMAGES names no folder of real images")
# Of each dataset: the class of torchvision, the shape of an image, how many classes.
FORMS = {"mnist": ("MNIST", (1, 28, 28), 10), "fashion-mnist": ("FashionMNIST", (1, 28, 28), 10)}
FORMS |= {"svhn": ("SVHN", (3, 32, 32), 10), "stl10": ("STL10", (3, 96, 96), 10)}
FORMS |= {"cifar10": ("CIFAR10", (3, 32, 32), 10), "cifar100": ("CIFAR100", (3, 32, 32), 100)}
COUNTS = {"train": 3, "test": 2}


def md5(path):
    return hashlib.md5(path.read_bytes()).hexdigest()


def drawn(dataset, part):
    """The images (n, channels, height, width) and labels of a part, a few of each class, in mixed order."""
    _, shape, classes = FORMS[dataset]
    draw = np.random.default_rng(len(part))
    labels = draw.permutation(np.repeat(np.arange(classes), COUNTS[part]))
    return draw.integers(0, 256, (len(labels), *shape), dtype=np.uint8), labels


def write_idx(root, name, monkeypatch):
    """Four gzipped idx files: a big-endian header of type, rank and sizes, then bytes."""
    dataset = "mnist" if name == "MNIST" else "fashion-mnist"
    raw, sums = root / name / "raw", []
    raw.mkdir(parents=True)
    for part, prefix in (("train", "train"), ("test", "t10k")):
        pixels, labels = drawn(dataset, part)
        for file, array in ((f"{prefix}-images-idx3-ubyte.gz", pixels[:, 0]), (f"{prefix}-labels-idx1-ubyte.gz", labels)):
            head = struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
            (raw / file).write_bytes(gzip.compress(head + array.astype(np.uint8).tobytes()))
            sums.append((file, md5(raw / file)))
    monkeypatch.setattr(getattr(datasets, name), "resources", sums)


def write_svhn(root, name, monkeypatch):
    """Matlab files of X (height, width, channels, n) and y (n, 1), in which the digit 0 is labelled 10."""
    listed = dict(datasets.SVHN.split_list)
    for part in COUNTS:
        pixels, labels = drawn("svhn", part)
        file = root / f"{part}_32x32.mat"
        content = {"X": pixels.transpose(2, 3, 1, 0), "y": np.where(labels == 0, 10, labels)[:, None].astype(np.uint8)}
        scipy.io.savemat(file, content, do_compression=True)
        listed[part] = ["http://nowhere.invalid", file.name, md5(file)]
    monkeypatch.setattr(datasets.SVHN, "split_list", listed)


def write_cifar(root, name, monkeypatch):
    """Pickled batches of rows of 3 x 1024 bytes, and the names of the classes."""
    fine = name == "CIFAR100"
    cls, folder = getattr(datasets, name), root / getattr(datasets, name).base_folder
    folder.mkdir()
    names = list(class_names("cifar100")) if fine else list(class_names("cifar10"))
    lists = {}
    for part, files in (("train", ["train"] if fine else ["data_batch_1", "data_batch_2"]), ("test", [cls.test_list[0][0]])):
        pixels, labels = drawn(name.lower(), part)
        lists[part] = []
        for file, rows, own in zip(files, np.array_split(pixels, len(files)), np.array_split(labels, len(files)), strict=True):
            batch = {"data": rows.reshape(len(rows), -1), "fine_labels" if fine else "labels": own.tolist()}
            (folder / file).write_bytes(pickle.dumps(batch))
            lists[part].append([file, md5(folder / file)])
    (folder / cls.meta["filename"]).write_bytes(pickle.dumps({cls.meta["key"]: names}))
    monkeypatch.setattr(cls, "train_list", lists["train"])
    monkeypatch.setattr(cls, "test_list", lists["test"])
    monkeypatch.setattr(cls, "meta", cls.meta | {"md5": md5(folder / cls.meta["filename"])})


def write_stl(root, name, monkeypatch):
    """Raw bytes of images by column, and labels from 1 on."""
    folder = root / datasets.STL10.base_folder
    folder.mkdir()
    lists = {}
    for part in COUNTS:
        pixels, labels = drawn("stl10", part)
        (folder / f"{part}_X.bin").write_bytes(pixels.transpose(0, 1, 3, 2).tobytes())
        (folder / f"{part}_y.bin").write_bytes((labels + 1).astype(np.uint8).tobytes())
        lists[part] = [[f"{part}_{kind}.bin", md5(folder / f"{part}_{kind}.bin")] for kind in "Xy"]
    (folder / "unlabeled_X.bin").write_bytes(b"")
    monkeypatch.setattr(datasets.STL10, "train_list", [*lists["train"], ["unlabeled_X.bin", md5(folder / "unlabeled_X.bin")]])
    monkeypatch.setattr(datasets.STL10, "test_list", lists["test"])


WRITERS = {"MNIST": write_idx, "FashionMNIST": write_idx, "SVHN": write_svhn, "CIFAR10": write_cifar, "CIFAR100": write_cifar}
WRITERS |= {"STL10": write_stl}


def no_network(*_, **__):
    raise OSError("no network")


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """A folder of images of the test's own, and no network."""
    monkeypatch.setenv("CLASSWISE_IMAGES", str(tmp_path))
    monkeypatch.setattr("urllib.request.urlopen", no_network)
    return tmp_path


# A class of each dataset: its number and its name.
NAMED = {"mnist": (0, "0"), "fashion-mnist": (9, "Ankle boot"), "svhn": (8, "8"), "cifar10": (1, "automobile")}
NAMED |= {"cifar100": (7, "beetle"), "stl10": (7, "monkey")}


@pytest.mark.parametrize("dataset", FORMS)
def test_small_files_in_the_real_format_are_read_and_decoded_once(alone, monkeypatch, dataset):
    name, _, classes = FORMS[dataset]
    WRITERS[name](alone, name, monkeypatch)
    for decode in (standard._decoded, lambda *_: pytest.fail("decoded again")):
        monkeypatch.setattr(standard, "_decoded", decode)
        for part in COUNTS:
            pixels, labels = drawn(dataset, part)
            found = images.reader(dataset)(part, 0)
            assert torch.equal(found.pixels, torch.from_numpy(pixels)[found.index])
            assert torch.equal(found.labels, torch.from_numpy(labels)[found.index])
            # A fiftieth of three is none: all of the training images are left.
            assert len(found) == classes * COUNTS[part]
            assert len(set(found.classes)) == classes
            assert found.classes[NAMED[dataset][0]] == NAMED[dataset][1]
            assert dataset == "fashion-mnist" or class_names(dataset) == found.classes
    files = [path for pattern in standard._FILES[name] for path in alone.glob(pattern)]
    files[-1].write_bytes(files[-1].read_bytes() + b"0")
    with pytest.raises(BaseException, match="decoded again"):
        images.load(dataset, "test")


@pytest.mark.parametrize("dataset", FORMS)
def test_files_that_are_not_there_are_asked_for(alone, dataset):
    says = r" is not in .* and cannot be downloaded \(OSError: no network\); put .* there, or set CLASSWISE_IMAGES"
    with pytest.raises(UserError, match=says):
        images.load(dataset, "test")


# Of each dataset a file that is checked before its content is used: by its md5, or where torchvision unpacked it by its size.
CHECKED = {"mnist": "train-images-idx3-ubyte", "svhn": "train_32x32.mat", "cifar10": "data_batch_1", "cifar100": "train"}
CHECKED |= {"stl10": "train_X.bin"}


@pytest.mark.parametrize("dataset", CHECKED)
def test_a_damaged_or_missing_file_is_named_and_not_unpickled(alone, monkeypatch, dataset):
    name, first = FORMS[dataset][0], CHECKED[dataset]
    WRITERS[name](alone, name, monkeypatch)
    if dataset == "mnist":
        images.mnist("test", 0)  # which unpacks the files
    first = next(alone.rglob(first))
    first.write_bytes(first.read_bytes()[:100] if dataset == "mnist" else first.read_bytes() + b"\0")
    monkeypatch.setattr(pickle, "load", lambda *_, **__: pytest.fail("unpickled"))
    says = f"{name} in .* is incomplete or damaged and cannot be downloaded .*; put .* there, or set"
    with pytest.raises(UserError, match=says):
        images.load(dataset, "train")
    if dataset != "mnist":
        first.unlink()
        with pytest.raises(UserError, match=says):
            images.load(dataset, "train")


def test_superclasses_cover_every_class_once():
    sizes = {name: len(set(images.superclasses(name).values())) for name in datasets_with_superclasses()}
    assert sizes == {"cifar10": 2, "stl10": 2, "cifar100": 20}
    assert len(images.superclasses("cifar100")) == 100
    groups = list(images.superclasses("cifar100").values())
    assert {groups.count(group) for group in groups} == {5}
    # Tian 2021, Table 2.
    for dataset, transport in (("cifar10", [0, 1, 8, 9]), ("stl10", [0, 2, 8, 9])):
        kinds = images.superclasses(dataset).values()
        assert [number for number, kind in enumerate(kinds) if kind == "transport"] == transport
    with pytest.raises(UserError, match="'digits' has no superclasses; those that do: cifar10, stl10, cifar100"):
        images.superclasses("digits")
    with pytest.raises(UserError, match="classes 0, 1 have no superclasses; those of these datasets do: cifar10"):
        superclass_numbers(["0", "1"])


@pytest.mark.parametrize(
    ("dataset", "says"),
    [
        ("folders:x", "unknown dataset 'folders:x'"),
        ("folder:x?skip-bad=yes", "skip-bad='yes' must be 0 or 1"),
        ("folder:x?size=big", "size='big' is no size of images; write size=64, or size=48x64"),
        ("folder:x?channels=2", "channels=2 cannot be had"),
        ("imagenet?size=0", "size='0' must be a whole number above 0"),
        ("tiny-imagenet", "Tiny-ImageNet needs .*tiny-imagenet-200/val; unpack tiny-imagenet-200.zip"),
        ("imagenet", "ImageNet needs .*imagenet/val; put the folders"),
    ],
)
def test_mistakes_in_a_name_are_named(alone, dataset, says):
    """Those of digits and of folders are among the commands of `test_invalid_input`."""
    with pytest.raises(UserError, match=says):
        images.load(dataset, "test")


def test_a_name_is_read_without_images_and_means_the_same_from_anywhere(alone):
    assert images.reader("folder:/nowhere?size=48x64&skip-bad=1")
    assert images.reader("digits") is images.digits
    (alone / "signs").mkdir()
    assert images.absolute("folder:signs?size=3") == f"folder:{alone / 'signs'}?size=3"
    assert images.absolute("cifar10") == "cifar10"
    assert images.absolute("imagenet?size=128") == "imagenet?size=128"


SIZES = {"mnist": ((1, 28, 28), 60_000, 10_000, 0.02), "cifar10": ((3, 32, 32), 50_000, 10_000, 0.02)}
SIZES |= {"tiny-imagenet:tiny20": ((3, 64, 64), 10_000, 1_000, 0.02)}


@REAL
@pytest.mark.parametrize("dataset", SIZES)
def test_the_real_files_are_read_whole(dataset):
    shape, train, test, share = SIZES[dataset]
    parts = {split: images.load(dataset, split) for split in images.SPLITS}
    assert {part.shape for part in parts.values()} == {shape}
    assert len(parts["train"]) + len(parts["valid"]) == train
    assert len(parts["test"]) == test
    assert torch.cat([parts["train"].index, parts["valid"].index]).sort().values.tolist() == list(range(train))
    shares = parts["valid"].labels.bincount() / (parts["train"].labels.bincount() + parts["valid"].labels.bincount())
    assert shares.tolist() == pytest.approx([share] * len(parts["test"].classes), abs=2e-4)
    assert images.load(dataset, "valid", seed=1).index.tolist() != parts["valid"].index.tolist()
    test = parts["test"]
    if dataset == "cifar10":
        assert test.classes == tuple(images.superclasses("cifar10"))
        assert test.labels[:4].tolist() == [3, 8, 8, 0]  # cat, ship, ship, airplane: the first four test images
    if dataset.startswith("tiny"):
        assert len(set(test.classes)) == 20
        assert test.classes[:2] == ("bullfrog", "tailed_frog")
        assert test.labels.bincount().tolist() == [50] * 20
