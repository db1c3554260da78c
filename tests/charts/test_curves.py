"""Curves over the epochs, and the order of the cells of a heatmap."""

import re

from drawing import drawn

from classwise.charts import curves, heatmaps
from classwise.charts.primitives import HIGHLIGHTED
from classwise.charts.style import CHOSEN, HIGHEST, LOWEST
from classwise.stats import aggregate, metrics


def test_lines_that_end_alike_have_no_highest(history):
    count = aggregate.clean_and_attacked(history["count"].sel(split="test"))
    never = metrics.accuracy(count) * (count.defence != "standard")
    rendered = drawn(curves.class_accuracy(never, row="images_are"))
    both = drawn(curves.class_accuracy(metrics.accuracy(count), row="images_are"))
    for colour in (HIGHEST, LOWEST):
        assert both.lower().count(f'stroke="{colour.lower()}"') == 2 * rendered.lower().count(f'stroke="{colour.lower()}"') > 0


def ends(chart, label="none"):
    """Return the classes that are named at the ends of lines, by colour."""
    return re.findall(r'font-weight="bold" fill="(#\w+)"[^>]*>(\d)<', drawn(chart, **{HIGHLIGHTED: label}))


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


def test_confusion_draws_every_cell_in_the_given_order(count):
    order = list("9876543210")
    chart = heatmaps.confusion(metrics.confusion(count.sum("seed").sel(attack="pgd-10")), order=order)
    assert chart.to_dict()["spec"]["layer"][0]["encoding"]["y"]["sort"] == order
    assert drawn(chart).count('aria-roledescription="rect mark"') == 2 * (100 + 10)
