"""DAFA: distance-aware fair adversarial training."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from classwise.core.options import check_not_negative, check_share
from classwise.defences.calibrations import Calibration, ClassSettings, EpochStats, Memory, NextSettings


@dataclass(frozen=True)
class DAFA(Calibration):
    """Distance-aware fair adversarial training: easy classes give weight and radius to similar, harder ones (Lee et al. 2024).

    S_ij is the mean probability of class j over the attacked training images of class i in the last epoch of the warm-up.
    W_i is 1 + strength x the sum over j != i of S_ij S_jj where S_ii < S_jj and of -S_ji S_ii elsewhere, at least 0. It
    multiplies the natural term, the radius and with the radius the step size, never the robust term.

    strength: lambda, 0 or more; 1 in the paper, 1.5 on CIFAR-100. warm_up: the share of the training after which W is computed,
    once: epoch 70 of 110.
    """

    needs_predictions: ClassVar[bool] = True
    strength: float = 1.0
    warm_up: float = 0.636

    def __post_init__(self) -> None:
        check_not_negative(self, "strength")
        check_share("warm_up", self.warm_up)

    def __call__(self, base: ClassSettings, current: ClassSettings, memory: Memory, stats: EpochStats) -> NextSettings:
        if "weight" in memory or stats.predictions is None or stats.progress < self.warm_up:
            return current, memory
        weight = self.weights(stats.predictions).to(base.weight.dtype)
        return replace(current, weight=weight, radius=base.radius * weight), {"weight": weight}

    def weights(self, similarity: Tensor) -> Tensor:
        """Return W (classes,) from S (classes, classes)."""
        confidence = similarity.diag()
        harder = confidence[:, None] < confidence[None, :]
        moved = torch.where(harder, similarity * confidence[None, :], -similarity.T * confidence[:, None])
        return (1 + self.strength * (moved.sum(1) - moved.diag())).clamp_min(0)
