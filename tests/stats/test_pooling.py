"""Several seeds together: on images of their own, and on the same ones, which is what the old way of pooling got wrong."""

import mocks
import numpy as np
import pytest
import xarray as xr
from scipy import special, stats

from classwise.stats import aggregate, bootstrap, intervals, metrics, pooling, significance

TRUTH = np.array([0.85, 0.6, 0.3])


def crossed(rng, *, images=120, seeds=5, folds=False, image=3.0, seed=0.25, attacks=("pgd-20",)):
    """Return outcomes of three classes in which images and seeds have an effect, and the true accuracies of the classes.

    An image is as hard for all seeds that see it: how often it is answered right lies on a logistic scale `image` wide.
    """
    nodes, weight = np.polynomial.hermite_e.hermegauss(40)
    width = np.hypot(image, seed)
    middle = np.array([_middle(rate, width, nodes, weight / weight.sum()) for rate in TRUTH])
    number = 3 * images * (seeds if folds else 1)
    truth = np.arange(number) % 3
    hard, luck = image * rng.normal(size=number), seed * rng.normal(size=(seeds, 3))
    chance = special.expit(middle[truth] + hard + luck[:, truth])
    right = rng.random((len(attacks), seeds, number)) < chance
    there = (np.arange(number) // 3 % seeds == np.arange(seeds)[:, None]) if folds else np.ones((seeds, number), bool)
    answer = np.where(right, truth, (truth + 1) % 3)
    coords = {"attack": list(attacks), "seed": np.arange(seeds), "image": np.arange(number)}
    data = mocks.answers(coords, np.where(there, truth, -1), np.where(there, answer, -1))
    return xr.Dataset(data, coords | {"predicted": list("abc")})


def _middle(rate, width, nodes, weight):
    from scipy.optimize import brentq

    return brentq(lambda middle: (special.expit(middle + width * nodes) * weight).sum() - rate, -40, 40)


def covered(bounds):
    """Return the share of the classes whose interval holds the truth."""
    low, high = (bounds.sel(bound=name).values / 100 for name in ("low", "high"))
    return np.mean((low <= TRUTH) & (high >= TRUTH))


def test_seeds_that_share_their_images_are_not_so_many_more_images():
    old, new = [], []
    for study in range(25):
        data = crossed(np.random.default_rng(study))
        assert pooling.seeds_share_images(data)
        old.append(covered(intervals.wilson(aggregate.counts(data).sum("seed"))))
        new.append(covered(intervals.wilson(pooling.pool(data))))
    assert np.mean(old) < 0.85
    assert np.mean(new) > 0.9


def test_folds_are_as_many_images_as_there_are_and_seeds_that_differ_tell():
    held = {}
    for seed in (0.0, 0.8):
        found = []
        for study in range(25):
            data = crossed(np.random.default_rng(study), images=40, folds=True, seed=seed)
            assert not pooling.seeds_share_images(data)
            found.append(covered(intervals.wilson(pooling.pool(data))))
        held[seed] = np.mean(found)
    assert held[0.0] > 0.92
    assert held[0.8] > 0.86


def test_the_bootstrap_of_outcomes_holds_what_that_of_counts_misses():
    truth = 100 * (TRUTH.max() - TRUTH.min())
    hits = {"outcomes": 0, "counts": 0, "alike": 0}
    for study in range(20):
        data = crossed(np.random.default_rng(study), images=40)
        count = aggregate.counts(data)
        how = {"draws": 100, "seed": study}
        bounds = {
            "outcomes": bootstrap.bootstrap(data, metrics.mcd, **how),
            "counts": bootstrap.bootstrap(count, metrics.mcd, over=["seed"], **how),
            "alike": bootstrap.bootstrap(count, metrics.mcd, over=["seed"], shared_images=True, **how),
        }
        for name, found in bounds.items():
            low, _, high = found.isel(attack=0).values
            hits[name] += low <= truth <= high
    assert hits["outcomes"] >= 17
    assert hits["alike"] >= 17
    assert hits["counts"] < hits["outcomes"]


def test_bootstraps_of_folds_are_those_of_their_counts():
    data = crossed(np.random.default_rng(1), images=20, folds=True)
    found = bootstrap.bootstrap(data, metrics.mcd, draws=100)
    xr.testing.assert_equal(found, bootstrap.bootstrap(aggregate.counts(data), metrics.mcd, over=["seed"], draws=100))


def test_seeds_that_answer_alike_are_worth_one_and_rates_stay():
    data = crossed(np.random.default_rng(2), seeds=1)
    same = xr.concat([data] * 4, "seed").assign_coords(seed=range(4))
    count = pooling.pool(same)
    xr.testing.assert_allclose(count, aggregate.counts(data).sum("seed").astype(float))
    xr.testing.assert_allclose(metrics.accuracy(count), metrics.accuracy(aggregate.counts(same).sum("seed")))
    # The unbiased variance takes off what the images add, not a quarter of it.
    assert float(metrics.cv_unbiased(count)[0]) < float(metrics.cv_unbiased(aggregate.counts(same).sum("seed"))[0]) - 5
    always = same.assign(prediction=same.truth, misclassified=same.misclassified & False)
    assert float(pooling.design_effect(always)[0]) == 4
    assert float(pooling.design_effect(data)[0]) == 1
    one = data.isel(seed=0, drop=True)
    assert float(pooling.design_effect(one)[0]) == 1
    xr.testing.assert_equal(pooling.pool(one), aggregate.counts(one))


def test_signs_are_those_of_all_choices_of_them():
    differences = np.array([3, -1, 2, 1, 1, 0])
    choices = np.array(np.meshgrid(*[[-1, 1]] * 5)).reshape(5, -1).T @ np.abs(differences[:5])
    assert significance.sign_flip_test(differences) == pytest.approx(np.mean(np.abs(choices) >= 6))
    assert significance.sign_flip_test(np.array([1] * 9 + [-1] * 3)) == pytest.approx(stats.binomtest(9, 12).pvalue)
    assert significance.sign_flip_test(np.zeros(4, int)) == 1


def test_of_attacks_that_are_alike_few_are_told_apart():
    """Each image has an attack that suits it, on all seeds: McNemar's test over seeds and images is deceived, this one is not."""
    low = {"old": 0, "new": 0}
    for study in range(100):
        rng = np.random.default_rng(study)
        better = rng.random(60) < 0.5
        misclassified = np.stack([np.tile(better, (5, 1)), np.tile(~better, (5, 1))])
        misclassified &= rng.random(misclassified.shape) < 0.8
        truth = np.zeros(misclassified.shape, int)
        dims = ("attack", "seed", "image")
        data = xr.Dataset({"misclassified": (dims, misclassified), "truth": (dims, truth)})
        data = data.assign_coords(attack=["one", "other"], seed=range(5), image=range(60))
        one, other = (data.sel(attack=name) for name in data.attack.values)
        differ = int((misclassified[0] & ~misclassified[1]).sum()), int((misclassified[1] & ~misclassified[0]).sum())
        low["old"] += stats.binomtest(differ[0], sum(differ)).pvalue < 0.05
        low["new"] += significance.mcnemar(one, other) < 0.05
    assert low["old"] > 20
    assert low["new"] <= 10
