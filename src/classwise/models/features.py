"""Features: the input of a network's last layer."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from classwise.models.modes import eval_mode


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
