"""Sections 3.3 and 4.3: the worst class from epoch to epoch, and averages of the weights."""

import mocks
import numpy as np
import pytest
import xarray as xr
from claim_answers import trained_thrice, verdict_on

from classwise.core.datasets import class_names
from classwise.papers.wei2023 import fluctuation
from classwise.stats import bootstrap, metrics

SIZE, CLASSES = 200, 10
ALTERNATELY = np.arange(12) % 2
CLASS = np.arange(CLASSES)
FLAT = np.full((12, CLASSES), 80)


def swinging(low, high, *labels, rest=80):
    """Return the right percentage by epoch and class: some classes alternate, the others stay."""
    rates = np.full((12, CLASSES), rest)
    rates[:, list(labels)] = np.where(ALTERNATELY, high, low)[:, None]
    return rates


def evaluated(rates, seed=0, first=0):
    """Return outcomes along checkpoint of one run: by kind of weights, the right percentage of each epoch and class.

    Of each class the same images are right, as many as the percentage says. first: the number of the first image.
    """
    truth = np.repeat(CLASS, SIZE).astype("i2")
    place = np.tile(np.arange(SIZE), CLASSES)
    names = [name for kind in rates for name in fluctuation.checkpoints(kind)]
    right = np.concatenate([np.broadcast_to(some, (12, CLASSES)) for some in rates.values()])[:, truth] * SIZE / 100 > place
    answer = np.where(right, truth, (truth + 1 + place % 9) % CLASSES)
    coords = {"defence": ["pgd-at"], "seed": [seed], "attack": ["pgd-10"], "checkpoint": names}
    coords["image"] = first + np.arange(len(truth))
    data, attrs = mocks.answers(coords, truth, answer[None, None, None]), {"dataset": "digits", "scale": "quick"}
    return xr.Dataset(data, coords | {"predicted": list(map(str, CLASS))}, attrs)


def together(*runs):
    """Return outcomes of several seeds, each evaluated on images of its own."""
    fill = {"truth": -1, "prediction": -1, "misclassified": False}
    return xr.concat(runs, "seed", join="outer", fill_value=fill, combine_attrs="override")


def inputs(plain, fawa=None, valid=None, runs=trained_thrice):
    """Return what the claims take, of three runs: rates of the plain weights, of FAWA and of the validation images."""
    outcomes = runs(evaluated({"plain": plain, "fawa": FLAT if fawa is None else fawa}))
    choices = fluctuation.choices(outcomes, runs(evaluated({"plain": plain if valid is None else valid})))
    return {"epochs": fluctuation.stack_epochs(outcomes), "choices": choices}


def two_epochs(average, fair):
    """Return rates of which epoch 3 has those of `average`, epoch 9 those of `fair`, and the others are low: by class."""
    rates = np.full((12, CLASSES), 5)
    rates[2], rates[8] = average, fair
    return rates


def of(worst, rest):
    return np.where(CLASS == 0, worst, rest)


# On validation images the first has the higher average, the second the higher sum.
VALID = two_epochs(of(10, 90), of(50, 84))
UNFAIR, COSTLY = two_epochs(of(10, 90), of(50, 84)), two_epochs(of(10, 90), of(2, 60))
OTHERS = swinging(60, 90, *range(1, 10), rest=20)
EXTREMES = {
    "worst-fluctuates": ([inputs(swinging(20, 40, 0))], [inputs(OTHERS)]),
    "worst-beyond-a-class": ([inputs(swinging(20, 40, 0))], [inputs(OTHERS)]),
    "overall-stable": (
        [inputs(FLAT), inputs(np.where(CLASS == 1, swinging(80, 60, 1), swinging(20, 40, 0)))],
        [inputs(swinging(60, 70, *CLASS))],
    ),
    "average-selects-unfair": ([inputs(UNFAIR, valid=VALID)], [inputs(COSTLY, valid=VALID)]),
    "fair-choice-is-cheap": ([inputs(two_epochs(of(10, 80), of(60, 80)), valid=VALID)], [inputs(COSTLY, valid=VALID)]),
    "fawa-stable": ([inputs(FLAT, fawa=FLAT - 1)], [inputs(FLAT, fawa=swinging(20, 30, 0))]),
    "fawa-steadies": (
        [inputs(swinging(20, 60, 0), fawa=swinging(40, 44, 0))],
        [inputs(swinging(20, 40, 0), fawa=swinging(20, 60, 0))],
    ),
    "fawa-gains-overall": ([inputs(FLAT - 20)], [inputs(FLAT, fawa=FLAT - 20)]),
}
# No epoch entered the average.
REFUSED = [("fawa-steadies", inputs(FLAT, fawa=FLAT, runs=lambda data: data), "needs each defence at weights fawa")]


