"""Section 3.2: claims on similar classes and the mistakes between them, on networks with known logits."""

from functools import partial

import mocks
import numpy as np
import pytest
import xarray as xr
from claim_answers import trained_thrice, verdict_on

from classwise.core.datasets import class_names
from classwise.papers.benz2020 import class_similarity as similar
from classwise.stats import aggregate, features, significance

NAMES = list(class_names("cifar10"))
IMAGES, SIZE = 60, 10
ANIMALS = np.array([name in ("bird", "cat", "deer", "dog", "frog", "horse") for name in NAMES])
RNG = np.random.default_rng(0)
# How close each two classes are, from 0 to 1: symmetric, with classes of one superclass closer, and the first ones to all others.
NEAR = RNG.random((SIZE, SIZE))
NEAR = (NEAR + NEAR.T) / 2 * 0.5 + 0.25 * (ANIMALS[:, None] == ANIMALS)
HUB = np.linspace(1, 0.2, SIZE)
NEAR = np.sqrt(HUB[:, None] * HUB) * NEAR
np.fill_diagonal(NEAR, 0)
HALF = np.full(SIZE, 0.5)


def confused(rates, accuracy):
    """Return predicted classes of IMAGES images a class, right as often as `accuracy` says, their mistakes as rates say."""
    answer = np.repeat(np.arange(SIZE), IMAGES).reshape(SIZE, IMAGES)
    for label in range(SIZE):
        wrong = round((1 - accuracy[label]) * IMAGES)
        share = rates[label] / rates[label].sum()
        times = np.floor(np.cumsum(share) * wrong + 1e-9).astype(int)
        answer[label, : times[-1]] = np.repeat(np.arange(SIZE), np.diff(times, prepend=0))
    return answer.ravel()


def outcomes(near=NEAR, mistakes=NEAR, clean=0.9, robust=HALF, standard=None):
    """Return what `arranged` takes: networks whose mean logits are similar as `near` says and that make the mistakes.

    standard: how close the classes are in standard training, by default as in the other one.
    """
    truth = np.repeat(np.arange(SIZE), IMAGES)
    answer = np.stack([confused(mistakes, some) for some in (np.full(SIZE, clean), robust)])
    coords = {"defence": list(similar.DEFENCES), "seed": [0], "attack": ["clean", "pgd-20"], "image": np.arange(len(truth))}
    data = mocks.answers(coords, truth, np.broadcast_to(answer, (2, 1, 2, len(truth))))
    plain = xr.Dataset(data, coords | {"predicted": NAMES}, {"scale": "laptop", "dataset": "cifar10"})
    means = [np.eye(SIZE) + some for some in (near if standard is None else standard, near)]
    noise = 0.02 * np.random.default_rng(1).normal(size=(2, 1, len(truth), SIZE))
    logits = np.stack(means)[:, None, truth] + noise
    clean_data = plain.isel(attack=[0]).assign(logits=(("defence", "seed", "attack", "image", "predicted"), logits[:, :, None]))
    right = clean_data.assign(prediction=clean_data.truth, misclassified=clean_data.truth < 0)
    return plain, right


def arranged(**how):
    return similar.arrange_sources(*outcomes(**how))


