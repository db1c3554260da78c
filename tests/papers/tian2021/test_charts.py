"""Charts of single sections of the paper."""

import numpy as np
import xarray as xr

from classwise.papers.tian2021 import charts

CLASSES = ["a", "b", "c"]


def test_table_4_has_its_six_lines_each_compared_with_the_first_of_its_block():
    dims, names = ("defence", "seed", "attack", "treatment", "image"), ["as they are", "white", "both"]
    truth = np.broadcast_to([0, 1, 1, 1, 1], (1, 1, 2, 3, 5))
    answer = np.array([[[0, 0, 1, 1, 2], [0, 1, 1, 1, 2], [0, 1, 1, 1, 1]], [[0, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 2, 2, 1, 1]]])
    data = {"truth": (dims, truth), "prediction": (dims, answer[None, None])}
    coords = {"attack": ["clean", "pgd"], "treatment": names, "predicted": CLASSES}
    table = charts.table_4(xr.Dataset(data, coords), "b")
    assert list(table.index) == [f"{attack}, {name}" for attack in ("clean", "pgd") for name in names]
    assert list(table.loc["clean, as they are"]) == ["1", "2", "1"]
    assert list(table.loc["clean, both"]) == ["0 (-1)", "4 (+2)", "0 (-1)"]
    assert list(table.loc["pgd, white"]) == ["3 (-1)", "1 (+1)", "0 (+0)"]
