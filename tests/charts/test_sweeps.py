"""Charts over a setting of the training."""

import numpy as np
import pytest
import xarray as xr
from drawing import drawn

from classwise.charts import class_explorer, sweeps

RADII = ["12/255", "4/255", "8/255"]
SETTING = sweeps.Setting("eps", "radius in training", "radius {}")
GROUPS = {"hard": ["a", "b"], "easy": ["c"]}


@pytest.fixture
def counts():
    """Counts of four classes at three radii, not in their order."""
    right = np.array([[30, 50, 70, 90], [10, 40, 60, 80], [20, 45, 65, 85]])
    table = right[..., None] * np.eye(4) + (100 - right[..., None]) * np.roll(np.eye(4), 1, 1)
    return xr.DataArray(table, {"eps": RADII, "label": list("abcd"), "predicted": list("abcd")}, ("eps", "label", "predicted"))


def test_radii_stand_in_rising_order_on_a_logarithmic_axis_as_they_are_written(counts):
    spec = sweeps.class_sweep(counts, GROUPS, SETTING, "Robust accuracy", "robust accuracy, %").to_dict()
    x = spec["layer"][0]["encoding"]["x"]
    assert x["scale"]["type"] == "log"
    assert x["axis"]["values"] == [4 / 255, 8 / 255, 12 / 255]
    assert SETTING.values(counts) == ["4/255", "8/255", "12/255"]


def test_a_sweep_names_its_classes_and_the_images_of_a_group_together(counts):
    chart = sweeps.class_sweep(counts, GROUPS, SETTING, "Robust accuracy", "robust accuracy, %")
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
    chart = sweeps.metric_sweep({"all images, %": value, "worst class, %": value + 5}, SETTING, "attack", "Over the radius")
    svg = drawn(chart)
    for words in (">all images, %<", ">worst class, %<", ">pgd-20<", ">8/255<"):
        assert words in svg, words
    assert "Worst class, %: 25 % (clean" in chart.to_dict()["description"]


def test_a_path_runs_from_the_lowest_setting_to_the_highest(counts):
    accuracy = 100 * xr.DataArray(np.arange(24).reshape(2, 3, 4) / 24, dims=("attack", "eps", "label"))
    accuracy = accuracy.assign_coords(attack=["clean", "pgd-20"], eps=RADII, label=list("abcd"))
    chart = sweeps.exchange(accuracy, GROUPS, SETTING, ("clean", "pgd-20"))
    spec = chart.to_dict()
    assert spec["layer"][0]["encoding"]["order"]["field"] == "place"
    assert "From radius 4/255 to radius 12/255. Change of clean accuracy, 4 classes: -16.7 points" in spec["description"]
    assert ">d<" in drawn(chart)


def test_the_explorer_shows_clean_and_attacked_images_at_each_setting(counts):
    chart = class_explorer.over_settings(counts, counts.sel(label=counts.label), SETTING, "8/255", live=False)
    params = {param["name"]: param for param in chart.to_dict()["params"]}
    assert params["chosen_eps"]["bind"]["options"] == ["4/255", "8/255", "12/255"]
    assert (params["chosen_eps"]["value"], params["chosen_class"]["value"]) == ("8/255", "a")
    assert "One class by radius in training" in str(chart.to_dict()["title"])
    assert ">radius in training<" in drawn(chart)