UPSIDE_DOWN = NEAR.max() - NEAR
np.fill_diagonal(UPSIDE_DOWN, 0)
ONE_WAY = np.triu(np.ones((SIZE, SIZE)), 1) + 0.001 * np.tril(np.ones((SIZE, SIZE)), -1)
ONE_WAY[-1] = 0
ONE_WAY[-1, 0] = 1
MUTUAL = np.kron(np.eye(SIZE // 2), [[0, 1], [1, 0]])
ACROSS = (ANIMALS[:, None] != ANIMALS).astype(float)
WEAK_HUB, STRONG_HUB = np.linspace(0.1, 0.9, SIZE), np.linspace(0.9, 0.1, SIZE)
# Each claim with networks on which it holds and networks on which it fails.
CASES = {
    "most-are-correct": (arranged(), arranged(clean=0.2)),
    "within-superclasses": (arranged(), arranged(mistakes=ACROSS)),
    "vice-versa": (arranged(mistakes=MUTUAL), arranged(mistakes=ONE_WAY)),
    "similar-logits-are-mistaken": (arranged(), arranged(near=UPSIDE_DOWN)),
    "centred-logits-are-mistaken": (arranged(), arranged(near=UPSIDE_DOWN)),
    "standard-logits-are-mistaken": (arranged(near=UPSIDE_DOWN, standard=NEAR), arranged(standard=UPSIDE_DOWN)),
    "similar-to-many-is-vulnerable": (arranged(robust=WEAK_HUB), arranged(robust=STRONG_HUB)),
}

UNVALIDATED = similar.arrange_sources(outcomes()[0], None)
REFUSED = [("similar-logits-are-mistaken", UNVALIDATED, "needs 'source'")]


def judged(name, data):
    claim = next(one for one in similar.CLAIMS if one.name == name)
    return verdict_on(claim, trained_thrice(data), "cifar10")


def statistics(**how):
    return features.statistics(features.select_sums(arranged(**how)))


def test_mistakes_are_added_in_both_directions():
    count = aggregate.counts(outcomes()[0]).isel(defence=1, attack=1, seed=0)
    mixed = 100 * count / count.sum("predicted")
    shown = similar.mistakes(count)
    cell = mixed.sel(label="cat", predicted="dog") + mixed.sel(label="dog", predicted="cat")
    assert float(shown.sel(label="cat", other="dog")) == float(shown.sel(label="dog", other="cat")) == float(cell)


def test_mean_logits_of_correct_images_leave_the_others_out():
    plain, clean = outcomes()
    wrong = clean.image % IMAGES < 10
    far = clean.logits + 100 * wrong * (clean.predicted == "ship")
    mixed = clean.assign(logits=far, prediction=clean.prediction.where(~wrong, 8).astype("i2"))
    some = features.statistics(features.select_sums(similar.arrange_sources(plain, mixed)))
    assert similar.PREDICTORS["mean logits of correct images, centred"][0] == similar.CORRECT
    means = some["mean"].sel(source=similar.CORRECT, defence=similar.ROBUST, label="cat").isel(seed=0)
    np.testing.assert_allclose(means[:SIZE], (np.eye(SIZE) + NEAR)[NAMES.index("cat")], atol=0.03)


def test_features_are_optional_and_named_where_they_are_missing():
    with pytest.raises(KeyError, match="source"):
        similar.cosines(statistics(), "penultimate features, centred")


def test_without_validation_images_the_mistakes_are_judged():
    assert judged("most-are-correct", UNVALIDATED).verdict == "holds"


def test_features_stand_next_to_the_logits():
    plain, clean = outcomes()
    size, rng = 5, np.random.default_rng(0)
    shape, dims = (2, 1, 1, size, SIZE), ("defence", "seed", "attack", "block", "label")
    sums = {"square": (dims, rng.random(shape) + 9), "images": (dims, np.full(shape, IMAGES // size))}
    sums["total"] = (*dims, "feature"), rng.random((*shape, 16))
    clean = clean.assign(sums).assign_coords(label=NAMES, block=range(size), feature=range(16))
    data = similar.arrange_sources(plain, clean)
    assert data.sizes["block"] == size
    some = features.statistics(features.select_sums(data))
    assert bool(similar.cosines(some, "penultimate features, centred").notnull().all())
    each = similar.predictor_correlations(some)
    assert list(each.predictor.values) == list(similar.PREDICTORS)
    assert float(each.sel(predictor=similar.CENTRED)) == float(similar.alike_and_mistaken(some, similar.CENTRED))


def test_permuted_classes_give_the_p_values():
    def p(some, measure):
        return significance.permutation_p(measure(significance.permute_classes(some, "count", draws=2000)))

    some = statistics(robust=WEAK_HUB)
    assert p(some, similar.similarity_of_robust_classes) < 0.05
    count = similar.attacked_counts(some).isel(seed=0, drop=True)
    observed, one_sided = significance.mantel_test(similar.cosines(some, similar.CENTRED).isel(seed=0, drop=True), count)
    assert float(similar.alike_and_mistaken(some, similar.CENTRED)) == pytest.approx(observed)
    centred = partial(similar.alike_and_mistaken, predictor=similar.CENTRED)
    assert p(some, centred) == pytest.approx(2 * one_sided, abs=0.01)
    unrelated = statistics(near=np.random.default_rng(8).random((SIZE, SIZE)) / 3)
    assert p(unrelated, centred) > 0.05


def two_seeds(near):
    """Return outcomes of two seeds, with similar classes as given, of which each validates on the test images of the other."""
    parts = [outcomes(near=one, mistakes=NEAR) for one in near]
    count = parts[0][0].sizes["image"]
    numbered = []
    for seed, (plain, clean) in enumerate(parts):
        at = [np.arange(count) + count * place for place in (seed, 1 - seed)]
        both = [some.assign_coords(seed=[seed], image=index) for some, index in zip((plain, clean), at, strict=True)]
        numbered.append(both)
    missing = {"truth": -1, "prediction": -1, "misclassified": False, "logits": np.nan}
    joined = []
    for some in zip(*numbered, strict=True):
        known = {name: value for name, value in missing.items() if name in some[0]}
        joined.append(xr.concat(some, "seed", join="outer", fill_value=known))
    return joined


def test_cosines_are_compared_with_the_mistakes_of_their_seed_alone():
    plain, clean = two_seeds([NEAR, UPSIDE_DOWN])
    some = features.statistics(features.select_sums(similar.arrange_sources(plain, clean)))
    alone = [float(similar.alike_and_mistaken(some.isel(seed=[seed]), similar.CENTRED)) for seed in (0, 1)]
    assert alone[0] > 0.5 > 0 > alone[1]
    assert float(similar.alike_and_mistaken(some, similar.CENTRED)) == pytest.approx(np.mean(alone))
    lonely = [float(similar.similarity_of_robust_classes(some.isel(seed=[seed]))) for seed in (0, 1)]
    assert float(similar.similarity_of_robust_classes(some)) == pytest.approx(np.mean(lonely), nan_ok=True)
