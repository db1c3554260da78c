"""Claims: verdicts that are known beforehand, and rules for every claim of the table."""

import itertools
from dataclasses import replace
from functools import cache, partial

import mocks
import numpy as np
import pytest
import xarray as xr
from statsmodels.stats.multitest import multipletests

from classwise.core.errors import NotAtScale, NotRecorded, UserError
from classwise.papers import judging, measures, published, registry, say
from classwise.papers.claims import Claim, Verdict
from classwise.papers.draws import Draws, reflect_draws
from classwise.papers.judging import Bootstrap
from classwise.papers.tian2021 import attacks_and_defences
from classwise.stats import aggregate, bootstrap, intervals, metrics, significance

DIGITS = list("0123456789")


def outcomes(rates, *, images=100, seeds=2, labels=DIGITS, folds=True, noise=None, seed=0):
    """Return outcomes of defences and attacks with so many images a class and seed.

    rates: by (defence, attack), the chance of a right answer, one number or one for each class. folds: each seed has images of
    its own. noise: by how many points a seed moves the chances of a defence at random. An image has one luck for all settings.
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
        there[d, s, a] = np.arange(number) // size % seeds == s if folds else True
    dims = ("defence", "seed", "attack", "image")
    coords = {"defence": defences, "seed": np.arange(seeds), "attack": attacks, "image": np.arange(number), "predicted": labels}
    data = mocks.answers(dims, np.where(there, truth, -1), np.where(there, answer, -1))
    return xr.Dataset(data, coords, {"dataset": "digits", "scale": "quick"})


def apart(rates, seed=0, other=1, **how):
    """Return outcomes of the defences "a" and "b" in which an image has a luck of its own for each."""
    parts = [outcomes(rates, seed=one, **how).sel(defence=[name]) for name, one in (("a", seed), ("b", other))]
    return xr.concat(parts, "defence")


def more(found):
    """Return how much more is answered right under the first attack by the second defence than by the first."""
    rate = metrics.overall(found["count"].isel(attack=0))
    return rate.isel(defence=1, drop=True) - rate.isel(defence=0, drop=True)


def claim(measure=more, name="some", **rest):
    return Claim(name, "paper/section", "1", "A sentence.", measure, **rest)


@cache
def trainings(labels, folds, noise, seed):
    """Return outcomes of six trainings of two networks, which differ by their images, by chance, and by noise."""
    rates = {("x", "pgd-20"): 0.5, ("y", "pgd-20"): 0.5}
    return outcomes(rates, images=36, seeds=6, labels=list(labels), folds=folds, noise=noise, seed=99 + seed)


def decide(data, *asked, strict=True, bootstrap=judging.DEFAULT, base=True, noise=None, seed=0):
    """Return verdicts; base: whether trainings of other networks, of as much noise, show how they differ."""
    first = data if isinstance(data, xr.Dataset) else next(iter(data.values()))
    seen = (first.truth >= 0).any([dim for dim in first.truth.dims if dim not in ("seed", "image")])
    folds = "seed" not in seen.dims or int(seen.sum("seed").max()) < 2
    known = {"digits": trainings(tuple(map(str, first.predicted.values)), folds, noise, seed)} if base else {}
    how = replace(bootstrap, base=known)
    return judging.judge_all(asked, data, scale="quick", dataset="digits", strict=strict, bootstrap=how)


TWO = {("a", "pgd-20"): 0.5, ("b", "pgd-20"): 0.7}


def test_a_large_effect_holds_and_its_opposite_fails():
    up, down = decide(outcomes(TWO), claim(), claim(low=-np.inf, high=0))
    assert (up.verdict, down.verdict) == ("holds", "fails")
    assert up.effect == pytest.approx(20, abs=2)
    assert up.low < up.effect < up.high
    assert up.adjusted == pytest.approx(2 * up.p)
    assert (up.seeds, up.images) == (2, 2000)
    assert up.words == "holds (digits, 2 seeds)"


def test_averages_that_a_scale_cannot_make_well_are_not_tested():
    data = outcomes({("TRADES + EMA", "strong"): 0.5, ("FRL", "strong"): 0.7, ("FRL + EMA", "strong"): 0.6})
    names = ("frl-gains-little-best", "frl-costs-overall", "frl-costs-overall-best")
    asked = [one for one in registry.claims_of("wei2023/5-2-robustness-and-fairness") if one.name in names]
    by_scale = {scale: judging.judge_all(asked, data, scale=scale, dataset="cifar10") for scale in ("laptop", "matched", "quick")}
    refused = by_scale.pop("laptop")
    assert [(one.verdict, one.unreachable) for one in refused] == [("not tested", True)] * 3
    assert all(" + EMA: averages over whole epochs" in one.reason for one in refused)
    assert all(one.verdict != "not tested" for some in by_scale.values() for one in some)


def test_a_range_with_two_ends_holds_inside_and_fails_outside():
    found = decide(outcomes(TWO), claim(low=10, high=30), claim(low=30, high=50), claim(low=19, high=21))
    assert [one.verdict for one in found] == ["holds", "fails", "open"]


RANGES = ((0, np.inf), (-np.inf, 2), (1, 4), (2.5, 2.6), (0.5, 30), (-np.inf, 9), (-30, -0.5))


@pytest.mark.parametrize("gain", [0, 1, 2, 4, 8])
def test_the_interval_lies_in_the_range_just_where_the_claim_holds_and_outside_where_it_fails(gain):
    data = apart({("a", "pgd-20"): 0.5, ("b", "pgd-20"): 0.5 + gain / 100}, gain, gain + 50, images=30, seeds=3)
    asked = [claim(name=str(ends), low=ends[0], high=ends[1]) for ends in RANGES]
    for some in (asked, *([one] for one in asked)):
        for found in decide(data, *some, bootstrap=Bootstrap(600)):
            low, high = found.claim.low, found.claim.high
            assert (found.verdict == "holds") == (low < found.low and found.high < high), found
            assert (found.verdict == "fails") == (found.high <= low or high <= found.low), found


def test_of_equal_effects_those_at_the_edge_of_a_range_hold_one_time_in_twenty():
    """The edge itself is true: a claim that it lies within a range with two ends is no easier to win than one with one."""
    rng, won = np.random.default_rng(0), np.zeros(2)
    for _ in range(400):
        truth = rng.normal() + rng.normal(size=300)
        for place, ends in enumerate(((0, np.inf), (0, 30))):
            won[place] += judging.p_values(claim(low=ends[0], high=ends[1]), Draws(truth))[0] < 0.05
    assert (won < 0.08 * 400).all()
    assert won[0] == won[1]


ALIKE = {("a", "pgd-20"): 0.5, ("b", "pgd-20"): 0.5}


@pytest.mark.parametrize("seeds", [1, 2])
def test_an_effect_that_never_varies_is_no_surer_than_so_few_images_allow(seeds):
    """Of 72 images none is answered differently: it may be so of every thirtieth, and nobody can tell by which network."""
    data = outcomes(ALIKE, labels=DIGITS[:2], images=36 // seeds, seeds=seeds)
    # So many trainings that they show how little more than their images differs.
    rates = {("x", "pgd-20"): 0.5, ("y", "pgd-20"): 0.5}
    known = {"digits": outcomes(rates, images=36, seeds=60, labels=DIGITS[:2], seed=99)}
    claims = claim(), claim(low=-1, high=1), claim(low=-20, high=20)
    edge, near, far = judging.judge_all(claims, data, scale="quick", dataset="digits", bootstrap=judging.Bootstrap(base=known))
    assert edge.effect == 0
    assert (edge.verdict, near.verdict, far.verdict) == ("open", "open", "holds")
    assert -12 < near.low < -1 < 1 < near.high < 12


@pytest.mark.parametrize("right", [0, 1])
def test_ten_right_of_ten_are_not_surely_all(right):
    def share(found):
        return metrics.overall(found["count"].isel(defence=0, attack=0))

    data = outcomes({("a", "pgd-20"): right}, labels=DIGITS[:2], images=5, seeds=1)
    near, beyond = decide(data, claim(share, low=100 * right - 1, high=100 * right + 1), claim(share, low=50, high=70))
    assert (near.verdict, near.effect) == ("open", 100 * right)
    assert near.low < 90 if right else near.high > 10
    assert beyond.verdict in ("open", "fails")
    assert 0 <= near.low <= near.high <= 100


@pytest.mark.parametrize(("images", "verdict"), [(50, "open"), (400, "holds")])
def test_a_mistake_that_nobody_made_is_surely_rare_only_of_many_images(images, verdict):
    """None of 400 is less than 1 % (of so many 0.75 % may be missed, one time in twenty), none of 50 may well be more."""
    data = outcomes({("a", "pgd-20"): 1}, images=images, seeds=1)
    for first, second in (("2", "7"), ("0", "9"), ("4", "5")):
        rare = partial(measures.confusion_of, first=first, second=second)
        (found,) = decide(data, claim(rare, low=-np.inf, high=1), bootstrap=Bootstrap(400))
        assert (found.verdict, found.effect) == (verdict, 0)


def test_draws_all_below_the_effect_do_not_make_it_sure():
    """The least of several is lower in each draw: turned round, all would lie above 0, though no draw itself does."""
    again = -np.random.default_rng(0).uniform(3, 19, 400)
    assert min(judging.p_values(claim(), Draws(reflect_draws(2.8, again)))) > 0.2
    low, high = intervals.interval_ends(reflect_draws(2.8, again), 0.05)
    assert low < 0 < 2.8 < high


def test_a_measure_that_cannot_vary_is_open():
    (found,) = decide(outcomes(TWO, images=5), claim(lambda found: 1 + 0 * more(found)))
    assert (found.verdict, found.low, found.high) == ("open", -np.inf, np.inf)


def test_more_images_are_like_those_at_hand_but_in_one_setting():
    data = outcomes(TWO, images=6, seeds=2)
    loose = bootstrap.add_pseudo_counts(data)
    assert loose.sizes["image"] == data.sizes["image"] + 10 * 2 * 2
    xr.testing.assert_equal(loose.isel(image=slice(data.sizes["image"])), data)
    extra = loose.isel(image=slice(data.sizes["image"], None))
    assert ((extra.truth >= 0).any("defence").sum("seed") == 1).all()
    assert (extra.misclassified == ((extra.truth >= 0) & (extra.prediction != extra.truth))).all()
    assert ((extra.prediction >= 0) == (extra.truth >= 0)).all()
    right = (extra.prediction == extra.truth).where(extra.truth >= 0).max("seed").isel(attack=0)
    assert (right.sel(defence="a").values.reshape(10, 2, 2)[:, 0] == [1, 0]).all()
    assert (right.sel(defence="b").values.reshape(10, 2, 2)[:, 1] == [1, 0]).all()
    each = bootstrap.add_pseudo_counts(data, every_mistake=True).isel(image=slice(data.sizes["image"], None))
    assert each.sizes["image"] == 10 * 2 * 10
    given = each.prediction.max("seed").isel(attack=0, defence=0).values.reshape(10, 2, 10)[:, 0]
    assert (given == (np.arange(10)[:, None] + np.arange(10)) % 10).all()


def test_one_training_without_others_to_judge_by_is_described():
    (found,) = decide(outcomes(TWO, seeds=1), claim(), base=False)
    assert (found.verdict, found.tested, found.p_values) == ("described", False, "")
    assert found.low < found.effect < found.high
    assert found.reason.startswith("nothing shows how such networks differ from training to training")


def test_one_seed_is_said_to_be_one_run():
    (found,) = decide(outcomes(TWO, seeds=1), claim())
    assert found.words == "holds (digits, one run)"
    (same,) = decide(outcomes(TWO, seeds=1).isel(seed=0, drop=True), claim())
    assert (same.effect, same.low) == (found.effect, found.low)


@pytest.mark.parametrize(("seeds", "folds", "noise"), [(1, True, None), (3, False, 4), (2, True, 5), (2, True, 0)])
def test_of_claims_without_an_effect_few_are_decided(seeds, folds, noise):
    """One in ten is to be: 5 % each side. More than 20 of 120 come by chance less than once in a hundred times."""
    wrong = 0
    for seed in range(120):
        data = apart(ALIKE, seed, 1000 + seed, images=15, seeds=seeds, folds=folds, noise=noise)
        wrong += decide(data, claim(), bootstrap=Bootstrap(100), noise=noise, seed=seed)[0].verdict != "open"
    assert wrong <= 20
    assert wrong >= 2 or seeds > 1


def test_the_seeds_show_all_of_their_variance():
    """Two seeds that differ by 40 points show the mean's variance to be that over two: 20 points, and images next to none."""
    data = outcomes({("a", "pgd-20"): 0.5}, images=400, seeds=2)
    rate = xr.where(data.truth >= 0, xr.DataArray([0, 40], dims="seed"), np.nan)
    data["prediction"] = data.truth.where((data.image % 400 >= 4 * rate) | rate.isnull(), (data.truth + 1) % 10)
    (found,) = (metrics.overall(some["count"]) for some in bootstrap.bootstrap_sums(data, {}, 400))
    assert float(found.squeeze(drop=True).std("draw")) == pytest.approx(20, rel=0.05)


