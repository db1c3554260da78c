import mocks
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from classwise.stats import aggregate, bootstrap, metrics

# Tian et al. 2021, Table 1, Madry under PGD: accuracies of the ten classes, CV and MCD as printed.
MADRY_PGD = [63.8, 71.6, 39.1, 25.3, 36.7, 38.6, 57.4, 59.5, 63.1, 66.8]


def counted(matrix):
    """Return counts (draw, label, predicted) of a table, or of one for each draw."""
    matrix = np.array(matrix)
    names = [chr(97 + place) for place in range(matrix.shape[-1])]
    return xr.DataArray(matrix, {"label": names, "predicted": names}, ("draw", "label", "predicted")[-matrix.ndim :])


def of_rates(rates, n=1000):
    right = np.round(np.array(rates) * n / 100).astype(int)[..., None]
    eye = np.eye(right.shape[-2], dtype=int)
    return counted(right * eye + (n - right) * np.roll(eye, 1, 1))


def test_rates_of_a_small_matrix():
    three = counted([[8, 1, 1], [3, 6, 1], [0, 5, 5]])
    assert metrics.accuracy(three).values.tolist() == [80, 60, 50]
    assert metrics.precision(three).values == pytest.approx([800 / 11, 600 / 12, 500 / 7])
    assert float(metrics.overall(three)) == pytest.approx(100 * 19 / 30)
    assert float(metrics.worst(three)) == 50
    assert float(metrics.mcd(three)) == 30
    assert float(metrics.worst_k(three, 0.5)) == 55
    assert float(metrics.cv(three)) == pytest.approx(np.var([80, 60, 50]))
    assert float(metrics.gini(three)) == pytest.approx(50 * np.mean([0, 20, 30, 20, 0, 10, 30, 10, 0]) / np.mean([80, 60, 50]))
    mistakes = three.values.sum(0) - three.values.diagonal()
    assert metrics.share_of_mistakes(three).values == pytest.approx(100 * mistakes / 11)
    assert metrics.confusion(three).sel(label="c").values.tolist() == [0, 50, 50]
    assert metrics.off_diagonal_confusion(three).sel(label="b").values.tolist() == [30, 0, 10]


@given(st.integers(2, 5).flatmap(lambda size: arrays(int, (size, size), elements=st.integers(0, 9))), st.data())
def test_measures_hang_neither_on_the_order_of_the_classes_nor_on_further_dimensions(matrix, draw):
    """A class without images has no rate, and neither have the measures over all classes."""
    count, order = counted(matrix), draw.draw(st.permutations(range(len(matrix))))
    other, stacked = count.isel(label=order, predicted=order), xr.concat([count, 2 * count], "seed").expand_dims(attack=["clean"])
    for name, measure in metrics.METRICS.items():
        value = pytest.approx(float(measure(count)), abs=1e-6, nan_ok=True)
        assert float(measure(other)) == value, name
        assert set(measure(stacked).dims) == {"seed", "attack"}, name
        assert measure(stacked).isel(seed=0, attack=0).item() == value, name
        assert matrix.any(1).all() or name in ("overall", "symmetry") or np.isnan(measure(count)), name
    assert (metrics.accuracy(count).isnull() == ~matrix.any(1)).all()
    np.testing.assert_allclose(metrics.precision(other), metrics.accuracy(counted(matrix.T))[order])


def test_cv_and_mcd_are_those_of_the_paper():
    count = of_rates(MADRY_PGD)
    assert float(metrics.mcd(count)) == pytest.approx(46.3, abs=0.05)
    assert float(metrics.cv(count)) == pytest.approx(224.3, abs=0.25)


def check_unbiased(target, plain, unbiased):
    """Check measures of drawn counts: the mean of the unbiased one is the target, that of the plain one is larger."""
    room = 3 * float(unbiased.std()) / np.sqrt(unbiased.size)
    assert float(unbiased.mean()) == pytest.approx(target, abs=room)
    assert float(plain.mean()) > target + room


def test_unbiased_cv_is_unbiased():
    rng, truth = np.random.default_rng(0), np.array(MADRY_PGD) / 100
    count = of_rates(2 * rng.binomial(50, truth, (400, 10)), n=50)
    check_unbiased(np.var(100 * truth), metrics.cv(count), metrics.cv_unbiased(count))


def test_the_share_that_the_class_explains_is_unbiased():
    rng, truth = np.random.default_rng(0), np.array(MADRY_PGD) / 100
    # Of right (1) and wrong (0) predictions for as many images of each class: the variance between classes over all of it.
    target = 100 * np.var(truth) / (truth.mean() * (1 - truth.mean()))
    count = of_rates(100 * rng.binomial(30, truth, (400, 10)) / 30, n=30)
    check_unbiased(target, metrics.explained_share_of_rates(count), metrics.explained_share(count))


