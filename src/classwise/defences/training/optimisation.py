"""Optimisers and learning-rate schedules by name, and which parameters decay."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from classwise.models import BatchInstanceNorm

Groups = list[dict[str, Any]]
# Called with the parameter groups, the learning rate, the momentum (Adam: its first beta) and whether it is Nesterov's.
OPTIMISERS: dict[str, Callable[[Groups, float, float, bool], torch.optim.Optimizer]] = {
    "sgd": lambda groups, lr, momentum, nesterov: torch.optim.SGD(
        groups, lr=lr, momentum=momentum, nesterov=nesterov and momentum > 0
    ),
    "adam": lambda groups, lr, momentum, nesterov: torch.optim.Adam(groups, lr=lr, betas=(momentum, 0.999)),
    "adamw": lambda groups, lr, momentum, nesterov: torch.optim.AdamW(groups, lr=lr, betas=(momentum, 0.999)),
}

# The parameters with weight decay: all of them (the four papers), or only those with more than one dimension.
DECAYS = ("all", "weights")


def gates(model: nn.Module) -> list[nn.Parameter]:
    """Return the gates of batch-instance normalisation, which training keeps within [0, 1]."""
    return [layer.gate for layer in model.modules() if isinstance(layer, BatchInstanceNorm)]


def groups(model: nn.Module, weight_decay: float, decay: str) -> Groups:
    """Return the parameter groups of a model; "scale" multiplies the learning rate of a group.

    Gates have ten times the learning rate and no weight decay (Nam and Kim 2018; Entropy 2022, appendix A.3).
    """
    special = gates(model)
    known = {id(parameter) for parameter in special}
    plain = [parameter for parameter in model.parameters() if id(parameter) not in known]
    decayed = plain if decay == "all" else [parameter for parameter in plain if parameter.ndim > 1]
    exempt = [] if decay == "all" else [parameter for parameter in plain if parameter.ndim <= 1]
    parts = ((decayed, weight_decay, 1.0), (exempt, 0.0, 1.0), (special, 0.0, 10.0))
    return [{"params": params, "weight_decay": amount, "scale": scale} for params, amount, scale in parts if params]


@dataclass(frozen=True)
class Steps:
    """A piecewise constant factor of the learning rate, 1 before the first change.

    A paper that drops it "at epoch 75" of 100, counted from 1, trains 74 epochs at the full rate: the share is .74.

    at: the shares of the training at which it changes, increasing. to: the factor from each of them on.
    """

    at: tuple[float, ...]
    to: tuple[float, ...]

    def __call__(self, progress: float) -> float:
        passed = sum(progress >= share for share in self.at)
        return self.to[passed - 1] if passed else 1.0


# The factor of the learning rate at each point of the training, 0 to 1.
SCHEDULES: dict[str, Callable[[float], float]] = {
    # Rise in the first 30 %, then fall to zero.
    "one-cycle": lambda progress: progress / 0.3 if progress < 0.3 else (1 - progress) / 0.7,
    # Rice et al. 2020 and CFA: epochs 100 and 150 of 200, counted from 0.
    "step": Steps((0.5, 0.75), (0.1, 0.01)),
    # Epochs counted from 1. TRADES, Tian 2021, Entropy 2022: 75 and 90 of 100.
    "step@trades": Steps((0.74, 0.89), (0.1, 0.01)),
    # MART's ResNet-18: 75, 90 and 100 of 120.
    "step@mart": Steps((74 / 120, 89 / 120, 99 / 120), (0.1, 0.01, 0.001)),
    # FAT: 60, 90 and 110 of 120.
    "step@fat": Steps((59 / 120, 89 / 120, 109 / 120), (0.1, 0.01, 0.005)),
    # Wong et al. 2020: rise in the first half, fall in the second.
    "cyclic": lambda progress: 1 - abs(2 * progress - 1),
    "cosine": lambda progress: 0.5 * (1 + math.cos(math.pi * progress)),
    "constant": lambda progress: 1.0,
}


def factor(schedule: str, milestones: tuple[int, ...], epochs: int, progress: float) -> float:
    """Return the factor of the learning rate: by name, or divided by 10 at each milestone (an epoch, counted from 1)."""
    if milestones:
        return 0.1 ** sum(progress >= (epoch - 1) / epochs for epoch in milestones)
    return SCHEDULES[schedule](progress)
