"""Objectives that change what a batch is: one class attacked, or one batch trained on again and again."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from classwise.attacks.balls import BALLS
from classwise.core.errors import UserError
from classwise.defences.adversary import Adversary
from classwise.defences.calibrations import ClassSettings
from classwise.defences.objectives import LossTerms, Objective

if TYPE_CHECKING:
    from classwise.defences.training.state import State, TrainConfig


@dataclass(frozen=True)
class FreeAT(Objective):
    """Free adversarial training: every batch is trained on `replays` times, and the pass that updates the network also moves the
    perturbation (Shafahi et al. 2019), by a step of the radius. It is kept from batch to batch; no inner attack runs.

    The loop takes its steps (`training.free`); an epoch of a Spec is one pass over the images, replays and all.
    """

    attacks: ClassVar[str] = "free"
    replays: int = 8

    def __post_init__(self) -> None:
        if self.replays < 1:
            raise UserError(f"replays must be 1 or more, got {self.replays}")

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, each: ClassSettings, adversary: Adversary) -> LossTerms:
        """Return CE(f(x), y) of images that carry their perturbation."""
        logits = model(x)
        return LossTerms(F.cross_entropy(logits, y, reduction="none"), None, logits)


def step(state: "State", network: nn.Module, x: Tensor, y: Tensor, plan: "TrainConfig", objective: FreeAT) -> LossTerms:
    """Train on a batch `replays` times, moving images and weights by the same backward pass; return the cost of the last.

    The perturbation lives in the state's memory as "delta", zero before the first batch (Shafahi et al. 2019); a shorter batch
    uses its beginning.
    """
    each = state.settings.at(y)
    ball = BALLS[plan.norm](each.radius)
    whole = state.memory.setdefault("delta", torch.zeros((plan.batch, *x.shape[1:]), device=x.device))
    delta = whole[: len(x)]
    for _ in range(objective.replays):
        moved = ball.project(x + delta, x).requires_grad_()
        logits = network(moved)
        cost = LossTerms(F.cross_entropy(logits, y, reduction="none"), None, logits).weighted(each)
        state.optimiser.zero_grad(set_to_none=True)
        cost.loss.mean().backward()  # type: ignore[no-untyped-call]
        state.optimiser.step()
        assert moved.grad is not None
        delta.copy_(ball.project(ball.ascend(moved.detach(), moved.grad, each.radius), x) - x)
    return cost
