import mocks
import numpy as np
import pytest
import xarray as xr
from statsmodels.stats.proportion import proportion_confint

from classwise.stats import bootstrap, intervals, metrics, significance

RATES = np.array([0.92, 0.58, 0.84, 0.60, 0.78, 0.81, 0.89, 0.87, 0.36, 0.49])
NAMES = list("0123456789")
ALONG = {"label": NAMES, "predicted": NAMES}


def table(matrix):
    return xr.DataArray(matrix, ALONG, tuple(ALONG))


def counted(right, images, *dims):
    """Return counts with so many right of so many images of each class; the others are taken for the next class."""
    right = np.asarray(right)[..., None]
    eye = np.eye(right.shape[-2], dtype=int)
    names = {dim: NAMES[: len(eye)] for dim in ALONG}
    return xr.DataArray(right * eye + (images - right) * np.roll(eye, 1, 1), names, (*dims, *names))


def test_a_rank_is_a_range_where_intervals_overlap():
    # "a" lies above "c"; "b" overlaps with both; intervals that touch overlap.
    bounds = xr.DataArray([[5, 3, 1], [9, 5, 3]], {"bound": ["low", "high"], "member": list("abc")}, ("bound", "member"))
    ranks = intervals.rank_ranges(bounds, "member")
    assert ranks.sel(bound="low").values.tolist() == [1, 1, 2]
    assert ranks.sel(bound="high").values.tolist() == [2, 3, 3]


def drawn(rng, n=180):
    return counted(rng.binomial(n, RATES), n)


def test_wilson_together_is_wider_and_nothing_is_known_without_images():
    count = drawn(np.random.default_rng(0))
    one, all_ = intervals.wilson(count), intervals.wilson(count, together=True)
    assert ((all_.sel(bound="high") - all_.sel(bound="low")) > (one.sel(bound="high") - one.sel(bound="low"))).all()
    count[3] = 0
    assert np.isnan(intervals.wilson(count).sel(label="3")).all()


TRUTHS = {"worst": 36, "mcd": 56, "cv": 1e4 * RATES.var(), "cv_unbiased": 1e4 * RATES.var(), "overall": 100 * RATES.mean()}
TRUTHS |= {"explained": 100 * RATES.var() / (RATES.mean() * (1 - RATES.mean()))}
TRUTHS |= {"gini": 50 * abs(RATES[:, None] - RATES).mean() / RATES.mean()}


@pytest.mark.parametrize(("name", "truth"), TRUTHS.items())
def test_bootstrap_intervals_hold_the_truth_about_as_often_as_they_say(name, truth):
    """With 150 studies at 95 %, fewer than 85 % would be three standard errors too few for an honest interval of 92 %."""
    rng = np.random.default_rng(1)
    studies = xr.concat([drawn(rng) for _ in range(150)], "study")
    low, _, high = bootstrap.bootstrap(studies, metrics.METRICS[name], draws=300).transpose("bound", "study").values
    assert ((low <= truth) & (truth <= high)).mean() >= 0.85


def confusions(size: int, mix: float, seed: int, wrong: float = 0.4) -> np.ndarray:
    """Return true rates of classes, a share `wrong` misclassified: pairs with a common rate, and a share `mix` that is not."""
    rng = np.random.default_rng(seed)
    common, alone = (rng.exponential(1, (size, size)) ** 2 for _ in range(2))
    rates = (1 - mix) * (common + common.T) / 2 + mix * alone
    np.fill_diagonal(rates, 0)
    rates *= wrong / rates.sum(1, keepdims=True)
    np.fill_diagonal(rates, 1 - wrong)
    return rates


@pytest.mark.parametrize(("mix", "number"), [(0.0, 180), (0.3, 1000), (0.9, 180)])
def test_the_interval_of_the_symmetry_holds_the_true_correlation(mix, number):
    """Sampling lowers the correlation of two noisy directions. An interval of what was observed alone lies below the truth.

    With 60 studies at 95 %, fewer than 85 % would be three standard errors too few for an interval of 95 %.
    """
    rng, rates = np.random.default_rng(3), [table(confusions(10, mix, study % 5)) for study in range(60)]
    counts = xr.concat([table(rng.multinomial(number, one)) for one in rates], "study")
    truth = metrics.symmetry(xr.concat(rates, "study")).values
    low, value, high = bootstrap.bootstrap(counts, metrics.symmetry, draws=300).transpose("bound", "study").values
    assert ((low >= -1) & (low <= value) & (value <= high) & (high <= 1)).all()
    assert ((low - 1e-9 <= truth) & (truth <= high + 1e-9)).mean() >= 0.85
    assert (high - low).mean() < 0.6
    # The value is not the end of its interval.
    assert np.median(value - low) > 0


