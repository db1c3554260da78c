"""What a network makes of images before its last layer."""

from typing import Any

import torch
from torch import Tensor, nn

from classwise.images import Images
from classwise.models.modes import eval_mode


def penultimate(model: nn.Module, images: Images, batch: int = 500) -> tuple[Tensor, str]:
    """Return the features of all images, float32 (n, features), in eval mode, and the name of the layer that they come from.

    They are what the model's `features()` gives, else what its last linear layer with an output for each class reads
    ("penultimate"); of a model that has neither, its answers ("logits").
    """
    with eval_mode(model), torch.no_grad():
        given = getattr(model, "features", None)
        if callable(given) and not isinstance(given, nn.Module):
            return torch.cat([given(x).flatten(1).float() for x, _ in images.batches(batch)]), "penultimate"
        read: list[Tensor] = []

        def note(layer: nn.Module, inputs: tuple[Any, ...]) -> None:
            read[:] = [inputs[0].detach()]

        last = [layer for layer in model.modules() if isinstance(layer, nn.Linear) and layer.out_features == len(images.classes)]
        hooks = [layer.register_forward_pre_hook(note) for layer in last]
        found, seen = [], True
        try:
            for x, _ in images.batches(batch):
                read.clear()
                logits = model(x)
                seen = seen and bool(read) and read[0].ndim == 2 and len(read[0]) == len(x)
                found.append(read[0].float() if seen else logits.float())
        finally:
            for hook in hooks:
                hook.remove()
        return torch.cat(found), "penultimate" if seen else "logits"


def by_class(features: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Return the mean of the features of each class and their variance within it, both (classes, features)."""
    own = [features[labels == label] for label in range(classes)]
    return torch.stack([one.mean(0) for one in own]), torch.stack([one.var(0, correction=0) for one in own])
