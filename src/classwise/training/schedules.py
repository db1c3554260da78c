"""How the learning rate runs through a training."""

import math
from collections.abc import Callable
from dataclasses import dataclass


def one_cycle(progress: float) -> float:
    """Up in the first 30 %, down to zero in a straight line."""
    return progress / 0.3 if progress < 0.3 else (1 - progress) / 0.7


@dataclass(frozen=True)
class Steps:
    """Another factor from each share of the training on.

    at: the shares, rising. to: the factor from each of them on; before the first it is 1. A paper that drops "at epoch 75" of
    100, counted from 1, trains 74 epochs at the full rate: the share is .74.
    """

    at: tuple[float, ...]
    to: tuple[float, ...]

    def __call__(self, progress: float) -> float:
        passed = sum(progress >= share for share in self.at)
        return self.to[passed - 1] if passed else 1.0


# The factor of the learning rate at each point of the training, 0 to 1.
SCHEDULES: dict[str, Callable[[float], float]] = {
    "one-cycle": one_cycle,
    # Rice et al. 2020 and CFA: epochs 100 and 150 of 200, counted from 0.
    "step": Steps((0.5, 0.75), (0.1, 0.01)),
    # Epochs counted from 1. TRADES, Tian 2021, Entropy 2022: 75 and 90 of 100.
    "step@trades": Steps((0.74, 0.89), (0.1, 0.01)),
    # MART's ResNet-18: 75, 90 and 100 of 120.
    "step@mart": Steps((74 / 120, 89 / 120, 99 / 120), (0.1, 0.01, 0.001)),
    # FAT: 60, 90 and 110 of 120.
    "step@fat": Steps((59 / 120, 89 / 120, 109 / 120), (0.1, 0.01, 0.005)),
    # Wong et al. 2020: up in the first half, down in the second.
    "cyclic": lambda progress: 1 - abs(2 * progress - 1),
    "cosine": lambda progress: 0.5 * (1 + math.cos(math.pi * progress)),
    "constant": lambda progress: 1.0,
}


def factor(schedule: str, milestones: tuple[int, ...], epochs: int, progress: float) -> float:
    """Return the factor of the learning rate: by name, or a tenth from each milestone on (an epoch, counted from 1)."""
    if milestones:
        return 0.1 ** sum(progress >= (epoch - 1) / epochs for epoch in milestones)
    return SCHEDULES[schedule](progress)
