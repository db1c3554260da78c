"""What a model answers for each image under an attack, and whether the numbers can be believed."""

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
from classwise.models.inference import fused_for_search
from classwise.models.modes import eval_mode


@dataclass(frozen=True)
class Outcomes:
    """One row for each image, in the order of the images it was asked about.

    index, truth: int64 (n,); distance: float32 (n,), from the image to its attacked form, in the ball's norm; of a minimum-norm
    attack: to the closest misclassified image it found, infinite where it found none.
    answer: int64 (n,), logits: float32 (n, classes): of the attacked image, or of the image itself where the attacked one lies
    outside the ball or [0, 1]: then the attack has failed. flipped: bool (n,), whether the answer is wrong.
    inside: bool (n,), whether the attacked image lies in the ball; pixels: float32 (n, 2), its darkest and its brightest one.
    queries, member: int64 (n,), as in `attacks.Found`; None where the attack does not tell.
    """

    index: Tensor
    truth: Tensor
    answer: Tensor
    flipped: Tensor
    distance: Tensor
    logits: Tensor
    inside: Tensor
    pixels: Tensor
    queries: Tensor | None = None
    member: Tensor | None = None

    @classmethod
    def joined(cls, parts: Sequence["Outcomes"]) -> "Outcomes":
        """Return the outcomes of several batches as one."""
        columns = {each.name: [getattr(part, each.name) for part in parts] for each in fields(cls)}
        joined: dict[str, Any] = {name: None if values[0] is None else torch.cat(values) for name, values in columns.items()}
        return cls(**joined)


def confusion_counts(truth: Tensor, answer: Tensor, classes: int) -> Tensor:
    """Return counts[label, predicted]: int64 (classes, classes)."""
    # Not bincount: on a GPU that waits for the largest number, and training counts in every step.
    counts = torch.zeros(classes * classes, dtype=torch.int64, device=truth.device)
    return counts.scatter_add_(0, truth * classes + answer, torch.ones_like(truth)).view(classes, classes)


def evaluate(
    model: nn.Module,
    images: Images,
    attack: Attack,
    ball: Ball,
    *,
    report: Callable[[int], None] = lambda done: None,
    **how: Any,
) -> Outcomes:
    """Return what the model answers for each attacked image; `how` as in `batches`; `report` is told how many are done."""
    parts: list[Outcomes] = []
    for part in batches(model, images, attack, ball, **how):
        parts.append(part)
        report(sum(len(one.index) for one in parts))
    return Outcomes.joined(parts)


def batches(
    model: nn.Module,
    images: Images,
    attack: Attack,
    ball: Ball,
    *,
    made_on: nn.Module | None = None,
    seed: int = 0,
    batch: int = 500,
    precision: str = "float32",
    begin: int = 0,
    see: Callable[[Tensor], None] = lambda attacked: None,
) -> Iterator[Outcomes]:
    """Yield what the model, in eval mode and float32, answers for each attacked image, `batch` images at a time.

    `ball.radius` is in the units of the pixels, [0, 1]; `made_on` is another model that the attack runs on (transfer); `seed`,
    `batch` and the place of a batch decide its randomness, so that going on at image `begin` gives what an unbroken run would
    have given. The search runs on a folded network, in `precision` (`folding.searchable`) where its steps are signs of
    gradients; the verdict is the model's own. `see` is shown the attacked images. The modes of the models are restored.
    """
    source = model if made_on is None else made_on
    _check(images, attack, made_on)
    with eval_mode(model), eval_mode(source), torch.no_grad():
        network = source
        if not isinstance(attack, Clean):
            narrow = attack.signs_only and ball.name == "linf"
            network = fused_for_search(source, images.batch(slice(0, 8))[0], precision if narrow else "float32")
        for start in range(begin, len(images), batch):
            generator = torch.Generator(images.pixels.device).manual_seed(_mixed(seed, start))
            which = torch.arange(start, min(start + batch, len(images)), device=images.pixels.device)
            x, y = images.batch(which)
            found = attack.find(network, x, y, ball.at(which), generator)
            if network is not source and attack.stops_early and made_on is None:
                found = _repaired(found, attack, network, model, x, y, ball.at(which), generator)
            see(found.images)
            yield _judged(model, images.index[which], x, y, found, ball.at(which), attack.confined)


def _mixed(seed: int, start: int) -> int:
    """Return a seed for the batch that begins at `start`: 32 bits, all that the CPU's generator takes."""
    return (seed * 2654435761 + start) % 2**32


def _repaired(
    found: AttackResult,
    attack: Attack,
    network: nn.Module,
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    ball: Ball,
    generator: torch.Generator,
) -> AttackResult:
    """Return the same, where the search left an image alone that its network gets wrong and the model right, searched again."""
    inside = ball.contains(found.images, x)
    fooled = network(found.images).argmax(1) != y
    again = (inside & fooled & (model(found.images).argmax(1) == y)).nonzero()[:, 0]
    if not len(again):
        return found
    fresh = attack.find(model, x[again], y[again], ball.at(again), generator)
    changed = {}
    for each in fields(found):
        old, new = getattr(found, each.name), getattr(fresh, each.name)
        if old is not None:
            changed[each.name] = old.index_copy(0, again, new)
    return AttackResult(**changed)


def _check(images: Images, attack: Attack, made_on: nn.Module | None) -> None:
    if not len(images):
        raise UserError("there are no images to evaluate")
    if made_on is not None and attack.stops_early:
        raise UserError(
            f"{type(attack).__name__} leaves alone what the substitute gets wrong, so that it transfers nothing; "
            "make transfer attacks by one that goes on to its last step, like pgd-20 or fgsm"
        )


def _judged(model: nn.Module, index: Tensor, x: Tensor, y: Tensor, found: AttackResult, ball: Ball, confined: bool) -> Outcomes:
    inside, distance = ball.contains(found.images, x), ball.distance(found.images, x)
    logits = model(torch.where(inside.view(-1, 1, 1, 1), found.images, x)).float()
    if not logits.isfinite().all():
        bad = int((~logits.isfinite()).any(1).sum())
        raise UserError(f"the model's answers to {bad} of {len(x)} images are not finite (nan or infinite); check its weights")
    if not confined:
        distance = torch.where(model(found.images).argmax(1) != y, distance, torch.inf)
    answer = logits.argmax(1)
    pixels = torch.stack(found.images.flatten(1).aminmax(dim=1), 1)
    rest = (distance, logits, inside, pixels, found.queries, found.member)
    return Outcomes(index, y, answer, answer != y, *rest)
