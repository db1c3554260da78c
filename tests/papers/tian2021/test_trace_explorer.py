"""The explorer of failed attacks."""

import numpy as np
import pytest
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.papers.tian2021 import trace_explorer


def course(truth, ends, inverse):
    """Return courses of two steps of one network: logits of three classes that end as given, by temperature."""
    logits = np.zeros((1, len(inverse), len(truth), 2, 3), dtype="f4")
    logits[0, :, :, 1] = ends
    coords = {"network": ["a"], "inverse": inverse, "image": np.arange(len(truth)) + 10, "step": [0, 1], "predicted": list("xyz")}
    values = {
        "truth": ("image", np.array(truth, dtype="i2")),
        "logits": (("network", "inverse", "image", "step", "predicted"), logits),
    }
    return xr.Dataset(values, coords)


ENDS = [
    [[3, 0, 0], [0, 3, 0], [1, 0, 0], [2, 0, 0]],  # PGD: the second image, of class x, is lost
    [[3, 0, 0], [0, 3, 0], [3, 0, 0], [0, 2, 0]],  # 1 / T = 5: so is the fourth
]


def test_failed_attacks_are_in_the_order_of_what_a_temperature_breaks():
    whole = course([0, 0, 0, 0], ENDS, ["1", "5"])
    assert trace_explorer.pgd_failures(whole).transpose("network", "image").values.tolist() == [[True, False, True, True]]
    assert list(trace_explorer.select_images(whole).image.values) == [13, 12, 10]
    assert list(trace_explorer.select_images(whole, most=1).image.values) == [13]


def side_by_side(*networks):
    return xr.concat(networks, "network", data_vars=["logits"], coords="minimal", compat="override")


def test_an_image_is_selected_where_one_network_withstands_pgd():
    other = course([0, 0, 0, 0], [[[0, 3, 0]] * 4, [[3, 0, 0]] * 4], ["1", "5"]).assign_coords(network=["b"])
    both = side_by_side(other, course([0, 0, 0, 0], ENDS, ["1", "5"]))
    assert list(trace_explorer.select_images(both).image.values) == [13, 12, 10]
    params = {one["name"]: one for one in trace_explorer.explore(both, {}).to_dict()["params"] if "bind" in one}
    assert (params["followed_network"]["value"], params["followed_inverse"]["value"]) == ("a", "5")


def test_confidences_are_shares_and_missing_networks_have_none():
    whole = course([0, 0, 0, 0], ENDS, ["1", "5"])
    gap = whole.assign(logits=whole.logits * np.nan).assign_coords(network=["b"])
    table = trace_explorer.confidences(side_by_side(whole, gap))
    assert set(table["network"]) == {"a"}
    assert np.allclose(table[["x", "y", "z"]].sum(axis=1), 100, atol=0.2)
    last = table.query("image == 'x, no. 10' and step == 1 and inverse == '1'")
    assert last["x"].item() == pytest.approx(100 * np.exp(3) / (np.exp(3) + 2), abs=0.1)


def test_the_explorer_offers_each_image_and_is_drawn():
    chart = trace_explorer.explore(course([0, 0, 0, 0], ENDS, ["1", "5"]), {})
    params = {one["name"]: one for one in chart.to_dict()["params"] if "bind" in one}
    assert params["followed_image"]["bind"]["options"] == ["x, no. 13", "x, no. 12", "x, no. 10"]
    assert params["followed_step"]["value"] == 1
    assert (params["followed_network"]["value"], params["followed_inverse"]["value"]) == ("a", "5")
    for none in (course([1, 1, 1, 1], [[[3, 0, 0]] * 4] * 2, ["1", "5"]), course([0, 0, 0, 0], ENDS[:1], ["1"])):
        with pytest.raises(NotRecorded, match="no failed attack is traced"):
            trace_explorer.explore(none, {})