def judged(name, data):
    claim = next(one for one in fluctuation.CLAIMS if one.name == name)
    dataset = claim.datasets[0] if claim.datasets else "digits"
    renamed = {key: some.assign_coords(predicted=list(class_names(dataset))) for key, some in data.items()}
    renamed = {key: some.assign_attrs(dataset=dataset) for key, some in renamed.items()}
    return verdict_on(claim, renamed, dataset)


def sums(*runs):
    return bootstrap.sums(fluctuation.stack_epochs(together(*runs)), {})


def test_changes_of_two_runs_do_not_cancel_each_other():
    """One run gains where the other loses: their mean accuracy never changes, each of them does by 20 points."""
    both = sums(evaluated({"plain": swinging(20, 40, *CLASS)}), evaluated({"plain": swinging(40, 20, *CLASS)}, 1, first=2000))
    assert dict(both.sizes)["run"] == 2
    assert float(fluctuation.mean_change(both, metrics.overall)) == pytest.approx(20)
    assert float(fluctuation.change("a class")(both)) == pytest.approx(20)
    assert float(fluctuation.mean_change(both, metrics.worst)) == pytest.approx(20)


def test_a_draw_of_one_run_has_the_changes_of_that_run():
    """In a draw that leaves a run out, its accuracy is unknown and does not count."""
    both = together(evaluated({"plain": swinging(20, 40, *CLASS)}), evaluated({"plain": FLAT}, 1, first=2000))
    outcomes = fluctuation.stack_epochs(both)
    assert float(fluctuation.mean_change(bootstrap.sums(outcomes, {}), metrics.overall)) == pytest.approx(10)
    parts = bootstrap.bootstrap_sums(outcomes, {}, 60)
    drawn = np.concatenate([fluctuation.mean_change(part, metrics.overall).values for part in parts])
    assert np.minimum(abs(drawn), abs(drawn - 20)).max() < 3
    assert set(np.round(drawn / 20)) == {0, 1}


def test_a_table_of_the_changes_is_that_of_the_measures():
    swings = {"plain": swinging(20, 40, 0), "ema": swinging(20, 30, 0), "fawa": swinging(20, 25, 0)}
    outcomes = fluctuation.stack_epochs(evaluated(swings))
    bounds = fluctuation.changes(outcomes, draws=50)
    values = {str(name): bounds.sel(quantity=name, bound="value").values.tolist() for name in bounds.quantity.values}
    assert values["worst class"] == pytest.approx([20, 10, 5])
    assert values["all images"] == pytest.approx([2, 1, 0.5])
    assert values["a class / √classes"][0] == pytest.approx(2 / np.sqrt(10))
    assert (bounds.diff("bound") >= 0).all()


def test_weights_that_were_not_evaluated_are_left_out_and_averages_that_no_epoch_entered():
    assert fluctuation.stack_epochs(evaluated({"plain": FLAT, "fawa": FLAT - 1})).weights.values.tolist() == ["plain", "fawa"]
    assert fluctuation.stack_epochs(evaluated({"plain": FLAT, "fawa": FLAT})).weights.values.tolist() == ["plain"]


def test_each_run_selects_its_epoch_on_validation_images_and_the_last_of_equal_ones():
    first, second = two_epochs(of(10, 90), of(50, 84)), np.where(np.arange(12)[:, None] == 4, 90, 30)
    valid = together(evaluated({"plain": first}), evaluated({"plain": second}, 1, first=2000))
    count = fluctuation.run_counts(fluctuation.stack_epochs(valid))
    epochs = fluctuation.chosen_epochs(count)
    assert epochs.sel(run="seed 0").to_series().to_dict() == {"average": 3, "worst": 9, "sum": 9}
    assert epochs.sel(run="seed 1").values.tolist() == [5, 5, 5]
    alike = fluctuation.run_counts(fluctuation.stack_epochs(evaluated({"plain": FLAT})))
    assert fluctuation.chosen_epochs(alike).values.max() == 12


def test_the_chosen_epoch_is_evaluated_on_test_images():
    falling = FLAT - np.arange(12)[:, None]
    test = together(evaluated({"plain": falling}), evaluated({"plain": falling[::-1]}, 1, first=2000))
    valid = together(evaluated({"plain": VALID}), evaluated({"plain": VALID}, 1, first=2000))
    choices = fluctuation.choices(test, valid)
    right = metrics.overall(fluctuation.run_counts(choices))
    expected = {"average": [78, 71], "worst": [72, 77], "sum": [72, 77], "average, on test images": [80, 80]}
    for name, rates in expected.items():
        assert right.sel(chosen=name).values.tolist() == rates, name
    bounds = fluctuation.choice_accuracies(choices, draws=20)
    assert float(bounds.sel(measure="all images", chosen="average", bound="value")) == pytest.approx(np.mean(expected["average"]))
