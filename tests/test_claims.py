"""Claims: verdicts that are known beforehand, and every claim of the table on mock results."""

import numpy as np
import pytest
import xarray as xr

from classwise import metrics, published
from classwise.claims import judging
from classwise.claims.claim import Claim

CIFAR10 = list(published.CIFAR10)
DIGITS = list("0123456789")


def outcomes(rates, *, images=100, seeds=2, labels=DIGITS, folds=True, noise=None, seed=0):
    """Return outcomes of defences and attacks with so many images a class and seed.

    rates: by (defence, attack), the chance of a right answer, one number or one for each class. folds: each seed has its own
    images. noise: by how many points a seed moves all chances of one defence, at random. Each image has one luck for all settings.
    """
    rng, size = np.random.default_rng(seed), len(labels)
    defences, attacks = (list(dict.fromkeys(key[place] for key in rates)) for place in (0, 1))
    number = size * images * (seeds if folds else 1)
    truth, luck = np.tile(np.arange(size), number // size), rng.random(number)
    shift = np.zeros((len(defences), seeds)) if noise is None else rng.normal(0, noise / 100, (len(defences), seeds))
    shape = (len(defences), seeds, len(attacks), number)
    answer, there = np.zeros(shape, dtype="i2"), np.zeros(shape, dtype=bool)
    for d, s, a in np.ndindex(shape[:3]):
        chance = np.broadcast_to(rates[defences[d], attacks[a]], size)[truth] + shift[d, s]
        draw = luck if folds else rng.random(number)
        answer[d, s, a] = np.where(draw < chance, truth, (truth + 1 + np.arange(number) % (size - 1)) % size)
        there[d, s, a] = np.arange(number) % seeds == s if folds else True
    dims = ("defence", "seed", "attack", "image")
    whole = np.where(there, truth, -1).astype("i2")
    coords = {"defence": defences, "seed": np.arange(seeds), "attack": attacks, "image": np.arange(number), "predicted": labels}
    data = {"truth": (dims, whole), "answer": (dims, np.where(there, answer, -1)), "flipped": (dims, there & (answer != truth))}
    return xr.Dataset(data, coords, {"dataset": "digits", "scale": "quick"})


def more(found):
    """Return how much more is answered right under the first attack by the second defence than by the first."""
    rate = metrics.overall(found["count"].isel(attack=0))
    return rate.isel(defence=1, drop=True) - rate.isel(defence=0, drop=True)


def claim(measure=more, name="some", **rest):
    return Claim(name, "paper/section", "1", "A sentence.", measure, **rest)


def decide(data, *asked, **how):
    return judging.judge_all(asked, data, scale="quick", dataset="digits", **how)


TWO = {("a", "pgd-20"): 0.5, ("b", "pgd-20"): 0.7}


def test_a_large_effect_holds_and_its_opposite_fails():
    up, down = decide(outcomes(TWO), claim(), claim(low=-np.inf, high=0))
    assert (up.verdict, down.verdict) == ("holds", "fails")
    assert up.effect == pytest.approx(20, abs=2)
    assert up.low < up.effect < up.high
    assert up.adjusted == pytest.approx(2 / 1001)
    assert (up.seeds, up.images) == (2, 2000)
    assert up.words == "holds (digits, quick, 2 seeds)"


def test_a_range_with_two_ends_holds_inside_and_fails_outside():
    found = decide(outcomes(TWO), claim(low=10, high=30), claim(low=30, high=50), claim(low=19, high=21))
    assert [one.verdict for one in found] == ["holds", "fails", "open"]


def test_one_seed_is_said_to_be_one_run():
    (found,) = decide(outcomes(TWO, seeds=1), claim())
    assert found.words == "holds (digits, quick, one run)"
    (same,) = decide(outcomes(TWO, seeds=1).isel(seed=0, drop=True), claim())
    assert (same.effect, same.low) == (found.effect, found.low)


@pytest.mark.parametrize(("seeds", "folds", "noise"), [(1, True, None), (3, False, 4)])
def test_of_claims_without_an_effect_few_are_decided(seeds, folds, noise):
    even = {("a", "pgd-20"): 0.5, ("b", "pgd-20"): 0.5}
    wrong = 0
    for seed in range(40):
        data = outcomes(even, images=15, seeds=seeds, folds=folds, noise=noise, seed=seed)
        # The luck of an image is the same for both defences: give the second its own.
        own = outcomes(even, images=15, seeds=seeds, folds=folds, noise=noise, seed=1000 + seed)
        data = xr.concat([data.sel(defence=["a"]), own.sel(defence=["b"])], "defence")
        wrong += decide(data, claim(), draws=100)[0].verdict != "open"
    assert 1 <= wrong <= 10 or (seeds > 1 and wrong <= 10)