def test_the_same_images_make_a_small_difference_sure():
    near = {("a", "pgd-20"): 0.5, ("b", "pgd-20"): 0.52}
    both = (how(near, seeds=5, images=40) for how in (outcomes, apart))
    (paired,), (unpaired,) = (decide(data, claim(), base=False) for data in both)
    assert paired.verdict == "holds"
    assert unpaired.high - unpaired.low > 3 * (paired.high - paired.low)


def test_seeds_that_differ_widen_the_interval():
    calm, wild = (decide(outcomes(TWO, seeds=5, noise=noise), claim())[0] for noise in (0, 15))
    assert wild.high - wild.low > 2 * (calm.high - calm.low)


def test_images_that_the_seeds_share_are_drawn_once_for_all_of_them():
    data = outcomes(TWO, folds=False, images=5, seeds=3)
    weight = bootstrap.weights(data, 50).reshape(3, 50, 50)
    assert weight.sum((0, 1)) == pytest.approx(np.full(50, 150))
    assert all((weight[one] == 0).all(0).any() for one in range(3))
    drawn = weight / np.maximum(weight.sum(1, keepdims=True), 1) * 50
    together = [drawn[s, :, d] for d in range(50) for s in range(3) if drawn[s, :, d].any()]
    assert len({tuple(one.round(6)) for one in together}) <= 50


