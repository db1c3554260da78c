"""What a model answers for each image under an attack."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from classwise.attacks import Attack
from classwise.balls import Ball
from classwise.errors import UserError
from classwise.images import Images


@dataclass(frozen=True)
class Outcomes:
    """One row for each image, in the order of the images it was asked about.

    index, truth: int64 (n,); distance: float32 (n,), from the image to its attacked form, in the ball's norm.
    answer: int64 (n,), logits: float32 (n, classes): of the attacked image, or of the image itself where the attacked one lies
    outside the ball or [0, 1]: then the attack has failed. flipped: bool (n,), whether the answer is wrong.
    """

    index: Tensor
    truth: Tensor
    answer: Tensor
    flipped: Tensor
    distance: Tensor
    logits: Tensor


def tally(truth: Tensor, answer: Tensor, classes: int) -> Tensor:
    """Return counts[label, predicted]: int64 (classes, classes)."""
    return torch.bincount(truth * classes + answer, minlength=classes * classes).view(classes, classes)


@torch.no_grad()
def evaluate(
    model: nn.Module,
    images: Images,
    attack: Attack,
    ball: Ball,
    *,
    made_on: nn.Module | None = None,
    seed: int = 0,
    batch: int = 500,
    report: Callable[[int], None] = lambda done: None,
) -> Outcomes:
    """Return what the model, in eval mode and float32, answers for each attacked image.

    `ball.radius` is in the units of the pixels, [0, 1]; `made_on` is another model that the attack runs on (transfer); `seed`
    decides the attack's randomness, together with `batch`, the images attacked at a time. `report` is told the number of images
    done. The modes of the models are restored.
    """
    generator = torch.Generator(images.pixels.device).manual_seed(seed)
    source = model if made_on is None else made_on
    modes = [(one, one.training) for one in dict.fromkeys((model, source))]
    for one, _ in modes:
        one.eval()
    try:
        rows: list[tuple[Tensor, ...]] = []
        for x, y in images.batches(batch):
            attacked = attack(source, x, y, ball, generator)
            if not attacked.isfinite().all():
                raise UserError("the attack made images that are not finite: the model's gradients are not; check its weights")
            inside = ball.contains(attacked, x).view(-1, 1, 1, 1)
            logits = model(torch.where(inside, attacked, x)).float()
            answer = logits.argmax(1)
            rows.append((y, answer, answer != y, ball.distance(attacked, x), logits))
            report(sum(len(row[0]) for row in rows))
    finally:
        for one, training in modes:
            one.train(training)
    return Outcomes(images.index, *(torch.cat(column) for column in zip(*rows, strict=True)))