def test_the_share_explained_does_not_shrink_with_the_accuracy():
    # Each class is always right or never: all of the variance, at any mean.
    for right in (1, 5, 9):
        assert float(metrics.explained_share(of_rates([100] * right + [0] * (10 - right)))) == pytest.approx(100)
    assert float(metrics.explained_share_of_rates(of_rates([40] * 10))) == 0
    # Logits of classes a fixed distance apart, at a mean of 50 % and near the floor: the gap shrinks far more than the share.
    high, low = (of_rates(100 / (1 + np.exp(-(np.linspace(-1, 1, 10) + shift))), n=100_000) for shift in (0, -4))
    assert metrics.mcd(low) < metrics.mcd(high) / 5
    assert np.isnan(metrics.explained_share(of_rates([100] * 10)))
    assert np.isnan(metrics.explained_share(of_rates([0] * 10)))


@pytest.mark.parametrize("rate", [0, 100])
def test_where_no_prediction_varies_there_is_no_share_and_no_interval(rate):
    assert np.isnan(bootstrap.bootstrap(of_rates([rate] * 10), metrics.explained_share, draws=50)).all()


def test_precision_tells_better_recognition_from_more_answers():
    share = 0.3
    # Of three classes of 100 images a third of the others' images are called a in either case.
    called = np.random.default_rng(0).binomial(100, [0.9, share, share], (200, 3))[..., None]
    count = counted(called * [1, 0, 0] + (100 - called) * np.array([[0, 1, 0], [0, 1, 0], [0, 0, 1]]))
    assert float(metrics.accuracy(count).sel(label="a").mean()) == pytest.approx(90, abs=1)
    assert float(metrics.precision(count).sel(label="a").mean()) == pytest.approx(100 * 0.9 / (0.9 + 2 * share), abs=1)


def halves_of(seeds, shared):
    data = mocks.dataset("outcomes 1", per_class=11)
    parts = [data.assign(truth=data.truth.where(shared | (data.image % seeds == number), -1)) for number in range(seeds)]
    return xr.concat(parts, "seed").assign_coords(seed=range(seeds))


@pytest.mark.parametrize("shared", [True, False])
def test_halves_part_the_images_of_each_class(shared):
    outcomes = halves_of(3, shared)
    halves = aggregate.split_halves(outcomes)
    assert halves.half.values.tolist() == ["first", "second"]
    assert halves.truth.dims[0] == "half"
    present = halves.truth >= 0
    assert (present.sum("half") == (outcomes.truth >= 0)).all()
    # An image is in one half for all seeds.
    assert int(present.any("seed").sum("half").max()) == 1
    sizes = metrics.images(aggregate.counts(halves))
    assert int(abs(sizes.sel(half="first") - sizes.sel(half="second")).max()) <= 1
    assert (aggregate.counts(halves).sum("half") == aggregate.counts(outcomes)).all()


def test_counts_are_pairs_of_truth_and_answer_of_the_images_that_are_there():
    outcomes = mocks.dataset("outcomes 1", per_class=5)
    outcomes["truth"][1] = -1
    count = aggregate.counts(outcomes)
    assert int(count.sum()) == 49
    expected = np.zeros((10, 10), int)
    for truth, answer in zip(outcomes.truth.values, outcomes.prediction.values, strict=True):
        if truth >= 0:
            expected[truth, answer] += 1
    assert (count.values == expected).all()


def test_symmetry_is_one_for_a_symmetrical_matrix_and_negative_for_an_opposed_one():
    half = np.triu(np.random.default_rng(0).integers(0, 30, (6, 6)), 1)
    whole = half + half.T
    assert float(metrics.symmetry(counted(whole + np.diag(200 - whole.sum(1))))) == pytest.approx(1)
    assert float(metrics.symmetry(counted(np.roll(np.eye(5, dtype=int) * 20, 1, axis=1) + np.eye(5, dtype=int) * 80))) < 0


def test_groups_are_found():
    matrix = np.full((6, 6), 1) + np.kron(np.eye(2, dtype=int), np.full((3, 3), 20))
    matrix[[0, 1], :] = matrix[[1, 0], :]
    shuffled = counted(matrix)[[0, 3, 1, 4, 2, 5], [0, 3, 1, 4, 2, 5]]
    group = metrics.groups(shuffled)
    assert {tuple(sorted(members.label.values)) for _, members in group.groupby(group)} == {("a", "b", "c"), ("d", "e", "f")}
    assert float(metrics.share_in_groups(shuffled, group)) > 80


def test_without_mistakes_every_class_is_a_group_of_its_own():
    assert metrics.groups(counted(np.eye(4, dtype=int) * 9)).values.tolist() == [0, 1, 2, 3]


def test_forms_put_all_attacks_side_by_side_with_clean():
    history = mocks.dataset(accuracies={"clean": 1.0, "pgd-10": 0.5, "other": 0.0})["count"]
    count = aggregate.clean_and_attacked(history)
    assert count.images_are.values.tolist() == ["clean", "attacked"]
    assert (count.sel(images_are="clean") == history.sel(attack="clean")).all()
    assert (count.sel(images_are="attacked") == history.sel(attack=["pgd-10", "other"]).sum("attack")).all()


def test_measured_leaves_out_epochs_without_counts():
    count = mocks.dataset(epochs=4)["count"].copy()
    count[[0, 2]] = 0
    assert aggregate.measured_epochs(count).epoch.values.tolist() == [2, 4]


