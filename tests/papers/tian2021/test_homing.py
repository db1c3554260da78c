"""Which misclassified images a network without the predicted class classifies correctly."""

import numpy as np
import pytest
import xarray as xr

from classwise.core.errors import UserError
from classwise.papers.tian2021 import homing

CLASSES = ["a", "b", "c", "d"]


def outcomes(truth, answer, image=None):
    truth, answer = np.array(truth), np.array(answer)
    rows = {"truth": ("image", truth), "answer": ("image", answer), "flipped": ("image", (truth != answer) & (truth >= 0))}
    coords = {"image": np.arange(len(truth)) if image is None else image, "predicted": CLASSES}
    return xr.Dataset(rows, coords=coords)


@pytest.fixture
def drawn():
    """A network's answers for 200 images of four classes, and those of four networks that lack one each, in another order."""
    rng = np.random.default_rng(0)
    truth = rng.integers(4, size=200)
    whole = outcomes(truth, rng.integers(4, size=200))
    others = []
    for name in (2, 0, 3, 1):
        left = np.where(truth == name, -1, truth)
        answer = np.where(truth == name, -1, rng.choice([one for one in range(4) if one != name], size=200))
        others.append(outcomes(left, answer).expand_dims(classes=[f"without {name}"]))
    return whole, xr.concat(others, "classes")


def test_homing_counts_the_images_that_the_network_without_their_confound_gets_right(drawn):
    whole, others = drawn
    without = homing.left_out_runs(others)
    assert list(without.removed.values) == CLASSES
    found, mistaken = homing.homing(whole, without), homing.misclassification_counts(whole)
    expected, seen = np.zeros((4, 4), int), np.zeros((4, 4), int)
    for image in range(200):
        i, j = int(whole.truth[image]), int(whole.answer[image])
        if i != j:
            other = without.sel(removed=CLASSES[j]).isel(image=image)
            seen[i, j] += 1
            expected[i, j] += int(other.answer) == i
    assert 20 < expected.sum() < 100
    np.testing.assert_array_equal(found.transpose("label", "predicted"), expected)
    np.testing.assert_array_equal(mistaken.transpose("label", "predicted"), seen)


def test_networks_without_another_class_and_networks_trained_again_are_controls(drawn):
    whole, others = drawn
    without, again = homing.left_out_runs(others), outcomes(whole.truth.values, whole.truth.values)
    table = homing.comparison(whole, without, again)
    total = int((whole.truth != whole.answer).sum())
    assert list(table["images"]) == [total] * 3
    assert table["share"].iloc[2] == 100
    assert table["share"].iloc[0] == pytest.approx(100 * float(homing.homing(whole, without).sum()) / total)
    right, number = 0, 0
    for image in range(200):
        i, j = int(whole.truth[image]), int(whole.answer[image])
        for k in range(4):
            if i != j and k not in (i, j):
                number += 1
                right += int(without.sel(removed=CLASSES[k]).isel(image=image).answer) == i
    assert table["share"].iloc[1] == pytest.approx(100 * right / number)
    assert (table["low"] < table["share"]).all()


def test_images_are_matched_by_their_number_within_each_seed(drawn):
    whole, others = drawn
    without = homing.left_out_runs(others)
    mixed = without.isel(image=slice(None, None, -1))
    xr.testing.assert_equal(homing.homing(whole, mixed), homing.homing(whole, without))
    both = xr.concat([whole, whole.assign(truth=-1 + 0 * whole.truth, flipped=whole.flipped & False)], "seed")
    found = homing.homing(both, xr.concat([without, without], "seed"))
    xr.testing.assert_equal(found.isel(seed=0), homing.homing(whole, without))
    assert int(found.isel(seed=1).sum()) == 0