def test_folds_keep_the_number_of_images_of_each_class():
    data = outcomes(TWO, images=7, seeds=4)
    found = bootstrap.sums(data, {}, bootstrap.weights(data, 30))["count"].isel(attack=0, defence=0)
    assert found.sum("predicted").values == pytest.approx(28)


def test_sums_are_the_counts_and_the_sums_of_values():
    data = outcomes(TWO, images=9, seeds=3)
    value = xr.DataArray(np.arange(data.sizes["image"], dtype=float), dims="image")
    found = bootstrap.sums(data, {"number": value})
    expected = aggregate.counts(data).sum("seed").astype(int)
    xr.testing.assert_equal(found["count"].astype(int), expected.transpose(*found["count"].dims))
    assert float(found["number"].isel(defence=0, attack=0).sum()) == value.values.sum()


def test_holm_is_that_of_statsmodels_and_counts_what_was_asked():
    data = outcomes({("a", "pgd-20"): 0.5, ("b", "pgd-20"): 0.54}, seeds=1, images=20, seed=3)
    asked = [claim(name=str(low), low=low) for low in (-2, 0, 1, 2, 4)]
    found = decide(data, *asked, claim(name="not", datasets=("svhn",), excluded_because="it is not"))
    inside = [one for one in found if one.verdict != "not tested"]
    for side in (lambda one: one.effect > one.claim.low, lambda one: one.effect <= one.claim.low):
        named = [one for one in inside if side(one)]
        alone = np.array([decide(data, one.claim)[0].p for one in named])
        assert [one.p for one in named] == pytest.approx(alone)
    assert found[-1].reason == "not testable on digits: it is not"
    assert found[-1].words == "not tested (digits)"
    chances = np.array([0.01, 0.04, 0.03, 0.03, 0.9])
    assert significance.holm(chances).tolist() == multipletests(chances, method="holm")[1].tolist()
    assert significance.holm(chances, 7).tolist() == multipletests([*chances, 1, 1], method="holm")[1][:5].tolist()


