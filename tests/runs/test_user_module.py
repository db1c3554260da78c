"""Modules of a user's: found in their folder, and run from their source."""

import pytest

from classwise.core.errors import UserError
from classwise.runs.compute import audited_network


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
