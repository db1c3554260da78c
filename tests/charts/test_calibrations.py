"""The explorer of the rule of a calibration."""

import numpy as np
import pytest
import vl_convert
import xarray as xr

from classwise.charts import calibrations, style

LABELS = ["0", "1", "2"]


@pytest.fixture(autouse=True)
def _setup():
    style.setup()


def drawn(chart):
    """Return the specification of a chart that Vega can draw."""
    spec = chart.to_dict()
    assert vl_convert.vegalite_to_svg(spec)
    return spec


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
