"""Datasets of several runs along the dimensions in which they differ."""

import mocks
import numpy as np
import pytest
import xarray as xr

from classwise.core.errors import UserError
from classwise.core.spec import READOUTS
from classwise.stats import combine


def part(seed=0, classes="012", images=None):
    data = mocks.dataset("outcomes 1", classes, per_class=4, seed=seed)
    return data if images is None else data.isel(image=images)


def test_keys_become_dimensions_in_the_order_of_first_appearance():
    rows = [({"defence": name, "seed": seed}, part(seed)) for name, seed in (("trades", 1), ("standard", 1), ("trades", 0))]
    combined = combine.combine_rows(rows)
    assert combined.defence.values.tolist() == ["trades", "standard"]
    assert combined.seed.values.tolist() == [1, 0]
    assert combined.truth.dims == ("defence", "seed", "image")
    for (key, data), name in zip(rows, ("truth", "prediction", "misclassified", "logits") * 3, strict=False):
        xr.testing.assert_equal(combined[name].sel(key, drop=True), data[name])
    lacking = combined.sel(defence="standard", seed=0)
    assert (lacking.truth == -1).all()
    assert not lacking.misclassified.any()
    assert lacking.logits.isnull().all()
    assert combined.truth.dtype == combined.prediction.dtype == "int16"


def test_classes_are_renumbered_and_missing_images_marked():
    usual, other = part(classes="012"), part(classes="20", images=slice(3))
    combined = combine.combine_rows([({"network": "a"}, usual), ({"network": "b"}, other)])
    assert combined.predicted.values.tolist() == ["0", "1", "2"]
    names = combined.predicted.values[combined.sel(network="b").truth.values[:3]]
    assert names.tolist() == ["2", "2", "2"]
    assert (combined.truth.sel(network="b").values[3:] == -1).all()
    assert np.isnan(combined.logits.sel(network="b", predicted="1")).all()


def test_equal_keys_are_refused():
    with pytest.raises(UserError, match=r"two runs share the same defence: \('trades',\)"):
        combine.combine_rows([({"defence": "trades"}, part()), ({"defence": "trades"}, part(1))])


def test_named_parts_keep_the_defence_and_the_attributes_of_the_first():
    first = part().expand_dims(defence=["trades"]).assign_attrs(scale="quick")
    other = part(1).expand_dims(defence=["trades-per-class"]).drop_vars("logits")
    both = combine.combine("betas", {"": first, "5:0.5": other})
    assert both.betas.values.tolist() == ["", "5:0.5"]
    assert both.defence.values.tolist() == ["trades"]
    assert set(both.data_vars) == {"truth", "prediction", "misclassified"}
    assert both.attrs["scale"] == "quick"
    assert (both.prediction.sel(betas="5:0.5").values[0] == part(1).prediction.values).all()


def test_networks_and_temperatures_have_a_name_each():
    assert [combine.network_name("pgd-he", readout) for readout in READOUTS] == ["pgd-he", "pgd-he, cosines"]
    assert [combine.inverse_name(value) for value in (None, "", 5, "10", 0.5)] == ["1", "1", "5", "10", "0.5"]


def test_arrays_or_measures_of_parts_stand_along_a_new_dimension():
    parts = {"a": xr.DataArray([1, 2], dims="x"), "b": xr.DataArray([3, 4], dims="x")}
    assert combine.concat_named("of", parts).sel(of="b").values.tolist() == [3, 4]
    assert combine.concat_named("of", parts, lambda part: part.sum("x")).to_series().to_dict() == {"a": 3, "b": 7}


def test_values_stand_apart_along_two_dimensions_in_the_order_of_their_keys():
    values = xr.DataArray([1.0, 2, 3], {"network": ["b 2", "b 1", "a 2"]}, "network")
    apart = combine.apart(values, "network", [("b", "2"), ("b", "1"), ("a", "2")], ("letter", "number"))
    assert (apart.letter.values.tolist(), apart.number.values.tolist()) == (["b", "a"], ["2", "1"])
    np.testing.assert_array_equal(apart, [[1, 2], [3, np.nan]])