def attacked(flips, present=None):
    """Outcomes of images under attacks, from which attack flips which image into class 1."""
    misclassified = np.array(list(flips.values()))
    there = np.ones_like(misclassified) if present is None else np.array(present)
    values = mocks.answers(("attack", "image"), np.where(there, 0, -1), misclassified.astype(int))
    return xr.Dataset(values, {"attack": list(flips), "image": range(misclassified.shape[1]), "predicted": ["a", "b"]})


@given(st.integers(1, 4), st.integers(0, 999))
@settings(max_examples=20)
def test_the_worst_case_is_an_or_over_attacks_on_the_images_that_all_were_evaluated_on(number, seed):
    flips, there = np.random.default_rng(seed).random((2, number, 8)) < 0.6
    data, whole = attacked(dict(zip("abcd", flips, strict=False)), there), there.all(0)
    worst = aggregate.worst_case(data)
    assert "attack" not in worst.dims
    assert worst.truth.values.tolist() == np.where(whole, 0, -1).tolist()
    assert worst.misclassified.values.tolist() == (flips.any(0) & whole).tolist()
    assert (worst.prediction.values == flips.any(0))[whole].all()
    assert int(aggregate.counts(worst).sum()) == whole.sum()
    # Once more changes nothing, and neither does it as one more attack.
    more = aggregate.add_worst_case(data, "all")
    assert more.attack.values.tolist() == [*data.attack.values, "all"]
    xr.testing.assert_equal(more.sel(attack="all", drop=True), worst)
    xr.testing.assert_equal(aggregate.worst_case(more), worst)
    # From one attack to the next, images are broken and stay so.
    steps = aggregate.cumulative_over_radius(data, "attack")
    xr.testing.assert_equal(steps.isel(attack=-1, drop=True), worst)
    whole_steps = steps.misclassified.values[:, whole]
    assert (whole_steps == np.logical_or.accumulate(flips[:, whole])).all()


FLIPS = {"pgd": [True, False, False, False], "square": [False, True, True, False], "n": [False, True, False, False]}


def test_the_strongest_setting_is_chosen_for_each_network():
    pairs = [attacked(FLIPS), attacked({"pgd": [True] * 4, "square": [False] * 4, "n": [False] * 4})]
    data = xr.concat(pairs, "defence").assign_coords(defence=["one", "two"])
    best = aggregate.strongest(data, "attack")
    assert best.attack.values.tolist() == ["square", "pgd"]
    assert best.misclassified.sum("image").values.tolist() == [2, 4]


def test_the_lead_of_a_black_box_is_what_it_alone_breaks_of_the_images_that_both_were_evaluated_on():
    assert float(aggregate.black_box_only(attacked(FLIPS), "square", "pgd")) == 50
    assert float(aggregate.black_box_only(attacked(FLIPS), "n", "square")) == 0
    lead = {"pgd": [False, False, True, False], "square": [True, True, True, False]}
    assert float(aggregate.black_box_only(attacked(lead, [[False] * 2 + [True] * 2, [True] * 4]), "square", "pgd")) == 0


@pytest.fixture
def history():
    """A history of eight epochs whose radii are uniform at first, and of a defence without betas."""
    data = mocks.dataset(accuracies={"clean": 0.95, "pgd-10": 0.5}, epochs=8)
    radius = np.full((8, 10), 0.2)
    radius[1:] = 0.1 + 0.02 * np.arange(10)
    radius[7] += 0.02
    data["radius"], data["beta"] = (("epoch", "label"), radius), (("epoch", "label"), np.zeros((8, 10)))
    return data


def test_settings_are_multiples_of_those_of_the_first_epoch(history):
    found = aggregate.multiples(history.radius)
    assert found.isel(epoch=0).values.tolist() == [1.0] * 10
    assert float(found.isel(epoch=1, label=3)) == pytest.approx(0.8)
    assert aggregate.multiples(history.beta).isnull().all()


def test_the_training_accuracy_is_that_under_the_inner_attack_whatever_it_is_called(history):
    count = history["count"].sel(split="train")
    expected = metrics.accuracy(count.sel(attack="pgd-10", drop=True)).drop_vars("split") / 100
    xr.testing.assert_allclose(aggregate.training_accuracy(history).drop_vars("split", errors="ignore"), expected)
    other = history.assign_coords(attack=["clean", "friendly-10"])
    xr.testing.assert_equal(aggregate.training_accuracy(other), aggregate.training_accuracy(history))


def test_late_settings_are_means_over_the_last_quarter(history):
    late = aggregate.late_settings(history)
    assert late.radius.dims == ("predicted",)
    assert late.radius.values == pytest.approx((0.11 + 0.02 * np.arange(10)) / 0.2)
    assert float(late.uniform_radius) == pytest.approx(0.2)
    assert late["sample"].values.tolist() == [40.0] * 10
    assert late.trained.values == pytest.approx(aggregate.training_accuracy(history).isel(epoch=slice(6, 8)).mean("epoch").values)
