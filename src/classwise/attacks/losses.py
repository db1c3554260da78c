"""Attacks that climb a loss inside a ball: FGSM and PGD, from one loop."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from classwise.core.errors import UserError


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return the cross-entropy of each image against labels (n,) or target probabilities (n, classes)."""
    return F.cross_entropy(logits, y, reduction="none")


def margin_loss(logits: Tensor, y: Tensor) -> Tensor:
    """Return max_{j != y} z_j - z_y of each image: positive once it is misclassified (Carlini and Wagner 2017)."""
    if y.ndim != 1:
        raise UserError("the margin loss needs labels, got target probabilities; use loss='ce'")
    own = logits.gather(1, y[:, None])
    others = logits.scatter(1, y[:, None], -torch.inf)
    return others.amax(1) - own[:, 0]


def target_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Return how near each image is to being taken for its target: minus the cross-entropy against it."""
    return -cross_entropy(logits, target)


Loss = Callable[[Tensor, Tensor], Tensor]
LOSSES: dict[str, Loss] = {"ce": cross_entropy, "margin": margin_loss, "approach": target_cross_entropy}


def labels(y: Tensor) -> Tensor:
    """Return labels (n,): the targets themselves, or the likeliest class of target probabilities."""
    return y if y.ndim == 1 else y.argmax(1)


_TINY = 1e-12


def dlr(logits: Tensor, y: Tensor) -> Tensor:
    """Return the difference of logits ratio of each image: the margin over the lead of the first logit on the third.

    With two classes there is no third logit: the plain margin is taken.
    """
    if logits.shape[1] < 3:
        return margin_loss(logits, y)
    ranked = logits.sort(1, descending=True).values
    return margin_loss(logits, y) / (ranked[:, 0] - ranked[:, 2] + _TINY)


def dlr_towards(target: Tensor) -> Loss:
    """Return the targeted difference of logits ratio: (z_t - z_y) / (z_1 - (z_3 + z_4) / 2), with z sorted downwards.

    With fewer than four classes there is no fourth logit, and the third alone would make the ratio of the last class a constant:
    the plain difference z_t - z_y is taken.
    """

    def loss(logits: Tensor, y: Tensor) -> Tensor:
        lead = logits.gather(1, target[:, None])[:, 0] - logits.gather(1, y[:, None])[:, 0]
        if logits.shape[1] < 4:
            return lead
        ranked = logits.sort(1, descending=True).values
        return lead / (ranked[:, 0] - (ranked[:, 2] + ranked[:, 3]) / 2 + _TINY)

    return loss