def test_the_interval_of_the_symmetry_of_several_networks_holds_the_true_correlation():
    """Five networks, tested on different images: the value lies inside, not at the lower end."""
    rng, rates = np.random.default_rng(5), [table(confusions(10, 0.0, study % 5)) for study in range(60)]
    networks = np.stack(rates)[:, None] * np.exp(0.3 * rng.standard_normal((60, 5, 10, 10)))
    counts = xr.DataArray(rng.multinomial(36, networks / networks.sum(-1, keepdims=True)), ALONG, ("study", "seed", *ALONG))
    low, value, high = bootstrap.bootstrap(counts, metrics.symmetry, ["seed"], draws=300).transpose("bound", "study").values
    truth = metrics.symmetry(xr.concat(rates, "study")).values
    assert ((low <= truth) & (truth <= high)).mean() >= 0.85
    assert (low < value - 0.01).mean() >= 0.9


def symmetry_unbiased(count: xr.DataArray) -> xr.DataArray:
    return metrics.symmetry_of(metrics.reciprocity(count), count)


@pytest.mark.parametrize(("wrong", "most", "span"), [(0.05, 0.3, 1.5), (0.4, 0.3, 0.4)])
def test_the_interval_of_little_symmetry_misses_the_truth_on_each_side_about_as_often_as_it_says(wrong, most, span):
    """100 images a class. Each side misses one study in forty: of 400, more than 20 would be three standard errors too many."""
    rng = np.random.default_rng(7)
    rates = xr.DataArray([confusions(10, 0.9, seed, wrong) for seed in range(900)], ALONG, ("study", *ALONG))
    truth = metrics.symmetry(rates).values
    little = np.flatnonzero((truth >= 0) & (truth < most))[:400]
    counts, truth = rates[little].copy(data=rng.multinomial(100, rates[little])), truth[little]
    low, _, high = bootstrap.bootstrap(counts, metrics.symmetry, draws=200).transpose("bound", "study").values
    assert len(truth) == 400
    assert (truth > high).sum() <= 20
    assert (truth < low).sum() <= 20
    assert (high - low).mean() < span


def test_the_draws_behind_the_interval_of_the_symmetry():
    count = table(np.random.default_rng(3).multinomial(180, confusions(10, 0.3, 0)))
    drawn = bootstrap.symmetry_draws(count, draws=300)
    low, _, high = bootstrap.bootstrap(count, metrics.symmetry, draws=300).values
    assert np.clip(drawn.quantile([0.025, 0.975]).values, -1, 1) == pytest.approx([low, high])


def test_the_symmetry_of_few_mistakes_is_corrected_for_their_number():
    rates = confusions(10, 0.0, 0)
    rng = np.random.default_rng(4)
    counts = [table(rng.multinomial(180, rates)) for _ in range(40)]
    both = (metrics.symmetry, symmetry_unbiased)
    observed, corrected = (np.median([float(measure(count)) for count in counts]) for measure in both)
    truth = float(metrics.symmetry(table(rates)))
    assert observed < truth - 0.02
    assert corrected == pytest.approx(truth, abs=0.015)
    # Where two entries differ no more than by sampling, nothing is known of their correlation.
    alike = np.full((10, 10), 2)
    np.fill_diagonal(alike, 30)
    low, value, high = bootstrap.bootstrap(table(alike + np.eye(10, k=1, dtype=int)), metrics.symmetry, draws=200).values
    assert np.isnan(float(symmetry_unbiased(table(alike + np.eye(10, k=1, dtype=int)))))
    assert (low, high) == (-1, 1)
    assert low < value < high


def test_the_plain_percentile_interval_would_not(monkeypatch):
    """Ten classes alike: their spread is all noise, and resampling doubles it; the interval must reach down to nothing."""
    rng = np.random.default_rng(2)
    count = counted(rng.binomial(180, 0.5, 10), 180)
    low, value, _ = bootstrap.bootstrap(count, metrics.cv).values
    assert low < value / 10
    assert np.quantile(metrics.cv(bootstrap.resample(count)), 0.025) > low


