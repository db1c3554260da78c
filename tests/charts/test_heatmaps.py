"""Heatmaps of classes."""

from drawing import drawn

from classwise.charts import heatmaps
from classwise.stats import intervals, metrics


def test_confusion_draws_every_cell_in_the_given_order(count):
    order = list("9876543210")
    chart = heatmaps.confusion(metrics.confusion(count.sum("seed").sel(attack="pgd-10")), order=order)
    assert chart.to_dict()["spec"]["layer"][0]["encoding"]["y"]["sort"] == order
    assert drawn(chart).count('aria-roledescription="rect mark"') == 2 * (100 + 10)


def test_an_accuracy_heatmap_has_a_cell_for_each_class_and_a_frame_where_its_relative_robustness_is_certain(count):
    pooled = count.sum("seed")
    relative = intervals.relative_robustness(pooled)
    relative[..., 0] = 1
    svg = drawn(heatmaps.accuracy_heatmap(pooled, relative))
    assert svg.count('aria-roledescription="rect mark"') == pooled.isel(predicted=0).size + int((relative != 0).sum())
