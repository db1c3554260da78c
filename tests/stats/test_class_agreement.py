"""Cross-half agreement of class profiles, on simulated networks whose true correlation is known."""

import mocks
import numpy as np
import pytest
import xarray as xr

from classwise.stats import agreement

NAMES = list("0123456789")


def outcomes(chances, images=80, seeds=1, odd=0.0, shared=False, seed=0):
    """Return outcomes of networks that are right with these chances (setting, label), on `images` of each class.

    Seeds have different images, or the same ones if `shared`. odd: the share of the images that all networks get wrong.
    """
    rng, chances = np.random.default_rng(seed), np.asarray(chances, dtype=float)
    folds = 1 if shared else seeds
    truth = np.tile(np.repeat(np.arange(10), images), folds)
    fold = np.repeat(np.arange(folds), 10 * images)
    here = np.stack([fold == (0 if shared else number) for number in range(seeds)])
    right = rng.random((len(chances), seeds, len(truth))) < chances[:, None, truth]
    right &= rng.random(len(truth)) >= odd
    answer = np.where(right, truth, (truth + 1) % 10)
    return of(np.where(here, truth, -1)[None].repeat(len(chances), 0), np.where(here, answer, -1))


def of(truth, answer):
    data = mocks.answers(("setting", "seed", "image"), truth, answer)
    coords = {"setting": [f"network {number}" for number in range(len(truth))], "seed": np.arange(truth.shape[1])}
    return xr.Dataset(data, coords | {"image": np.arange(truth.shape[2]), "predicted": NAMES})


def two_profiles(correlation, spread=12.0, seed=0):
    """Return the chances of two networks whose class profiles have exactly this correlation, with a spread in points."""
    rng = np.random.default_rng(seed)
    drawn = rng.normal(size=(2, 10))
    drawn -= drawn.mean(1, keepdims=True)
    first = drawn[0] / np.linalg.norm(drawn[0])
    rest = drawn[1] - first * (drawn[1] @ first)
    second = correlation * first + np.sqrt(1 - correlation**2) * rest / np.linalg.norm(rest)
    return 0.6 + np.stack([first, second]) * np.sqrt(10) * spread / 100


def correlated(profiles):
    return agreement.corrected_agreement(profiles).isel(setting=0, other=1)


@pytest.mark.parametrize("true", [0.0, 0.5, 1.0])
def test_many_images_show_the_true_correlation(true):
    data = outcomes(two_profiles(true), images=6000)
    shown = agreement.profiles(data)
    assert float(agreement.cross_half(shown).isel(setting=0, other=1)) == pytest.approx(true, abs=0.03)
    assert float(correlated(shown)) == pytest.approx(true, abs=0.03)
    assert float(agreement.reliability(shown).min()) > 0.98
    assert float(abs(agreement.sample_profiles(data, draws=100).bounds(correlated) - true).max()) < 0.1


def test_few_images_lower_the_correlation_and_the_correction_undoes_it():
    found = [agreement.profiles(outcomes(two_profiles(1.0), images=60, seed=number)) for number in range(30)]
    plain = np.mean([float(agreement.cross_half(some).isel(setting=0, other=1)) for some in found])
    corrected = np.mean([float(correlated(some)) for some in found])
    assert plain < 0.8
    assert corrected > plain + 0.12


@pytest.mark.parametrize("true", [0.0, 0.5, 1.0])
def test_the_interval_covers_the_true_correlation(true):
    covered = 0
    for number in range(40):
        data = outcomes(two_profiles(true, seed=number), images=80, seed=number)
        bounds = agreement.sample_profiles(data, draws=300).bounds(correlated)
        low, high = (float(bounds.sel(bound=name)) for name in ("low", "high"))
        covered += low - 1e-9 <= true <= high + 1e-9
    assert covered >= 36


def test_odd_images_that_all_networks_get_wrong_do_not_raise_the_agreement():
    """Classes are alike, but images differ: profiles of the same images agree, those of opposite halves do not."""
    same, crossed = [], []
    for number in range(40):
        data = outcomes(np.full((2, 10), 0.95), images=60, odd=0.5, seed=number)
        halves = agreement.profiles(data)
        one, other = halves.mean("half").values
        same.append(np.corrcoef(one, other)[0, 1])
        crossed.append(float(agreement.cross_half(halves).isel(setting=0, other=1)))
    assert np.mean(same) > 0.8
    assert abs(np.mean(crossed)) < 0.2


def test_seeds_are_pooled_whether_they_share_their_images_or_not():
    chances = two_profiles(1.0)
    shared, folds = (outcomes(chances, images=400, seeds=2, shared=some) for some in (True, False))
    for data in (shared, folds):
        assert float(correlated(agreement.profiles(data))) > 0.9
        bounds = agreement.sample_profiles(data, draws=200).bounds(correlated)
        assert float(bounds.sel(bound="low")) > 0.7
    # Each half of each fold has half of its images.
    profile = agreement.profiles(folds).sel(half="first", label="0").isel(setting=0)
    assert float(profile) == pytest.approx(100 * chances[0, 0], abs=5)


def test_one_seed_is_redrawn_as_much_as_its_images_vary():
    data = outcomes(two_profiles(0.5), images=100)
    drawn = agreement.drawn_profiles(data, draws=400)
    sampling = 100 * np.sqrt(0.6 * 0.4 / 50)
    assert float(drawn.std("draw").mean()) == pytest.approx(sampling, rel=0.15)
    # Halves are redrawn independently.
    one, other = (drawn.isel(setting=0, label=0).sel(half=half) for half in ("first", "second"))
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.2


def test_images_that_a_network_lacks_count_for_none():
    data = outcomes(two_profiles(1.0), images=100)
    lost = data.assign(truth=data.truth.where(~((data.setting == "network 1") & (data.image % 2 == 0)), -1))
    kept = data.assign(truth=data.truth.where(data.image % 2 == 1, -1))
    xr.testing.assert_equal(agreement.profiles(lost), agreement.profiles(kept))


def test_profiles_of_equal_classes_have_no_corrected_correlation_and_an_unbounded_interval():
    data = outcomes(np.full((2, 10), 0.6), images=40, seed=3)
    shown = agreement.profiles(data)
    reliable = agreement.reliability(shown)
    assert np.isnan(correlated(shown)) == bool((reliable <= 0).any())
    bounds = agreement.sample_profiles(data, draws=200).bounds(correlated)
    assert float(bounds.sel(bound="low")) < -0.9
    assert float(bounds.sel(bound="high")) > 0.9


def test_classes_that_are_always_right_have_no_correlation():
    shown = agreement.profiles(outcomes(np.ones((2, 10)), images=20))
    assert bool(agreement.cross_half(shown).isnull().all())