def test_attacks_are_compared_on_the_images_that_both_were_put_to():
    data = outcomes({("a", "fgsm"): 0.9, ("a", "n-attack"): 0.5}, seeds=1, images=50)
    few = data.isel(image=slice(100))
    data["truth"] = data.truth.where((data.attack != "n-attack") | (data.image < 100), -1)
    step = partial(attacks_and_defences.grown, measure=metrics.overall)
    whole, part = (decide(some, claim(step, attacks=("fgsm", "n-attack")))[0] for some in (data, few))
    assert whole.images == 100
    assert whole.effect == part.effect


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (claim(defences=("a", "c|d")), "'some' needs the defence 'c' or 'd', which is not among the outcomes; there are: a, b"),
        (claim(attacks=("cw",)), "claim 'some' needs the attack 'cw', which is not .* there are: pgd-20"),
        (claim(dims=("betas",)), "claim 'some' needs 'betas' in the outcomes"),
        (claim(lambda found: metrics.overall(found["count"])), "keeps the dimensions defence, attack, expected one number"),
        (claim(lambda found: more(found) / 0), "has no value on these outcomes"),
    ],
)
def test_what_cannot_be_measured_is_an_error_that_says_why(asked, says):
    with pytest.raises(NotRecorded, match=says):
        decide(outcomes(TWO, images=5), asked)
    (told,) = decide(outcomes(TWO, images=5), asked, strict=False)
    assert told.verdict == "not tested"


