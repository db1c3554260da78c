"""Rebuilt images: training images that share some features of an image with a network (Ilyas et al. 2019).

Their robust and non-robust datasets are made by `invert_features`, from an adversarially trained and from a standard
network; D_rand and D_det by `perturb_towards`, from a standard network.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from classwise.attacks.balls import Ball
from classwise.attacks.pgd import PGD
from classwise.core.errors import UserError
from classwise.models.inference import fuse_for_search
from classwise.models.modes import eval_mode, frozen

# D_rand and D_det: PGD towards the target class, from the image itself.
TOWARDS = PGD(steps=100, rate=10.0, start="none", loss="approach")


@dataclass(frozen=True)
class Inversion:
    """Normalised gradient descent on the distance of penultimate features, in the pixels.

    steps: their number; Ilyas et al. take 1,000. rate: the L2 length of the first step, which decreases linearly to zero over the
    steps (ours): with a constant one the images end at about that distance from the minimum.
    """

    steps: int = 100
    rate: float = 0.5


INVERSION = Inversion()
_TINY = 1e-12


def other_images(count: int, generator: torch.Generator) -> Tensor:
    """Return for each of `count` images the position of another one, int64 (count,), each position once.

    UserError for less than two images.
    """
    if count < 2:
        raise UserError(f"an image is rebuilt from another one: {count} image is not enough")
    order = torch.randperm(count, generator=generator)
    # A cycle through all images in random order: no image comes after itself.
    result = torch.empty_like(order)
    result[order] = order.roll(-1)
    return result


def invert_features(model: nn.Module, images: Tensor, starts: Tensor, how: Inversion = INVERSION) -> Tensor:
    """Return the images that `starts` become when their penultimate features approach those of `images`.

    model: with a method `features`; used in eval mode. images, starts: (n, channels, height, width) in [0, 1], as is the result.
    The images of a batch do not influence one another. UserError for a model without features and where shapes differ.
    """
    features = getattr(model, "features", None)
    if not callable(features) or isinstance(features, nn.Module):
        raise UserError(f"{type(model).__name__} has no method features(), whose result rebuilt images share")
    if images.shape != starts.shape:
        raise UserError(f"images and starts must have the same shape, got {tuple(images.shape)} and {tuple(starts.shape)}")
    with eval_mode(model), frozen(model):
        body = fuse_for_search(_Body(model), images[:8])
        with torch.no_grad():
            target = body(images)
        moved = starts.clone()
        for step in range(how.steps):
            moved.requires_grad_()
            distance = (body(moved) - target).square().sum(1)
            (gradient,) = torch.autograd.grad(distance.sum(), moved)
            length = torch.linalg.vector_norm(gradient.flatten(1), dim=1).clamp_min(_TINY).view(-1, 1, 1, 1)
            size = how.rate * (1 - step / how.steps)
            moved = (moved.detach() - size * gradient / length).clamp(0, 1)
    return moved


def perturb_towards(model: nn.Module, images: Tensor, targets: Tensor, ball: Ball) -> Tensor:
    """Return images (n, channels, height, width) perturbed within the ball towards the class `targets` (n,) of each."""
    return TOWARDS(model, images, targets, ball, torch.Generator(images.device))


class _Body(nn.Module):
    """A model whose output are its penultimate features."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.model.features(x)  # type: ignore[operator]
        return features