def test_images_that_several_seeds_share_do_not_narrow_the_interval(drawn):
    whole, others = drawn
    without, again = homing.left_out_runs(others), outcomes(whole.truth.values, (whole.truth.values + whole.image.values % 2) % 4)
    twice = [xr.concat([one, one], "seed").assign_coords(seed=[0, 1]) for one in (whole, without, again)]
    once, both = homing.comparison(whole, without, again), homing.comparison(*twice)
    columns = ["share", "low", "high"]
    np.testing.assert_allclose(both[columns], once[columns])
    assert (both["images"] == 2 * once["images"]).all()
    # As many images of two folds are twice as many images.
    long = [xr.concat([one, one], "image").assign_coords(image=np.arange(400)) for one in (whole, without, again)]
    parts = [xr.concat([one, one], "seed").assign_coords(seed=[0, 1]) for one in long]
    folds = xr.DataArray(np.arange(400) // 200 == [[0], [1]], dims=("seed", "image"))
    parts = [one.assign(truth=one.truth.where(folds, -1), flipped=one.flipped & folds) for one in parts]
    free = homing.comparison(*parts)
    assert (free["images"] == both["images"]).all()
    assert (free["high"] - free["low"] < 0.8 * (both["high"] - both["low"])).all()


def test_networks_must_lack_one_class_each(drawn):
    _, others = drawn
    with pytest.raises(UserError, match="lack one class each"):
        homing.left_out_runs(xr.concat([others.isel(classes=[0]), others.isel(classes=[0])], "classes"))


def test_the_pair_is_the_least_accurate_class_on_validation_images_and_the_one_it_is_confused_with_most():
    valid = np.array([[9, 1, 0, 0], [0, 5, 0, 5], [2, 3, 4, 1], [0, 2, 1, 7]])
    shape = ("seed", "epoch", "split", "attack", "label", "predicted")
    count = xr.DataArray(
        np.zeros((2, 2, 2, 2, 4, 4), dtype=int),
        dims=shape,
        coords={
            "seed": [0, 1],
            "epoch": [1, 9],
            "split": ["valid", "test"],
            "attack": ["clean", "pgd-10"],
            "label": CLASSES,
            "predicted": CLASSES,
        },
    )
    count.loc[{"seed": 1, "epoch": 9, "split": "valid", "attack": "pgd-10"}] = valid
    # What is tested, measured earlier, or shown unattacked, tells otherwise, and does not count.
    for other in ({"split": "test"}, {"epoch": 1}, {"attack": "clean"}):
        count.loc[{"seed": 1, "epoch": 9, "split": "valid", "attack": "pgd-10"} | other] = valid[::-1, ::-1]
    history = xr.Dataset({"count": count})
    # c is right least often; it is taken for b most, and b is taken for d, but a and c are mixed up less than b and c.
    assert homing.pair_of(history) == ("c", "b")
    count.loc[{"seed": 1, "epoch": 9, "split": "valid", "attack": "pgd-10", "label": "d", "predicted": "c"}] = 5
    assert homing.pair_of(history) == ("c", "d")
    count.loc[{"seed": 0, "epoch": 9, "split": "valid", "attack": "pgd-10"}] = 10 * valid[::-1, ::-1]
    assert homing.pair_of(history, [1]) == ("c", "d")
    assert homing.pair_of(history) != ("c", "d")


def test_two_networks_trained_again_count_as_their_mean(drawn):
    whole, others = drawn
    without = homing.left_out_runs(others)
    right, wrong = (outcomes(whole.truth.values, answer) for answer in (whole.truth.values, (whole.truth.values + 1) % 4))
    both = xr.concat([right, wrong], "redraw")
    table = homing.comparison(whole, without, both)
    assert table["share"].iloc[2] == 50
    assert table["images"].iloc[2] == table["images"].iloc[0]


def test_an_image_is_homing_only_without_the_class_it_was_misclassified_as():
    # Misclassified as 1, 1, 2, and correct; the network without 1 classifies the first and the third correctly.
    flipped = {"": [True, True, True, False], "1": [False, True, False, False], "2": [True, False, True, False]}
    parts = [
        xr.Dataset(
            {
                "truth": ("image", [0, 0, 0, 0]),
                "answer": ("image", [1, 1, 2, 0]),
                "flipped": ("image", flags),
            },
            {"predicted": list("012")},
        )
        for flags in flipped.values()
    ]
    data = xr.concat(parts, "without").assign_coords(without=list(flipped))
    assert homing.homing_mask(data).values.tolist() == [True, False, False, False]