REFUSED = outcomes(TWO, images=5).assign_attrs(refused={"e": "not kept"})


def test_a_reader_is_told_in_words_what_is_missing():
    some = claim(defences=("a", "c|d", "e"), attacks=("cw",))
    on_grid = claim(attacks=("pgd-20",), dims=("inverse",), grid={"inverse": ("2", "5")})
    missing = ("for c or d, nor for e (not kept), nor under cw", "under pgd-20 at 1/T = 2, 5")
    told = decide(REFUSED, some, on_grid, strict=False)
    assert [one.reason for one in told] == [f"no results on digits {words}" for words in missing]


@pytest.mark.parametrize(("defences", "final"), {"e": True, "c|e": True, "c e": False, "a b": False}.items())
def test_what_no_run_could_test_is_not_waited_for(defences, final):
    """Images of a are not those of b."""
    given = REFUSED.assign(truth=REFUSED.truth.where((REFUSED.defence == "a") == (REFUSED.image < 3), -1))
    told, at_all = decide(given, claim(defences=defences.split()), claim(defences=(), dims=("e",)), strict=False)
    assert (told.verdict, told.unreachable, at_all.unreachable) == ("not tested", final, True)
    with pytest.raises(NotAtScale if final else NotRecorded) as raised:
        say.finding([told], "some", "{value:points,1}")
    assert raised.type is (NotAtScale if final else NotRecorded)


@pytest.mark.parametrize("lost", [{"inverse": "5"}, {"defence": "b", "inverse": "5"}])
def test_a_claim_on_a_grid_is_not_tested_where_a_defence_lacks_a_value(lost):
    grid = [outcomes(TWO, images=20).assign_coords(inverse=value) for value in ("2", "5")]
    best = lambda found: metrics.overall(found["count"]).min(["defence", "attack", "inverse"])  # noqa: E731
    data, asked = xr.concat(grid, "inverse"), claim(best, dims=("inverse",), grid={"inverse": ("2", "5")}, attacks=("pgd-20",))
    assert decide(data, asked)[0].verdict != "not tested"
    partial_data = data.copy(deep=True)
    partial_data.truth.loc[lost] = -1
    (told,) = decide(partial_data, asked, strict=False)
    assert (told.verdict, told.reason) == ("not tested", "no results on digits under pgd-20 at 1/T = 5")


