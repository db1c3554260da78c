"""Objectives that change what a batch is: one class attacked, or one batch trained on again and again."""

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from classwise.defences.adversary import Adversary
from classwise.defences.calibrations import ClassWise
from classwise.defences.objectives import Cost, Objective
from classwise.errors import UserError


@dataclass(frozen=True)
class Single(Objective):
    """Cross-entropy on a batch whose images of one class are attacked and all others clean (Entropy 2022, 2.1).

    label: the number of the class. All pass through the network at once; they are counted as attacked.
    """

    label: int = 3

    def __post_init__(self) -> None:
        if self.label < 0:
            raise UserError(f"label is the number of a class, 0 or more, got {self.label}")

    def check(self, classes: int) -> None:
        """Raise UserError where the class does not exist."""
        if self.label >= classes:
            raise UserError(f"label names class {self.label}, which does not exist: there are 0 to {classes - 1}")

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, each: ClassWise, adversary: Adversary) -> Cost:
        """Return CE(f(x'), y), where x' is x but for the images of the class."""
        rows = (y == self.label).nonzero()[:, 0]
        if len(rows):
            x = x.index_copy(0, rows, adversary.at(rows).craft(model, x[rows], y[rows]))
        logits = model(x)
        return Cost(F.cross_entropy(logits, y, reduction="none"), None, logits)


@dataclass(frozen=True)
class Free(Objective):
    """Free adversarial training: every batch is trained on `replays` times, and the pass that updates the network also moves the
    perturbation (Shafahi et al. 2019), by a step of the radius. It is kept from batch to batch; no inner attack runs.

    The loop takes its steps (`training.free`); an epoch of a Spec is one pass over the images, replays and all.
    """

    attacks: ClassVar[str] = "free"
    replays: int = 8

    def __post_init__(self) -> None:
        if self.replays < 1:
            raise UserError(f"replays must be 1 or more, got {self.replays}")

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, each: ClassWise, adversary: Adversary) -> Cost:
        """Return CE(f(x), y) of images that carry their perturbation."""
        logits = model(x)
        return Cost(F.cross_entropy(logits, y, reduction="none"), None, logits)
