"""Calibrations: what each class is trained with, decided anew after each epoch from how the classes fared."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class ClassWise:
    """The settings of each class for one epoch, (classes,) each: radius of the attack in pixels, trade-off, weight."""

    radius: Tensor
    beta: Tensor
    weight: Tensor

    @classmethod
    def alike(cls, classes: int, radius: float, beta: float, device: torch.device) -> "ClassWise":
        """Return the same settings for all classes, with weight 1."""
        ones = torch.ones(classes, device=device)
        return cls(radius * ones, beta * ones, ones)


class Calibration(Protocol):
    """What every calibration is."""

    def __call__(self, current: ClassWise, counts: Tensor) -> ClassWise:
        """Return the settings of the next epoch.

        `counts` [label, predicted] tells how the training images of the epoch fared, attacked where the defence attacks.
        """
        ...


@dataclass(frozen=True)
class Uniform:
    """All classes alike, always."""

    def __call__(self, current: ClassWise, counts: Tensor) -> ClassWise:
        """Return the settings as they are."""
        return current
