"""Charts of calibrations, and what they say of themselves."""

import numpy as np
import pytest
import vl_convert
import xarray as xr

from classwise.book import figures
from classwise.charts import calibrations, style

LABELS = ["0", "1", "2"]


@pytest.fixture(autouse=True)
def _setup():
    style.setup()


def bounds(values, *dims, **coords):
    """Return values with the dimension bound, of an interval of two points."""
    array = xr.DataArray(np.array(values, dtype=float), coords, dims)
    return xr.concat([array - 1, array, array + 1], "bound").assign_coords(bound=["low", "value", "high"])


def drawn(chart):
    """Return the specification of a chart that Vega can draw."""
    spec = chart.to_dict()
    assert vl_convert.vegalite_to_svg(spec)
    return spec


def grid(values):
    coords = {"method": ["AT", "FAT"], "calibration": ["uniform", "calibrated"], "averaging": ["none", "EMA", "FAWA"]}
    return xr.DataArray(np.array(values, dtype=float), coords, tuple(coords))


def test_a_grid_names_its_panels_and_frames_what_is_certain():
    values = grid([[[50, 52, 51], [55, 54, np.nan]], [[40, 40, 40], [40, 40, 40]]])
    change = values - values.isel(calibration=0, averaging=0, drop=True)
    ends = xr.concat([change - 3, change, change + 3], "bound").assign_coords(bound=["low", "value", "high"])
    spec = drawn(calibrations.factorial({"overall": values}, {"overall": ends}, "A subtitle."))
    assert "40.0 (FAT, uniform, none) to 55.0 (AT, calibrated, none)" in spec["description"].replace(" %", "")
    assert spec["facet"]["sort"] == ["AT, all images", "FAT, all images"]
    framed = [layer for layer in spec["spec"]["layer"] if layer.get("transform")]
    assert framed[0]["transform"][0]["filter"] == "datum.low > 0 || datum.high < 0"
    assert [layer["mark"]["type"] for layer in spec["spec"]["layer"]] == ["rect", "rect", "text"]


def test_networks_with_uniform_settings_are_a_line_and_others_named_dots():
    names = ["1/2", "1", "at-ccm"]
    place = xr.DataArray([0.5, 1.0, 0.8], {"network": names, "uniform": ("network", [True, True, False])}, ("network",))
    chart = calibrations.against_uniform({"overall": bounds([20, 30, 28], "network", network=names)}, place, "radius")
    spec = drawn(chart)
    (panel,) = spec["hconcat"]
    kinds = [layer["mark"]["type"] for layer in panel["layer"]]
    line, dots = (panel["layer"][kinds.index(kind)] for kind in ("line", "text"))
    lines = {kind: spec["datasets"][layer["data"]["name"]] for kind, layer in (("line", line), ("dots", dots))}
    assert "at-ccm" not in str(lines["line"])
    assert "1/2" not in str(lines["dots"])
    assert dots["encoding"]["text"]["field"] == "network"
    assert "at-ccm 0.8" in spec["description"]


def test_settings_and_accuracies_are_correlated_by_rank():
    coords = {"network": ["at-ccm, radius"], "label": LABELS}
    marks = {"hard": ("label", [True, False, False]), "easy": ("label", [False, False, True])}
    multiple = xr.DataArray([[0.8, 1.0, 1.3]], coords, ("network", "label"))
    accuracy = xr.DataArray([[30.0, 60.0, 90.0]], coords, ("network", "label")).assign_coords(marks)
    ends = xr.concat([accuracy - 5, accuracy + 5], "bound").assign_coords(bound=["low", "high"]).drop_vars(list(marks))
    spec = drawn(calibrations.settings_by_accuracy(multiple, accuracy, ends))
    assert "at-ccm, radius 1.00" in " ".join(spec["title"]["subtitle"])
    assert "0.80 (class 0) to 1.30 (class 2)" in spec["description"]


def test_sweeps_have_a_panel_each_with_the_network_without_the_calibration():
    swept = {"lambda1, worst class": bounds([20, 30], "lambda1", lambda1=["0.7", "0.3"])}
    without = {"lambda1, worst class": bounds(25)}
    spec = drawn(calibrations.sweeps(swept, without, "lambda"))
    (panel,) = spec["concat"]
    assert panel["title"]["text"] == "lambda1, worst class"
    assert panel["layer"][-1]["encoding"]["x"]["axis"]["values"] == [0.3, 0.7]
    assert "20 % (0.7) to 30 % (0.3). Without: 25 %." in spec["description"]
    html = calibrations.sweeps(swept, without, "lambda")._repr_mimebundle_(None, None)
    data = html[0]["text/html"] if isinstance(html, tuple) else html["text/html"]
    rows = figures.table(figures.specification(data))
    assert dict(zip(rows["offset"], map(float, rows["value"]), strict=True)) == {"0.3": 30, "0.7": 20, "none": 25}


def rule():
    values = np.array([[[0.4, 0.6, 0.9], [0.5, 0.7, 0.8]], [[0.1, 0.2, 0.3], [0.2, 0.3, 0.4]]])
    coords = {"network": ["at-ccm", "trades"], "epoch": [1, 2], "label": LABELS}
    marks = {"hard": ("label", [True, False, False]), "easy": ("label", [False, False, True])}
    return xr.DataArray(values, coords, tuple(coords)).assign_coords(marks)


def test_the_rule_moves_with_its_sliders_in_a_page_without_a_kernel():
    spec = drawn(calibrations.rule_explorer(rule(), {"at-ccm": 0.5, "trades": 0.3}, live=False))
    params = {param["name"]: param for param in spec["params"]}
    assert params["chosen_lambda"]["bind"] == {"input": "range", "min": 0.0, "max": 1.0, "step": 0.05, "name": "lambda"}
    assert params["chosen_lambda"]["value"] == 0.5
    assert params["chosen_epoch"]["bind"]["max"] == 2
    assert params["chosen_network"]["bind"]["options"] == ["at-ccm", "trades"]


@pytest.mark.parametrize(("network", "offset", "epoch"), [("at-ccm", 0.5, 2), ("at-ccm", 0.3, 1), ("trades", 0.85, 2)])
def test_vega_computes_the_rule_as_python_does(network, offset, epoch):
    spec = calibrations.rule_explorer(rule(), {"at-ccm": 0.5, "trades": 0.3}, live=False).to_dict()
    for param in spec["params"]:
        param["value"] = {"chosen_network": network, "chosen_lambda": offset, "chosen_epoch": epoch}[param["name"]]
    svg = vl_convert.vegalite_to_svg(spec)
    for label, t in zip(LABELS, rule().sel(network=network, epoch=epoch).values, strict=True):
        assert f"lambda + t: {offset + t:.2f}; training accuracy t: {t:.2f}" in svg
        assert f"class: {label}; " in svg
