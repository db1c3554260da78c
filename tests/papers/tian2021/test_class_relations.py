"""Section 4.2: the mistakes of one attacked network, class by class."""

import numpy as np
import pytest
import xarray as xr
from claim_answers import ACROSS, BOTH_WAYS, PAIR, attacked, table_of

from classwise.core import datasets
from classwise.core.errors import UserError
from classwise.papers.tian2021 import class_relations

ONE_WAY = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7)]

# For each claim: answers on which it must hold, and answers on which it must fail.
EXTREMES = {
    "symmetry": ([attacked(table_of(90, BOTH_WAYS))], [attacked(table_of(90, ONE_WAY))]),
    "six-and-eight": (
        [attacked(table_of(70, [(6, 8), (8, 6)]))],
        [attacked(table_of(90, BOTH_WAYS), table_of(70, [(6, 8), (8, 6)]))],
    ),
    "cat-and-dog": ([attacked(table_of(70, PAIR))], [attacked(table_of(90, BOTH_WAYS[2:]), table_of(70, PAIR))]),
    "same-superclass": ([attacked(table_of(90, BOTH_WAYS))], [attacked(table_of(90, ACROSS), table_of(90, BOTH_WAYS))]),
    "few-across": (
        [attacked(table_of(90, BOTH_WAYS))],
        [attacked(table_of(90, ACROSS), table_of(90, BOTH_WAYS)), attacked(50, table_of(90, BOTH_WAYS))],
    ),
    "dog-and-truck": (
        [attacked(table_of(100, BOTH_WAYS[:4]), table_of(90, [(5, 9), (9, 5)]), times=3)],
        [
            attacked(table_of(100, [(5, 9), (9, 5)], 20), 100),
            *(attacked(table_of(100, [one], 20), 100) for one in ((5, 9), (9, 5))),
        ],
    ),
}


def test_mistakes_within_superclasses_are_counted_where_the_dataset_has_them():
    theirs = class_relations.within_superclasses("digits", {})
    assert list(theirs.iloc[:, 0]) == ["86", "87"]
    names = list(datasets.superclasses("stl10"))
    same = np.array(datasets.superclass_numbers(names))
    table = np.where(same[:, None] == same, 5, 0) + 50 * np.eye(10, dtype=int)
    count = xr.DataArray(table, dims=("label", "predicted"), coords={"label": names, "predicted": names})
    mine = class_relations.within_superclasses("stl10", {"pgd-at": count})
    assert mine.iloc[0, 0] == "100"
    assert mine.loc["stl10, pgd-at", "p"] == "< .001"
    assert "animals | bird, cat, deer, dog, horse, monkey" in datasets.superclass_table("stl10")
    assert datasets.superclass_table("cifar100").count("cifar100") == 20
    with pytest.raises(UserError, match="classes 0, 1 have no superclasses; those of these datasets do: cifar10"):
        datasets.superclass_numbers(["0", "1"])
