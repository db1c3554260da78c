"""Optimisers by name, and which parameters they decay."""

from collections.abc import Callable
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
