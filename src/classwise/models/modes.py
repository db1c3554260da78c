"""Networks as they are measured: in eval mode, with frozen parameters, and the features of any network."""

from collections.abc import Iterable, Iterator
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


def penultimate(model: nn.Module, batches: Iterable[Tensor], classes: int) -> tuple[Tensor, str]:
    """Return the features of batches of images, float32 (n, features), in eval mode, and the name of the layer they come from.

    They are the result of the model's `features()`, else the input of its last linear layer with an output for each class
    ("penultimate"); for a model with neither, its outputs ("logits").
    """
    with eval_mode(model), torch.no_grad():
        method = getattr(model, "features", None)
        if callable(method) and not isinstance(method, nn.Module):
            return torch.cat([method(x).flatten(1).float() for x in batches]), "penultimate"
        inputs_read: list[Tensor] = []

        def record(layer: nn.Module, inputs: tuple[Any, ...]) -> None:
            inputs_read[:] = [inputs[0].detach()]

        last = [layer for layer in model.modules() if isinstance(layer, nn.Linear) and layer.out_features == classes]
        hooks = [layer.register_forward_pre_hook(record) for layer in last]
        values, seen = [], True
        try:
            for x in batches:
                inputs_read.clear()
                logits = model(x)
                seen = seen and bool(inputs_read) and inputs_read[0].ndim == 2 and len(inputs_read[0]) == len(x)
                values.append(inputs_read[0].float() if seen else logits.float())
        finally:
            for hook in hooks:
                hook.remove()
        return torch.cat(values), "penultimate" if seen else "logits"
