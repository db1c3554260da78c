"""Which epochs' weights are kept."""

import math
from collections.abc import Callable, Collection

import torch
from torch import Tensor

from classwise.defences.averaging import Weights
from classwise.defences.calibrations import per_class_accuracy


def overall(counts: Tensor) -> float:
    """Return the accuracy over all images, 0 to 1."""
    return float(counts.diag().sum() / counts.sum())


def worst(counts: Tensor, share: float = 0.0) -> float:
    """Return the accuracy of the worst class that has images, 0 to 1; of a `share` of them, rounded up, the mean."""
    rates = per_class_accuracy(counts, torch.float64)[counts.sum(1) > 0]
    kept = max(1, math.ceil(round(share * len(rates), 9)))
    return float(rates.sort().values[:kept].mean())


# The criteria of the best epoch, from counts under attack; CFA uses the sum, of many classes with the worst fifth of them.
CRITERIA: dict[str, Callable[[Tensor], float]] = {
    "average": overall,
    "worst": worst,
    "sum": lambda counts: overall(counts) + worst(counts),
    "sum-fifth": lambda counts: overall(counts) + worst(counts, 0.2),
}


def better(score: float, best: float | None) -> bool:
    """Return whether an epoch replaces the best so far; among equals the later one does, as it has trained longer."""
    return best is None or score >= best


def copied(weights: Weights) -> Weights:
    """Return a copy of weights that later steps do not change."""
    return {name: value.detach().clone() for name, value in weights.items()}


def among_last(epoch: int, epochs: int, keep: int) -> str | None:
    """Return the ending of the checkpoints after an epoch (from 1), "-1" for the last but one and so on, or None."""
    before_end = epochs - epoch
    return f"-{before_end}" if 0 < before_end < keep else None


def names(*, selects: bool, averaging: bool, keep: int, test_selected: bool, averages: Collection[str] = ()) -> list[str]:
    """Return the names of the checkpoints of a training, "last" first.

    averaging: whether the defence averages its weights. averages: the names of those that are kept next to it.
    """
    result = ["last", *(f"last-{back}" for back in range(1, keep))]
    result += ["best"] * selects + ["average"] * averaging + ["test-selected"] * test_selected
    for name in averages:
        result += [name, *(f"{name}-{back}" for back in range(1, keep))] + [f"best-{name}"] * selects
    return result
