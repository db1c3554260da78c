"""Objectives: what a batch costs, and what was attacked on the way.

An objective is called as `objective(model, x, y, beta, adversary) -> Cost`: x float (n, channels, height, width) in [0, 1],
y labels (n,), beta (n,) the trade-off of each image where the objective has one, and the adversary of this batch.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from classwise.defences.adversary import Adversary
from classwise.errors import UserError


class Cost(NamedTuple):
    """The loss of each image (n,), and the logits that were seen on clean and on attacked images (None: not computed)."""

    loss: Tensor
    clean: Tensor | None
    attacked: Tensor | None


class Objective(Protocol):
    """What every objective is."""

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, beta: Tensor, adversary: Adversary) -> Cost:
        """Return the cost of a batch."""
        ...


@dataclass(frozen=True)
class Standard:
    """Cross-entropy on the images as they are."""

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, beta: Tensor, adversary: Adversary) -> Cost:
        """Return CE(f(x), y)."""
        logits = model(x)
        return Cost(F.cross_entropy(logits, y, reduction="none"), logits, None)


@dataclass(frozen=True)
class Adversarial:
    """Cross-entropy on attacked images (Madry et al. 2018; Tian 2021, equation 1)."""

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, beta: Tensor, adversary: Adversary) -> Cost:
        """Return CE(f(x'), y), where x' is attacked with the labels."""
        logits = model(adversary.craft(model, x, y))
        return Cost(F.cross_entropy(logits, y, reduction="none"), None, logits)


@dataclass(frozen=True)
class Trades:
    """Cross-entropy plus `beta` times the divergence that an attack can cause (Zhang et al. 2019; Tian 2021, equation 2).

    The official code forwards clean, attacked and once more clean images; here the attacked ones go first and the clean ones
    once: the loss and its gradient are the same, the running statistics of batch norm end on clean images as there.
    """

    soft: ClassVar[bool] = True  # its attack aims at probabilities
    beta: float = 6.0

    def __post_init__(self) -> None:
        if not self.beta >= 0:
            raise UserError(f"beta must be 0 or more, got {self.beta}")

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, beta: Tensor, adversary: Adversary) -> Cost:
        """Return CE(f(x), y) + beta KL(f(x) || f(x')), where x' maximises the divergence; both arguments carry gradients."""
        with torch.no_grad(), adversary.mode(model):
            target = model(x).softmax(1)
        # Cross-entropy against fixed p(x) is the divergence plus a constant: the same ascent.
        attacked = model(adversary.craft(model, x, target))
        clean = model(x)
        divergence = F.kl_div(attacked.log_softmax(1), clean.log_softmax(1), reduction="none", log_target=True).sum(1)
        return Cost(F.cross_entropy(clean, y, reduction="none") + beta * divergence, clean, attacked)
