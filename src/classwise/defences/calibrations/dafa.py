"""Calibrations of newer peers: DAFA, WAT and FAAL.

BAT (Balance adversarial training, AAAI 2023) is left out: no official code is published, and what is known of it does not
decide its formula.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from classwise.core.options import check_not_negative, check_share
from classwise.defences.calibrations import Calibration, ClassSettings, EpochStats, Memory


@dataclass(frozen=True)
class DAFA(Calibration):
    """Distance-aware fair adversarial training (Lee et al. 2024): once, a class takes weight and radius from those it resembles.

    With S_ij the mean probability of class j over the attacked training images of class i in the last epoch of the warm-up,
    W_i = 1 + strength x the sum over j != i of S_ij S_jj where S_ii < S_jj, else of -S_ji S_ii; never below 0. It multiplies the
    natural term, the radius and with it the step, never the robust term. strength: lambda, 1 (1.5 on CIFAR-100). warm_up: the
    share of the training after which W is found, epoch 70 of 110.
    """

    reads_answers: ClassVar[bool] = True
    strength: float = 1.0
    warm_up: float = 0.636

    def __post_init__(self) -> None:
        check_not_negative(self, "strength")
        check_share("warm_up", self.warm_up)

    def __call__(
        self, base: ClassSettings, current: ClassSettings, memory: Memory, fared: EpochStats
    ) -> tuple[ClassSettings, Memory]:
        """Return the settings after the warm-up, which are found once and stay."""
        if "weight" in memory or fared.answers is None or fared.progress < self.warm_up:
            return current, memory
        weight = self.weights(fared.answers).to(base.weight.dtype)
        return replace(current, weight=weight, radius=base.radius * weight), {"weight": weight}

    def weights(self, alike: Tensor) -> Tensor:
        """Return W (classes,) from S (classes, classes)."""
        own = alike.diag()
        moved = torch.where(own[:, None] < own[None, :], alike * own[None, :], -alike.T * own[:, None])
        return (1 + self.strength * (moved.sum(1) - moved.diag())).clamp_min(0)
