"""Dots: the order and the ranking of classes; the scatter of two metrics: who is best, whose names are drawn, what a size is."""

import re

import mocks
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from drawing import drawn

from classwise.charts import dots, explorers, style
from classwise.stats import aggregate, intervals, metrics


def test_class_rows_keep_the_order_of_the_classes_and_each_interval_contains_its_dot():
    count = aggregate.counts(mocks.dataset("outcomes 1", classes=("stop", "yield", "speed"))).sel(label=["yield", "stop"])
    count = count.expand_dims(attack=["clean", "pgd-20"])
    chart = dots.class_accuracy(count)
    table = chart.data
    assert len(table) == 4
    assert ((table["low"] < table["value"]) & (table["value"] < table["high"])).all()
    assert chart.to_dict()["layer"][0]["encoding"]["y"]["sort"] == ["yield", "stop"]


NAMES = [f"defence-{number}" for number in range(12)]


def measured(values):
    array = xr.DataArray(np.array(values, dtype=float), dims="defence", coords={"defence": NAMES[: len(values)]})
    return xr.concat([array - 4, array, array + 4], pd.Index(["low", "value", "high"], name="bound"))


def test_those_that_none_exceeds_in_both_are_best():
    chart = dots.metric_scatter(measured([60, 50, 55, 60]), measured([10, 30, 20, 20]))
    table = chart.data.set_index("defence")["front"]
    assert dict(table) == {"defence-0": "other", "defence-1": "best", "defence-2": "other", "defence-3": "best"}
    assert chart.to_dict()["description"].endswith("Exceeded by no other in both: defence-1, defence-3.")


def test_names_do_not_cover_each_other_and_each_is_drawn_once_and_among_many_those_that_are_named():
    apart = drawn(dots.metric_scatter(measured(30 + np.arange(12) * 3), measured(5 + np.arange(12) * 4)))
    assert [apart.count(f">{name}<") for name in NAMES] == [1] * 12
    x, y = measured(50 + np.arange(12) * 0.1), measured(20 + np.arange(12) * 0.05)
    close = drawn(dots.metric_scatter(x, y))
    assert 1 <= sum(close.count(f">{name}<") for name in NAMES) < 12
    for name in NAMES:
        assert drawn(dots.metric_scatter(x, y, named=[name])).count(f">{name}<") == 1


def test_a_defence_that_is_far_below_is_named_and_not_drawn():
    chart = dots.metric_scatter(measured([60, 3]), measured([10, 0]))
    assert list(chart.data["defence"]) == ["defence-0"]
    assert "Not drawn: defence-1 (3 and 0)." in " ".join(chart.to_dict()["title"]["subtitle"])


@pytest.mark.parametrize("cost", [None, [5.0, 80.0]])
def test_the_cost_is_the_area_of_a_dot(cost):
    seconds = None if cost is None else measured(cost).sel(bound="value")
    svg = drawn(dots.metric_scatter(measured([60, 50]), measured([10, 30]), seconds))
    assert (">training, seconds<" in svg) == (cost is not None)


def test_the_ranking_draws_the_classes_of_the_chosen_defence_and_colours_the_best_and_the_worst(count):
    pooled = count.sum("seed").sel(attack="pgd-10")
    rates = metrics.accuracy(pooled)
    marks = {"attacked": rates, "clean": rates + 1, "paper": rates - 3}
    chart = explorers.class_ranking(marks, intervals.wilson(pooled), {"pgd-at": "First title", "standard": "The other"})
    svg = drawn(chart)
    assert ">First title<" in svg
    assert ">The other<" in drawn(chart, ranking_defence="standard")
    assert svg.count('aria-roledescription="point"') == 30
    assert svg.count('aria-roledescription="rule mark"') == 10
    assert all(f">{name}<" in svg for name in marks)
    of_base = rates.sel(defence="pgd-at")
    for colour, place in ((style.HIGHEST, of_base.argmax("label")), (style.LOWEST, of_base.argmin("label"))):
        (label,) = set(re.findall(rf'aria-label="[^"]*label: ([^;]+);[^"]*"[^>]*fill="{colour}"', svg))
        assert label == of_base[int(place)].label.item()
