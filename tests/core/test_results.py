import tarfile

import mocks
import numpy as np
import pytest
import xarray as xr
from test_golden import ARCHIVE

from classwise.core import netcdf, results
from classwise.core.results import SCHEMAS, Damaged


def same_as_xarray(path):
    with xr.open_dataset(path, engine="h5netcdf") as stored:
        expected = stored.load()
    data = netcdf.read(path)
    xr.testing.assert_identical(data, expected)
    assert list(data.variables) == list(expected.variables)
    for of in ("variables", "indexes"):
        ours, theirs = ({name: some.dtype for name, some in getattr(one, of).items()} for one in (data, expected))
        assert ours == theirs


@pytest.mark.parametrize("schema", SCHEMAS)
def test_what_is_saved_is_loaded_as_xarray_reads_it(tmp_path, schema):
    data = mocks.dataset(schema, classes=("stop_sign", "é", "10")).assign_attrs(spec='{"π": 1}')
    for name, (dims, kind, *_) in results.OPTIONAL.get(schema, {}).items():
        if set(dims) <= set(data.dims):
            data[name] = (dims, np.ones([data.sizes[dim] for dim in dims], dtype=kind))
    results.save(data, schema, tmp_path / "a" / "file.nc")
    assert results.load(tmp_path / "a" / "file.nc", schema).identical(data)
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["file.nc"]
    same_as_xarray(tmp_path / "a" / "file.nc")


def test_recorded_files_are_read_as_xarray_reads_them(tmp_path):
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    paths = sorted(tmp_path.glob("**/*.nc"))
    assert len(paths) == 6
    for path in paths:
        same_as_xarray(path)


def test_large_outcomes_are_stored_compactly(tmp_path):
    small = mocks.dataset("outcomes 1", per_class=200)
    extremes = [np.nan, np.inf, -np.inf, np.finfo("f4").max, np.finfo("f4").tiny, 1e-45, 0, -0.0, 1 + 2**-11, -(1 + 3 * 2**-11)]
    large = mocks.dataset("outcomes 1", per_class=201)
    large.logits[1:] += 1  # in the range of float16
    large.logits[0] = extremes
    for data, name in ((small, "small.nc"), (large, "large.nc")):
        results.save(data, "outcomes 1", tmp_path / name)
    assert results.load(tmp_path / "small.nc", "outcomes 1").identical(small)
    stored = results.load(tmp_path / "large.nc", "outcomes 1")
    assert stored.drop_vars("logits").identical(large.drop_vars("logits"))
    assert (stored.image.dtype, stored.logits.dtype) == (np.int64, np.float32)
    np.testing.assert_array_equal(stored.logits[1:], large.logits[1:].astype("f2"))
    np.testing.assert_array_equal(stored.logits[0], [*extremes[:5], 0, 0, 0, 1, -(1 + 2**-9)])
    assert (tmp_path / "large.nc").stat().st_size < 0.7 * (tmp_path / "small.nc").stat().st_size


def test_every_dimension_and_attribute_is_explained():
    variables = [variable for schema in (*SCHEMAS.values(), *results.OPTIONAL.values()) for variable in schema.values()]
    dims = {dim for variable in variables for dim in variable.dims}
    assert dims - set(results._NO_COORDINATE) == set(results.COORDINATES)
    assert set(results.REQUIRED_ATTRIBUTES) <= set(results.ATTRIBUTES)
    assert all(variable.meaning for variable in variables)


@pytest.mark.parametrize("keep", [0, 100, 0.5, 0.95])
def test_a_truncated_file_is_refused_by_name(tmp_path, keep):
    path = tmp_path / "file.nc"
    results.save(mocks.dataset(), "history 1", path)
    content = path.read_bytes()
    path.write_bytes(content[: keep if keep in (0, 100) else int(keep * len(content))])
    with pytest.raises(Damaged, match=r"file\.nc is truncated or not a netCDF file .*delete it"):
        results.load(path, "history 1")


@pytest.mark.parametrize("read", [results.load, results.header])
def test_foreign_files_are_refused_by_name(tmp_path, read):
    (tmp_path / "text.nc").write_text("hello")
    with pytest.raises(Damaged, match=r"text\.nc is truncated or not a netCDF file .*; delete it and run again"):
        read(tmp_path / "text.nc", "history 1")
    results.save(mocks.dataset("outcomes 1"), "outcomes 1", tmp_path / "other.nc")
    with pytest.raises(Damaged, match=r"schema 'outcomes 1', expected 'history 1'; delete it and run again"):
        read(tmp_path / "other.nc", "history 1")
    mocks.dataset().drop_attrs().assign_attrs(schema="history 1").to_netcdf(tmp_path / "bare.nc", engine="h5netcdf")
    with pytest.raises(Damaged, match=r"bare\.nc lacks the attribute 'spec'; delete it"):
        read(tmp_path / "bare.nc", "history 1")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda data: data.drop_vars("count"), "lacks the variable 'count'"),
        (lambda data: data.assign(loss=data.loss.astype("f4")), "loss is"),
        (lambda data: data.transpose("split", ...), "count is"),
        (lambda data: data.drop_vars("epoch"), "'epoch' has no coordinate"),
        (lambda data: data.drop_attrs(), "schema None"),
        (lambda data: data.assign(averaged=data.loss), r"averaged is \('epoch',\) float64, expected \('epoch',\) bool"),
    ],
)
def test_a_dataset_of_another_shape_is_refused(spoil, says):
    with pytest.raises(Damaged, match=says):
        results.check(spoil(mocks.dataset()), "history 1")
