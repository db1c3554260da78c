"""Hard and easy classes."""

import mocks
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from classwise.core.datasets import class_names
from classwise.core.errors import UserError
from classwise.papers.wei2023 import classes


@pytest.mark.parametrize("dataset", ["digits", "cifar10", "digits-cluttered"])
def test_the_two_groups_are_classes_of_the_dataset_and_share_none(dataset):
    groups = classes.classes_of(dataset)
    named = [*groups["hard"], *groups["easy"]]
    assert len(set(named)) == len(named)
    assert set(named) <= set(class_names(dataset.partition("-")[0]))


def test_a_dataset_without_groups_is_named():
    with pytest.raises(UserError, match="whose hard classes are known 'svhn'"):
        classes.classes_of("svhn")


def _history(right, seeds):
    """Return histories in whose last epoch so many of forty validation images of each class are right, by seed."""
    parts = []
    for seed in seeds:
        data = mocks.dataset(seed=seed).expand_dims(defence=["pgd-at"]).copy(deep=True)
        table = np.diag(right[seed]) + np.roll(np.diag(40 - np.array(right[seed])), 1, 1)
        data["count"].loc[{"epoch": 4, "split": "valid", "attack": "pgd-10"}] = table
        parts.append(data)
    return xr.concat(parts, pd.Index(list(seeds), name="seed"))


def test_classes_are_selected_on_validation_images_of_the_seeds_that_are_not_judged():
    rising, falling = np.arange(20, 40, 2), np.arange(38, 18, -2)
    history = _history({0: falling, 1: rising, 2: rising, 3: rising, 4: falling}, range(5))
    assert classes.selected(history, "digits") == {"hard": ("0", "1", "2"), "easy": ("9", "8", "7", "6", "5")}
    # Of a dataset without such seeds, all of them count.
    assert classes.selected(history.sel(seed=[0, 4]), "digits")["hard"] == ("9", "8", "7")


def test_means_of_groups_and_their_difference():
    rates = xr.DataArray([10.0, 20.0, 40.0, 70.0], {"label": list("abcd")}, ("label",))
    rates = rates.assign_coords(hard=("label", [True, True, False, False]), easy=("label", [False, False, True, False]))
    found = classes.of_groups(rates)
    assert found.values.tolist() == [15, 40, -25]
    assert found.group.values.tolist() == ["hard", "easy", "hard less easy"]
    assert np.isnan(classes.mean_of(rates.where(rates.label != "a"), "hard"))
