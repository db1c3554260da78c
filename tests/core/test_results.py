import json
import os

import numpy as np
import pytest

from classwise.core import files, results
from classwise.core.results import SCHEMAS, Damaged
from classwise.stats import sanity


@pytest.mark.parametrize("schema", SCHEMAS)
def test_what_is_saved_is_loaded(tmp_path, schema):
    data = results.mock(schema)
    results.save(data, schema, tmp_path / "a" / "file.nc")
    assert results.load(tmp_path / "a" / "file.nc", schema).identical(data)
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["file.nc"]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_docstring_names_every_variable(schema):
    for name, (dims, _) in SCHEMAS[schema].items():
        assert f"{name} " in results.__doc__
        assert f"({', '.join(dims)})" in results.__doc__


@pytest.mark.parametrize("keep", [0, 100, 0.5, 0.95])
def test_a_truncated_file_is_refused_by_name(tmp_path, keep):
    path = tmp_path / "file.nc"
    results.save(results.mock(), "history 1", path)
    content = path.read_bytes()
    path.write_bytes(content[: keep if keep in (0, 100) else int(keep * len(content))])
    with pytest.raises(Damaged, match=r"file\.nc is truncated or not a netCDF file .*delete it"):
        results.load(path, "history 1")


def test_foreign_files_are_refused_by_name(tmp_path):
    (tmp_path / "text.nc").write_text("hello")
    with pytest.raises(Damaged, match=r"text\.nc"):
        results.load(tmp_path / "text.nc", "history 1")
    results.save(results.mock("outcomes 1"), "outcomes 1", tmp_path / "other.nc")
    with pytest.raises(Damaged, match=r"schema 'outcomes 1', expected 'history 1'"):
        results.load(tmp_path / "other.nc", "history 1")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda data: data.drop_vars("count"), "lacks the variable 'count'"),
        (lambda data: data.assign(loss=data.loss.astype("f4")), "loss is"),
        (lambda data: data.transpose("split", ...), "count is"),
        (lambda data: data.drop_vars("epoch"), "'epoch' has no coordinate"),
        (lambda data: data.drop_attrs(), "schema None"),
    ],
)
def test_a_dataset_of_another_shape_is_refused(spoil, says):
    with pytest.raises(Damaged, match=says):
        results.check(spoil(results.mock()), "history 1")


def test_a_full_disk_leaves_the_old_file_and_no_half_one(tmp_path, monkeypatch):
    path = tmp_path / "file.nc"
    files.write(path, b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_mock_counts_every_image_and_follows_the_chances():
    data = results.mock(accuracies={"clean": 1.0, "pgd-10": 0.0}, per_class=7)
    assert (data["count"].sum("predicted") == 7).all()
    right = np.einsum("...ii->...", data["count"].values)
    assert (right[:, :, 0] == 70).all()
    assert (right[:, :, 1] == 0).all()


GOOD = {"zero_gradients": 0.0, "randomised": 0.0, "batch_dependent": 1e-6, "spread": 1.0, "probabilities": False, "training": []}
GOOD |= {"outside": 0, "asked": 200, "farthest": 0.1, "darkest": 0.0, "brightest": 1.0}


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"zero_gradients": 0.5}, ("gradients vanish", "50%")),
        ({"randomised": 0.2}, ("change when asked again", "0.2")),
        ({"batch_dependent": 0.2}, ("hangs on its batch", "0.2")),
        ({"probabilities": True}, ("look like probabilities", "summing")),
        ({"training": ["norm"]}, ("train mode", "norm")),
        ({"outside": 3}, ("left the ball", "3")),
        ({"broken_by": {"apgd-ce": 3, "square": 40}}, ("black-box attack alone", "40 of 400")),
    ],
)
def test_what_speaks_against_outcomes_is_said(told, says):
    data = results.mock("outcomes 1").assign_attrs(checks=json.dumps(GOOD | told))
    ((sentence, figure),) = sanity.stored_warnings(data).items()
    assert says[0] in sentence
    assert says[1] in figure


def test_nothing_is_said_where_nothing_speaks_against_outcomes():
    data = results.mock("outcomes 1")
    assert sanity.stored_warnings(data) == {}
    assert sanity.stored_warnings(data.assign_attrs(checks=json.dumps(GOOD | {"broken_by": {"apgd-ce": 3, "square": 1}}))) == {}


def test_queries_and_members_may_be_there_or_not(tmp_path):
    data = results.mock("outcomes 1")
    more = data.assign(queries=data.truth.astype("i4"), member=data.truth.astype("i1"))
    results.save(more, "outcomes 1", tmp_path / "more.nc")
    assert results.load(tmp_path / "more.nc", "outcomes 1").member.dtype == np.int8
    with pytest.raises(results.Damaged, match="queries is"):
        results.check(data.assign(queries=data.truth.astype("f8")), "outcomes 1")


def test_a_written_file_may_be_read_by_whom_the_user_lets(tmp_path):
    mask = os.umask(0o022)
    try:
        files.write(tmp_path / "a", b"x")
    finally:
        os.umask(mask)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
