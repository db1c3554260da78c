"""People beside networks, on simulated votes and outcomes in which what is planted is known."""

import mocks
import numpy as np
import pytest
import xarray as xr
from scipy.stats import spearmanr
from statsmodels.discrete.conditional_models import ConditionalLogit

from classwise.stats import agreement, people

NAMES = list("0123456789")
PEOPLE = 50


def simulated(between=0.0, within=0.0, images=200, seeds=2, seed=0):
    """Votes, and outcomes whose log odds change by so much for a point of disagreement, of the class and of the image in it."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(10), images)
    of_class = np.linspace(0.02, 0.2, 10)
    doubt = np.clip(rng.beta(1, 1 / of_class[truth] - 1), 0, 0.6)  # with the mean of the class
    chances = np.where(np.arange(10) == truth[:, None], 1 - doubt[:, None], doubt[:, None] / 9)
    votes = rng.multinomial(PEOPLE, chances)
    apart = people.disagreement(votes)
    mean = np.array([apart[truth == label].mean() for label in range(10)])
    odds = 1 + between * (mean[truth] - mean.mean()) + within * (apart - mean[truth])
    right = rng.random((1, seeds, 2, len(truth))) < 1 / (1 + np.exp(-odds))
    answer = np.where(right, truth, (truth + 1) % 10)
    data = mocks.answers(("defence", "seed", "attack", "image"), np.broadcast_to(truth, answer.shape), answer)
    coords = {"defence": ["pgd-at"], "seed": np.arange(seeds), "attack": ["clean", "pgd-20"], "image": np.arange(len(truth))}
    return xr.Dataset(data, coords | {"predicted": NAMES}), votes


def test_disagreement_is_the_share_of_pairs_of_people_who_name_different_classes():
    votes = np.array([[4, 0, 0], [2, 2, 0], [1, 1, 1], [0, 3, 1]])
    assert people.disagreement(votes).tolist() == pytest.approx([0, 100 * 4 / 6, 100, 50])


def test_an_effect_within_classes_is_recovered_and_none_of_the_classes_alone():
    outcomes, votes = simulated(within=-0.04, images=400)
    compared = people.compare(outcomes, votes, draws=200)
    truth = np.exp(-0.04 * people.POINTS)
    low, value, high = compared.ratio.sel(defence="pgd-at", outcome=people.ATTACKED).values
    assert low < truth < high
    assert value == pytest.approx(truth, abs=0.06)
    assert (compared.gap.sel(bound="value", attack="pgd-20") > 0).sum() >= 8
    flat = compared.correlation.sel(defence="pgd-at", attack="pgd-20")
    assert float(compared.p.sel(defence="pgd-at", attack="pgd-20")) > 0.05
    assert abs(float(flat.sel(bound="value"))) < 0.65


@pytest.mark.parametrize("seed", range(3))
def test_an_effect_between_classes_alone_is_none_within_them(seed):
    outcomes, votes = simulated(between=-0.15, seed=seed)
    compared = people.compare(outcomes, votes, draws=200).sel(defence="pgd-at")
    for outcome in (people.CLEAN, people.ATTACKED):
        low, value, high = compared.ratio.sel(outcome=outcome).values
        assert low - 0.02 < 1 < high + 0.02
        assert value == pytest.approx(1, abs=0.12)
    r = compared.correlation.sel(attack="pgd-20")
    assert float(r.sel(bound="high")) < -0.5
    assert float(compared.p.sel(attack="pgd-20")) < 0.01
    # Without the classes it would look like one of images.
    apart, right = people.disagreement(votes), (outcomes.prediction == outcomes.truth).sum("seed").values[0, 1]
    assert people.odds_ratio(right, np.full(len(right), 2), apart, np.zeros(len(right)))[2] < 0.9


def test_the_numbers_of_classes_are_those_of_the_votes_and_outcomes():
    outcomes, votes = simulated(between=-0.1, images=50)
    compared = people.compare(outcomes, votes, draws=100)
    truth = outcomes.truth.values[0, 0, 0]
    apart = people.disagreement(votes)
    means = [apart[truth == label].mean() for label in range(10)]
    assert compared.disagreement.sel(bound="value").values == pytest.approx(means)
    assert (compared.disagreement.sel(bound="low") < means).all()
    assert compared.votes.sel(label="3").values.tolist() == votes[truth == 3].sum(0).tolist()
    right = (outcomes.prediction == outcomes.truth).sum("seed").values[0, 1]
    assert compared.right.sel(defence="pgd-at", attack="pgd-20", label="3").item() == right[truth == 3].sum()
    rates = [right[truth == label].mean() for label in range(10)]
    shown = compared.sel(defence="pgd-at", attack="pgd-20", bound="value")
    assert float(shown.correlation) == pytest.approx(spearmanr(means, rates).statistic)
    agreed = (apart == 0) & (truth == 0)
    gap = 50 * (right[agreed].mean() - right[(truth == 0) & ~agreed].mean())
    assert float(shown.gap.sel(label="0")) == pytest.approx(gap)


def test_the_odds_ratio_is_that_of_a_conditional_logistic_regression():
    """With a constant for each class it is larger by one part in the number of images of a class (Neyman and Scott 1948)."""
    outcomes, votes = simulated(between=-0.1, within=-0.03, images=60, seeds=1)
    apart, truth = people.disagreement(votes), outcomes.truth.values[0, 0, 1]
    right = (outcomes.prediction == outcomes.truth).values[0, 0, 1].astype(int)
    fit = ConditionalLogit(right, apart[:, None] / people.POINTS, groups=truth).fit(disp=False)
    ours = people.odds_ratio(right, np.ones(len(right), dtype=int), apart, truth)
    assert float(np.log(ours.sel(bound="value"))) == pytest.approx(float(fit.params[0]), rel=0.03)


def test_networks_that_agree_on_an_image_count_as_one():
    outcomes, votes = simulated(within=-0.03, seeds=1)
    apart, truth = people.disagreement(votes), outcomes.truth.values[0, 0, 1]
    right = (outcomes.prediction == outcomes.truth).values[0, 0, 1].astype(int)
    one, five = (people.odds_ratio(times * right, np.full(len(right), times), apart, truth) for times in (1, 5))
    assert five.values == pytest.approx(one.values, rel=1e-6)


def test_a_network_without_a_seed_is_measured_on_those_that_it_has():
    outcomes, votes = simulated(within=-0.03, images=50)
    fewer = outcomes.assign_coords(defence=["trades"]).copy(deep=True)
    fewer["truth"][:, 1] = -1
    both = xr.concat([outcomes, fewer], "defence")
    alone = people.compare(fewer.isel(seed=[0]), votes, draws=50)
    joined = people.compare(both, votes, draws=50)
    xr.testing.assert_allclose(joined.sel(defence=["trades"]).drop_vars("disagreement"), alone.drop_vars("disagreement"))


def test_rank_correlations_are_those_of_scipy():
    rng = np.random.default_rng(0)
    one, two = (xr.DataArray(rng.integers(0, 5, (3, 10)), dims=("draw", "label")) for _ in range(2))
    expected = [spearmanr(a, b).statistic for a, b in zip(one.values, two.values, strict=True)]
    assert agreement.rank_correlation(one, two).values == pytest.approx(expected)
