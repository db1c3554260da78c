"""Which epochs' weights are kept."""

from collections.abc import Callable

import torch
from torch import Tensor

from classwise.defences.averaging import Weights
from classwise.defences.calibrations import per_class_accuracy


def overall(counts: Tensor) -> float:
    """Return the accuracy over all images, 0 to 1."""
    return float(counts.diag().sum() / counts.sum())


def worst(counts: Tensor) -> float:
    """Return the accuracy of the worst class that has images, 0 to 1."""
    return float(per_class_accuracy(counts, torch.float64)[counts.sum(1) > 0].min())


# The criteria of the best epoch, from counts under attack; CFA uses the sum.
CRITERIA: dict[str, Callable[[Tensor], float]] = {
    "average": overall,
    "worst": worst,
    "sum": lambda counts: overall(counts) + worst(counts),
}


def better(score: float, best: float | None) -> bool:
    """Return whether an epoch replaces the best so far; among equals the later one does, as it has trained longer."""
    return best is None or score >= best


def copied(weights: Weights) -> Weights:
    """Return a copy of weights that later steps do not change."""
    return {name: value.detach().clone() for name, value in weights.items()}


def among_last(epoch: int, epochs: int, keep: int) -> str | None:
    """Return the name of the checkpoint after an epoch (from 1), "last-1" for the last but one and so on, or None."""
    before_end = epochs - epoch
    return f"last-{before_end}" if 0 < before_end < keep else None


def names(*, selects: bool, averages: bool, keep: int, test_selected: bool) -> list[str]:
    """Return the names of the checkpoints of a training, "last" first."""
    result = ["last", *(f"last-{back}" for back in range(1, keep))]
    result += ["best"] * selects + ["average"] * averages + ["test-selected"] * test_selected
    return result
