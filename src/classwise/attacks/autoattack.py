"""Ensembles: several attacks in turn, each on the images that withstood the ones before it."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from classwise.attacks.apgd import APGD
from classwise.attacks.balls import Ball
from classwise.attacks.base import Attack, AttackResult, Passes
from classwise.attacks.fab import FAB
from classwise.attacks.pgd import predict
from classwise.attacks.relaxation import ConstraintRelaxation
from classwise.attacks.square import Square


@dataclass(frozen=True)
class Ensemble(Attack):
    """Several attacks in turn, each on the images that withstood the ones before it."""

    def __post_init__(self) -> None:
        self.members()  # their options are checked

    @abstractmethod
    def members(self) -> Mapping[str, Attack]:
        """Return the attacks by name, in their order; the names are those of `results.MEMBERS`."""

    def cost(self, classes: int) -> Passes:
        return sum((member.cost(classes) for member in self.members().values()), Passes())

    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> AttackResult:
        images, broken_by = x.clone(), torch.full_like(y, -1)
        for number, member in enumerate(self.members().values()):
            left = (predict(model, images) == y).nonzero()[:, 0]
            if not len(left):
                continue
            local = ball.select(left)
            result = member.search(model, x[left], y[left], local, generator)
            moved = result.images if isinstance(result, AttackResult) else result
            inside = local.contains(moved, x[left])
            broken = (predict(model, moved) != y[left]) & inside
            # The image of a failed ascent is more informative than the clean one; one outside the ball is not.
            kept = broken if member.minimum_norm else inside
            images[left[kept]], broken_by[left[broken]] = moved[kept], number
        return AttackResult(images, member=broken_by)


@dataclass(frozen=True)
class Strong(Ensemble):
    """APGD-CE, then targeted APGD: nearly as strong as AutoAttack, without FAB and Square.

    steps: of each ascent.
    """

    steps: int = 100

    def members(self) -> dict[str, Attack]:
        return {"apgd-ce": APGD(steps=self.steps), "apgd-t": APGD(steps=self.steps, loss="dlr-targeted")}


@dataclass(frozen=True)
class AutoAttack(Strong):
    """The standard AutoAttack: APGD-CE, targeted APGD, targeted FAB, Square (Croce and Hein 2020b).

    queries: of Square. With fewer than ten classes the targeted attacks target all others; with fewer than four (untargeted:
    three) the difference of logits ratio is the plain difference.
    """

    queries: int = 5000

    def members(self) -> dict[str, Attack]:
        return {**super().members(), "fab-t": FAB(steps=self.steps), "square": Square(queries=self.queries)}


@dataclass(frozen=True)
class CR(Ensemble):
    """Constraint relaxation, then Square, which checks whether gradients were masked.

    steps: of each ascent. queries: of Square, whose schedule is stretched to them.
    """

    steps: int = 150
    queries: int = 100

    def members(self) -> dict[str, Attack]:
        return {"relaxation": ConstraintRelaxation(steps=self.steps), "square": Square(queries=self.queries, rescale=True)}
