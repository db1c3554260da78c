"""Optimisers by name, and which parameters they decay."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from classwise.models import BatchInstanceNorm

Groups = list[dict[str, Any]]
# Called with the groups of parameters, the rate, the momentum (Adam: its first beta) and whether it is Nesterov's.
OPTIMISERS: dict[str, Callable[[Groups, float, float, bool], torch.optim.Optimizer]] = {
    "sgd": lambda groups, lr, momentum, nesterov: torch.optim.SGD(
        groups, lr=lr, momentum=momentum, nesterov=nesterov and momentum > 0
    ),
    "adam": lambda groups, lr, momentum, nesterov: torch.optim.Adam(groups, lr=lr, betas=(momentum, 0.999)),
    "adamw": lambda groups, lr, momentum, nesterov: torch.optim.AdamW(groups, lr=lr, betas=(momentum, 0.999)),
}

# Which parameters weight decay acts on: all of them (the four papers), or only those with more than one dimension.
DECAYS = ("all", "weights")


def gates(model: nn.Module) -> list[nn.Parameter]:
    """Return the gates of batch-instance normalisation: they stay within 0 and 1."""
    return [layer.gate for layer in model.modules() if isinstance(layer, BatchInstanceNorm)]


def groups(model: nn.Module, weight_decay: float, decay: str) -> Groups:
    """Return the parameters of a model by how they are updated; "scale" multiplies the learning rate of a group.

    Gates learn ten times as fast and do not decay (Nam and Kim 2018; Entropy 2022, A.3).
    """
    special = gates(model)
    known = {id(one) for one in special}
    plain = [one for one in model.parameters() if id(one) not in known]
    kept = plain if decay == "all" else [one for one in plain if one.ndim > 1]
    spared = [] if decay == "all" else [one for one in plain if one.ndim <= 1]
    parts = ((kept, weight_decay, 1.0), (spared, 0.0, 1.0), (special, 0.0, 10.0))
    return [{"params": params, "weight_decay": amount, "scale": scale} for params, amount, scale in parts if params]


def one_cycle(progress: float) -> float:
    """Up in the first 30 %, down to zero in a straight line."""
    return progress / 0.3 if progress < 0.3 else (1 - progress) / 0.7


@dataclass(frozen=True)
class Steps:
    """Another factor from each share of the training on.

    at: the shares, rising. to: the factor from each of them on; before the first it is 1. A paper that drops "at epoch 75" of
    100, counted from 1, trains 74 epochs at the full rate: the share is .74.
    """

    at: tuple[float, ...]
    to: tuple[float, ...]

    def __call__(self, progress: float) -> float:
        passed = sum(progress >= share for share in self.at)
        return self.to[passed - 1] if passed else 1.0


# The factor of the learning rate at each point of the training, 0 to 1.
SCHEDULES: dict[str, Callable[[float], float]] = {
    "one-cycle": one_cycle,
    # Rice et al. 2020 and CFA: epochs 100 and 150 of 200, counted from 0.
    "step": Steps((0.5, 0.75), (0.1, 0.01)),
    # Epochs counted from 1. TRADES, Tian 2021, Entropy 2022: 75 and 90 of 100.
    "step@trades": Steps((0.74, 0.89), (0.1, 0.01)),
    # MART's ResNet-18: 75, 90 and 100 of 120.
    "step@mart": Steps((74 / 120, 89 / 120, 99 / 120), (0.1, 0.01, 0.001)),
    # FAT: 60, 90 and 110 of 120.
    "step@fat": Steps((59 / 120, 89 / 120, 109 / 120), (0.1, 0.01, 0.005)),
    # Wong et al. 2020: up in the first half, down in the second.
    "cyclic": lambda progress: 1 - abs(2 * progress - 1),
    "cosine": lambda progress: 0.5 * (1 + math.cos(math.pi * progress)),
    "constant": lambda progress: 1.0,
}


def factor(schedule: str, milestones: tuple[int, ...], epochs: int, progress: float) -> float:
    """Return the factor of the learning rate: by name, or a tenth from each milestone on (an epoch, counted from 1)."""
    if milestones:
        return 0.1 ** sum(progress >= (epoch - 1) / epochs for epoch in milestones)
    return SCHEDULES[schedule](progress)
