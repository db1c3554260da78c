"""The Gaussian model in closed form: against drawn points, a grid of weights, and the numbers that follow from its formulas."""

import itertools

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logit

from classwise.core.errors import UserError
from classwise.papers.wei2023 import theory
from classwise.papers.wei2023.theory import Model

# The parameters of the page, and others with more features.
PAGE = Model(p_easy=0.85, p_hard=0.7, eta=0.4, variance=0.6, d=1)
MODELS = [
    PAGE,
    Model(p_easy=0.95, p_hard=0.6, eta=0.2, variance=1.3, d=7),
    Model(p_easy=0.66, p_hard=0.65, eta=0.1, variance=0.2, d=3),
]
RANGES = {"p_hard": (0.55, 0.9), "share": (0.05, 1), "eta": (0.1, 0.49), "variance": (0.2, 2)}
SOME = st.builds(
    lambda p_hard, share, **rest: Model(p_easy=p_hard + share * (0.97 - p_hard), p_hard=p_hard, **rest),
    d=st.integers(1, 8),
    **{name: st.floats(*ends) for name, ends in RANGES.items()},
)


def peaks(model, eps=0.0):
    """Return the weight at which each class has its highest accuracy under an attack of radius eps."""
    return theory.sign().copy(data=theory.best_weight(logit(model.p.values), model.eta - eps, model.variance))


def points_of(model, number, seed=0):
    """Return points of each class: x1, and the sum of their non-robust features."""
    rng, sign = np.random.default_rng(seed), theory.sign()
    coords = {"label": list(theory.LABELS), "point": np.arange(number)}
    chance, normal = (xr.DataArray(make((2, number)), coords) for make in (rng.random, rng.standard_normal))
    total = sign * model.d * model.eta + np.sqrt(model.d * model.variance) * normal
    return xr.Dataset({"x1": sign * (2.0 * (chance < model.p) - 1), "total": total})


def weights(model, number=61):
    """Return weights, evenly spaced in their logarithm about the peaks of the classes."""
    return xr.DataArray(np.sqrt(np.prod(peaks(model).values)) * np.logspace(-1.3, 1.0, number), dims="w")


def simulated(model, points, w, eps=0.0, b=0.0):
    """Return the accuracy on drawn points in percent."""
    moved = points.total - theory.sign() * model.d * eps
    return 100 * (theory.sign() * (points.x1 + moved / w + b) > 0).mean("point")


@pytest.mark.parametrize("model", MODELS)
def test_the_closed_form_is_the_share_of_drawn_points_that_are_correct(model):
    # Of a million points a class the standard error is at most .05 points.
    points, w = points_of(model, 1_000_000), weights(model, 13)
    for eps, b in itertools.product((0.0, 2 * model.eta), (0.0, model.intercept)):
        assert float(abs(simulated(model, points, w, eps, b) - model.accuracy(w, eps, b)).max()) < 0.25


def grid(model, radii, b):
    """Return the weight with the highest mean accuracy under attacks of the radii of both classes, from a fine grid."""
    w = np.geomspace(0.01, 200, 50_001)
    weights = xr.DataArray(w, dims="w")
    return float(w[int(model.accuracy(weights, radii, b).mean("label").argmax("w"))])


@given(SOME, st.floats(0, 0.9))
def test_training_leads_to_the_best_weight_of_a_grid(model, share):
    eps = share * model.eta
    if float(model.trained_weight(eps)) < 8 * np.sqrt(model.d * model.variance):  # beyond, the accuracy is flat
        reached, best = (float(model.accuracy(w, eps).mean()) for w in (float(model.trained_weight(eps)), grid(model, eps, 0.0)))
        assert reached == pytest.approx(best, abs=1e-7)
    fitted = [float(model.trained_weight(eps, intercept=True)), grid(model, eps, model.intercept)]
    rates = [float(model.accuracy(w, eps, model.intercept).mean()) for w in fitted]
    assert rates[0] == pytest.approx(rates[1], abs=1e-7)


@given(SOME, st.floats(0, 0.9))
def test_no_other_intercept_is_better(model, share):
    eps = share * model.eta
    best = float(model.accuracy(model.trained_weight(eps, intercept=True), eps, model.intercept).mean())
    w, b = xr.DataArray(np.geomspace(0.02, 50, 200), dims="w"), xr.DataArray(np.linspace(-1.5, 1.5, 13), dims="b")
    assert float(model.accuracy(w, eps, b).mean("label").max()) <= best + 1e-9


@given(SOME, st.floats(0, 0.9))
def test_peaks_and_preferred_radii_are_those_of_a_grid(model, share):
    eps = share * model.eta
    w = xr.DataArray(np.geomspace(0.01, 100, 20_001), dims="w")
    at_peak = model.accuracy(peaks(model, eps), eps)
    assert float((model.accuracy(w, eps).max("w") - at_peak).max()) < 1e-6
    np.testing.assert_allclose(model.trained_weight(model.preferred_radius(eps).values), peaks(model, eps).values, rtol=1e-9)
    low, high = model.preferred_radius(eps).sel(label=["hard", "easy"]).values
    assert low < eps < high or eps == 0


def test_numbers_of_the_page_follow_from_the_formulas():
    assert float(PAGE.preferred_radius(0.0).sel(label="easy")) == pytest.approx(0.4 * (1 - logit(0.775) / logit(0.85)))
    assert pytest.approx(-0.1932651829) == PAGE.intercept


def test_an_attack_replaces_the_mean_and_no_finite_weight_is_best_from_there_on():
    shifted = Model(p_easy=0.85, p_hard=0.7, eta=0.25, variance=0.6, d=1)
    xr.testing.assert_allclose(PAGE.accuracy(1.3, 0.15), shifted.accuracy(1.3))
    assert np.isinf([PAGE.trained_weight(0.4), PAGE.trained_weight(0.5)]).all()
    np.testing.assert_allclose(PAGE.accuracy(np.inf).values, [85, 70])


def test_without_an_intercept_the_gap_is_the_same_clean_and_at_twice_the_mean():
    w = weights(PAGE)
    clean, attacked = (PAGE.accuracy(w, eps) for eps in (0.0, 2 * PAGE.eta))
    xr.testing.assert_allclose(*(rates.sel(label="easy") - rates.sel(label="hard") for rates in (clean, attacked)))


BEYOND = [({"p_hard": 0.9}, "p_hard <= p_easy < 1, not 0.9 and 0.85"), ({"p_hard": 0.5}, "1/2 < p_hard")]
BEYOND += [({"eta": 0.5}, "0 < eta < 1/2, not 0.5"), ({"variance": 0}, "variance > 0"), ({"d": 0}, "d >= 1, not 0")]


@pytest.mark.parametrize(("changed", "says"), BEYOND)
def test_parameters_out_of_range_are_named(changed, says):
    with pytest.raises(UserError, match=says):
        Model(**{"p_easy": 0.85, "p_hard": 0.7, "eta": 0.4, "variance": 0.6, "d": 1, **changed})