def test_seeds_are_clusters():
    same = xr.concat([drawn(np.random.default_rng(0), 90)] * 4, dim="seed").assign_coords(seed=range(4))
    apart = same.copy()
    for seed in (0, 1):
        apart[seed] = 0
        apart[seed].values[np.diag_indices(10)] = 90
    narrow, wide = (np.ptp(bootstrap.bootstrap(one, metrics.overall, over=["seed"]).values[[0, 2]]) for one in (same, apart))
    assert wide > 3 * narrow
    pooled = bootstrap.bootstrap(same, metrics.overall, over=["seed"]).sel(bound="value")
    assert float(pooled) == pytest.approx(float(metrics.overall(same.sum("seed"))))


def test_resampling_keeps_the_number_of_images_and_repeats():
    count = mocks.dataset()["count"].isel(epoch=-1).sel(split="test")
    again, right = bootstrap.resample(count, draws=50), {"attack": "clean", "label": "3", "predicted": "3"}
    assert (again.sum("predicted") == 40).all()
    assert again.dims == ("draw", "attack", "label", "predicted")
    assert again.equals(bootstrap.resample(count, draws=50))
    assert abs(float(again.mean("draw").sel(right) - count.sel(right))) < 2


def test_what_is_drawn_does_not_hang_on_what_stands_beside_it():
    both = mocks.dataset()["count"].isel(epoch=-1).sel(split="test")
    alone = both.sel(attack="pgd-10")
    beside = bootstrap.resample(both, draws=30).sel(attack="pgd-10", drop=True)
    xr.testing.assert_identical(beside, bootstrap.resample(alone.drop_vars("attack"), draws=30))
    other = bootstrap.resample(both.assign_coords(attack=["pgd-10", "clean"]), draws=30)
    assert not (other.sel(attack="pgd-10") == bootstrap.resample(alone, draws=30)).all()
    assert not bootstrap.resample(alone, draws=30, seed=1).equals(bootstrap.resample(alone, draws=30))


@pytest.mark.parametrize("seeds", [2, 4])
def test_counts_of_several_seeds_show_all_of_their_variance(seeds):
    """Seeds that lie 20 points to either side of their mean, with so many images that these hardly matter."""
    count = counted(np.where(np.arange(seeds) % 2, 9000, 5000)[:, None].repeat(10, 1), 10000, "seed")
    again = metrics.overall(bootstrap.resample(count, ["seed"], draws=3000))
    assert float(again.std("draw")) == pytest.approx(20 * np.sqrt(1 / (seeds - 1)), rel=0.04)
    for alike, images in ((False, 10000 * seeds), (True, 10000)):
        total = bootstrap.resample(count, ["seed"], draws=20, shared_images=alike).sum("predicted")
        assert total.values == pytest.approx(np.full(total.shape, images))


@pytest.mark.parametrize("name", ["mcd", "cv", "worst", "overall"])
def test_the_value_lies_within_its_interval_where_sampling_is_most_of_it(name):
    """Equal classes: what two seeds show of their spread is chance, and the interval takes it off."""
    rng = np.random.default_rng(0)
    for seed in range(5):
        count = counted(rng.binomial(36, 0.6, (2, 10)), 36, "seed")
        low, value, high = bootstrap.bootstrap(count, metrics.METRICS[name], ["seed"], draws=200, seed=seed).values
        assert low <= value <= high


def p_of_symmetry(count, draws):
    return significance.permutation_p(metrics.symmetry(significance.permute_mistakes(count, draws, 0)))


def test_permuted_mistakes_tell_symmetry_from_chance():
    rng = np.random.default_rng(0)
    half = np.triu(rng.pareto(1.0, (10, 10)) * 4, 1)
    symmetrical = table(half + half.T + 50 * np.eye(10))
    assert p_of_symmetry(symmetrical, draws=500) < 0.01
    noise = (symmetrical.copy(data=rng.pareto(1.0, (10, 10)) * 4 + 50 * np.eye(10)) for _ in range(40))
    chance = [p_of_symmetry(one, draws=200) for one in noise]
    assert np.mean(np.array(chance) < 0.05) <= 0.2
    assert 0.3 < np.mean(chance) < 0.7


