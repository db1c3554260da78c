import mocks
import numpy as np
import pytest
import xarray as xr
from scipy import stats

from classwise.stats import bootstrap, metrics


def test_a_gain_over_a_base_has_the_interval_of_the_difference():
    rng = np.random.default_rng(0)
    # Both defences find the same images hard; the second is wrong on three of a hundred more.
    base = rng.random(500) < 0.6
    better = base | (rng.random(500) < 0.03)
    truth = np.zeros((2, 1, 1, 500), "i2") + np.arange(500) % 2
    answer = np.where(np.stack([base, better])[:, None, None], truth, 1 - truth)
    coords = {"defence": ["plain", "better"], "seed": [0], "attack": ["pgd-20"], "image": np.arange(500)}
    outcomes = xr.Dataset(mocks.answers(coords, truth, answer), coords | {"predicted": ["a", "b"]})
    gain = bootstrap.gains(outcomes, {"better": "plain"}, metrics.overall).squeeze(["attack", "defence"], drop=True)
    low, value, high = (float(gain.sel(bound=name)) for name in ("low", "value", "high"))
    assert value == pytest.approx(100 * (better.mean() - base.mean()), rel=1e-5)
    assert 0 < low < value < high
    separate = bootstrap.bootstrap(outcomes, metrics.overall).sel(attack="pgd-20")
    widths = (separate.sel(bound="high") - separate.sel(bound="low")).sel(defence="better")
    assert high - low < 0.6 * float(widths)
    single = bootstrap.paired_bounds(outcomes, lambda count: metrics.overall(count).isel(defence=1, attack=0, drop=True))
    assert float(single.sel(bound="value")) == pytest.approx(100 * better.mean(), rel=1e-5)
    assert float(single.sel(bound="high") - single.sel(bound="low")) > high - low
    # The precision of a class that is never predicted.
    assert bootstrap.paired_bounds(outcomes, lambda count: metrics.overall(count) * np.nan, draws=50).isnull().all()


def test_a_seed_without_any_image_is_not_drawn():
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(2, dtype="i2"), 20)
    answer = np.where(rng.random((1, 1, 40)) < 0.7, truth, 1 - truth)
    coords = {"defence": ["x"], "seed": [0], "image": range(40)}
    one = xr.Dataset(mocks.answers(coords, truth, answer), coords | {"predicted": ["a", "b"]})
    two = one.reindex(seed=[0, 1], fill_value={"truth": -1, "prediction": -1, "misclassified": False})
    of_two, of_one = (bootstrap.paired_bounds(some, metrics.overall, draws=50) for some in (two, one))
    assert not np.isnan(of_two).any()
    xr.testing.assert_equal(of_two, of_one)


def test_a_cluster_that_lacks_a_setting_is_not_drawn_for_it():
    table = np.array([[5, 15], [9, 11]])
    coords = {"defence": ["one", "two"], "seed": [0, 1], "label": list("ab"), "predicted": list("ab")}
    both = xr.DataArray([[table, 0 * table], [table, table]], coords, ("defence", "seed", "label", "predicted"))
    drawn = bootstrap.resample(both, ["seed"], 200)
    alone = bootstrap.resample(both.sel(defence="one", drop=True).isel(seed=[0]), ["seed"], 200)
    assert drawn.sel(defence="one", drop=True).astype(int).equals(alone)
    assert set(drawn.sel(defence="two").sum(["label", "predicted"]).values) == {80}
    assert bootstrap.resample(0 * both, ["seed"], 2).sum() == 0


def test_the_worst_class_is_worst_in_the_share_of_draws_in_which_it_is_lowest():
    table = np.array([[5, 15, 0], [9, 11, 0], [0, 0, 20]])
    count = xr.DataArray(table, dims=("label", "predicted"), coords={"label": list("abc"), "predicted": list("abc")})
    share = bootstrap.worst_share(count, 4000)
    assert float(share.sum()) == pytest.approx(100)
    # With pseudo-counts 6 of 22 images of a are right and 12 of 22 of b: a is lower in 96 % of pairs of binomial draws.
    right = [stats.binom(20, rate / 22) for rate in (6, 12)]
    lower = sum(right[0].pmf(k) * (right[1].sf(k) + right[1].pmf(k) / 2) for k in range(21))
    assert share.sel(label=["a", "c"]).values == pytest.approx([100 * lower, 0], abs=1)
    level = bootstrap.worst_share(count.copy(data=[[10, 10, 0], [10, 10, 0], [0, 10, 10]]), 4000)
    assert level.values == pytest.approx([100 / 3] * 3, abs=3)
