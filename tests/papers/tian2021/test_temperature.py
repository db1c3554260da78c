"""Temperature-PGD beside PGD: networks with and without their scale, and the variance of confidence."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from classwise.core.errors import NotRecorded
from classwise.papers.tian2021 import temperature
from classwise.stats import aggregate, confidence, metrics


def test_pgd_is_the_temperature_of_1_and_cosines_are_a_further_network(hot):
    raw = hot()
    found = temperature.tempered(raw)
    assert list(found.defence.values) == ["pgd-at", "pgd-he", "pgd-he, cosines"]
    assert list(found.inverse.values) == ["1", "2", "5"]
    assert (found.truth >= 0).all()
    first = raw.answer.sel(defence="pgd-he", attack="pgd-20", readout="cosines", inverse="", form="")
    for form in ("stable", "published"):
        same = found.answer.sel(defence="pgd-he, cosines", form=form, inverse="1")
        np.testing.assert_array_equal(same.squeeze(), first.squeeze())
        other = raw.answer.sel(defence="pgd-at", attack="temperature-pgd-20", readout="logits", inverse=5, form=form)
        np.testing.assert_array_equal(found.answer.sel(defence="pgd-at", form=form, inverse="5").squeeze(), other.squeeze())
    assert list(temperature.tempered(hot(("logits",))).defence.values) == ["pgd-at", "pgd-he"]


def test_a_network_without_the_whole_grid_is_left_out(hot):
    raw = hot(("logits",))
    assert list(temperature.tempered(raw, (2, 5)).defence.values) == ["pgd-at", "pgd-he"]
    raw.truth.loc[{"defence": "pgd-he", "inverse": 5}] = -1
    assert list(temperature.tempered(raw, (2, 5)).defence.values) == ["pgd-at"]
    with pytest.raises(NotRecorded, match="no network under temperature-pgd-20 at 1/T = 2, 50"):
        temperature.tempered(raw, (2, 50))
    with pytest.raises(NotRecorded, match="under temperature-pgd-20 at several temperatures"):
        temperature.tempered(raw.sel(attack=["clean", "pgd-20"]), (2, 5))


def test_each_network_changes_at_the_temperature_that_breaks_the_most(hot):
    count = aggregate.counts(temperature.tempered(hot()).sel(form="stable", drop=True)).sum("seed")
    change, left = temperature.changes_at_best(count), metrics.overall(count)
    for name in map(str, change.network.values):
        defence, _, inverse = name.rpartition(", 1/T = ")
        of_defence = left.sel(defence=defence)
        assert float(of_defence.sel(inverse=inverse)) == float(of_defence.sel(inverse=["2", "5"]).min())
        lost = float(of_defence.sel(inverse=inverse) - of_defence.sel(inverse="1"))
        assert float(change.sel(network=name).mean("label")) == pytest.approx(lost)


def test_readings_compare_cosines_with_the_scaled_network(hot):
    found = temperature.tempered(hot()).sel(form="stable", drop=True)
    scaled, bare = (found.answer.sel(defence=name, drop=True) for name in ("pgd-he", "pgd-he, cosines"))
    found.answer.loc[{"defence": "pgd-he, cosines", "inverse": "5"}] = scaled.sel(inverse="1", drop=True)
    table = temperature.readings(found)
    assert table.index.tolist() == [("pgd-he", heat) for heat in ("1", "2", "5")]
    last = table.columns[-1]
    assert table.loc[("pgd-he", "5"), last] == "0"
    assert table.loc[("pgd-he", "1"), last] == str(int((scaled.sel(inverse="1") != bare.sel(inverse="1")).sum()))
    assert temperature.readings(temperature.tempered(hot(("logits",))).sel(form="stable", drop=True)).empty


def test_the_variance_of_confidence_has_the_interval_of_a_mean(hot):
    found = temperature.tempered(hot()).sel(form="stable", inverse="1", drop=True)
    bounds = temperature.cvc_bounds(found)
    own = confidence.confidence_variance(found).sel(defence="pgd-at").squeeze("seed").values[0::3]
    assert float(bounds.sel(bound="value", defence="pgd-at", label="x")) == pytest.approx(own.mean(), rel=1e-5)
    reach = 1.959964 * stats.sem(own)
    assert float(bounds.sel(bound="high", defence="pgd-at", label="x")) == pytest.approx(own.mean() + reach, rel=1e-4)
    table = temperature.smoothness(bounds, aggregate.counts(found).sum("seed"))
    assert list(table.index) == ["pgd-at", "pgd-he", "pgd-he, cosines"]


def test_the_cosines_of_he_have_the_name_of_he_in_the_paper(rates, hot):
    count = aggregate.counts(temperature.tempered(hot()).sel(form="stable", drop=True))
    found = temperature.as_published(count)
    assert list(found.defence.values) == ["pgd-at", "pgd-he"]
    np.testing.assert_array_equal(found.sel(defence="pgd-he"), count.sel(defence="pgd-he, cosines"))
    xr.testing.assert_equal(temperature.as_published(rates), rates)
