"""Averagings: a second set of weights, made from those of the steps or epochs.

The running statistics of batch norm are averaged like the weights (CFA; an average of running averages) or, with
statistics="last", taken from the network that is trained. Whole numbers (how many batches were seen) are always its own.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from classwise.core.errors import UserError, unknown
from classwise.core.options import check_share

Weights = dict[str, Tensor]
STATISTICS = ("averaged", "last")


class Averaging:
    """What every averaging is; `average` is None until there is one, and is changed in place.

    averages: whether it keeps an average. each_step: whether it looks at every step. watches: whether it needs the accuracy of
    the worst class on the attacked validation images.
    """

    averages: ClassVar[bool] = True
    watches: ClassVar[bool] = False
    decay: float = 0.0
    statistics: str = "averaged"

    @property
    def each_step(self) -> bool:
        return False

    def asks(self, progress: float) -> bool:
        """Return whether it needs that accuracy when a share `progress` of the training is done."""
        return self.watches

    def after_step(self, average: Weights | None, weights: Weights, step: int) -> Weights | None:
        """Return the average after one more step, the number `step` from 0."""
        return average

    def counts(self, progress: float, worst: float | None) -> bool:
        """Return whether an epoch is taken in; `progress` is the share of the training that is done after it."""
        return True

    def after_epoch(self, average: Weights | None, weights: Weights) -> Weights:
        """Return the average after an epoch that counts."""
        return update_average(average, weights, self.decay, self.statistics)


@dataclass(frozen=True)
class NoAveraging(Averaging):
    """No average is kept."""

    averages: ClassVar[bool] = False


def update_average(average: Weights | None, weights: Weights, decay: float, statistics: str) -> Weights:
    """Return decay x average + (1 - decay) x weights, in place; a copy of the weights where there is no average yet."""
    if average is None:
        return {name: value.detach().clone() for name, value in weights.items()}
    taken = [
        name
        for name, value in weights.items()
        if not value.is_floating_point() or (statistics == "last" and name.endswith(("running_mean", "running_var")))
    ]
    blended = [name for name in weights if name not in set(taken)]
    torch._foreach_lerp_([average[name] for name in blended], [weights[name].detach() for name in blended], 1 - decay)
    torch._foreach_copy_([average[name] for name in taken], [weights[name] for name in taken])
    return average


def _check(decay: float, statistics: str) -> None:
    if not 0 <= decay < 1:
        raise UserError(f"decay must be 0 or more and below 1, got {decay}")
    if statistics not in STATISTICS:
        raise unknown("statistics", statistics, STATISTICS)


@dataclass(frozen=True)
class EMA(Averaging):
    """An exponential moving average of the weights, by epoch (the baseline of Wei 2023, table 1) or by step (SEAT).

    decay: the share of the old average that is kept; by step it rises to that as (t + 1) / (t + 10). per: "epoch" or "step".
    """

    decay: float = 0.85
    per: str = "epoch"
    statistics: str = "averaged"

    def __post_init__(self) -> None:
        _check(self.decay, self.statistics)
        if self.per not in ("epoch", "step"):
            raise unknown("per", self.per, ("epoch", "step"))

    @property
    def each_step(self) -> bool:
        return self.per == "step"

    def after_step(self, average: Weights | None, weights: Weights, step: int) -> Weights | None:
        """Return the average after one more step."""
        return update_average(average, weights, min(self.decay, (step + 1) / (step + 10)), self.statistics)


@dataclass(frozen=True)
class FAWA(Averaging):
    """Fairness-aware weight averaging (Wei 2023, section 4.3): an epoch counts only where its worst class holds on validation.

    threshold: the accuracy that the worst class must reach under attack. average_from: the share of the training before which
    no epoch counts: .25 is the paper's epoch 50 of 200; the code has none, with decay .88 and threshold .24. The first epoch that
    counts is copied; where none does, there is no average and the last weights stand for it.
    """

    watches: ClassVar[bool] = True
    decay: float = 0.85
    threshold: float = 0.2
    average_from: float = 0.25
    statistics: str = "averaged"

    def __post_init__(self) -> None:
        _check(self.decay, self.statistics)
        check_share("average_from", self.average_from)
        if not 0 <= self.threshold <= 1:
            raise UserError(f"threshold is an accuracy, 0 to 1, got {self.threshold}")

    def asks(self, progress: float) -> bool:
        """Return whether epochs may count already."""
        return progress >= self.average_from

    def counts(self, progress: float, worst: float | None) -> bool:
        """Return whether the worst class of the epoch holds."""
        if not self.asks(progress):
            return False
        assert worst is not None, "the gate needs the validation images"
        return worst >= self.threshold
