"""WAT: worst-class adversarial training."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from classwise.core.options import check_not_negative
from classwise.defences.calibrations import Calibration, ClassSettings, EpochStats, Memory, NextSettings


@dataclass(frozen=True)
class WAT(Calibration):
    """Worst-class adversarial training: classes are weighted by their cumulative validation loss (Li and Liu 2023).

    Over C slots for the classes and one for all images, w = C softmax(rate x the losses summed over the epochs so far). The loss
    of an image is multiplied by the w of its class plus the last w, which weights the plain TRADES loss. A rate of 0 is thus the
    plain defence times 2 C / (C + 1), which also holds for the first epoch.

    rate: of the weights, 0 or more.
    """

    needs_losses: ClassVar[bool] = True
    rate: float = 0.1

    def __post_init__(self) -> None:
        check_not_negative(self, "rate")

    def start(self, base: ClassSettings, sizes: Tensor) -> ClassSettings:
        return self._weighted(base, base.radius.new_zeros(len(sizes) + 1))

    def __call__(self, base: ClassSettings, current: ClassSettings, memory: Memory, stats: EpochStats) -> NextSettings:
        if stats.losses is None:
            return current, memory
        piled = memory.get("piled", torch.zeros_like(stats.losses)) + stats.losses
        return self._weighted(current, piled), {"piled": piled}

    def _weighted(self, settings: ClassSettings, piled: Tensor) -> ClassSettings:
        slots = (len(piled) - 1) * (self.rate * piled).softmax(0)
        weight = slots[:-1] + slots[-1]
        return replace(settings, weight=weight, robust=weight)
