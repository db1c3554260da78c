"""Curves over the epochs."""

import json
import re

import vl_convert
from drawing import drawn

from classwise.charts import curves
from classwise.charts.primitives import HIGHLIGHTED
from classwise.charts.style import CHOSEN, HIGHEST, LOWEST
from classwise.stats import aggregate, bootstrap, metrics


def test_class_accuracy_draws_a_line_for_each_class_and_a_band_in_every_panel(history):
    count = aggregate.clean_and_attacked(history["count"].sel(split="test"))
    svg = drawn(curves.class_accuracy(metrics.accuracy(count), row="images_are"))
    assert svg.count('aria-roledescription="line mark"') == 2 * 2 * 10
    assert svg.count('aria-roledescription="area mark"') == 2 * 2


def test_lines_that_end_alike_have_no_highest(history):
    count = aggregate.clean_and_attacked(history["count"].sel(split="test"))
    never = metrics.accuracy(count) * (count.defence != "standard")
    rendered = drawn(curves.class_accuracy(never, row="images_are"))
    both = drawn(curves.class_accuracy(metrics.accuracy(count), row="images_are"))
    for colour in (HIGHEST, LOWEST):
        assert both.lower().count(f'stroke="{colour.lower()}"') == 2 * rendered.lower().count(f'stroke="{colour.lower()}"') > 0


def test_metric_curves_draw_a_line_for_each_defence(history):
    spread = bootstrap.bootstrap(history["count"].sel(split="test", attack="pgd-10"), metrics.mcd, draws=50)
    assert drawn(curves.metric_curves(spread, title="points")).count('aria-roledescription="line mark"') == 2


def test_training_settings_draw_a_line_for_each_class_in_every_panel(history):
    svg = drawn(curves.training_settings({"radius": history["radius"], "beta": history["beta"]}))
    assert svg.count('aria-roledescription="line mark"') == 2 * 2 * 10


def ends(chart, label="none"):
    """Return the classes that are named at the ends of lines, by colour."""
    spec = chart.to_dict()
    (param,) = [param for param in spec["params"] if param["name"] == HIGHLIGHTED]
    param["value"] = label
    svg = vl_convert.vegalite_to_svg(json.dumps(spec))
    return re.findall(r'font-weight="bold" fill="(#\w+)"[^>]*>(\d)<', svg)


def test_the_best_the_worst_and_the_chosen_class_are_named_in_every_panel(history):
    rates = metrics.accuracy(aggregate.clean_and_attacked(history["count"].sel(split="test")))
    chart = curves.class_accuracy(rates, row="images_are")
    last = rates.isel(epoch=-1)
    named = ends(chart)
    assert len(named) == 2 * 2 * 2
    assert {label for colour, label in named if colour == HIGHEST} == set(last.idxmax("label").values.flat)
    assert {label for colour, label in named if colour == LOWEST} == set(last.idxmin("label").values.flat)
    other = next(label for label in last.label.values if label not in {label for _, label in named})
    assert ends(chart, other).count((CHOSEN, other)) == 4