def test_a_class_that_is_predicted_too_often_is_no_affinity():
    """Bowker's test rejects symmetry then, quasi-symmetry stays; neither is rejected more often than chance allows."""
    rng = np.random.default_rng(0)
    both = rng.uniform(5, 40, (6, 6))
    both += both.T
    often = np.array([1, 1.7, 1, 1, 0.6, 1])
    names = {"label": range(6), "predicted": range(6)}
    counts = [[xr.DataArray(rng.poisson(both * how), names, ("label", "predicted")) for how in (1, often)] for _ in range(150)]
    found = np.array([[significance.symmetry_tests(count) for count in some] for some in counts])
    assert (np.mean(found[:, 0] < 0.05, axis=0) < 0.12).all()
    assert np.mean(found[:, 1, 0] < 0.05) > 0.95
    assert np.mean(found[:, 1, 1] < 0.05) < 0.12


def test_symmetry_and_groups_of_nothing_are_not_measured():
    nothing = drawn(np.random.default_rng(0)).copy(data=np.eye(10) * 20)
    empty = drawn(np.random.default_rng(0))
    empty[3] = 0
    for count in (nothing, empty):
        assert np.isnan(significance.groups_test(count, draws=20)).all()
    assert np.isnan([*significance.symmetry_tests(nothing), p_of_symmetry(nothing, draws=20)]).all()


def test_groups_test_tells_structure_from_chance():
    rng = np.random.default_rng(0)
    blocks = np.kron(np.eye(2), np.full((5, 5), 12.0)) + rng.random((10, 10)) + 100 * np.eye(10)
    count = drawn(rng)
    share, chance, p = significance.groups_test(count.copy(data=blocks), draws=100)
    assert share > chance + 20
    assert p < 0.02
    # Nothing but chance: the found groups hold more than half of the mistakes all the same, and the test is not deceived.
    chances = (count.copy(data=rng.pareto(2, (10, 10)) * 5 + 100 * np.eye(10)) for _ in range(25))
    found = [significance.groups_test(one, draws=40) for one in chances]
    assert np.mean([share for share, _, _ in found]) > 40
    assert np.mean([p < 0.05 for _, _, p in found]) <= 0.16


@pytest.mark.parametrize(("spread", "least"), [(0.0, 0.9), (0.05, 0.8)])
def test_intervals_over_seeds_hold_the_truth_with_and_without_an_effect_of_the_seed(spread, least):
    rng = np.random.default_rng(4)
    rates = np.clip(RATES + spread * rng.normal(size=(60, 5, 10)), 0.01, 0.99)
    counts = counted(rng.binomial(36, rates), 36, "study", "seed")
    low, _, high = bootstrap.bootstrap(counts, metrics.mcd, ["seed"], draws=200).transpose("bound", "study").values
    assert ((low <= 56) & (high >= 56)).mean() >= least


def test_a_class_that_is_never_right_is_not_surely_so():
    count = drawn(np.random.default_rng(0))
    count[1] = 0
    count[1, 2] = 180
    low, value, high = bootstrap.bootstrap(count, metrics.worst).values
    assert (low, value) == (0, 0)
    assert high == pytest.approx(intervals.wilson(count).sel(label="1", bound="high").item())


def test_a_share_of_images_has_one_interval_whoever_asks():
    count = counted([3, 8, 9], 10)
    expected = [100 * end for end in proportion_confint(20, 30, method="wilson")]
    assert bootstrap.bootstrap(count, metrics.overall).values[[0, 2]] == pytest.approx(expected)
    shares = intervals.shares({"all": count.expand_dims(of=["one"])}, "of")
    assert shares.loc["one", ["low", "high"]].tolist() == pytest.approx(expected)
    one = bootstrap.bootstrap(count.expand_dims(seed=[0]), metrics.overall, over=["seed"])
    assert one.values[[0, 2]] == pytest.approx(expected)
    assert [float(end) for end in intervals.proportion(20, 30)] == pytest.approx(expected)
    assert [float(end) for end in intervals.proportion(0, 0)] == [0, 100]
    of_class = [proportion_confint(right, 10, method="wilson") for right in (3, 8, 9)]
    assert intervals.wilson(count).transpose("label", "bound").values == pytest.approx(100 * np.array(of_class))


