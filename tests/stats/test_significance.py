"""The permutation test of a correlation."""

import numpy as np
import xarray as xr

from classwise.stats.significance import permutation_p

RISING = xr.DataArray(np.linspace(5, 45, 9), dims="partner")
JAGGED = RISING.copy(data=[30.0, 5, 40, 10, 45, 5, 35, 10, 25])


def test_a_random_order_seldom_correlates_as_a_perfect_one_does():
    assert permutation_p(RISING, RISING, "partner") < 1e-3
    assert permutation_p(RISING, -RISING, "partner") == 1
    assert permutation_p(RISING, -RISING, "partner", two_sided=True) < 1e-3
    assert 0.2 < permutation_p(RISING, JAGGED, "partner") < 0.8
    assert np.isnan(permutation_p(RISING, 0 * RISING, "partner"))
