"""How often claims about extremes are decided wrongly, and how often rightly, in many samples whose truth is known."""

import numpy as np
import pytest

from classwise.papers.draws import extreme_draws
from classwise.stats.intervals import chance_below

SAMPLES, DRAWS, ALPHA = 2000, 300, 0.05
LABELS, CELLS = 4, 3
BEYOND = [(label, other) for label in range(LABELS) for other in range(LABELS) if other != label]


def parts(values):
    """Return values (n, parts) as they are, in one group."""
    return values, np.zeros(values.shape[1], dtype=int)


def margins(values):
    """Return how far each class (label x cell) lies above each other one in each cell, grouped by class."""
    rates = values.reshape(len(values), LABELS, CELLS)
    above = np.concatenate([rates[:, one] - rates[:, other] for one, other in BEYOND], 1)
    return above, np.repeat([one for one, _ in BEYOND], CELLS)


def decided(true, of, sign, spread, seed):
    """Return in what share of samples an extreme is found above 0 (sign 1) or below it: normal estimates, normal draws."""
    rng, found = np.random.default_rng(seed), 0
    # Parts share a common error, as networks that are compared with one base.
    for _ in range(SAMPLES):
        observed = true + spread * (rng.standard_normal(len(true)) + rng.standard_normal())
        away = spread * (rng.standard_normal((DRAWS, len(true))) + rng.standard_normal((DRAWS, 1)))
        (effects,), group = of(observed[None])
        drawn = extreme_draws(effects, of(observed + away)[0], group)
        found += chance_below(sign * drawn, 0.0) < ALPHA
    return found / SAMPLES


# True values whose least, or the class whose least margin is the largest, lies at 0.
AT_THE_BOUND = {
    "the least of equal ones": (np.zeros(6), parts),
    "one least by far": (np.array([0, 9, 9, 9, 9, 9.0]), parts),
    "two classes tie at the top": (np.repeat([5, 5, 0, 0.0], CELLS), margins),
    "all classes tie": (np.zeros(LABELS * CELLS), margins),
    "the best class ties with another in one cell": (np.array([5, 5, 5, 0, 0, 5, 0, 0, 0, 0, 0, 0.0]), margins),
}
INSIDE = {
    "above: all parts": (np.full(6, 6.0), parts, 1),
    "below: one part": (np.array([-6, 3, 3, 3, 3, 3.0]), parts, -1),
    "above: one class best in every cell": (np.repeat([8, 0, 0, 0.0], CELLS), margins, 1),
    "below: no class best in every cell": (np.array([6, 0, 0, 0, 6, 0, 0, 0, 6, 0, 0, 0.0]), margins, -1),
}


@pytest.mark.parametrize("sign", [1, -1], ids=["holds", "fails"])
@pytest.mark.parametrize("name", AT_THE_BOUND)
def test_an_extreme_at_its_bound_is_decided_one_time_in_twenty_at_most(name, sign):
    true, of = AT_THE_BOUND[name]
    assert decided(true, of, sign, 1.0, seed=sign + 1) <= 1.5 * ALPHA


@pytest.mark.parametrize("name", INSIDE)
def test_an_extreme_well_inside_is_found(name):
    true, of, sign = INSIDE[name]
    assert decided(true, of, sign, 1.0, seed=7) >= 0.8
