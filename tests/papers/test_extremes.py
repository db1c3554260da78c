"""Claims that each of several quantities lies beyond a bound."""

import numpy as np
from claim_answers import outcomes_with, trained_thrice
from numpy.testing import assert_allclose

from classwise.papers import terms
from classwise.papers.claims import Claim
from classwise.papers.draws import Draws, Quantity, extreme_draws
from classwise.papers.judging import Bootstrap, judge_all, p_values
from classwise.stats import metrics

NAMES = ("a", "b", "c")


def gains(sums):
    """Return what each of three methods gains over "plain", along defence."""
    rates = metrics.overall(sums["count"].isel(attack=0))
    return rates.sel(defence=list(NAMES)) - rates.sel(defence="plain", drop=True)


def least(sums):
    """Return the least gain."""
    return gains(sums).min("defence")


def one(sums):
    """Return the first gain."""
    return gains(sums).isel(defence=0)


def of(plain, *others, size=100):
    return outcomes_with({(name, "pgd-20"): right for name, right in zip(("plain", *NAMES), (plain, *others), strict=True)})


def verdict(data, measure, low=0.0, high=np.inf):
    claim = Claim("c", "wei2023/page", "1", "A claim.", measure, low=low, high=high)
    return judge_all([claim], trained_thrice(data), scale="quick", dataset="digits", bootstrap=Bootstrap(400))[0]


def draws_of(data, parts=gains, largest=False):
    claim = Claim("c", "wei2023/page", "1", "A claim.", terms.least(parts, largest=largest))
    quantity = Quantity(claim, data.expand_dims(seed=[0]))
    return extreme_draws(quantity.effects, quantity.redraw(400, 0), quantity.group, largest=largest)


def shuffled(data, seed=0):
    """Return the answers of each class in another order for each method, so that methods err on different images."""
    rng, answer = np.random.default_rng(seed), data.prediction.copy(deep=True)
    for values in answer.values.reshape(-1, answer.sizes["image"]):
        for label in range(10):
            members = np.flatnonzero(data.truth.values.reshape(-1, len(values))[0] == label)
            values[members] = rng.permutation(values[members])
    return data.assign(prediction=answer, misclassified=answer != data.truth)


def test_all_gain_just_where_each_does():
    """Three gains of the same size: p is that of the least certain one, not that of a corrected least gain."""
    data = shuffled(of(60, 63, 63, 63))
    single = verdict(data, one).p
    assert p_values(Claim("c", "wei2023/page", "1", "A claim.", least), Draws(draws_of(data)))[0] >= 0.9 * single
    assert verdict(data, least).p < single  # as reflected draws of the least have it


def test_it_holds_where_all_gain_by_far_fails_where_one_loses_by_far_and_equal_methods_do_neither():
    """A method with the very answers of what it is compared with is no evidence against a gain."""
    some = shuffled(of(50, 70, 75, 80)), shuffled(of(70, 50, 80, 80)), of(60, 60, 60, 60), of(60, 60, 70, 80)
    assert [verdict(data, terms.least(gains)).verdict for data in some] == ["holds", "fails", "open", "open"]


def test_the_largest_is_the_least_with_the_other_sign():
    data = shuffled(of(60, 65, 55, 70))
    assert_allclose(draws_of(data, lambda sums: -gains(sums), largest=True), -draws_of(data))


def test_no_loss_is_larger():
    largest_loss = terms.least(lambda sums: -gains(sums), largest=True)
    assert verdict(shuffled(of(60, 70, 75, 80)), largest_loss, -np.inf, 2.0).verdict == "holds"
    assert verdict(shuffled(of(80, 60, 80, 80)), largest_loss, -np.inf, 2.0).verdict == "fails"


def test_a_draw_at_the_bound_counts_against_a_claim():
    """Sums of single precision that equal a bound but for rounding are no evidence for a claim."""

    def noisy(sums):
        """Return one; in a tenth of the draws two, but for rounding."""
        gain = one(sums)
        if "draw" not in gain.dims:
            return 0 * gain + 1
        return (1 + (gain - gain.mean()) / 1000).where(gain <= gain.quantile(0.9), 2 - 2e-6)

    assert verdict(shuffled(of(60, 63, 63, 63)), noisy).p >= 0.05
