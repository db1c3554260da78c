"""Counts and outcomes that the tests of the sections and charts share."""

import numpy as np
import pytest
import xarray as xr

from classwise.charts import style
from classwise.papers import published


@pytest.fixture(autouse=True)
def _setup():
    style.setup()


@pytest.fixture
def counts():
    """A function that makes counts from accuracies of classes."""
    return _counts


def _counts(rates, images=100):
    """Return counts of named settings: by (defence, attack), the percentage of each class that is right."""
    defences, kinds = (list(dict.fromkeys(key[place] for key in rates)) for place in (0, 1))
    labels = [str(number) for number in range(len(next(iter(rates.values()))))]
    values = np.array([[rates[one, other] for other in kinds] for one in defences], dtype=float)
    coords = {"defence": defences, "attack": kinds, "label": labels}
    return published.counts(xr.DataArray(values, coords, ("defence", "attack", "label")), images)


@pytest.fixture
def rates():
    """Counts of two defences under two attacks."""
    return _counts(
        {
            ("a", "fgsm"): [90, 50, 70],
            ("a", "pgd-20"): [80, 20, 60],
            ("b", "fgsm"): [60, 60, 60],
            ("b", "pgd-20"): [60, 30, 60],
        }
    )


@pytest.fixture
def hot():
    """A function that makes outcomes under pgd-20 and temperature-pgd-20."""
    return _hot


def _hot(readouts=("logits", "cosines"), seed=0):
    """Return outcomes under pgd-20 and temperature-pgd-20 as `run.answers` gives them, of pgd-at and pgd-he."""
    rng, size, images = np.random.default_rng(seed), 3, 60
    dims = {"defence": ["pgd-at", "pgd-he"], "seed": [0], "attack": ["clean", "pgd-20", "temperature-pgd-20"]}
    dims |= {
        "readout": list(readouts),
        "inverse": np.array(["", 2, 5], dtype=object),
        "form": ["", "stable", "published"],
        "image": np.arange(images),
    }
    shape = [len(one) for one in dims.values()]
    there = np.zeros(shape, dtype=bool)
    there[:, :, :2, 0, 0, 0] = True
    there[:, :, 2, 0, 1:, 1:] = True
    if len(readouts) > 1:
        there[1, :, 1, 1, 0, 0] = True
        there[1, :, 2, 1, 1:, 1:] = True
    truth = np.where(there, np.arange(images) % size, -1).astype("i2")
    answer = np.where(there, rng.integers(0, size, shape), -1).astype("i2")
    logits = np.where(there[..., None], rng.normal(size=(*shape, size)), np.nan).astype("f4")
    values = {"truth": truth, "answer": answer, "flipped": there & (truth != answer)}
    data = {name: (tuple(dims), value) for name, value in values.items()} | {"logits": ((*dims, "predicted"), logits)}
    whole = xr.Dataset(data, {**dims, "predicted": list("xyz")}, {"dataset": "digits", "scale": "quick"})
    return whole if len(readouts) > 1 else whole.isel(readout=0, drop=True)
