"""Measures of outcomes image by image, against plain restatements."""

import mocks
import numpy as np
import pytest
import xarray as xr
from scipy import stats
from scipy.special import softmax

from classwise.papers.tian2021 import temperature
from classwise.stats import confidence


@pytest.fixture
def some():
    return mocks.dataset("outcomes 1", per_class=6)


def test_confidence_is_the_softmax_and_its_variance_the_definition(some):
    sure = softmax(some.logits.values, axis=1)
    assert confidence.confidence(some).values == pytest.approx(sure, abs=1e-6)
    by_hand = [((one - 0.1) ** 2).mean() for one in sure]
    assert confidence.confidence_variance(some).values == pytest.approx(by_hand, rel=1e-4)
    truth = some.truth.values
    of_class = [np.mean(np.array(by_hand)[truth == label]) for label in range(10)]
    cvc = temperature.cvc_bounds(some).sel(bound="value", label=list("0123456789"))
    assert cvc.values == pytest.approx(of_class, rel=1e-4)


def test_an_even_answer_has_no_variance_and_a_sure_one_the_most(some):
    even = some.assign(logits=some.logits * 0)
    sharp = some.assign(logits=some.logits * 1e4)
    assert float(confidence.confidence_variance(even).max()) == pytest.approx(0, abs=1e-9)
    assert float(confidence.confidence_variance(sharp).max()) == pytest.approx(0.09, rel=1e-3)


def test_the_confidence_in_the_truth_is_that_of_its_class(some):
    sure = softmax(some.logits.values, axis=1)
    assert confidence.true_confidence(some).values == pytest.approx(100 * sure[np.arange(60), some.truth.values], rel=1e-4)
    gone = some.assign(truth=some.truth.where(some.image > 2, -1))
    assert np.isnan(confidence.true_confidence(gone).values[:3]).all()


def test_the_ranks_of_an_image_are_its_surest_classes_over_the_seeds_that_were_asked(some):
    both = xr.concat([some, some.assign(logits=some.logits[:, ::-1])], "seed")
    both["truth"] = both.truth.where((both.seed == 0) | (both.image > 2), -1).where(both.image != 1, -1)
    found = confidence.top_k(both, 3)
    sure = 100 * np.stack([softmax(one.logits.values, 1) for one in (both.isel(seed=0), both.isel(seed=1))])
    sure[1, :3] = np.nan
    mean = np.nanmean(sure, 0)
    for image in (0, 2, 5):
        order = np.argsort(-mean[image])[:3]
        assert list(found["name"].sel(image=image).values) == [str(some.predicted.values[one]) for one in order]
        assert found.confidence.sel(image=image).values == pytest.approx(mean[image][order], rel=1e-5)
    assert list(found["name"].sel(image=1).values) == ["", "", ""]
    assert found.confidence.sel(image=1).isnull().all()


def test_the_entropy_is_that_of_the_softmax_in_nats(some):
    nats = confidence.entropy(some)
    assert np.allclose(nats, stats.entropy(softmax(some.logits, axis=1), axis=1), atol=1e-6)
    assert np.allclose(np.exp(confidence.log_confidence(some)), confidence.confidence(some), atol=1e-6)
    even = confidence.entropy(some.assign(logits=some.logits * 0))
    assert np.allclose(even, np.log(some.sizes["predicted"]))
    assert confidence.entropy(some.assign(truth=some.truth * 0 - 1)).isnull().all()
    assert float(confidence.entropy(some.assign(logits=some.logits * 1e6)).max()) < 1e-3
