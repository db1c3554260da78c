"""Sanity checks of an evaluation: gradient masking, randomness and broken models (Athalye et al. 2018; Carlini et al. 2019)."""

from typing import Any

import torch
from torch import Tensor, nn

from classwise.attacks import Clean
from classwise.attacks.balls import Ball
from classwise.attacks.base import Attack
from classwise.attacks.evaluate import Outcomes
from classwise.attacks.losses import cross_entropy
from classwise.attacks.pgd import NoGradient, input_gradient
from classwise.images import Images
from classwise.models.modes import eval_mode, frozen, look_like_probabilities

# The checks pass at most this many images through the model again.
_CHECKED = 200
# Logits that change by less than this share are the same, up to rounding.
_STILL = 1e-6


def sanity_checks(
    model: nn.Module,
    images: Images,
    attack: Attack,
    outcomes: Outcomes,
    source_model: nn.Module | None = None,
    ball: Ball | None = None,
) -> dict[str, Any]:
    """Return sanity checks of an attack's outcomes on `images`, as plain values; `stats.sanity` turns them into warnings.

    "asked": number of evenly spaced images that pass the model again; right: number of these that it (in a transfer attack,
    `source_model`) classifies correctly. zero_gradients: the share of these where the gradient of the attack's loss (else
    cross-entropy) vanishes, is not finite or does not exist; saturated: where also the softmax is 1. unbroken: number of images
    that withstood the attack; unmoved: the share of these that it did not change. With `ball`, images whose logits are the same
    at its corners are in neither share; flat: their share of those. randomised: the largest difference between the logits of two
    passes; batch_dependent: of two batches. probabilities: whether the logits look like some. training: the layers that stay in
    train mode. farthest, darkest, brightest: the largest distance and the range of pixels of the attacked images; outside: how
    many lie outside the ball, unless the attack is a minimum-norm attack. spread: standard deviation of the logits, the scale of
    differences. broken_by: number of images that each member of an ensemble broke first.
    """
    places = torch.linspace(0, len(images) - 1, min(_CHECKED, len(images)), device=images.pixels.device).round().long()
    x, y = images.batch(places)
    source = model if source_model is None else source_model
    unbroken = ~outcomes.misclassified & (not isinstance(attack, Clean))
    with eval_mode(model), eval_mode(source), frozen(model), frozen(source):
        with torch.no_grad():
            logits, again, alone = model(x), model(x), model(x[:1])
            certain, predicted = source(x).float().softmax(1).max(1)
        vanishing, flat = _vanishing(source, x[right := predicted == y], y[right], attack, ball)
        still = _flat(model, x[(unbroken & (outcomes.distance == 0))[places]], ball)
        training = [name or type(model).__name__ for name, layer in model.named_modules() if layer.training]
    checks = {
        "asked": len(x),
        "right": int(right.sum()),
        "zero_gradients": _share(vanishing),
        "saturated": _share(vanishing & (certain[right] == 1)),
        "unbroken": int(unbroken.sum()),
        "flat": _share(flat),
        "unmoved": (1 - _share(still)) * _share(outcomes.distance[unbroken] == 0),
        "randomised": float((logits - again).abs().max()),
        "batch_dependent": float((logits[:1] - alone).abs().max()),
        "spread": float(logits.std()),
        "probabilities": look_like_probabilities(logits),
        "training": training,
        "farthest": float(outcomes.distance.nan_to_num(0.0, 0.0, 0.0).max()),
        "darkest": float(outcomes.pixels[:, 0].min()),
        "brightest": float(outcomes.pixels[:, 1].max()),
        "outside": 0 if attack.minimum_norm else int((~outcomes.inside).sum()),
    }
    return checks | _broken_by(outcomes, attack)


def _broken_by(outcomes: Outcomes, attack: Attack) -> dict[str, dict[str, int]]:
    if outcomes.member is None:
        return {}
    return {"broken_by": {name: int((outcomes.member == number).sum()) for number, name in enumerate(attack.members())}}


def _share(images: Tensor) -> float:
    return float(images.float().mean()) if len(images) else 0.0


def _vanishing(model: nn.Module, x: Tensor, y: Tensor, attack: Attack, ball: Ball | None) -> tuple[Tensor, Tensor]:
    """Return for which images (n,) there is no gradient, although the logits change in the ball, and where they do not."""
    sizes = _gradient_sizes(model, x, y, attack) if len(x) else x.new_zeros(0)
    without = ~(sizes > 0) | ~sizes.isfinite()
    flat = without.clone()
    flat[without] = _flat(model, x[without], ball)
    return without & ~flat, flat


def _gradient_sizes(model: nn.Module, x: Tensor, y: Tensor, attack: Attack) -> Tensor:
    """Return the Linf norm of the gradient of each image (n,), 0 where the model has no gradient."""
    try:
        return input_gradient(model, x, y, attack.loss_fn or cross_entropy)[1].flatten(1).abs().amax(1)
    except NoGradient:
        return x.new_zeros(len(x))


@torch.no_grad()
def _flat(model: nn.Module, x: Tensor, ball: Ball | None) -> Tensor:
    """Return for which images (n,) the logits are the same at the centre and at corners of a ball; none without a ball.

    The corners are brighter and darker in blocks of all sizes: random pixels alone leave every mean as it is.
    """
    if ball is None or not len(x):
        return torch.zeros(len(x), dtype=torch.bool, device=x.device)
    generator, centre = torch.Generator().manual_seed(0), model(x)
    moved = torch.zeros(len(x), device=x.device)
    for side in (1, 1, 2, 2, 4, 4, max(x.shape[2:]), max(x.shape[2:])):
        coarse = torch.randn(1, x.shape[1], side, side, generator=generator).sign()
        signs = nn.functional.interpolate(coarse, size=x.shape[2:]).to(x).expand_as(x)
        for corner in (signs, -signs):
            change = model(ball.project(ball.step(x, corner, ball.radius), x)) - centre
            moved = torch.maximum(moved, change.float().abs().amax(1))
    still: Tensor = moved <= _STILL * centre.float().abs().amax(1)
    return still
