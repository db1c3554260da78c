"""The steps of free adversarial training, whose perturbation outlives its batch."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from classwise.balls import BALLS
from classwise.defences.objectives import Cost
from classwise.defences.recipes import Free
from classwise.training.state import Plan, State


def step(state: State, network: nn.Module, x: Tensor, y: Tensor, plan: Plan, objective: Free) -> Cost:
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
        cost = Cost(F.cross_entropy(logits, y, reduction="none"), None, logits).weighted(each)
        state.optimiser.zero_grad(set_to_none=True)
        cost.loss.mean().backward()  # type: ignore[no-untyped-call]
        state.optimiser.step()
        assert moved.grad is not None
        delta.copy_(ball.project(ball.ascend(moved.detach(), moved.grad, each.radius), x) - x)
    return cost
