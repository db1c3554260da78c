"""Dots with and without intervals, and bars of pairs."""

import mocks
from drawing import drawn

from classwise.charts import dots, style
from classwise.stats import aggregate, bootstrap, intervals, metrics


def test_class_accuracy_draws_an_interval_for_every_class(count):
    pooled = count.sum("seed")
    svg = drawn(dots.class_accuracy(metrics.accuracy(pooled), intervals.wilson(pooled)))
    assert svg.count('aria-roledescription="point"') == 2 * 2 * 10
    assert svg.count('aria-roledescription="rule mark"') == 2 * 2 * 10


def test_confusion_symmetry_draws_each_pair_once(count):
    svg = drawn(dots.confusion_symmetry(metrics.confusion(count.sum("seed").sel(attack="pgd-10"))))
    assert svg.count('aria-roledescription="circle"') == 2 * 45


def test_confused_pairs_draw_a_bar_for_each_pair_and_defence(count):
    mistakes = metrics.off_diagonal_confusion(count.sum("seed").sel(attack="pgd-10"))
    assert drawn(dots.confused_pairs(mistakes, most=5)).count('aria-roledescription="bar"') == 2 * 5


def test_seed_dots_draw_a_dot_for_each_class_seed_and_defence(count):
    svg = drawn(dots.seed_dots(metrics.accuracy(count.sel(attack="pgd-10"))))
    assert svg.count('aria-roledescription="circle"') == 2 * 2 * 10


def test_a_class_keeps_its_colour_whatever_is_filtered():
    scale = style.class_colour(list("0123456789")).to_dict()["scale"]
    assert scale["domain"] == list("0123456789")
    assert scale["range"] == list(style.CLASS_COLOURS)


def test_metric_dots_draw_a_dot_and_an_interval_for_each_setting(count):
    pooled = count.sum("seed")
    found = {name: bootstrap.bootstrap(pooled, metrics.METRICS[name], draws=50) for name in ("overall", "mcd")}
    chart = dots.metric_dots(found)
    assert chart.to_dict()["spec"]["layer"][0]["encoding"]["color"]["title"] == "click to highlight"
    for mark in ("point", "rule mark"):
        assert drawn(chart).count(f'aria-roledescription="{mark}"') == 2 * 4


def test_class_rows_keep_the_order_of_the_classes_and_each_interval_contains_its_dot():
    count = aggregate.counts(mocks.dataset("outcomes 1", classes=("stop", "yield", "speed"))).expand_dims(
        attack=["clean", "pgd-20"]
    )
    count = count.sel(label=["yield", "stop"])
    rates, bounds = metrics.accuracy(count), intervals.wilson(count)
    table = dots.class_rows(rates, bounds).data
    assert len(table) == 4
    assert ((table["low"] < table["value"]) & (table["value"] < table["high"])).all()
    assert dots.class_rows(rates, bounds).to_dict()["layer"][0]["encoding"]["y"]["sort"] == ["yield", "stop"]