def test_slips_at_the_door():
    data = outcomes({("pgd-at", "pgd-20"): 0.5}, images=5)
    with pytest.raises(UserError, match="unknown section with claims 'tian2021/4-1'"):
        registry.judge("tian2021/4-1", data)
    with pytest.raises(UserError, match="have no attribute scale"):
        registry.judge("tian2021/4-1-class-bias", data.drop_attrs())


def test_a_ratio_is_judged_on_its_logarithm():
    (found,) = decide(outcomes(TWO), claim(lambda found: 1 + 0 * more(found) + more(found) / 100, low=1, log=True))
    assert found.verdict == "holds"
    assert found.low > 0
    (beyond,) = decide(outcomes(TWO), claim(lambda found: np.exp(more(found)), low=1, log=True))
    assert beyond.high == np.inf


def test_names_of_attacks_are_made_plain():
    data = outcomes({("pgd-he", "pgd-20@tian2021"): 0.6, ("pgd-at", "pgd-20@tian2021"): 0.5}, images=5)
    other = outcomes({("pgd-he", "pgd-20@tian2021"): 0.9, ("pgd-at", "pgd-20@tian2021"): 0.8}, images=5, seed=5)
    both = xr.concat([data, other], "substitute").assign_coords(substitute=["None", "standard"])
    found = judging.canonical_names(both)
    assert list(found.attack.values) == ["pgd-20", "transfer"]
    assert (found.misclassified.sel(attack="transfer").values == other.misclassified.isel(attack=0).values).all()


def test_a_claim_says_in_which_readout_a_network_answers():
    logits = outcomes({("pgd-he", "pgd-20"): 0.6, ("pgd-at", "pgd-20"): 0.5}, images=5)
    cosines = outcomes({("pgd-he", "pgd-20"): 0.9, ("pgd-at", "pgd-20"): 0.5}, images=5)
    cosines = cosines.assign(truth=cosines.truth.where(cosines.defence == "pgd-he", -1))
    both = xr.concat([logits, cosines], "readout").assign_coords(readout=["logits", "cosines"])
    asked = [claim(name=name, defences=("pgd-at", "pgd-he"), readout=name) for name in ("cosines", "logits")]
    published, scaled = decide(both, *asked)
    assert published.effect > scaled.effect + 20
    assert scaled.effect == decide(logits, asked[0])[0].effect


def test_a_claim_names_the_dataset_of_outcomes_that_it_needs():
    given, needs = {"other": outcomes(TWO, images=5)}, claim(data="some")
    with pytest.raises(NotRecorded, match="claim 'some' needs the outcomes 'some'; there are: other"):
        decide(given, needs)
    (lacking,) = decide(given, needs, strict=False)
    assert (lacking.verdict, lacking.reason) == ("not tested", "not all runs that it needs are recorded")


# Measures, on counts whose answer is known.


@pytest.mark.parametrize("size", [5, 12, 15])
def test_the_gap_of_many_classes_is_that_of_a_dozen_of_them(size):
    values = np.random.default_rng(0).uniform(0, 100, size).round(1)
    count = published.counts(xr.DataArray(values, dims="label", coords={"label": [f"c{place}" for place in range(size)]}))
    found = xr.Dataset({"count": count.expand_dims(defence=["pgd-at"], attack=["pgd-20"])})
    sets = [np.ptp(some) for some in itertools.combinations(values, min(size, 12))]
    assert float(measures.gap(found)) == pytest.approx(np.mean(sets))


