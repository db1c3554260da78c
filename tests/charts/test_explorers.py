"""The classes of a network, sorted by their robust accuracy."""

import math

from drawing import drawn

from classwise.charts import explorers
from classwise.stats import intervals, metrics


def test_the_ranking_draws_each_class_of_the_chosen_defence_and_names_the_best_and_the_worst(count):
    pooled = count.sum("seed").sel(attack="pgd-10")
    rates = metrics.accuracy(pooled)
    svg = drawn(explorers.class_ranking(rates, intervals.wilson(pooled), ["pgd-at", "standard"], rates - 3))
    assert svg.count('aria-roledescription="point"') == 20
    assert svg.count('aria-roledescription="rule mark"') == 10
    of_base = rates.sel(defence="pgd-at")
    for word, place in (("best", of_base.argmax("label")), ("worst", of_base.argmin("label"))):
        class_ = of_base[int(place)]
        assert f"{word}: {class_.label.item()}, {math.floor(float(class_) + 0.5)} %" in svg
