"""What a model answers for each image under an attack, and whether the numbers can be believed."""

from typing import Any

import torch
from torch import nn

from classwise.attacks import Clean
from classwise.attacks.base import Attack
from classwise.attacks.evaluate import Outcomes
from classwise.attacks.losses import cross_entropy
from classwise.attacks.pgd import input_gradient
from classwise.images import Images
from classwise.models.modes import eval_mode, frozen, probabilities

# So many images are asked about again to see whether an evaluation can be believed.
_LOOKED_AT = 200


def sanity_checks(
    model: nn.Module, images: Images, attack: Attack, found: Outcomes, made_on: nn.Module | None = None
) -> dict[str, Any]:
    """Return what makes the outcomes of an attack on `images` believable or not, as plain values.

    asked: how many images, evenly drawn, were asked about again. zero_gradients: the share of them, answered rightly, where the
    gradient of what the attack climbs vanishes or is not finite; of the model that it was `made_on`. unmoved: the share of the
    unbroken images that the attack left as they were. randomised: the largest difference between logits of the same images,
    asked twice. batch_dependent: the same, asked in another batch. probabilities: whether the answers look like probabilities.
    training: the layers that stay in train mode. farthest, darkest, brightest: what the attacked images reach; outside: how many
    lie outside the ball though the attack should keep within. spread: the standard deviation of the logits, to judge the
    differences by. broken_by: how many images each member of an ensemble broke first. `checks.doubts` says in words what of
    this speaks against the outcomes.
    """
    places = torch.linspace(0, len(images) - 1, min(_LOOKED_AT, len(images)), device=images.pixels.device).round().long()
    x, y = images.batch(places)
    source = model if made_on is None else made_on
    with eval_mode(model), eval_mode(source), frozen(model), frozen(source):
        with torch.no_grad():
            logits, again, alone = model(x), model(x), model(x[:1])
            right = source(x).argmax(1) == y
        loss = getattr(attack, "climbed", cross_entropy)
        sizes = input_gradient(source, x[right], y[right], loss)[1].flatten(1).abs().amax(1) if right.any() else x.new_ones(1)
        stubborn = [name or type(model).__name__ for name, layer in model.named_modules() if layer.training]
    standing, reached = ~found.flipped & (not isinstance(attack, Clean)), found.distance[found.distance.isfinite()]
    told: dict[str, Any] = {
        "asked": len(x),
        "zero_gradients": float((~(sizes > 0) | ~sizes.isfinite()).float().mean()),
        "unmoved": float((found.distance[standing] == 0).float().mean()) if standing.any() else 0.0,
        "randomised": float((logits - again).abs().max()),
        "batch_dependent": float((logits[:1] - alone).abs().max()),
        "spread": float(logits.std()),
        "probabilities": probabilities(logits),
        "training": stubborn,
        "farthest": float(reached.max()) if len(reached) else 0.0,
        "darkest": float(found.pixels[:, 0].min()),
        "brightest": float(found.pixels[:, 1].max()),
        "outside": int((~found.inside).sum()) if attack.confined else 0,
    }
    if found.member is not None:
        names = attack.members()  # type: ignore[attr-defined]
        told["broken_by"] = {name: int((found.member == number).sum()) for number, name in enumerate(names)}
    return told
