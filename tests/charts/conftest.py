"""Counts and histories that the tests of charts share."""

import mocks
import pandas as pd
import pytest
import xarray as xr

from classwise.charts import style


@pytest.fixture(autouse=True)
def _setup():
    style.setup()


@pytest.fixture
def count():
    """Counts on the test images of two defences and two seeds."""
    parts = [mocks.dataset(seed=seed)["count"].isel(epoch=-1).sel(split="test") for seed in range(4)]
    pairs = [xr.concat(parts[:2], "seed"), xr.concat(parts[2:], "seed")]
    return xr.concat(pairs, pd.Index(["standard", "pgd-at"], name="defence")).assign_coords(seed=[0, 1])


@pytest.fixture
def history():
    """The histories of two defences."""
    return xr.concat([mocks.dataset(seed=seed) for seed in (0, 1)], pd.Index(["standard", "pgd-at"], name="defence"))
