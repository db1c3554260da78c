import mocks
import numpy as np
import pytest

from classwise.core import results
from classwise.core.results import SCHEMAS, Damaged


@pytest.mark.parametrize("schema", SCHEMAS)
def test_what_is_saved_is_loaded(tmp_path, schema):
    data = mocks.dataset(schema)
    results.save(data, schema, tmp_path / "a" / "file.nc")
    assert results.load(tmp_path / "a" / "file.nc", schema).identical(data)
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["file.nc"]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_docstring_names_every_dimension_with_a_coordinate(schema):
    for dims, _ in SCHEMAS[schema].values():
        assert all(dim in results.__doc__ for dim in dims if dim not in ("channel", "row", "column"))


@pytest.mark.parametrize("keep", [0, 100, 0.5, 0.95])
def test_a_truncated_file_is_refused_by_name(tmp_path, keep):
    path = tmp_path / "file.nc"
    results.save(mocks.dataset(), "history 1", path)
    content = path.read_bytes()
    path.write_bytes(content[: keep if keep in (0, 100) else int(keep * len(content))])
    with pytest.raises(Damaged, match=r"file\.nc is truncated or not a netCDF file .*delete it"):
        results.load(path, "history 1")


def test_foreign_files_are_refused_by_name(tmp_path):
    (tmp_path / "text.nc").write_text("hello")
    with pytest.raises(Damaged, match=r"text\.nc"):
        results.load(tmp_path / "text.nc", "history 1")
    results.save(mocks.dataset("outcomes 1"), "outcomes 1", tmp_path / "other.nc")
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
        results.check(spoil(mocks.dataset()), "history 1")


def test_mock_counts_every_image_and_follows_the_chances():
    data = mocks.dataset(accuracies={"clean": 1.0, "pgd-10": 0.0}, per_class=7)
    assert (data["count"].sum("predicted") == 7).all()
    right = np.einsum("...ii->...", data["count"].values)
    assert (right[:, :, 0] == 70).all()
    assert (right[:, :, 1] == 0).all()


def test_queries_and_members_may_be_there_or_not(tmp_path):
    data = mocks.dataset("outcomes 1")
    more = data.assign(queries=data.truth.astype("i4"), member=data.truth.astype("i1"))
    results.save(more, "outcomes 1", tmp_path / "more.nc")
    assert results.load(tmp_path / "more.nc", "outcomes 1").member.dtype == np.int8
    with pytest.raises(results.Damaged, match="queries is"):
        results.check(data.assign(queries=data.truth.astype("f8")), "outcomes 1")
