"""What every attack is: a search behind a checked door."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Keep the model in eval mode until the block ends; then every layer is in the mode it was in.

    Meanwhile float32 is float32 on CUDA too: TF32, which keeps ten bits of it and which convolutions take by default, is off.
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
    """Let the backward pass stop at the input: the parameters ask for no gradient until the block ends."""
    asking = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in asking:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in asking:
            parameter.requires_grad_(True)


def probabilities(logits: Tensor) -> bool:
    """Return whether answers (n, classes) look like probabilities: all in [0, 1], every row summing to 1."""
    inside = bool(((logits >= 0) & (logits <= 1)).all())
    return inside and bool(((logits.sum(1) - 1).abs() < 1e-3).all())
