"""Several attacks in turn, each on the images that the ones before it left standing."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from classwise.attacks.apgd import APGD
from classwise.attacks.balls import Ball
from classwise.attacks.base import Attack, AttackResult
from classwise.attacks.fab import FAB
from classwise.attacks.pgd import predict
from classwise.attacks.square import Square


@dataclass(frozen=True)
class Strong(Attack):
    """APGD-CE, then targeted APGD on what stands: nearly AutoAttack, without FAB and Square, for curves and quick tables.

    steps: of each ascent.
    """

    steps: int = 100

    def __post_init__(self) -> None:
        self.members()

    def members(self) -> dict[str, Attack]:
        """Return the attacks by name, in their order."""
        return {"apgd-ce": APGD(steps=self.steps), "apgd-t": APGD(steps=self.steps, loss="dlr-targeted")}

    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> AttackResult:
        found = AttackResult(x, member=torch.full_like(y, -1))
        for number, member in enumerate(self.members().values()):
            found = _after(found, number, member, model, x, y, ball, generator)
        return found


def _after(
    found: AttackResult,
    number: int,
    member: Attack,
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    ball: Ball,
    generator: torch.Generator,
) -> AttackResult:
    """Return what is found after one more member has attacked the images that stand; it has the given number."""
    assert found.member is not None
    left = (predict(model, found.images) == y).nonzero()[:, 0]
    if not len(left):
        return found
    own, images, by = ball.at(left), found.images.clone(), found.member.clone()
    result = member.search(model, x[left], y[left], own, generator)
    moved = result.images if isinstance(result, AttackResult) else result
    inside = own.contains(moved, x[left])
    broken = (predict(model, moved) != y[left]) & inside
    # An ascent that failed still says more than the clean image; a distance that is too large does not.
    kept = broken | (inside & member.confined)
    images[left[kept]], by[left[broken]] = moved[kept], number
    return replace(found, images=images, member=by)


@dataclass(frozen=True)
class AutoAttack(Strong):
    """The standard AutoAttack: APGD-CE, targeted APGD, targeted FAB, Square (Croce and Hein 2020b).

    queries: of Square. With fewer than ten classes the targeted attacks aim at all others; with fewer than four (untargeted:
    three) the difference of logits ratio is the plain difference.
    """

    queries: int = 5000

    def members(self) -> dict[str, Attack]:
        return {**super().members(), "fab-t": FAB(steps=self.steps), "square": Square(queries=self.queries)}
