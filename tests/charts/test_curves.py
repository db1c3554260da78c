"""Curves over the epochs."""

from drawing import drawn

from classwise.charts import curves
from classwise.stats import aggregate, bootstrap, metrics


def test_class_accuracy_draws_a_line_for_each_class_and_a_band_in_every_panel(history):
    count = aggregate.clean_and_attacked(history["count"].sel(split="test"))
    svg = drawn(curves.class_accuracy(metrics.accuracy(count), row="images_are"))
    assert svg.count('aria-roledescription="line mark"') == 2 * 2 * 10
    assert svg.count('aria-roledescription="area mark"') == 2 * 2


def test_metric_curves_draw_a_line_for_each_defence(history):
    spread = bootstrap.bootstrap(history["count"].sel(split="test", attack="pgd-10"), metrics.mcd, draws=50)
    assert drawn(curves.metric_curves(spread, title="points")).count('aria-roledescription="line mark"') == 2


def test_training_settings_draw_a_line_for_each_class_in_every_panel(history):
    svg = drawn(curves.training_settings({"radius": history["radius"], "beta": history["beta"]}))
    assert svg.count('aria-roledescription="line mark"') == 2 * 2 * 10
