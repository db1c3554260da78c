"""Friendly PGD: the early-stopped attack of friendly adversarial training."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import torch
from torch import Tensor, nn

from classwise.attacks.balls import Ball
from classwise.attacks.losses import labels
from classwise.attacks.pgd import PGD, STARTS, input_gradient
from classwise.core.errors import UserError


@dataclass(frozen=True)
class FriendlyPGD(PGD):
    """PGD that stops an image soon after it is misclassified (FAT, Zhang et al. 2020).

    tau: how many more steps a misclassified image takes; with `steps` or more, and omega 0, this is PGD. An image that has used
    them up stops at its next misclassified iterate. In the code of CFA (Wei et al. 2023) it stops for good once they are used up,
    also where its iterate is classified correctly again. omega: standard deviation of the normal noise added at every step.
    rises: shares of the training, like "50/120 90/120", at each of which tau grows by one (`at_progress`).
    With target probabilities (TRADES) an image is misclassified if its prediction differs from their likeliest class.
    """

    stops_early = True
    traceable = False
    tau: int = 0
    omega: float = 0.0
    rises: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tau < 0 or self.omega < 0:
            raise UserError(f"tau and omega must be 0 or more, got tau={self.tau}, omega={self.omega}")
        if self.success != "last" or self.restarts != 1:
            raise UserError("friendly PGD has one start and stops early: leave success='last' and restarts=1")
        self._shares()

    def _shares(self) -> list[Fraction]:
        try:
            return [Fraction(word) for word in self.rises.split()]
        except (ValueError, ZeroDivisionError):
            raise UserError(f"rises={self.rises!r} must list shares of the training, like '50/120 90/120'") from None

    def at_progress(self, progress: float) -> Self:
        """Return the attack at a share `progress` of the training, 0 to 1."""
        passed = sum(progress >= share for share in self._shares())
        return replace(self, tau=self.tau + passed, rises="") if self.rises else self

    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        return self.friendly_search(model, x, y, labels(y), ball, generator)

    def friendly_search(
        self, model: nn.Module, x: Tensor, y: Tensor, truth: Tensor, ball: Ball, generator: torch.Generator
    ) -> Tensor:
        """Return images that ascend the loss of `y` until `truth` (n,), the labels, are mispredicted; unchecked, as `search`."""
        moved = STARTS[self.start](x, ball, generator)
        left = torch.full_like(truth, self.tau)
        going = torch.ones_like(truth, dtype=torch.bool)
        for _ in range(self.steps):
            logits, gradient = input_gradient(model, moved, y, self.loss_fn)
            wrong = logits.argmax(1) != truth
            going = going & ~(wrong & (left == 0))
            left = left - wrong.long()
            further = self._next(moved, gradient, x, ball)
            if self.omega > 0:
                noise = torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
                further = ball.project(further + self.omega * noise, x)
            moved = torch.where(going.view(-1, 1, 1, 1), further, moved)
        return moved
