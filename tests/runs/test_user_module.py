"""Modules of a user's: found in their folder, and run from their source."""

import importlib
import linecache
import sys
from dataclasses import replace

import pytest

from classwise import runs
from classwise.core.errors import UserError
from classwise.core.spec import Spec
from classwise.defences import DEFENCES
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


def test_a_run_of_a_defence_that_was_edited_is_not_shown_as_that_of_the_new_one(data, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec = Spec(dataset="digits", eps="0.1", defence="mine", width=4, epochs=1)

    def write(factor):
        (tmp_path / "of_mine.py").write_text(DEFENCE.format(factor=factor))
        sys.modules.pop("of_mine", None)
        linecache.clearcache()
        monkeypatch.setitem(DEFENCES, "mine", importlib.import_module("of_mine").MINE)

    write(1.0)
    train.train(spec)
    assert runs.history([spec]).attrs
    write(3.0)
    with pytest.raises(UserError, match=r"your code that mine-\w+ uses has changed since it was computed \(.*\); delete"):
        runs.history([spec])
    write(1.0)
    assert runs.history([spec]).attrs
    assert store.own_code(replace(spec, defence="trades", attack="pgd-10")) == ""
