"""Panels are drawn by Vega, cell by cell and line by line."""

import mocks
import pandas as pd
import pytest
import vl_convert
import xarray as xr

from classwise.charts import curves, dots, heatmaps, style, tables
from classwise.stats import aggregate, bootstrap, intervals, metrics


@pytest.fixture(autouse=True)
def _setup():
    style.setup()


@pytest.fixture
def history():
    both = [mocks.dataset(seed=seed) for seed in (0, 1)]
    return xr.concat(both, pd.Index(["standard", "pgd-at"], name="defence"))


def drawn(chart):
    return vl_convert.vegalite_to_svg(chart.to_json())


def test_a_matrix_has_a_cell_for_every_class_and_defence(history):
    count = history["count"].isel(epoch=-1).sel(split="test", attack="pgd-10")
    chart = heatmaps.accuracy_matrix(metrics.accuracy(count))
    assert drawn(chart).count('aria-roledescription="rect mark"') == 2 * 10
    assert chart.to_dict()["layer"][0]["encoding"]["y"]["sort"] == ["standard", "pgd-at"]


def test_settings_are_a_line_for_every_class_in_every_panel(history):
    svg = drawn(curves.training_settings({"radius": history["radius"], "beta": history["beta"]}))
    assert svg.count('aria-roledescription="line mark"') == 2 * 2 * 10


def test_the_last_epoch_is_a_row_for_each_defence(history):
    table = tables.final_settings(history["weight"])
    assert table.shape == (2, 10)
    assert list(table.index) == ["standard", "pgd-at"]
    assert table.columns.name == "class"
    weight = history["weight"].isel(epoch=-1).sel(defence="pgd-at", label="3")
    assert table.loc["pgd-at", "3"] == f"{float(weight):.2f}"
    assert tables.final_settings(history["weight"].sel(defence=[])).shape == (0, 10)


def test_ranked_sorts_by_the_first_measure_in_the_last_series(history):
    count = history["count"].isel(epoch=-1).sel(split="test").expand_dims("seed")
    found = {name: bootstrap.bootstrap(count, metrics.METRICS[name], over=["seed"]) for name in ("overall", "worst", "mcd")}
    chart = dots.metric_dots(found, "defence", "attack", ranked=True, columns=3)
    last = found["overall"].sel(bound="value").isel(attack=-1)
    best = [str(name) for name in last.sortby(last, ascending=False).defence.values]
    encoded = chart.to_dict()["concat"][0]["layer"][0]["encoding"]
    assert encoded["y"]["sort"] == best
    # A dot and an interval for every defence under every attack in each of the three panels.
    for mark in ("point", "rule mark"):
        assert drawn(chart).count(f'aria-roledescription="{mark}"') == 3 * 2 * count.sizes["attack"]


def test_the_forest_keeps_the_order_and_draws_every_interval_round_its_dot():
    count = aggregate.counts(mocks.dataset("outcomes 1", classes=("stop", "yield", "speed"))).expand_dims(
        attack=["clean", "pgd-20"]
    )
    count = count.sel(label=["yield", "stop"])
    rates, bounds = metrics.accuracy(count), intervals.wilson(count)
    table = dots.class_rows(rates, bounds).data
    assert len(table) == 4
    assert ((table["low"] < table["value"]) & (table["value"] < table["high"])).all()
    assert dots.class_rows(rates, bounds).to_dict()["layer"][0]["encoding"]["y"]["sort"] == ["yield", "stop"]
