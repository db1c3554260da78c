"""Calibrations of newer peers: DAFA, WAT and FAAL.

BAT (Balance adversarial training, AAAI 2023) is left out: no official code is published, and what is known of it does not
decide its formula.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from classwise.core.options import check_not_negative
from classwise.defences.calibrations import Calibration, ClassSettings, EpochStats, Memory


@dataclass(frozen=True)
class WAT(Calibration):
    """Worst-class adversarial training (Li and Liu 2023): classes weigh by the validation loss that they have piled up.

    Over a slot for each of C classes and one for all images, w = C softmax(rate x the losses summed over the epochs so far). An
    image costs (its class's w + the last w) times its loss: the last slot weighs the plain TRADES loss. So a rate of 0 is the
    plain defence times 2 C / (C + 1), which is also what the first epoch is trained with.
    """

    compares_losses: ClassVar[bool] = True
    rate: float = 0.1

    def __post_init__(self) -> None:
        check_not_negative(self, "rate")

    def start(self, base: ClassSettings, sizes: Tensor) -> ClassSettings:
        """Return the weights before any loss is known."""
        return self._weighed(base, base.radius.new_zeros(len(sizes) + 1))

    def __call__(
        self, base: ClassSettings, current: ClassSettings, memory: Memory, fared: EpochStats
    ) -> tuple[ClassSettings, Memory]:
        """Return the weights that the losses so far ask for."""
        if fared.losses is None:
            return current, memory
        piled = memory.get("piled", torch.zeros_like(fared.losses)) + fared.losses
        return self._weighed(current, piled), {"piled": piled}

    def _weighed(self, settings: ClassSettings, piled: Tensor) -> ClassSettings:
        slots = (len(piled) - 1) * (self.rate * piled).softmax(0)
        weight = slots[:-1] + slots[-1]
        return replace(settings, weight=weight, robust=weight)
