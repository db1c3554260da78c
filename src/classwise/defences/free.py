"""Free adversarial training: one backward pass updates the network and the perturbation."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from classwise.attacks.base import check_at_least_one
from classwise.defences.adversary import Adversary
from classwise.defences.calibrations import ClassSettings
from classwise.defences.objectives import LossTerms, Objective, TrainingStep


@dataclass(frozen=True)
class FreeAT(Objective):
    """Free adversarial training: each batch is trained on several times, and each backward pass also updates the perturbation.

    (Shafahi et al. 2019.) The perturbation takes steps as long as the radius and is kept from batch to batch; there is no inner
    attack. An epoch of a Spec is one pass over the images including the replays.

    replays: how often each batch is trained on, 1 or more.
    """

    built_in_attack: ClassVar[str] = "free"
    replays: int = 8

    def __post_init__(self) -> None:
        check_at_least_one(self, "replays")

    @property
    def training_passes(self) -> int:
        return self.replays

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, settings: ClassSettings, adversary: Adversary) -> LossTerms:
        """Return CE(f(x), y) of images that already carry their perturbation."""
        logits = model(x)
        return LossTerms(F.cross_entropy(logits, y, reduction="none"), None, logits)

    def step(self, model: nn.Module, x: Tensor, y: Tensor, step: TrainingStep) -> LossTerms:
        """Train on a batch `replays` times; return the terms of the last.

        The perturbation lies in the memory as "delta" and is zero before the first batch; a shorter batch uses its beginning.
        """
        ball = step.adversary.ball
        delta = step.memory.setdefault("delta", torch.zeros((step.batch, *x.shape[1:]), device=x.device))[: len(x)]
        for _ in range(self.replays):
            moved = ball.project(x + delta, x).requires_grad_()
            terms = step.update(self(model, moved, y, step.settings, step.adversary), y)
            assert moved.grad is not None
            delta.copy_(ball.project(ball.step(moved.detach(), moved.grad, step.settings.radius), x) - x)
        return terms
