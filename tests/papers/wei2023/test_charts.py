"""Charts over a setting of the training, and the explorer of the rule of a calibration."""

import numpy as np
import pytest
import vl_convert
import xarray as xr
from drawing import drawn

from classwise.papers.wei2023 import charts

CLASSES = ["0", "1", "2"]
RADII = ["12/255", "4/255", "8/255"]
SETTING = charts.Setting("eps", "radius in training", "radius {}")
GROUPS = {"hard": ["a", "b"], "easy": ["c"]}


@pytest.fixture
def counts():
    """Counts of four classes at three radii, not in their order."""
    right = np.array([[30, 50, 70, 90], [10, 40, 60, 80], [20, 45, 65, 85]])
    table = right[..., None] * np.eye(4) + (100 - right[..., None]) * np.roll(np.eye(4), 1, 1)
    return xr.DataArray(table, {"eps": RADII, "label": list("abcd"), "predicted": list("abcd")}, ("eps", "label", "predicted"))


def test_a_sweep_has_radii_in_rising_order_as_they_are_written_and_names_its_classes_and_groups(counts):
    chart = charts.class_sweep(counts, GROUPS, SETTING, "Robust accuracy", "robust accuracy, %")
    x = chart.to_dict()["layer"][0]["encoding"]["x"]
    assert x["scale"]["type"] == "log"
    assert x["axis"]["values"] == [4 / 255, 8 / 255, 12 / 255]
    assert SETTING.values(counts) == ["4/255", "8/255", "12/255"]
    svg = drawn(chart)
    for words in (">4/255<", ">12/255<", ">a<", ">d<", ">hard<", ">easy<"):
        assert words in svg, words
    # Of 200 images of the hard classes 25 % at the smallest radius; of 100 of the easy one 70 % at the largest.
    assert "25 % (hard, radius 4/255) to 70 % (easy, radius 12/255)" in chart.to_dict()["description"]


def test_a_metric_has_a_panel_for_each_title_and_a_colour_for_each_attack(counts):
    value = xr.DataArray(
        [[[10.0, 20.0, 30.0]] * 3, [[40.0, 50.0, 60.0]] * 3],
        {"attack": ["clean", "pgd-20"], "eps": RADII, "bound": ["low", "value", "high"]},
        ("attack", "eps", "bound"),
    )
    chart = charts.metric_sweep({"all images, %": value, "worst class, %": value + 5}, SETTING, "attack", "Over the radius")
    svg = drawn(chart)
    for words in (">all images, %<", ">worst class, %<", ">PGD-20<", ">8/255<"):
        assert words in svg, words
    assert "Worst class, %: 25 % (clean" in chart.to_dict()["description"]


def test_a_path_runs_from_the_lowest_setting_to_the_highest(counts):
    accuracy = 100 * xr.DataArray(np.arange(24).reshape(2, 3, 4) / 24, dims=("attack", "eps", "label"))
    accuracy = accuracy.assign_coords(attack=["clean", "pgd-20"], eps=RADII, label=list("abcd"))
    chart = charts.exchange(accuracy, GROUPS, SETTING, ("clean", "pgd-20"))
    spec = chart.to_dict()
    assert spec["layer"][0]["encoding"]["order"]["field"] == "place"
    assert "From radius 4/255 to radius 12/255. Change of clean accuracy, 4 classes: -16.7 points" in spec["description"]
    assert ">d<" in drawn(chart)


def test_the_explorer_shows_clean_and_attacked_images_at_each_setting(counts):
    chart = charts.setting_explorer(counts, counts.sel(label=counts.label), SETTING, "8/255")
    params = {param["name"]: param for param in chart.to_dict()["params"]}
    assert params["chosen_eps"]["bind"]["options"] == ["4/255", "8/255", "12/255"]
    assert (params["chosen_eps"]["value"], params["chosen_class"]["value"]) == ("8/255", "a")
    assert "One class by radius in training" in str(chart.to_dict()["title"])
    assert ">radius in training<" in drawn(chart)


def rule():
    values = np.array([[[0.4, 0.6, 0.9], [0.5, 0.7, 0.8]], [[0.1, 0.2, 0.3], [0.2, 0.3, 0.4]]])
    coords = {"network": ["at-ccm", "trades"], "epoch": [1, 2], "label": CLASSES}
    marks = {"hard": ("label", [True, False, False]), "easy": ("label", [False, False, True])}
    return xr.DataArray(values, coords, tuple(coords)).assign_coords(marks)


def test_the_rule_moves_with_its_sliders_in_a_page_without_a_kernel():
    chart = charts.rule_explorer(rule(), {"at-ccm": 0.5, "trades": 0.3})
    assert drawn(chart)
    spec = chart.to_dict()
    params = {param["name"]: param for param in spec["params"]}
    assert params["chosen_lambda"]["bind"] == {"input": "range", "min": 0.0, "max": 1.0, "step": 0.05, "name": "lambda"}
    assert params["chosen_lambda"]["value"] == 0.5
    assert params["chosen_epoch"]["bind"]["max"] == 2
    assert params["chosen_network"]["bind"]["options"] == ["at-ccm", "trades"]


@pytest.mark.parametrize(("network", "offset", "epoch"), [("at-ccm", 0.5, 2), ("at-ccm", 0.3, 1), ("trades", 0.85, 2)])
def test_vega_computes_the_rule_as_python_does(network, offset, epoch):
    spec = charts.rule_explorer(rule(), {"at-ccm": 0.5, "trades": 0.3}).to_dict()
    for param in spec["params"]:
        param["value"] = {"chosen_network": network, "chosen_lambda": offset, "chosen_epoch": epoch}[param["name"]]
    svg = vl_convert.vegalite_to_svg(spec)
    for label, t in zip(CLASSES, rule().sel(network=network, epoch=epoch).values, strict=True):
        assert f"lambda + t: {offset + t:.2f}; training accuracy t: {t:.2f}" in svg
        assert f"class: {label}; " in svg
