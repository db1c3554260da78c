"""Context managers for eval mode and frozen parameters."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Set the model to eval mode and restore the mode of every layer afterwards.

    TF32, whose mantissa has ten bits and which convolutions use by default on CUDA, is off meanwhile.
    """
    modes = [(layer, layer.training) for layer in model.modules()]
    backends: tuple[Any, ...] = (torch.backends.cudnn, torch.backends.cuda.matmul)
    short = [backend.allow_tf32 for backend in backends]
    model.eval()
    try:
        for backend in backends:
            backend.allow_tf32 = False
        yield
    finally:
        for layer, training in modes:
            layer.training = training
        for backend, allowed in zip(backends, short, strict=True):
            backend.allow_tf32 = allowed


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Switch off the gradients of all parameters, and restore them afterwards."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in trainable:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trainable:
            parameter.requires_grad_(True)


def look_like_probabilities(logits: Tensor) -> bool:
    """Return whether outputs (n, classes) look like probabilities: all in [0, 1], every row with sum 1."""
    inside = bool(((logits >= 0) & (logits <= 1)).all())
    return inside and bool(((logits.sum(1) - 1).abs() < 1e-3).all())
