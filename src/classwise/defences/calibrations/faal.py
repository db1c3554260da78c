"""FAAL: fairness-aware adversarial learning."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from classwise.attacks.losses import margin_loss
from classwise.core.options import check_not_negative
from classwise.defences.calibrations import Calibration, ClassSettings


@dataclass(frozen=True)
class FAAL(Calibration):
    """Fairness-aware adversarial learning: each batch is weighted for the worst distribution of its classes (Zhang et al. 2024).

    The idea is theirs, this form ours. m_k is the mean margin of the attacked images of class k in the batch, the logit of the
    label minus the highest other one. The weights of the P classes present maximise -sum w_k m_k over the distributions whose KL
    divergence from the uniform one is at most `distance`; the loss of an image is multiplied by P w. The authors use a convex
    solver; the solution is w ~ exp(-b m), so that a search over the number b suffices. It is meant for two epochs of fine-tuning
    a robust run: warm_start=its id, epochs=2, lr=.01, schedule="step", milestones=(2,). The weights change from batch to batch
    and are not in the history.

    distance: the radius of the KL ball, 0 or more.
    """

    distance: float = 0.5

    def __post_init__(self) -> None:
        check_not_negative(self, "distance")

    def for_batch(self, settings: ClassSettings, logits: Tensor, y: Tensor) -> ClassSettings:
        if self.distance == 0:
            return settings
        cost = margin_loss(logits, y)
        sizes = torch.zeros_like(logits[0]).index_add(0, y, torch.ones_like(cost))
        mean = torch.zeros_like(sizes).index_add(0, y, cost) / sizes.clamp_min(1)
        weight = (sizes > 0).sum() * worst_mixture(mean, sizes > 0, self.distance)[y]
        return replace(settings, weight=settings.weight * weight, robust=settings.robust * weight)


# The range of log(b x spread of the costs), and the points and rounds of the search within it.
_RANGE, _POINTS, _ROUNDS = (-7.0, 14.0), 33, 4


def worst_mixture(costs: Tensor, present: Tensor, distance: float) -> Tensor:
    """Return the weights w (classes,) of highest mean cost among those with KL(w || uniform over `present`) <= distance.

    w ~ exp(b x costs), whose divergence rises with b. The relative error of b is about 1e-5, and the search does not synchronise
    with the device. Where the most expensive class alone lies within the distance, it takes nearly all the weight.
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
        divergence = uniform + torch.xlogy(mixed, mixed).sum(1)
        last = ((divergence <= distance).sum() - 1).clamp(0, _POINTS - 2).view(1)
        low, high = points.gather(0, last), points.gather(0, last + 1)
    return (low.exp() * relative).softmax(0)
