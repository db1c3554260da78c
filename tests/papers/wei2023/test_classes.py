"""Hard and easy classes."""

import numpy as np
import pytest
import xarray as xr
from claim_answers import history

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


def test_classes_are_selected_on_validation_images_of_the_seeds_that_are_not_judged():
    rising, falling = np.arange(20, 40, 2), np.arange(38, 18, -2)
    found = history(seed=range(5))
    for seed, right in enumerate((falling, rising, rising, rising, falling)):
        table = np.diag(right) + np.roll(np.diag(40 - right), 1, 1)
        found["count"].loc[{"seed": seed, "epoch": 2, "split": "valid", "attack": "pgd-10"}] = table
    assert classes.select_groups(found, "digits") == {"hard": ("0", "1", "2"), "easy": ("9", "8", "7", "6", "5")}
    # Of a dataset without such seeds, all of them count.
    assert classes.select_groups(found.sel(seed=[0, 4]), "digits")["hard"] == ("9", "8", "7")


def test_means_of_groups_and_their_difference():
    rates = xr.DataArray([10.0, 20.0, 40.0, 70.0], {"label": list("abcd")}, ("label",))
    rates = rates.assign_coords(hard=("label", [True, True, False, False]), easy=("label", [False, False, True, False]))
    found = classes.group_points(rates)
    assert found.values.tolist() == [15, 40, -25]
    assert found.group.values.tolist() == ["hard", "easy", "hard minus easy"]
    assert np.isnan(classes.mean_of(rates.where(rates.label != "a"), "hard"))
