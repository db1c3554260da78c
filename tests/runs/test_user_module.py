"""Modules of a user's: found in their folder, and run from their source."""

import importlib
import linecache
import re
import sys
from dataclasses import replace

import mocks
import pytest
from torch import nn

from classwise import runs
from classwise.attacks import ATTACKS
from classwise.core.datasets import DATASETS, DatasetInfo
from classwise.core.errors import UserError
from classwise.core.results import Damaged
from classwise.core.spec import Spec
from classwise.defences import DEFENCES
from classwise.models import MODELS, Design
from classwise.runs import store
from classwise.runs.compute import audited_network, train


def test_a_module_is_that_of_its_own_folder_whatever_was_imported_under_its_name(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name / "mypack").mkdir(parents=True)
        (tmp_path / name / "mypack" / "__init__.py").write_text("")
        (tmp_path / name / "mypack" / "inner.py").write_text(f"WHERE = {name!r}\n")
        (tmp_path / name / "mypack" / "net.py").write_text("from .inner import WHERE\n")
    for name in ("a", "b", "a"):
        home = str(tmp_path / name)
        assert audited_network.module_file("mypack.net:build", home) == tmp_path / name / "mypack" / "net.py"
        with audited_network.importing(home):
            assert name == audited_network.import_users_module("mypack.net", home).WHERE


def test_an_installed_module_is_taken_as_it_is_and_one_without_a_file_refused(tmp_path):
    found = audited_network.module_file("torchvision.models.resnet:resnet18", str(tmp_path))
    assert found.name == "resnet.py"
    assert audited_network.import_users_module("torchvision.models.resnet", str(tmp_path)).__file__ == str(found)
    with pytest.raises(UserError, match="there is no module sys in"):
        audited_network.module_file("sys:exit", str(tmp_path))


DEFENCE = """
from classwise.defences import Defence
from classwise.defences.objectives import LossTerms, Objective
from dataclasses import dataclass
import torch.nn.functional as F

@dataclass(frozen=True)
class Mine(Objective):
    def __call__(self, model, x, y, settings, adversary):
        logits = model(x)
        return LossTerms({factor} * F.cross_entropy(logits, y, reduction="none"), logits, logits)

MINE = Defence(Mine())
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Imports a module of a user's from its text, each time anew."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def written(text):
        (tmp_path / "of_mine.py").write_text(text)
        sys.modules.pop("of_mine", None)
        linecache.clearcache()
        return importlib.import_module("of_mine")

    return written


def test_a_run_of_a_defence_that_was_edited_is_not_shown_as_that_of_the_new_one(data, write, monkeypatch):
    spec = Spec(dataset="digits", eps="0.1", defence="mine", width=4, epochs=2)

    def define(factor):
        monkeypatch.setitem(DEFENCES, "mine", write(DEFENCE.format(factor=factor)).MINE)

    define(1.0)
    with pytest.raises(KeyboardInterrupt):
        train.train(spec, mocks.interrupt_after_an_epoch)
    define(3.0)
    with pytest.raises(Damaged, match="cannot be resumed from: the images in digits have changed, or code of yours; delete it"):
        train.train(spec)
    define(1.0)
    train.train(spec)
    assert runs.history([spec]).attrs
    define(3.0)
    with pytest.raises(UserError, match=r"your code that mine-\w+ uses has changed since it was computed \(.*\); delete"):
        runs.history([spec])
    define(1.0)
    assert runs.history([spec]).attrs
    assert store.own_code(replace(spec, defence="trades", attack="pgd-10")) == ""


ENTRIES = {
    "a model": (MODELS, lambda module: Design(module.work, 4), {"model": "mine"}),
    "a dataset": (DATASETS, lambda module: DatasetInfo(module.work), {"dataset": "mine"}),
    "an attack": (ATTACKS, lambda module: module.Mine(), {"attack": "mine"}),
}
ENTRY = """
from classwise.attacks import FGSM

def work(*given):
    return {factor}

class Mine(FGSM):
    factor = {factor}
"""


@pytest.mark.parametrize("what", ENTRIES)
def test_what_a_user_registers_is_known_by_its_code(what, write, monkeypatch):
    table, entry, field = ENTRIES[what]
    codes = []
    for factor in (1, 2, 1):
        monkeypatch.setitem(table, "mine", entry(write(ENTRY.format(factor=factor))))
        codes.append(store.own_code(Spec(**{"dataset": "digits", "eps": "0.1"} | field)))
    assert codes[0] == codes[2] != codes[1]
    assert all(codes)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("Torch not compiled with CUDA enabled", r"leave \.cuda\(\) out"),
        ("Expected all tensors to be on the same device, but found two", "make its tensors on the device of the pixels"),
        ("mat1 and mat2 shapes cannot be multiplied", "images of another size or number of channels"),
    ],
)
def test_an_error_of_a_network_comes_with_what_may_help(error, says):
    assert re.search(says, audited_network._advice(nn.Linear(2, 2), RuntimeError(error)))
