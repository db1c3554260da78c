"""Several attacks in turn, each on the images that the ones before it left standing."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from classwise.attacks.apgd import APGD
from classwise.attacks.ascent import answers
from classwise.attacks.fab import FAB
from classwise.attacks.square import Square
from classwise.balls import Ball
from classwise.errors import UserError


def _survivors(
    attack: "APGD | FAB | Square", found: Tensor, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator
) -> Tensor:
    """Return `found` with the images that the attack breaks inside the ball replaced; those broken before are not attacked."""
    with torch.no_grad():
        left = ((answers(model, found) == y) | ~ball.contains(found, x)).nonzero()[:, 0]
        if not len(left):
            return found
        own = ball.at(left)
        moved = attack(model, x[left], y[left], own, generator)
        broken = (answers(model, moved) != y[left]) & own.contains(moved, x[left])
        found = found.clone()
        # An ascent that failed still says more than the clean image; a distance that is too large does not.
        kept = broken | (own.contains(moved, x[left]) & getattr(attack, "confined", True))
        found[left[kept]] = moved[kept]
    return found


@dataclass(frozen=True)
class Strong:
    """APGD-CE, then targeted APGD on what stands: nearly AutoAttack, without FAB and Square, for curves and quick tables.

    steps: of each ascent.
    """

    labels_only: ClassVar[bool] = True
    steps: int = 100

    def __post_init__(self) -> None:
        self.members()

    def members(self) -> tuple[APGD | FAB | Square, ...]:
        """Return the attacks in their order."""
        return APGD(steps=self.steps), APGD(steps=self.steps, loss="dlr-targeted")

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        """Return adversarial images: shapes and meaning as in `classwise.attacks`; `y` holds labels."""
        if y.ndim != 1:
            raise UserError(f"{type(self).__name__} needs labels, got target probabilities")
        found = x
        for member in self.members():
            found = _survivors(member, found, model, x, y, ball, generator)
        return found


@dataclass(frozen=True)
class AutoAttack(Strong):
    """The standard AutoAttack: APGD-CE, targeted APGD, targeted FAB, Square (Croce and Hein 2020b). Linf only.

    queries: of Square. With fewer than ten classes the targeted attacks aim at all others; with fewer than four (untargeted:
    three) the difference of logits ratio is the plain difference.
    """

    queries: int = 5000

    def members(self) -> tuple[APGD | FAB | Square, ...]:
        return (*super().members(), FAB(steps=self.steps), Square(queries=self.queries))
