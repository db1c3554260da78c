"""Section 2.2: networks of one class and each other one."""

import mocks
import numpy as np
import pytest
import xarray as xr
from claim_answers import trained_thrice, verdict_on

from classwise import runs
from classwise.core.datasets import class_names
from classwise.core.errors import NotRecorded
from classwise.papers.entropy2022 import similar_classes
from classwise.runs import pages
from classwise.stats import features

NAMES = list(class_names("cifar10"))
VICTIM = NAMES.index("cat")
OTHERS = [name for name in NAMES if name != "cat"]
DOG = OTHERS.index("dog")
IMAGES, BLOCKS = 40, 10
WHOLE = np.repeat(np.arange(10), IMAGES)
RISING = np.linspace(0, 0.8, 9)


def sums(cosines, noise, feature=10):
    """Return sums by block of features whose class means have these cosines with the victim, and noise around them."""
    mean = np.eye(10)
    for cosine, label in zip(cosines, [place for place in range(10) if place != VICTIM], strict=True):
        mean[label] = cosine * np.eye(10)[VICTIM] + np.sqrt(1 - cosine**2) * np.eye(10)[label]
    each = mean[:, None] + noise * np.random.default_rng(0).normal(size=(10, IMAGES, feature))
    return mocks.feature_sums(each.reshape(-1, feature), WHOLE, np.arange(len(WHOLE)) % IMAGES % BLOCKS, NAMES)


def trained(natural, robust, cosines=RISING, pixels=RISING, defence="pgd-at", noise=0.02):
    """Return what the claims need: errors of each pair without and under attack, in percent, and two similarities."""
    coords = {"partner": ["standard", "pgd-at", *OTHERS], "defence": [defence], "seed": [0], "attack": ["clean", "pgd-20"]}
    coords["image"] = np.arange(len(WHOLE))
    truth = np.full([len(some) for some in coords.values()], -1, dtype="i2")
    answer = truth.copy()
    truth[:2], answer[:2] = WHOLE, WHOLE
    for place, other in enumerate(OTHERS):
        number = NAMES.index(other)
        for attack, rates in enumerate((natural, robust)):
            wrong = np.arange(len(WHOLE)) % IMAGES < round(rates[place] * IMAGES / 100)
            for label, mistaken in ((VICTIM, number), (number, VICTIM)):
                here = label == WHOLE
                truth[2 + place, 0, 0, attack, here] = label
                answer[2 + place, 0, 0, attack, here] = np.where(wrong[here], mistaken, label)
    data = mocks.answers(coords, truth, answer)
    both = xr.concat([sums(cosines, noise), sums(pixels, noise)], "source").assign_coords(source=["features", "pixels"])
    outcomes = xr.Dataset(data, coords | {"predicted": NAMES}, {"scale": "quick", "dataset": "cifar10"})
    block_of = (("seed", "image"), (coords["image"] % IMAGES % BLOCKS)[None])
    return outcomes.assign(both.expand_dims(defence=[defence], seed=[0]).data_vars).assign(block_of=block_of)


def constant(data, other, attacks=("clean", "pgd-20")):
    """Return the data with a network that takes every image of a pair for the victim."""
    here = (data.partner == other) & (data.truth >= 0) & data.attack.isin(attacks)
    answer = data.prediction.where(~here, VICTIM).astype("i2")
    return data.assign(prediction=answer, misclassified=answer != data.truth)


UP, DOWN, FLAT = np.linspace(5, 45, 9), np.linspace(45, 5, 9), np.full(9, 20.0)
JAGGED = np.array([30, 5, 40, 10, 45, 5, 35, 10, 25.0])
FIFTY = np.where(np.arange(9) == DOG, 50, 10)
# Each claim with data on which it holds and data on which it fails; errors that it does not use say the opposite.
CASES = {
    "natural-errors-pgd-at": (trained(UP, DOWN), trained(DOWN, UP)),
    "robust-errors-pgd-at": (trained(DOWN, UP), trained(UP, DOWN)),
    "natural-errors-trades": (trained(UP, DOWN, defence="trades"), trained(DOWN, UP, defence="trades")),
    "robust-errors-trades": (trained(DOWN, UP, defence="trades"), trained(UP, DOWN, defence="trades")),
    "most-similar-natural": (trained(UP, DOWN), trained(DOWN, UP)),
    "most-similar-robust": (trained(DOWN, UP), trained(UP, DOWN)),
    "cat-and-dog-fail": (constant(trained(FLAT, FLAT), "dog"), constant(trained(FLAT, FIFTY), "deer")),
    "cat-and-dog-worst": (trained(FLAT, FIFTY, defence="trades"), trained(FIFTY, 60 - FIFTY, defence="trades")),
    "more-than-pixels": (trained(FLAT, UP, pixels=RISING[::-1]), trained(FLAT, UP, RISING[::-1], RISING)),
}
ONE_PAIR = trained(FLAT, UP).sel(partner=["standard", "pgd-at", "dog"])
REFUSED = [
    ("robust-errors-pgd-at", ONE_PAIR, "these outcomes have 1"),
    ("robust-errors-pgd-at", trained(FLAT, UP).drop_vars(list(features.SUMS)), "needs features"),
]


