"""Averagings: a second set of weights, averaged over steps or epochs, by a defence or next to it (AVERAGINGS).

The running statistics of batch norm are averaged like the weights (as in CFA: an average of running averages) or, with
statistics="last", taken from the trained network. Integers, such as the number of batches, are always taken from it.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Le
from torch import Tensor

from classwise.core.errors import UserError
from classwise.core.options import BelowOne, OneOf, Share, check_bounds

Weights = dict[str, Tensor]
STATISTICS = ("averaged", "last")


class Averaging:
    """The base class of all averagings; `average` is None before the first weights are accepted, and is updated in place.

    averages: whether there is an average at all. each_step: whether it is updated after every step, not after epochs.
    needs_validation: whether it needs the robust accuracy of the worst classes on the validation images, the mean over this share
    of all classes, worst_share; 0 is the worst class alone.
    """

    averages: ClassVar[bool] = True
    needs_validation: ClassVar[bool] = False
    worst_share: float = 0.0
    decay: float = 0.0
    statistics: str = "averaged"

    def __post_init__(self) -> None:
        check_bounds(self)

    @property
    def each_step(self) -> bool:
        return False

    def active_at(self, progress: float) -> bool:
        """Return whether it needs that accuracy after a share `progress` of the training."""
        return self.needs_validation

    def update_after_step(self, average: Weights | None, weights: Weights, step: int) -> Weights:
        """Return the average after one more step, numbered from 0, where it is updated after each."""
        raise NotImplementedError

    def accepts(self, progress: float, worst: float | None, lot: float = 0.0) -> bool:
        """Return whether an epoch enters the average; `progress` is the share of the training completed after it.

        worst: the accuracy of the worst classes, where it is needed. lot: a number drawn for the epoch, 0 to 1.
        """
        return True

    def update_after_epoch(self, average: Weights | None, weights: Weights) -> Weights:
        """Return the average after an accepted epoch."""
        return update_average(average, weights, self.decay, self.statistics)


@dataclass(frozen=True)
class NoAveraging(Averaging):
    """No average is kept."""

    averages: ClassVar[bool] = False


def copy_weights(weights: Weights) -> Weights:
    """Return a copy of weights that later steps do not change."""
    return {name: value.detach().clone() for name, value in weights.items()}


def update_average(average: Weights | None, weights: Weights, decay: float, statistics: str) -> Weights:
    """Return decay x average + (1 - decay) x weights, in place; a copy of the weights where there is no average yet."""
    if average is None:
        return copy_weights(weights)
    taken = [
        name
        for name, value in weights.items()
        if not value.is_floating_point() or (statistics == "last" and name.endswith(("running_mean", "running_var")))
    ]
    blended = [name for name in weights if name not in set(taken)]
    torch._foreach_lerp_([average[name] for name in blended], [weights[name].detach() for name in blended], 1 - decay)
    if taken:  # a network without batch norm has none, and torch takes no empty list
        torch._foreach_copy_([average[name] for name in taken], [weights[name] for name in taken])
    return average


@dataclass(frozen=True)
class EMA(Averaging):
    """Exponential moving average of the weights, by epoch (Wei et al. 2023, table 1) or by step (SEAT).

    decay: the factor of the old average, 0 or more and below 1; by step it rises as (t + 1) / (t + 10) up to that. per: "epoch"
    or "step". statistics: of batch norm, "averaged" or "last". average_from: the share of the training before which no epoch
    enters, with per="epoch" only; .25 is epoch 50 of 200, where the paper begins.
    """

    decay: BelowOne = 0.85
    per: Annotated[str, OneOf(("epoch", "step"))] = "epoch"
    statistics: Annotated[str, OneOf(STATISTICS)] = "averaged"
    average_from: Share = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.average_from > 0 and self.each_step:
            raise UserError(f"average_from counts epochs, got {self.average_from} with per='step'; use per='epoch'")

    @property
    def each_step(self) -> bool:
        return self.per == "step"

    def update_after_step(self, average: Weights | None, weights: Weights, step: int) -> Weights:
        return update_average(average, weights, min(self.decay, (step + 1) / (step + 10)), self.statistics)

    def accepts(self, progress: float, worst: float | None, lot: float = 0.0) -> bool:
        return progress >= self.average_from


@dataclass(frozen=True)
class FAWA(Averaging):
    """Fairness-aware weight averaging: only epochs with a robust worst class enter the average (Wei et al. 2023, section 4.3).

    The first accepted epoch is copied. Where none is accepted there is no average, and the last weights replace it.

    decay: the factor of the old average, 0 or more and below 1; .85 in the paper, .88 in its code. threshold: the least robust
    accuracy of the worst class on the validation images, 0 to 1; .2 in the paper, .24 in its code. average_from: the share of the
    training before which no epoch is accepted. .25 is epoch 50 of 200 as in the paper; the code has no such bound. statistics: of
    batch norm, "averaged" or "last". worst_share: of all classes, the worst ones, rounded up, whose mean accuracy counts in place
    of the worst class; .2 on Tiny-ImageNet in the paper, which does not print its threshold.
    """

    needs_validation: ClassVar[bool] = True
    decay: BelowOne = 0.85
    threshold: Annotated[float, Ge(0), Le(1), "an accuracy, 0 to 1"] = 0.2
    average_from: Share = 0.25
    statistics: Annotated[str, OneOf(STATISTICS)] = "averaged"
    worst_share: Annotated[float, Ge(0), Le(1), "a share of the classes, 0 to 1"] = 0.0

    def active_at(self, progress: float) -> bool:
        return progress >= self.average_from

    def accepts(self, progress: float, worst: float | None, lot: float = 0.0) -> bool:
        if not self.active_at(progress):
            return False
        assert worst is not None, "FAWA needs the validation images"
        return worst >= self.threshold


# The share of the epochs from 50 on that the gate of FAWA accepted in the pilots of scale "matched" (benchmarks/pilots.toml).
_ACCEPTED = 0.46


@dataclass(frozen=True)
class Sham(Averaging):
    """The control of FAWA: as many epochs enter the average as its gate lets in, but drawn by lot (ours).

    decay, statistics: as of FAWA. share: of the epochs that enter, 0 to 1. average_from: the share of the training before which
    no epoch enters.
    """

    share: Annotated[float, Ge(0), Le(1), "a share of the epochs, 0 to 1"] = _ACCEPTED
    decay: BelowOne = 0.85
    average_from: Share = 0.25
    statistics: Annotated[str, OneOf(STATISTICS)] = "averaged"

    def accepts(self, progress: float, worst: float | None, lot: float = 0.0) -> bool:
        return progress >= self.average_from and lot < self.share


# The averages that any training can keep next to its ordinary weights (Spec.averages), as in tables 1 and 3 of Wei et al. 2023:
# both begin at epoch 50 of 200. A name is the name of a checkpoint: lower-case letters, and none of "last", "best", "average".
AVERAGINGS: dict[str, Averaging] = {"ema": EMA(average_from=0.25), "fawa": FAWA(), "sham": Sham()}
# Of more than a hundred classes the worst fifth counts (C.1). The paper prints no threshold: with ten validation images a class
# and the accuracies of its Table 4, we estimate 0 to 2 % in the 40 worst of 200 classes.
_OF_MANY: dict[str, Averaging] = {"fawa": FAWA(threshold=0.01, worst_share=0.2)}


def averaging_of(name: str, classes: int) -> Averaging:
    """Return the one of AVERAGINGS for so many classes."""
    return _OF_MANY.get(name, AVERAGINGS[name]) if classes > 100 else AVERAGINGS[name]