def test_mistakes_that_never_cross_superclasses_are_measured():
    """Of ten cats four are taken for dogs, none for a ship: the claim is truest there, and a ratio has no base."""
    names = ["cat", "dog", "ship", "truck"]
    table = np.array([[6, 4, 0, 0], [4, 6, 0, 0], [0, 0, 8, 2], [0, 0, 2, 8.0]])
    coords = {"defence": ["pgd-at"], "attack": ["pgd-20"], "label": names, "predicted": names}
    count = xr.DataArray(table[None, None], dims=tuple(coords), coords=coords)
    assert float(measures.superclass_excess(xr.Dataset({"count": count}))) == pytest.approx(30)
    count[0, 0, 0, 2:] = 1
    count[0, 0, 0, 0] = 4
    assert float(measures.superclass_excess(xr.Dataset({"count": count}), times=2)) == pytest.approx(30 - 2 * 20 / 8)


# The whole table.


def test_claims_are_named_once_and_say_why_not():
    assert len({(one.section, one.name) for one in registry.CLAIMS}) == len(registry.CLAIMS)
    assert all(bool(one.datasets) == bool(one.excluded_because) for one in registry.CLAIMS)
    assert all(one.statement.endswith(".") and one.low < one.high for one in registry.CLAIMS)


SIZED = [("holds", 28, "differs"), ("holds", 7, "agrees"), ("open", 7, "agrees"), ("open", 3, "differs")]
SIZED += [("fails", -2, "differs")]
SUMMARIES = [(verdict, theirs, f"direction {verdict}, size {how}") for verdict, theirs, how in SIZED]
SUMMARIES += [("holds", None, "holds"), ("not tested", 7, "not tested")]


@pytest.mark.parametrize(("verdict", "theirs", "expected"), SUMMARIES)
def test_a_verdict_is_on_the_direction_and_the_size_where_the_paper_prints_one(verdict, theirs, expected):
    found = Verdict(claim(reported=theirs, unit="times"), verdict, "laptop", "cifar10", 8.14, 6.5, 10, seeds=1)
    assert found.summary == expected
    assert found.words == f"{expected} (CIFAR-10 at 8/255{', one run' * (verdict != 'not tested')})"
    if expected == "direction holds, size differs":
        assert found.numbers == "8.14 [6.50, 10.0] times, the paper 28.0"


def test_sizes_are_compared_on_the_dataset_of_the_paper_only():
    about = (0, 0, np.inf), (0, -np.inf, 0), (1, 1, np.inf)
    for log, low, high in (*about, (0, 1, np.inf), (0, -5, 5), (0, 0, 5), (1, 0.5, 2)):
        one = claim(reported=7, log=log, low=low, high=high)
        digits, same = (Verdict(one, "fails", "quick", dataset, 20, 10, 30) for dataset in ("digits", "cifar10"))
        what = "direction" if (log, low, high) in about else "claim"
        assert digits.summary == ("direction fails" if what == "direction" else "fails")
        assert (same.summary, same.theirs, digits.theirs) == (f"{what} fails, size differs", 7, None)
        assert "the paper" not in digits.numbers


def test_a_measure_is_named_in_words():
    words = {claim.name: claim.measured for claim in registry.CLAIMS}
    assert all(text and "None" not in text for text in words.values())
    assert words["gap"] == "how far the best class is from the worst"
    assert words["six-and-eight"].endswith("less the mean of all other pairs (first: 6; second: 8)")
    assert words["stronger-larger-cv"].endswith("the mean over the defences (measure: cv)")


def test_settings_of_an_attack_on_fewer_images_restrict_the_attack_that_they_are_compared_with():
    truth = np.zeros((1, 1, 2, 2, 10), "i2") - 1
    truth[0, 0, 0, 0] = 0  # pgd-20, which has no temperature, on all images
    truth[0, 0, 1, 1, :4] = 0
    dims = ("defence", "seed", "attack", "inverse", "image")
    coords = {"defence": ["pgd-at"], "seed": [0], "attack": ["pgd-20", "temperature-pgd-20"], "inverse": ["", "5"]}
    outcomes = xr.Dataset({"truth": (dims, truth)}, {**coords, "image": np.arange(10)})
    claim = Claim("c", "tian2021/5-temperature-pgd", "5", "", measures.gap, dims=("inverse",))
    used = (judging.select(claim, outcomes).truth >= 0).sum("image").squeeze(["defence", "seed"])
    assert used.values.tolist() == [[4, 0], [0, 4]]
