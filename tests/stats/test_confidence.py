"""Measures of outcomes image by image, against plain restatements."""

import mocks
import numpy as np
import pytest
import xarray as xr
from scipy import stats
from scipy.special import softmax

from classwise.stats import bootstrap, confidence


@pytest.fixture
def some():
    return mocks.dataset("outcomes 1", per_class=6)


def test_confidence_is_the_softmax_and_its_variance_the_definition(some):
    sure = softmax(some.logits.values, axis=1)
    assert confidence.confidence(some).values == pytest.approx(sure, abs=1e-6)
    by_hand = [((one - 0.1) ** 2).mean() for one in sure]
    assert confidence.confidence_variance(some).values == pytest.approx(by_hand, rel=1e-4)
    bounds = confidence.class_variance(some).transpose("bound", "label").values
    for label in range(10):
        of_class = np.array(by_hand)[some.truth.values == label]
        mean, reach = of_class.mean(), 1.959964 * stats.sem(of_class)
        assert bounds[:, label] == pytest.approx([max(mean - reach, 0), mean, mean + reach], rel=1e-4)


def test_the_confidence_in_the_truth_is_that_of_its_class(some):
    sure = softmax(some.logits.values, axis=1)
    assert confidence.true_confidence(some).values == pytest.approx(100 * sure[np.arange(60), some.truth.values], rel=1e-4)
    gone = some.assign(truth=some.truth.where(some.image > 2, -1))
    assert np.isnan(confidence.true_confidence(gone).values[:3]).all()


def test_the_entropy_is_that_of_the_softmax_in_nats(some):
    nats = confidence.entropy(some)
    assert np.allclose(nats, stats.entropy(softmax(some.logits, axis=1), axis=1), atol=1e-6)
    assert np.allclose(np.exp(confidence.log_confidence(some)), confidence.confidence(some), atol=1e-6)
    even = confidence.entropy(some.assign(logits=some.logits * 0))
    assert np.allclose(even, np.log(some.sizes["predicted"]))
    assert confidence.entropy(some.assign(truth=some.truth * 0 - 1)).isnull().all()
    assert float(confidence.entropy(some.assign(logits=some.logits * 1e6)).max()) < 1e-3


def logits_of(means, per_class, noise, seed):
    """Outcomes whose logits are the mean of their class and noise, all shifted by an offset."""
    rng, size = np.random.default_rng(seed), len(means)
    truth = np.repeat(np.arange(size), per_class)
    logits = np.array(means)[truth] + noise * rng.normal(size=(len(truth), size))
    data = mocks.dataset("outcomes 1", tuple(map(str, range(size))), per_class=per_class)
    answers = mocks.answers(["image"], truth, logits.argmax(1))
    return data.assign(answers | {"logits": (("image", "predicted"), logits)}).expand_dims(seed=[0])


MEANS = [[3.0, 1.0, 0.0, 0.0], [1.0, 2.5, 0.0, 0.0], [0.0, 0.0, 4.0, -1.0], [0.5, 0.0, -1.0, 2.0]]


def test_mean_logits_are_those_of_the_classes_and_their_cosines_the_true_ones():
    outcomes = logits_of(MEANS, 4000, 1.5, seed=0)
    components = confidence.stack_components(outcomes)
    sums = bootstrap.sums(components, {"logit": components.logit})
    means = confidence.mean_logits(sums).transpose("label", "component")
    assert means.values == pytest.approx(np.array(MEANS), abs=4 * 1.5 / np.sqrt(4000))
    centred = confidence.mean_logits(sums, centred=True).transpose("label", "component")
    assert centred.mean("label").values == pytest.approx(0, abs=1e-9)
    for measured, true in ((means, np.array(MEANS)), (centred, np.array(MEANS) - np.mean(MEANS, 0))):
        unit = true / np.linalg.norm(true, axis=1, keepdims=True)
        assert confidence.cosines(measured).transpose("label", "other").values == pytest.approx(unit @ unit.T, abs=0.05)


def test_redrawn_mean_logits_spread_as_new_images_do():
    def first(seed):
        components = confidence.stack_components(logits_of(MEANS, 50, 1.5, seed))
        return components, {"logit": components.logit}

    of = [confidence.mean_logits(bootstrap.sums(*first(seed))).sel(label="0", component="0") for seed in range(200)]
    drawn = [confidence.mean_logits(part) for part in bootstrap.bootstrap_sums(*first(0), 400)]
    redrawn = xr.concat(drawn, "draw").sel(label="0", component="0")
    assert float(redrawn.std()) == pytest.approx(np.std(of), rel=0.25)
    assert np.std(of) == pytest.approx(1.5 / np.sqrt(50), rel=0.2)


def test_a_common_offset_raises_the_cosines_until_the_mean_over_classes_is_taken_off():
    offset = np.array([9, 0, 0, 0])
    plain, shifted = (logits_of(np.array(MEANS) + by, 60, 0.2, 0) for by in (0, offset))
    both = [confidence.stack_components(some) for some in (plain, shifted)]
    for centred, same in ((False, False), (True, True)):
        of = [confidence.mean_logits(bootstrap.sums(some, {"logit": some.logit}), centred=centred) for some in both]
        first, second = map(confidence.cosines, of)
        assert np.allclose(first, second, atol=1e-6) is same
        assert centred or second.min() > first.min()
