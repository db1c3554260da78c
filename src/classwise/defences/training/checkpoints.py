"""Which epochs' weights are kept."""

from collections.abc import Callable

import torch
from torch import Tensor

from classwise.defences.averaging import Weights


def per_class_accuracy(counts: Tensor) -> Tensor:
    """Return the accuracy of each class from counts[label, predicted]: float64 (classes,), 0 to 1; of no images: 0."""
    counts = counts.double()
    return counts.diag() / counts.sum(1).clamp_min(1)


def overall(counts: Tensor) -> float:
    """Return the accuracy over all images."""
    return float(counts.diag().sum() / counts.sum())


def worst(counts: Tensor) -> float:
    """Return the accuracy of the worst class that has images."""
    return float(per_class_accuracy(counts)[counts.sum(1) > 0].min())


# What the best epoch is best in, from counts under attack; CFA takes the sum.
CRITERIA: dict[str, Callable[[Tensor], float]] = {
    "average": overall,
    "worst": worst,
    "sum": lambda counts: overall(counts) + worst(counts),
}


def better(score: float, best: float | None) -> bool:
    """Return whether an epoch replaces the best so far: among equals the later one, which has learnt longer."""
    return best is None or score >= best


def copied(weights: Weights) -> Weights:
    """Return weights that later steps do not change."""
    return {name: value.detach().clone() for name, value in weights.items()}


def among_last(epoch: int, epochs: int, keep: int) -> str | None:
    """Return the name under which the weights after an epoch (from 1) are kept: "last-1" for the last but one, ...; or None."""
    before_end = epochs - epoch
    return f"last-{before_end}" if 0 < before_end < keep else None


def names(*, selects: bool, averages: bool, keep: int, test_selected: bool) -> list[str]:
    """Return the checkpoints that a training leaves, "last" first."""
    found = ["last", *(f"last-{back}" for back in range(1, keep))]
    found += ["best"] * selects + ["average"] * averages + ["test-selected"] * test_selected
    return found


def on(device: torch.device, weights: dict[str, Weights]) -> dict[str, Weights]:
    """Return kept weights on another device."""
    return {name: {part: value.to(device) for part, value in some.items()} for name, some in weights.items()}
