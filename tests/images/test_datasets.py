"""The table of datasets: one entry adds one."""

import sys
from types import ModuleType

import pytest
import torch

from classwise import images
from classwise.core import datasets
from classwise.core.datasets import DATASETS, DatasetInfo, DatasetSize
from classwise.core.errors import UserError
from classwise.core.spec import Spec
from classwise.images import backgrounds
from classwise.papers import variants
from classwise.runs.compute import validate

SHAPES = DatasetInfo(
    reader="shapes_of_mine:read",
    size=DatasetSize(12, 3, 6, 1, 4, 4, classes=3),
    classes=("circle", "cube", "square"),
    superclasses={"flat": ("circle", "square"), "solid": ("cube", "ball")},
    backgrounds={"cluttered": 1, "apart": 3},
)


def read(split: str, seed: int) -> images.Images:
    """Images of one grey a class, `seed` added to it."""
    labels = torch.arange({"train": 12, "valid": 3, "test": 6}[split]) % 3
    pixels = (100 * labels + seed).to(torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 4, 4).contiguous()
    return images.Images(pixels, labels, torch.arange(len(labels)), SHAPES.classes)


@pytest.fixture
def shapes(monkeypatch):
    """A dataset from outside the package: an entry of the table, and a module with the function that reads it."""
    module = ModuleType("shapes_of_mine")
    module.read = read
    monkeypatch.setitem(sys.modules, "shapes_of_mine", module)
    monkeypatch.setitem(DATASETS, "shapes", SHAPES)


def test_one_entry_adds_a_dataset(shapes):
    test = images.load("shapes", "test", seed=7)
    assert test.classes == datasets.class_names("shapes") == SHAPES.classes
    assert test.pixels[1].unique().tolist() == [107]
    size = validate.size_of("shapes")
    assert [len(images.load("shapes", split)) for split in images.SPLITS] == [size.train, size.valid, size.test]
    assert (size.channels, size.height, size.width) == test.shape
    assert datasets.superclasses("shapes") == {"circle": "flat", "cube": "solid", "square": "flat"}
    assert datasets.superclass_numbers(["cube", "square"]) == [1, 0]


def test_an_added_dataset_is_known_where_runs_are_planned_and_checked(shapes):
    spec = Spec(dataset="shapes", eps="0.1", classes=("circle", "cube"))
    assert validate.class_names(spec) == ("circle", "cube")
    assert validate.training_size(spec) == DatasetSize(8, 2, 4, 1, 4, 4, classes=2)
    assert next(variant["classes"] for variant in variants.leave_one_out("quick", spec)) == ("cube", "square")
    with pytest.raises(UserError, match=r"unknown dataset 'shape'"):
        images.reader("shape")


@pytest.mark.parametrize("background", SHAPES.backgrounds)
def test_an_added_dataset_has_its_backgrounds(shapes, background):
    test = images.load(f"shapes-{background}", "test")
    assert test.shape[0] == validate.size_of(f"shapes-{background}").channels == SHAPES.backgrounds[background]
    assert datasets.class_names(f"shapes-{background}") == test.classes
    with pytest.raises(UserError, match="unknown dataset 'shapes-neighbours'"):
        images.reader("shapes-neighbours")


@pytest.mark.parametrize("name", DATASETS)
def test_every_entry_agrees_with_itself(name):
    info = DATASETS[name]
    function = images.reader(f"{name}:here") if info.options else images.reader(name)
    assert callable(function)
    assert info.size is None or not info.classes or len(info.classes) == info.size.classes
    assert set(info.backgrounds) <= set(backgrounds.BACKGROUNDS)
    if info.superclasses:
        assert tuple(datasets.superclasses(name)) == info.classes


@pytest.mark.parametrize(("base", "background"), [("digits", "apart"), ("fashion-mnist", ""), ("folder:my-signs", "")])
def test_a_name_is_split_at_a_background_only(base, background):
    dataset = f"{base}-{background}" if background else base
    assert datasets.split_background(dataset) == (base, background)
    assert datasets.base_dataset(dataset) == base
