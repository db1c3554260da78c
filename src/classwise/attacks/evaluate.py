"""Evaluate a model under an attack: its predictions for the attacked images, and whether they stay in the ball."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from classwise.attacks import Clean
from classwise.attacks.balls import Ball
from classwise.attacks.base import Attack, AttackResult
from classwise.core.errors import UserError
from classwise.images import Images
from classwise.models.inference import fuse_for_search
from classwise.models.modes import eval_mode


@dataclass(frozen=True)
class Outcomes:
    """Predictions under attack, one row for each image, in the order of the images.

    index, truth: int64 (n,); distance: float32 (n,), from the image to its attacked form, in the norm of the ball; of a
    minimum-norm attack the distance to the closest misclassified image, infinite if there is none.
    prediction: int64 (n,), the predicted class, and logits: float32 (n, classes), of the attacked image, or of the clean image if
    the attacked one lies outside the ball or [0, 1]: then the attack has failed. misclassified: bool (n,).
    inside: bool (n,), whether the attacked image lies in the ball; pixels: float32 (n, 2), its smallest and its largest value.
    queries, member: int64 (n,), as in `AttackResult`, or None.
    """

    index: Tensor
    truth: Tensor
    prediction: Tensor
    misclassified: Tensor
    distance: Tensor
    logits: Tensor
    inside: Tensor
    pixels: Tensor
    queries: Tensor | None = None
    member: Tensor | None = None

    @classmethod
    def concatenate(cls, parts: Sequence["Outcomes"]) -> "Outcomes":
        """Return the outcomes of several batches as one."""
        columns = {field.name: [getattr(part, field.name) for part in parts] for field in fields(cls)}
        joined: dict[str, Any] = {name: None if values[0] is None else torch.cat(values) for name, values in columns.items()}
        return cls(**joined)


def confusion_counts(truth: Tensor, prediction: Tensor, classes: int) -> Tensor:
    """Return counts[label, predicted]: int64 (classes, classes)."""
    # Not bincount: on a GPU that waits for the largest number, and training counts in every step.
    counts = torch.zeros(classes * classes, dtype=torch.int64, device=truth.device)
    return counts.scatter_add_(0, truth * classes + prediction, torch.ones_like(truth)).view(classes, classes)


@dataclass(frozen=True)
class EvaluationSettings:
    """How a model is evaluated under an attack.

    seed: of all random draws, together with `batch`, the number of images in a batch. precision: "float32", or "bfloat16" for the
    search of attacks whose steps are signs of gradients in Linf. source_model: another model that the attack is made on
    (transfer). on_images: called with the attacked images of each batch.
    """

    seed: int = 0
    batch: int = 500
    precision: str = "float32"
    source_model: nn.Module | None = None
    on_images: Callable[[Tensor], None] = lambda attacked: None


DEFAULT = EvaluationSettings()


def evaluate(model: nn.Module, images: Images, attack: Attack, ball: Ball, settings: EvaluationSettings = DEFAULT) -> Outcomes:
    """Return the predictions for all attacked images, as `batches` does."""
    return Outcomes.concatenate(list(batches(model, images, attack, ball, settings)))


def batches(
    model: nn.Module, images: Images, attack: Attack, ball: Ball, settings: EvaluationSettings = DEFAULT, begin: int = 0
) -> Iterator[Outcomes]:
    """Yield the predictions of the model, in eval mode and float32, for the attacked images, batch by batch.

    `ball.radius` is in the units of the pixels, [0, 1]. Randomness depends on the seed, the size and the position of a batch, so
    that resuming at image `begin`, a multiple of the batch size, gives what an uninterrupted evaluation gives. The attack
    searches on a network with fused batch norm (`inference.fuse_for_search`); the predictions are those of the model itself. The
    modes of the models are restored.
    """
    source, batch = model if settings.source_model is None else settings.source_model, settings.batch
    if not len(images):
        raise UserError("there are no images to evaluate")
    if settings.source_model is not None and attack.stops_early:
        raise UserError(
            f"{type(attack).__name__} stops at images that the substitute gets wrong, so that it transfers nothing; "
            "use an attack that always takes all steps, like pgd-20 or fgsm"
        )
    with eval_mode(model), eval_mode(source), torch.no_grad():
        network = source
        if not isinstance(attack, Clean):
            sign_steps = attack.sign_gradient and ball.name == "linf"
            precision = settings.precision if sign_steps else "float32"
            network = fuse_for_search(source, images.batch(slice(0, 8))[0], precision)
        for start in range(begin, len(images), batch):
            mixed = (settings.seed * 2654435761 + start) % 2**32  # 32 bits: all that the CPU's generator accepts
            generator = torch.Generator(images.pixels.device).manual_seed(mixed)
            which = torch.arange(start, min(start + batch, len(images)), device=images.pixels.device)
            x, y = images.batch(which)
            local = ball.select(which)
            result = attack.run(network, x, y, local, generator)
            if network is not source and attack.stops_early and settings.source_model is None:
                # Images that the search stopped at because its network is wrong, though the model is right.
                fooled = local.contains(result.images, x) & (network(result.images).argmax(1) != y)
                again = (fooled & (model(result.images).argmax(1) == y)).nonzero()[:, 0]
                if len(again):
                    fresh = vars(attack.run(model, x[again], y[again], local.select(again), generator))
                    found = {name: old for name, old in vars(result).items() if old is not None}
                    result = AttackResult(**{name: old.index_copy(0, again, fresh[name]) for name, old in found.items()})
            settings.on_images(result.images)
            yield _judged(model, images.index[which], x, y, result, local, attack)


def _judged(model: nn.Module, index: Tensor, x: Tensor, y: Tensor, result: AttackResult, ball: Ball, attack: Attack) -> Outcomes:
    attacked = result.images
    inside, distance = ball.contains(attacked, x), ball.distance(attacked, x)
    logits = model(torch.where(inside.view(-1, 1, 1, 1), attacked, x)).float()
    if not logits.isfinite().all():
        bad = int((~logits.isfinite()).any(1).sum())
        raise UserError(f"the model's logits for {bad} of {len(x)} images are not finite (nan or infinite); check its weights")
    if attack.minimum_norm:
        distance = torch.where(model(attacked).argmax(1) != y, distance, torch.inf)
    prediction = logits.argmax(1)
    pixels = torch.stack(attacked.flatten(1).aminmax(dim=1), 1)
    return Outcomes(index, y, prediction, prediction != y, distance, logits, inside, pixels, result.queries, result.member)
