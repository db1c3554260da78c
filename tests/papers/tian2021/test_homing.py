"""Which misclassified images a network without the predicted class classifies correctly, and two controls."""

import numpy as np
import pytest
import xarray as xr

from classwise.papers.tian2021 import homing

CLASSES = ["a", "b", "c", "d"]


def outcomes(truth, answer):
    truth, answer = np.array(truth), np.array(answer)
    rows = {"truth": truth, "answer": answer, "flipped": (truth != answer) & (truth >= 0)}
    data = xr.Dataset({name: ("image", row) for name, row in rows.items()})
    return data.assign_coords(image=np.arange(len(truth)), predicted=CLASSES)


@pytest.fixture
def drawn():
    """Answers for 200 images of four classes, by networks that lack one each in another order, and by two trained again."""
    rng = np.random.default_rng(0)
    truth = rng.integers(4, size=200)
    others = []
    for name in (2, 0, 3, 1):
        left = np.where(truth == name, -1, truth)
        answer = np.where(truth == name, -1, rng.choice([one for one in range(4) if one != name], size=200))
        others.append(outcomes(left, answer).expand_dims(classes=[f"without {name}"]))
    again = xr.concat([outcomes(truth, truth), outcomes(truth, (truth + 1) % 4)], "redraw").assign_coords(redraw=[1, 2])
    return outcomes(truth, rng.integers(4, size=200)), again, xr.concat(others, "classes")


@pytest.fixture
def networks(drawn, monkeypatch):
    monkeypatch.setattr(homing, "mark_pair", lambda combined: combined)  # of datasets whose pair is known
    return homing.arranged(*drawn).expand_dims(seed=[0], defence=["pgd-at"], attack=["pgd-20"])


def test_mistakes_and_those_of_them_that_home_are_counted_by_class_and_prediction(networks):
    full = networks.squeeze(["seed", "defence", "attack"], drop=True)
    expected = np.zeros((2, 4, 4), int)
    for image in range(200):
        i, j = (int(full[name].sel(without="").isel(image=image)) for name in ("truth", "answer"))
        if i != j:
            expected[0, i, j] += 1
            expected[1, i, j] += int(full.answer.sel(without=CLASSES[j]).isel(image=image)) == i
    assert 20 < expected[1].sum() < 100
    np.testing.assert_array_equal(homing.mistakes(networks).transpose("images", "label", "predicted"), expected)


def test_networks_without_another_class_and_networks_trained_again_are_controls(networks):
    shares = homing.correct_elsewhere(networks)
    mistaken, home = (float(one) for one in homing.mistakes(networks).sum(["label", "predicted"]))
    value = shares.sel(bound="value").to_series()
    assert value["without the predicted class"] == pytest.approx(100 * home / mistaken)
    assert value["same classes, trained again"] == pytest.approx(50)  # one of the two is always correct
    full, each = networks.squeeze(["seed", "defence", "attack"], drop=True), []
    for image in range(200):
        i, j = (int(full[name].sel(without="").isel(image=image)) for name in ("truth", "answer"))
        third = [k for k in range(4) if k not in (i, j)]
        each += [np.mean([int(full.answer.sel(without=CLASSES[k]).isel(image=image)) == i for k in third])] * (i != j)
    assert value["without another class"] == pytest.approx(100 * np.mean(each))
    assert (shares.sel(bound="low") <= shares.sel(bound="value")).all()
    assert float(shares.sel(bound="high", trained="without the predicted class")) > value["without the predicted class"] + 2
