"""Kendall's W of the orders of the classes in several networks."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from classwise.stats.agreement import kendall_w


def rates(*rows):
    return xr.DataArray([[float(value) for value in row] for row in rows], dims=("network", "label"))


def test_equal_orders_have_one_and_opposite_ones_zero():
    up = range(10)
    assert kendall_w(rates(up, [3 * value for value in up], up)) == (1.0, pytest.approx(1e-4))
    value, p = kendall_w(rates(up, up[::-1]))
    assert value == pytest.approx(0, abs=1e-12)
    assert p == 1


def test_w_is_friedmans_statistic_with_its_correction_for_ties():
    table = np.random.default_rng(0).integers(0, 6, (4, 8))
    expected = stats.friedmanchisquare(*table.T).statistic / (4 * 7)
    assert kendall_w(rates(*table))[0] == pytest.approx(expected)


def test_p_is_the_share_of_all_orders_that_agree_as_well():
    # Of the six orders of three classes beside a fixed one, one alone agrees fully, two more differ by neighbours.
    assert kendall_w(rates([1, 2, 3], [1, 2, 3]), draws=20_000)[1] == pytest.approx(1 / 6, abs=0.01)
    assert kendall_w(rates([1, 2, 3], [2, 1, 3]), draws=20_000)[1] == pytest.approx(3 / 6, abs=0.01)
    assert kendall_w(rates([1, 2, 3], [2, 1, 3]), seed=1) == kendall_w(rates([1, 2, 3], [2, 1, 3]), seed=1)
