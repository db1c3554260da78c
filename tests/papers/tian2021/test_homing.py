"""Which misclassified images a network without the predicted class classifies correctly, and two controls."""

import mocks
import numpy as np
import pytest
import xarray as xr

from classwise.papers.tian2021 import homing

CLASSES = ["a", "b", "c", "d"]


def outcomes(truth, answer):
    return xr.Dataset(mocks.answers(["image"], truth, answer), {"image": np.arange(len(truth)), "predicted": CLASSES})


@pytest.fixture
def drawn():
    """Answers for 200 images of four classes, by networks that lack one each in another order, and by two trained again."""
    rng = np.random.default_rng(0)
    truth = rng.integers(4, size=200)
    others = []
    for name in (2, 0, 3, 1):
        answer = rng.choice([one for one in range(4) if one != name], size=200)
        left = (np.where(truth == name, -1, some) for some in (truth, answer))
        others.append(outcomes(*left).expand_dims(classes=[f"without {name}"]))
    again = xr.concat([outcomes(truth, truth), outcomes(truth, (truth + 1) % 4)], "redraw").assign_coords(redraw=[1, 2])
    return outcomes(truth, rng.integers(4, size=200)), again, xr.concat(others, "classes")


@pytest.fixture
def networks(drawn, monkeypatch):
    monkeypatch.setattr(homing, "mark_pair", lambda combined: combined)  # of datasets whose pair is known
    return homing.arrange_networks(*drawn).expand_dims(seed=[0], defence=["pgd-at"], attack=["pgd-20"])


def homes(networks):
    """Yield truth, prediction and, by class left out, whether the image is then correct, of each mistake of the full network."""
    full = networks.squeeze(["seed", "defence", "attack"], drop=True)
    for image in range(200):
        i, j = (int(full[name].sel(without="").isel(image=image)) for name in ("truth", "prediction"))
        if i != j:
            yield i, j, [int(full.prediction.sel(without=name).isel(image=image)) == i for name in CLASSES]


def test_mistakes_and_those_of_them_that_home_are_counted_by_class_and_prediction(networks):
    expected = np.zeros((2, 4, 4), int)
    for i, j, home in homes(networks):
        expected[:, i, j] += 1, home[j]
    assert 20 < expected[1].sum() < 100
    np.testing.assert_array_equal(homing.mistakes(networks).transpose("images", "label", "predicted"), expected)


def test_networks_without_another_class_and_networks_trained_again_are_controls(networks):
    shares = homing.correct_elsewhere(networks)
    value = shares.sel(bound="value").to_series()
    assert value["without the predicted class"] == pytest.approx(100 * np.mean([home[j] for _, j, home in homes(networks)]))
    assert value["same classes, trained again"] == pytest.approx(50)  # one of the two is always correct
    third = [np.mean([home[k] for k in range(4) if k not in (i, j)]) for i, j, home in homes(networks)]
    assert value["without another class"] == pytest.approx(100 * np.mean(third))
    assert (shares.sel(bound="low") <= shares.sel(bound="value")).all()
    assert float(shares.sel(bound="high", trained="without the predicted class")) > value["without the predicted class"] + 2
