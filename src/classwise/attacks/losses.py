"""Losses that attacks ascend: one value per image, larger where the attack is closer to success."""

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
    others = logits.scatter(1, y[:, None], -torch.inf)
    return others.amax(1) - logits.gather(1, y[:, None])[:, 0]


Loss = Callable[[Tensor, Tensor], Tensor]
# "approach" is for targeted attacks, whose labels are the targets.
LOSSES: dict[str, Loss] = {"ce": cross_entropy, "margin": margin_loss, "approach": lambda logits, y: -cross_entropy(logits, y)}
_TINY = 1e-12


def labels(y: Tensor) -> Tensor:
    """Return labels (n,): `y` itself, or the likeliest class of target probabilities (n, classes)."""
    return y if y.ndim == 1 else y.argmax(1)


def dlr(logits: Tensor, y: Tensor) -> Tensor:
    """Return the difference of logits ratio of each image: the margin over z_1 - z_3, z sorted in descending order.

    With two classes there is no third logit, and the plain margin is returned (Croce and Hein 2020b).
    """
    if logits.shape[1] < 3:
        return margin_loss(logits, y)
    ranked = logits.sort(1, descending=True).values
    return margin_loss(logits, y) / (ranked[:, 0] - ranked[:, 2] + _TINY)


def margin_towards(target: Tensor) -> Loss:
    """Return the loss z_t - z_y, by how much each image's target leads."""
    return lambda logits, y: logits.gather(1, target[:, None])[:, 0] - logits.gather(1, y[:, None])[:, 0]


def targeted_dlr(target: Tensor) -> Loss:
    """Return the targeted difference of logits ratio: (z_t - z_y) / (z_1 - (z_3 + z_4) / 2), z sorted in descending order.

    With fewer than four classes there is no fourth logit, and z_3 alone would make the ratio of the last class a constant: the
    plain difference z_t - z_y is returned.
    """

    def loss(logits: Tensor, y: Tensor) -> Tensor:
        lead = margin_towards(target)(logits, y)
        if logits.shape[1] < 4:
            return lead
        ranked = logits.sort(1, descending=True).values
        return lead / (ranked[:, 0] - (ranked[:, 2] + ranked[:, 3]) / 2 + _TINY)

    return loss