@pytest.mark.parametrize("right", [[0, 0, 0], [20, 20, 20], [0, 20, 20]])
@pytest.mark.parametrize("name", ["overall", "worst", "mcd", "cv"])
def test_where_nothing_varies_nothing_is_certain(right, name):
    low, value, high = bootstrap.bootstrap(counted(right, 20), metrics.METRICS[name], draws=400).values
    assert low <= value <= high
    assert high - low > 5
    fewer = bootstrap.bootstrap(counted([one // 4 for one in right], 5), metrics.METRICS[name], draws=400).values
    assert fewer[2] - fewer[0] > high - low
    bottom, top = {"cv": (0, 2500)}.get(name, (0, 100))
    assert bottom <= low
    assert high <= top


def test_where_something_varies_the_interval_is_that_of_the_bootstrap():
    count, varies = counted([5, 12, 20], 20), xr.concat([counted([5, 12, 20], 20), counted([20] * 3, 20)], "attack")
    drawn = metrics.mcd(bootstrap.resample(count))
    value = float(metrics.mcd(count))
    expected = [max(value - drawn.quantile(end).item() + value, 0) for end in (0.975, 0.025)]
    assert bootstrap.bootstrap(count, metrics.mcd).values[[0, 2]] == pytest.approx(np.clip(expected, 0, 100))
    both = bootstrap.bootstrap(varies, metrics.mcd)
    assert float(both.isel(attack=1).sel(bound="high")) > 0


def test_mcnemar_is_the_sign_test_on_the_images_that_differ():
    one = mocks.dataset("outcomes 1", per_class=4)
    other = one.copy(deep=True)
    one["misclassified"][:] = False
    other["misclassified"][:] = False
    other["misclassified"][:6] = True
    assert significance.mcnemar(one, other) == pytest.approx(2 * 0.5**6)
    assert significance.mcnemar(one, one) == 1
    other["truth"][:6] = -1
    assert significance.mcnemar(one, other) == 1


def test_paired_compares_with_the_first_on_the_same_images():
    """Of 40 images the second breaks 10 that the first does not; the third breaks the same; an image of truth -1 is not there."""
    misclassified = np.zeros((3, 41), bool)
    misclassified[1, :10] = True
    truth = np.zeros((3, 41), np.int16)
    truth[:, 40] = -1
    coords = {"defence": list("abc"), "image": np.arange(41)}
    data = xr.Dataset({"misclassified": (tuple(coords), misclassified), "truth": (tuple(coords), truth)}, coords)
    found = significance.paired_tests(data, "a")
    assert found["points"].to_dict() == {"b": -25.0, "c": 0.0}
    assert found["p"]["b"] == pytest.approx(2 * 2 * 0.5**10)
    assert found["p"]["c"] == 1.0
    assert len(significance.paired_tests(data.sel(defence=["a"]), "a")) == 0


def test_shares_are_counted_over_groups_of_classes():
    counts = np.array([[[8, 2], [5, 5]], [[10, 0], [0, 10]]])
    coords = {"how": ["plain", "white"], "label": ["a", "b"], "predicted": ["a", "b"]}
    count = xr.DataArray(counts, dims=("how", "label", "predicted"), coords=coords)
    table = intervals.shares({"a": count.sel(label=["a"]), "all": count}, "how")
    assert list(table["share"]) == [80, 100, 65, 100]
    assert list(table["images"]) == [10, 10, 20, 20]
    low, high = proportion_confint(8, 10, method="wilson")
    assert table["low"].iloc[0] == pytest.approx(100 * low)
    assert table["high"].iloc[0] == pytest.approx(100 * high)
    # Of images that are worth less than they are, the share stays and the interval widens; no fraction is cut off.
    less = intervals.shares({"first": count / 1.6}, "how")
    assert less["share"].iloc[0] == pytest.approx(65)
    low, high = proportion_confint(13 / 1.6, 12.5, method="wilson")
    assert list(less.loc["plain", ["low", "high", "images"]]) == pytest.approx([100 * low, 100 * high, 12])


CLASSES = list("abcdefgh")
RISING, JAGGED = np.arange(10.0, 90, 10), np.array([30.0, 10, 80, 20, 60, 15, 70, 50])


def rates_of(*rows):
    """Return counts of a hundred images a class, right as often as each of the rows says, along attack."""
    rates = np.stack(rows)
    matrices = np.stack([np.diag(row) for row in rates])
    matrices[:, range(8), np.roll(range(8), 1)] = 100 - rates
    where = {"attack": [f"attack {place}" for place in range(len(rows))], "label": CLASSES, "predicted": CLASSES}
    return xr.Dataset({"count": (tuple(where), matrices)}, where)


def between_attacks(sums):
    return xr.corr(*(metrics.accuracy(sums["count"]).isel(attack=place, drop=True) for place in (0, -1)), "label")


def with_values(sums):
    return xr.corr(sums["feature"], metrics.accuracy(sums["count"]).isel(attack=0, drop=True), "label")


@pytest.mark.parametrize(
    ("measure", "what", "sums"),
    [
        (between_attacks, "attack", lambda row: rates_of(RISING, row)),
        (with_values, "count", lambda row: rates_of(row).assign(feature=("label", RISING))),
    ],
)
def test_a_random_order_of_classes_seldom_correlates_as_a_perfect_one_does(measure, what, sums):
    def p(row):
        return significance.permutation_p(measure(significance.permute_classes(sums(row), what)))

    assert p(RISING) == p(100 - RISING) == pytest.approx(2 / 1001)
    assert 0.2 < p(JAGGED) < 1
    assert np.isnan(p(np.full(8, 50.0)))


def test_permuted_classes_keep_their_images_and_what_they_are_mistaken_for():
    drawn = significance.permute_classes(rates_of(RISING), "count", draws=50)["count"]
    np.testing.assert_array_equal(drawn.isel(draw=0), rates_of(RISING)["count"])
    diagonal = np.sort(np.diagonal(drawn.transpose("draw", "attack", "label", "predicted").values, axis1=2, axis2=3))
    np.testing.assert_array_equal(diagonal, np.broadcast_to(RISING, diagonal.shape))
    assert set(np.unique(drawn.sum("predicted"))) == {100}


def test_classes_of_unequal_numbers_keep_their_own():
    number = np.array([400.0, 200, 30, 30, 30, 30, 30, 30])
    sums = rates_of(RISING)
    sums = sums.assign(count=sums["count"] * xr.DataArray(number / 100, dims="label"))
    drawn = significance.permute_classes(sums, "count", draws=50)["count"]
    np.testing.assert_allclose(drawn.sum("predicted"), np.broadcast_to(number, (51, 1, 8)).reshape(drawn.sum("predicted").shape))
    rates = metrics.accuracy(drawn).transpose("draw", "attack", "label").values
    np.testing.assert_allclose(np.sort(rates), np.broadcast_to(RISING, rates.shape))


def test_each_attack_has_an_order_of_its_own():
    drawn = significance.permute_classes(rates_of(RISING, RISING), "each attack", draws=50)["count"]
    rates = metrics.accuracy(drawn).transpose("draw", "attack", "label").values
    np.testing.assert_allclose(rates[0], [RISING, RISING])
    np.testing.assert_allclose(np.sort(rates), np.broadcast_to(RISING, rates.shape))
    assert (rates[1:, 0] != rates[1:, 1]).any(-1).all()
    assert (rates[1:] != RISING).any(-1).all()


def test_partners_are_permuted_and_networks_of_all_classes_are_not():
    three = rates_of(RISING, JAGGED, RISING).rename(attack="partner").assign_coords(partner=["all", "a", "b"])
    drawn = significance.permute_classes(three, "partner", draws=50)["count"]
    np.testing.assert_array_equal(drawn.sel(partner="all"), np.broadcast_to(three["count"][0], (51, 8, 8)))
    swapped = (drawn.sel(partner="a") == three["count"].sel(partner="b")).all(["label", "predicted"])
    assert 10 < int(swapped.sum()) < 40


@pytest.mark.parametrize(("rates", "least"), [((0.3, 0.3), 0.94), ((0.02, 0.1), 0.94), ((0.0, 0.05), 0.92)])
def test_a_difference_of_matched_images_has_an_interval_that_holds_the_truth(rates, least):
    studies = np.random.default_rng(0).multinomial(50, [*rates, 1 - sum(rates)], size=4000)
    gained, lost, total = (xr.DataArray(one, dims="study") for one in (studies[:, 0], studies[:, 1], studies.sum(1)))
    low, value, high = intervals.matched_difference(gained, lost, total).transpose("bound", "study").values
    assert value == pytest.approx(2.0 * (studies[:, 0] - studies[:, 1]))
    truth = 100 * (rates[0] - rates[1])
    assert ((low <= truth) & (truth <= high)).mean() >= least
    assert intervals.matched_difference(*(xr.DataArray(0),) * 3).sel(bound="value").isnull()