def judged(name, data):
    claim = next(one for one in similar_classes.CLAIMS if one.name == name)
    return verdict_on(claim, {str(data.defence.values[0]): trained_thrice(data)}, "cifar10")


def test_pairs_are_of_the_victim_and_each_other_class():
    some = features.statistics(features.select_sums(trained(FIFTY, UP, noise=0)))
    assert similar_classes.victim(some) == "cat"
    assert similar_classes.partners(some) == OTHERS
    assert float(similar_classes.confusion_rate(some, "standard").max()) == 0


def test_a_single_pair_has_an_error_of_its_own():
    assert judged("cat-and-dog-fail", ONE_PAIR).verdict == "fails"


def test_errors_are_of_both_classes_and_a_constant_answer_is_seen():
    some = features.statistics(features.select_sums(constant(trained(FLAT, UP), "dog")))
    both = similar_classes.errors_of_both(some).sel(attack="pgd-20", partner="dog")
    assert both.sel(bound="value").to_series().round().to_dict() == {"both": 50, "victim": 0, "partner": 100}
    assert ((both.sel(bound="low") <= both.sel(bound="value")) & (both.sel(bound="value") <= both.sel(bound="high"))).all()
    lost = similar_classes.constant_answers(some)
    assert lost.squeeze("seed").to_series().to_dict() == {name: float(name == "dog") for name in OTHERS}


def test_similarity_predicts_errors_that_follow_it():
    some = features.statistics(features.select_sums(trained(FLAT, UP, pixels=JAGGED / 100)))
    correlated = similar_classes.predictor_correlations(some)
    assert list(correlated.predictor.values) == list(similar_classes.PREDICTORS)
    assert float(correlated[0]) > 0.99 > float(correlated[1])
    recorded = some.sel(source=[similar_classes.FEATURES])
    left = [name for name in similar_classes.PREDICTORS if name != similar_classes.MEAN_IMAGES]
    assert list(similar_classes.predictor_correlations(recorded).predictor.values) == left
    with pytest.raises(NotRecorded, match="pixels of these images are not recorded"):
        similar_classes.more_than_pixels(recorded, "pgd-20")


def test_recorded_results_are_judged_without_images(monkeypatch):
    monkeypatch.setattr(pages, "scenes", lambda *given: pytest.fail("images are read"))
    _, inputs = runs.load_page(similar_classes.NAME, "laptop")
    assert list(inputs["pgd-at"].source.values) == [similar_classes.FEATURES]


def test_pixels_are_summed_in_the_blocks_of_the_features():
    rng, number = np.random.default_rng(0), 24
    truth = np.arange(number) % 2
    data = {"truth": truth.astype("i2"), "block_of": np.arange(number) // 2 % 3}
    data = {name: (("seed", "image"), some[None]) for name, some in data.items()}
    data["total"] = (("seed", "block", "label", "feature"), np.zeros((1, 3, 2, 5)))
    names = {"predicted": ["a", "b"], "label": ["a", "b"], "feature": range(5)}
    outcomes = xr.Dataset(data, {"seed": [0], "image": np.arange(number), **names})
    for side, kept in ((8, 8), (32, 8)):
        pixels = rng.random((number, 1, side, side))
        images = xr.Dataset({"pixels": (("image", "channel", "row", "column"), pixels)}, {"image": np.arange(number)})
        found = features.add_pixels(outcomes, images)
        flat = pixels.reshape(number, kept, side // kept, kept, side // kept).mean((2, 4)).reshape(number, -1)
        for label, name in enumerate(("a", "b")):
            here = truth == label
            np.testing.assert_allclose(found.pixel_total.sel(label=name).sum("block").squeeze(), flat[here].sum(0))
            np.testing.assert_allclose(float(found.pixel_square.sel(label=name).sum()), (flat[here] ** 2).sum())
            first = here & (np.arange(number) // 2 % 3 == 0)
            np.testing.assert_allclose(found.pixel_total.sel(label=name, block=0).squeeze(), flat[first].sum(0))
