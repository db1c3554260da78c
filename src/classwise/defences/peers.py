"""Calibrations of newer peers: DAFA, WAT and FAAL.

BAT (Balance adversarial training, AAAI 2023) is left out: no official code is published, and what is known of it does not
decide its formula.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from classwise.defences.calibrations import Calibration, ClassWise, Fared, Memory, share
from classwise.errors import UserError


def _not_negative(name: str, value: float) -> None:
    if not value >= 0:
        raise UserError(f"{name} must be 0 or more, got {value}")


@dataclass(frozen=True)
class Dafa(Calibration):
    """Distance-aware fair adversarial training (Lee et al. 2024): once, a class takes weight and radius from those it resembles.

    With S_ij the mean probability of class j over the attacked training images of class i in the last epoch of the warm-up,
    W_i = 1 + strength x the sum over j != i of S_ij S_jj where S_ii < S_jj, else of -S_ji S_ii; never below 0. It multiplies the
    natural term, the radius and with it the step, never the robust term. strength: lambda, 1 (1.5 on CIFAR-100). warm_up: the
    share of the training after which W is found, epoch 70 of 110.
    """

    reads_answers: ClassVar[bool] = True
    strength: float = 1.0
    warm_up: float = 0.636

    def __post_init__(self) -> None:
        _not_negative("strength", self.strength)
        share("warm_up", self.warm_up)

    def __call__(self, base: ClassWise, current: ClassWise, memory: Memory, fared: Fared) -> tuple[ClassWise, Memory]:
        """Return the settings after the warm-up, which are found once and stay."""
        if "weight" in memory or fared.answers is None or fared.progress < self.warm_up:
            return current, memory
        weight = self.weights(fared.answers).to(base.weight.dtype)
        return replace(current, weight=weight, radius=base.radius * weight), {"weight": weight}

    def weights(self, alike: Tensor) -> Tensor:
        """Return W (classes,) from S (classes, classes)."""
        own = alike.diag()
        moved = torch.where(own[:, None] < own[None, :], alike * own[None, :], -alike.T * own[:, None])
        return (1 + self.strength * (moved.sum(1) - moved.diag())).clamp_min(0)


@dataclass(frozen=True)
class Wat(Calibration):
    """Worst-class adversarial training (Li and Liu 2023): classes weigh by the validation loss that they have piled up.

    Over a slot for each of C classes and one for all images, w = C softmax(rate x the losses summed over the epochs so far). An
    image costs (its class's w + the last w) times its loss: the last slot weighs the plain TRADES loss. So a rate of 0 is the
    plain defence times 2 C / (C + 1), which is also what the first epoch is trained with.
    """

    compares_losses: ClassVar[bool] = True
    rate: float = 0.1

    def __post_init__(self) -> None:
        _not_negative("rate", self.rate)

    def start(self, base: ClassWise, sizes: Tensor) -> ClassWise:
        """Return the weights before any loss is known."""
        return self._weighed(base, base.radius.new_zeros(len(sizes) + 1))

    def __call__(self, base: ClassWise, current: ClassWise, memory: Memory, fared: Fared) -> tuple[ClassWise, Memory]:
        """Return the weights that the losses so far ask for."""
        if fared.losses is None:
            return current, memory
        piled = memory.get("piled", torch.zeros_like(fared.losses)) + fared.losses
        return self._weighed(current, piled), {"piled": piled}

    def _weighed(self, settings: ClassWise, piled: Tensor) -> ClassWise:
        slots = (len(piled) - 1) * (self.rate * piled).softmax(0)
        weight = slots[:-1] + slots[-1]
        return replace(settings, weight=weight, robust=weight)


@dataclass(frozen=True)
class Faal(Calibration):
    """Fairness-aware adversarial learning (Zhang et al. 2024): each batch is weighed for the worst distribution of its classes.

    Its idea, in our own form: with m_k the mean margin of the attacked images of class k in the batch (own logit less the highest
    other one), the weights of the P classes present maximise -sum w_k m_k over the distributions whose KL divergence from the
    uniform one is at most `distance`; an image costs P w times its loss. The authors hand that to a convex solver; its solution
    is w ~ exp(-b m), so a search along the one number b does. Made for two epochs of fine-tuning a robust run: warm_start=its
    id, epochs=2, lr=.01, schedule="step", milestones=(2,). The weights change from batch to batch and are not in the history.
    """

    distance: float = 0.5

    def __post_init__(self) -> None:
        _not_negative("distance", self.distance)

    def within(self, each: ClassWise, answers: Tensor, y: Tensor) -> ClassWise:
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
