"""Classes selected on validation images."""

import numpy as np
import xarray as xr

from classwise.papers import selection

CLASSES = ["a", "b", "c", "d"]


def test_the_pair_is_the_least_robust_class_on_validation_images_and_the_one_it_is_confused_with_most():
    valid = np.array([[9, 1, 0, 0], [0, 5, 0, 5], [2, 3, 4, 1], [0, 2, 1, 7]])
    shape = ("seed", "epoch", "split", "attack", "label", "predicted")
    count = xr.DataArray(
        np.zeros((2, 2, 2, 2, 4, 4), dtype=int),
        dims=shape,
        coords={
            "seed": [0, 2],
            "epoch": [1, 9],
            "split": ["valid", "test"],
            "attack": ["clean", "pgd-10"],
            "label": CLASSES,
            "predicted": CLASSES,
        },
    )
    count.loc[{"seed": 2, "epoch": 9, "split": "valid", "attack": "pgd-10"}] = valid
    # What is tested, measured earlier, or shown unattacked, says otherwise, and does not count.
    for other in ({"split": "test"}, {"epoch": 1}, {"attack": "clean"}):
        count.loc[{"seed": 2, "epoch": 9, "split": "valid", "attack": "pgd-10"} | other] = valid[::-1, ::-1]
    history = xr.Dataset({"count": count})
    # c is right least often, and is misclassified as b most.
    assert selection.pair_of(history, "digits") == ("c", "b")
    count.loc[{"seed": 2, "epoch": 9, "split": "valid", "attack": "pgd-10", "label": "d", "predicted": "c"}] = 5
    assert selection.pair_of(history, "digits") == ("c", "d")
    count.loc[{"seed": 0, "epoch": 9, "split": "valid", "attack": "pgd-10"}] = 10 * valid[::-1, ::-1]
    assert selection.pair_of(history, "digits") == ("c", "d")  # seed 2 selects, seed 0 judges
    assert selection.pair_of(history, "cifar10") != ("c", "d")
    assert selection.by_robustness(history, "digits")[0] == "c"
