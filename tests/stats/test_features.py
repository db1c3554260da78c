"""Tests of the similarity and variance of classes: simulated features with known means, and blocks against images."""

import mocks
import numpy as np
import pytest
import xarray as xr

from classwise.stats import features

CLASSES = list("abc")


def sums(values, truth, blocks):
    """Return sums by block (seed, block, label, feature) of features (image, feature)."""
    block = features.blocks_of(truth, np.arange(len(truth)), blocks)
    return mocks.feature_sums(values, truth, block, CLASSES).expand_dims(seed=[0])


def simulated(rng, means, spread, per_class):
    truth = np.repeat(np.arange(len(means)), per_class)
    return means[truth] + spread * rng.standard_normal((len(truth), means.shape[1])), truth


def test_a_similarity_is_a_cosine():
    means = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    found = features.statistics(sums(np.repeat(means, 8, axis=0), np.repeat(np.arange(3), 8), 2)).isel(seed=0)
    cosine = features.similarity(found)
    assert float(cosine.sel(label="a", other="b")) == pytest.approx(0.5**0.5)
    assert float(cosine.sel(label="a", other="c")) == pytest.approx(0)
    assert features.nearest(cosine).values == pytest.approx([0.5**0.5] * 3)
    assert features.similarity(found, centred=True).sel(label="a", other="c") < -0.8
    np.testing.assert_allclose(found["mean"].values, means)
    np.testing.assert_allclose(found.variance, 0, atol=1e-9)


@pytest.mark.parametrize("centred", [False, True])
def test_debiased_similarity_is_that_of_the_true_means(centred):
    """Of few images, cosines of means are too small: 64 features, 24 images a class."""
    rng = np.random.default_rng(0)
    means = np.abs(rng.standard_normal((3, 64))) + 0.3
    middle = means - means.mean(0) if centred else means
    unit = middle / np.linalg.norm(middle, axis=1, keepdims=True)
    true = unit @ unit.T
    plain, debiased, variance, relative = [], [], [], []
    for _ in range(300):
        found = features.statistics(sums(*simulated(rng, means, 1.5, 24), 3)).isel(seed=0)
        plain.append(features.similarity(found, centred=centred).values)
        debiased.append(features.similarity(found, centred=centred, debiased=True).values)
        variance.append(found.variance.values)
        relative.append(features.relative_variance(found).values)
    off = ~np.eye(3, dtype=bool)
    error = np.std(debiased, axis=0)[off].max() / 300**0.5
    assert np.mean(debiased, axis=0)[off] == pytest.approx(true[off], abs=0.01 + 3 * error)
    biased, corrected = (np.abs(np.mean(some, axis=0) - true)[off].max() for some in (plain, debiased))
    assert corrected < biased / 2
    assert np.mean(variance, axis=0) == pytest.approx([2.25] * 3, rel=0.02)
    assert np.median(relative, axis=0) == pytest.approx(64 * 2.25 / (means**2).sum(1), rel=0.05)


def test_blocks_resampled_spread_as_images_resampled():
    rng = np.random.default_rng(1)
    means = np.abs(rng.standard_normal((3, 32))) + 0.5
    values, truth = simulated(rng, means, 1.5, 200)
    data = sums(values, truth, 20)

    def measures(some):
        cosine = features.similarity(some, debiased=True)
        return xr.concat([features.nearest(cosine), some.variance, features.relative_variance(some)], "measure").mean("seed")

    by_block = measures(features.resample(data, 2000))
    images = []
    for _ in range(400):
        which = np.concatenate([rng.choice(np.flatnonzero(truth == label), 200) for label in range(3)])
        images.append(measures(features.statistics(sums(values[which], truth[which], 1))).values)
    ratio = by_block.std("draw").transpose("measure", "label").values / np.std(images, axis=0)
    assert ratio == pytest.approx(np.ones((3, 3)), abs=0.35)
    # Both samplings are corrected: the draws lie around the value that they vary from.
    value = measures(features.statistics(data))
    assert by_block.mean("draw").transpose("measure", "label").values == pytest.approx(value.values, rel=0.02)


def test_an_interval_contains_its_value_and_covers_the_true_cosine():
    means = np.array([[1.0, 0.2, 0.0], [1.0, 1.0, 0.3], [0.0, 2.0, 1.0]])
    true = float(means[0] @ means[1] / np.linalg.norm(means[0]) / np.linalg.norm(means[1]))

    def cosine(some):
        return features.similarity(some, debiased=True).sel(label="a", other="b").mean("seed")

    rng, covered = np.random.default_rng(2), 0
    for _ in range(100):
        low, value, high = features.interval(sums(*simulated(rng, means, 0.5, 40), 10), cosine, draws=200).values
        assert low <= value <= high
        covered += low <= true <= high
    assert covered >= 85
    single = features.interval(sums(*simulated(rng, means, 0.5, 40), 1), cosine, draws=20)
    assert np.isnan(single.values).tolist() == [True, False, True]
