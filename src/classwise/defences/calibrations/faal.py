"""Calibrations of newer peers: DAFA, WAT and FAAL.

BAT (Balance adversarial training, AAAI 2023) is left out: no official code is published, and what is known of it does not
decide its formula.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from classwise.core.options import check_not_negative
from classwise.defences.calibrations import Calibration, ClassSettings


@dataclass(frozen=True)
class FAAL(Calibration):
    """Fairness-aware adversarial learning (Zhang et al. 2024): each batch is weighed for the worst distribution of its classes.

    Its idea, in our own form: with m_k the mean margin of the attacked images of class k in the batch (own logit less the highest
    other one), the weights of the P classes present maximise -sum w_k m_k over the distributions whose KL divergence from the
    uniform one is at most `distance`; an image costs P w times its loss. The authors hand that to a convex solver; its solution
    is w ~ exp(-b m), so a search along the one number b does. Made for two epochs of fine-tuning a robust run: warm_start=its
    id, epochs=2, lr=.01, schedule="step", milestones=(2,). The weights change from batch to batch and are not in the history.
    """

    distance: float = 0.5

    def __post_init__(self) -> None:
        check_not_negative(self, "distance")

    def within(self, each: ClassSettings, answers: Tensor, y: Tensor) -> ClassSettings:
        """Return the settings of a batch with its own weights; `answers` are logits (n, classes)."""
        if self.distance == 0:
            return each
        own = answers.gather(1, y[:, None])[:, 0]
        margin = own - answers.scatter(1, y[:, None], -math.inf).amax(1)
        sizes = torch.zeros_like(answers[0]).index_add(0, y, torch.ones_like(own))
        mean = torch.zeros_like(sizes).index_add(0, y, margin) / sizes.clamp_min(1)
        weight = (sizes > 0).sum() * worst_mixture(-mean, sizes > 0, self.distance)[y]
        return replace(each, weight=each.weight * weight, robust=each.robust * weight)


# The range of log(b x spread of the costs), and how finely and how often it is narrowed down.
_RANGE, _POINTS, _ROUNDS = (-7.0, 14.0), 33, 4


def worst_mixture(costs: Tensor, present: Tensor, distance: float) -> Tensor:
    """Return the weights w (classes,) of highest mean cost among those with KL(w || uniform over `present`) <= distance.

    w ~ exp(b x costs), whose divergence rises with b; b is found to about 1e-5 of itself, without the host having to wait. Where
    even the most expensive class alone is near enough, it takes nearly all.
    """
    below = torch.where(present, costs - costs.masked_fill(~present, -math.inf).max(), 0.0)
    spread = (-below).max().clamp_min(torch.finfo(costs.dtype).tiny)
    relative = torch.where(present, below / spread, -math.inf)
    uniform = present.sum().to(costs.dtype).log()
    steps = torch.linspace(0, 1, _POINTS, dtype=costs.dtype, device=costs.device)
    low, high = (torch.full_like(costs[:1], end) for end in _RANGE)
    for _ in range(_ROUNDS):
        points = low + (high - low) * steps
        mixed = (points.exp()[:, None] * relative).softmax(1)
        apart = uniform + torch.xlogy(mixed, mixed).sum(1)
        last = ((apart <= distance).sum() - 1).clamp(0, _POINTS - 2).view(1)
        low, high = points.gather(0, last), points.gather(0, last + 1)
    return (low.exp() * relative).softmax(0)
