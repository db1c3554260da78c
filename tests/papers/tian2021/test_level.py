"""The level of the recorded networks and the order of their classes, beside Table 1 and an earlier recipe."""

import re

import mocks
import pytest
import xarray as xr
from scipy import stats

from classwise import runs
from classwise.papers import registry
from classwise.papers.published import counts
from classwise.papers.tian2021 import level
from classwise.papers.tian2021.tables import TABLES
from classwise.runs import describe
from classwise.stats import aggregate, metrics

PRINTED = TABLES.load(1).accuracy.sel(attack="pgd-20")


def test_the_correlation_is_that_of_ranks():
    first, second = (PRINTED.sel(defence=name, drop=True) for name in ("pgd-at", "trades"))
    expected = stats.spearmanr(first, second).statistic
    assert float(level.correlation(counts(first), second)) == pytest.approx(expected)
    several = xr.concat([counts(first), counts(second)], "draw")
    assert level.correlation(several, second).values.tolist() == pytest.approx([expected, 1])


def test_the_earlier_recipe_is_recorded_and_compared_with_the_paper():
    earlier = runs.outcomes(runs.available(level.EARLIER))
    assert list(earlier.defence.values) == ["standard", "pgd-at", "trades"]
    said = level.summary(earlier, earlier)
    count = aggregate.counts(earlier).sum("seed").sel(defence="pgd-at", attack="pgd-20")
    theirs, ours = float(TABLES.load(1).overall.sel(defence="pgd-at", attack="pgd-20")), float(metrics.overall(count))
    assert f"**pgd-at**: {ours:.1f} % of all images, {theirs - ours:.1f} points below the paper" in said
    rank = stats.spearmanr(metrics.accuracy(count), PRINTED.sel(defence="pgd-at", label=count.label.values)).statistic
    assert f"with the paper's {rank:.2f} [" in said
    assert len(re.findall("with those of the ResNet-18 1.00", said)) == 2
    assert level.EARLIER.specs[1] not in registry.request("tian2021/4-3-attacks-and-defences", "laptop").specs
    assert "on CIFAR-10" in level.summary(earlier, None)


def test_a_page_of_a_recorded_scale_says_how_far_its_level_lies_below_the_paper(data):
    request = registry.request("tian2021/4-1-class-bias", "laptop", seeds=[0], defences=["pgd-at"])
    assert "below Table 1" not in describe._level("laptop")
    mocks.record(request.specs[0], *request.evaluations)
    outcomes = runs.outcomes(request)
    level = 100 * float((outcomes.answer == outcomes.truth).sel(attack="pgd-20").mean())
    theirs = float(TABLES.load(1).overall.sel(defence="pgd-at", attack="pgd-20"))
    said = f"pgd-at under pgd-20: {level:.1f} % of all images, {theirs - level:.1f} points below Table 1 of Tian et al. 2021"
    assert said in describe.summary(request, outcomes)
