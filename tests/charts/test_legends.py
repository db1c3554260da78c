"""A legend says that it can be clicked if and only if a click highlights members of the chart."""

import pandas as pd
import pytest
from drawing import legend_fields, reacting_legends

from classwise.charts import class_explorer, curves, dots
from classwise.charts.primitives import CUE
from classwise.stats import bootstrap, intervals, metrics

BENCH = pd.DataFrame(
    {
        "name": ["pgd", "fab"],
        "title": ["pgd", "fab"],
        "peer": "other",
        "machine": ["cpu", "gpu"],
        "ratio": [2.0, 0.9],
        "ours_s": 1.0,
        "peer_s": 2.0,
        "created": "2026-01-01",
    }
)


CHARTS = {
    "curves.metric_curves": lambda count, history: curves.metric_curves(
        bootstrap.bootstrap(history["count"].sel(split="test", attack="pgd-10"), metrics.mcd, draws=50), "points"
    ),
    "dots.class_accuracy": lambda count, history: dots.class_accuracy(metrics.accuracy(count), intervals.wilson(count)),
    "dots.class_rows": lambda count, history: dots.class_rows(
        metrics.accuracy(count.isel(defence=0)), intervals.wilson(count.isel(defence=0))
    ),
    "dots.metric_dots": lambda count, history: dots.metric_dots({"mcd": bootstrap.bootstrap(count, metrics.mcd, draws=50)}),
    "dots.confusion_symmetry": lambda count, history: dots.confusion_symmetry(metrics.confusion(count.isel(attack=1))),
    "dots.confused_pairs": lambda count, history: dots.confused_pairs(metrics.off_diagonal_confusion(count.isel(attack=1))),
    "dots.benchmark_ratios": lambda count, history: dots.benchmark_ratios(BENCH),
}
WITHOUT_LEGENDS = {
    "curves.class_accuracy": lambda count, history: curves.class_accuracy(metrics.accuracy(history["count"].sel(split="test"))),
    "curves.training_settings": lambda count, history: curves.training_settings({"radius": history["radius"]}),
    "class_explorer.radius_curves": lambda count, history: class_explorer.radius_curves(
        count.isel(defence=0, attack=[0, 1, 1], drop=True)
        .rename(attack="radius")
        .assign_coords(radius=[0.0, 0.1, 0.2], eps=("radius", ["0", "0.1", "0.2"])),
        list("0123456789"),
    ),
    "class_explorer.over_epochs": lambda count, history: class_explorer.over_epochs(history.expand_dims("seed"), live=False),
    "dots.seed_dots": lambda count, history: dots.seed_dots(metrics.accuracy(count.isel(attack=1).expand_dims(seed=[0]))),
}


@pytest.mark.parametrize("name", CHARTS)
def test_each_legend_of_categories_has_the_cue_and_highlights_what_is_clicked(name, count, history):
    chart = CHARTS[name](count.sum("seed"), history)
    named, cued, clicked, fading = legend_fields(chart)
    assert len(named) == 1
    assert cued == clicked == fading == named
    assert all((CUE in title) == reacts for title, reacts in reacting_legends(chart).items())


@pytest.mark.parametrize("name", WITHOUT_LEGENDS)
def test_charts_without_a_legend_of_categories_have_no_cue(name, count, history):
    chart = WITHOUT_LEGENDS[name](count.sum("seed"), history)
    assert legend_fields(chart) == (set(), set(), set(), set())
