"""What every attack is: a search behind a checked door."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

import torch
from torch import Tensor, nn

from classwise.attacks.balls import TOLERANCE, Ball
from classwise.core.errors import UserError
from classwise.models.modes import eval_mode, frozen, probabilities

# So many images are shown to the model at the door, to see what kind of answers it gives.
_SHOWN = 8


@dataclass(frozen=True)
class AttackResult:
    """What a search found: `images` like `x`.

    queries: int64 (n,), how often the model was asked about each image (None: not counted). member: int64 (n,), which attack of
    an ensemble broke each image, -1 where none did (None: it is no ensemble).
    """

    images: Tensor
    queries: Tensor | None = None
    member: Tensor | None = None


class Attack(ABC):
    """A frozen dataclass with `search`; called as `attack(model, x, y, ball, generator) -> x_adv`.

    confined: whether what it returns lies in the ball; a minimum-norm attack returns the closest misclassified image wherever it
    is. norms: the balls it is defined for. labels_only: whether target probabilities have no meaning for it. stops_early: whether
    it leaves an image alone once it is misclassified. signs_only: whether its steps are signs of gradients, so that the network
    inside the search may run in bfloat16.
    """

    confined: ClassVar[bool] = True
    norms: ClassVar[tuple[str, ...]] = ("linf", "l2")
    signs_only: ClassVar[bool] = False

    @property
    def labels_only(self) -> bool:
        return True

    @property
    def stops_early(self) -> bool:
        return True

    @property
    def names_classes(self) -> bool:
        """Whether options name classes, which a dataset may not have."""
        return False

    def check(self, classes: int) -> None:
        """Raise UserError where an option does not suit a model of so many classes."""
        assert classes > 0, "a model has classes"

    @abstractmethod
    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor | AttackResult:
        """Return adversarial images for `x`, unchecked; the caller has frozen the model and turned gradients off."""

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        """Return adversarial images for `x`: shapes and meaning as in `classwise.attacks`; a slip is a UserError."""
        return self.find(model, x, y, ball, generator).images

    def find(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> AttackResult:
        """Return the same with what else the search can tell."""
        _check(self, model, x, y, ball)
        watched = _Watched(model, x)
        with frozen(model), torch.no_grad():
            result = self.search(watched, x, y, ball, generator)
        found = result if isinstance(result, AttackResult) else AttackResult(result)
        watched.check()
        if not found.images.isfinite().all():
            raise UserError("the attack made images that are not finite; check the model's weights")
        return found

    def craft(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        """Return adversarial images without the door: for a training step, whose images are known to be in order."""
        with frozen(model), torch.no_grad():
            result = self.search(model, x, y, ball, generator)
        return result.images if isinstance(result, AttackResult) else result


class _Watched(nn.Module):
    """A model that remembers, without waiting for the device, whether its logits or their gradients were ever not finite.

    An attack on such gradients finds nothing or stands still, and its victim would look robust.
    """

    def __init__(self, model: nn.Module, x: Tensor) -> None:
        super().__init__()
        self.model = model
        self.training = model.training
        self.broken = torch.zeros(2, dtype=torch.bool, device=x.device)

    def forward(self, x: Tensor) -> Tensor:
        if x.requires_grad:
            x.register_hook(lambda gradient: self._note(1, gradient))  # type: ignore[no-untyped-call]
        logits: Tensor = self.model(x)
        self._note(0, logits.detach())
        return logits

    def _note(self, place: int, values: Tensor) -> None:
        self.broken[place] |= ~values.isfinite().all()

    def check(self) -> None:
        """Raise UserError where something was not finite."""
        # Gradients that are none make images and then logits that are none.
        for bad, what in zip(self.broken.flip(0).tolist(), ("gradients", "logits"), strict=True):
            if bad:
                raise UserError(f"the model's {what} were not finite during the attack (nan or infinite); check its weights")


def _check(attack: Attack, model: nn.Module, x: Tensor, y: Tensor, ball: Ball) -> None:
    """Raise UserError where images, labels, ball and model do not fit each other or the attack."""
    name = type(attack).__name__
    _check_images(model, x)
    if ball.name not in attack.norms:
        raise UserError(f"{name} is defined for {' and '.join(attack.norms)} balls, got {ball.name}")
    radius = torch.as_tensor(ball.radius)
    if isinstance(ball.radius, Tensor) and radius.shape != (len(x),):
        raise UserError(f"the radius must be one number or one per image, got shape {tuple(radius.shape)} for {len(x)} images")
    if not (radius >= 0).all():
        raise UserError(f"a radius is 0 or more, got {radius.min().item():g}")
    if ball.name == "linf" and (radius >= 1).any():
        largest = radius.max().item()
        raise UserError(f"an Linf radius of {largest:g} covers the whole range of a pixel, 0 to 1; did you mean {largest:g}/255?")
    if y.shape[:1] != (len(x),) or y.ndim > 2:
        raise UserError(f"y must hold a label or target probabilities for each of {len(x)} images, got shape {tuple(y.shape)}")
    if y.ndim == 2 and attack.labels_only:
        raise UserError(f"{name} needs labels, got target probabilities")
    if y.ndim == 1 and y.dtype != torch.int64:
        raise UserError(f"labels must be integers (torch.int64), got {y.dtype}; write y.long()")
    with eval_mode(model), torch.no_grad():  # in train mode a look would move the statistics of batch norm
        _check_answers(model(x[:_SHOWN]), y)


def _check_images(model: nn.Module, x: Tensor) -> None:
    if x.ndim != 4:
        raise UserError(f"images must have the shape (n, channels, height, width), got {tuple(x.shape)}")
    if not len(x):
        raise UserError("there are no images to attack: the batch is empty")
    if not x.is_floating_point():
        raise UserError(f"images must be floating point in [0, 1], got {x.dtype}; write x.float() / 255")
    home = next((one.device for one in chain(model.parameters(), model.buffers())), x.device)
    if home != x.device:
        raise UserError(f"the model is on {home}, the images are on {x.device}; move one of them with .to()")
    low, high = (one.item() for one in x.aminmax())
    if not (low >= -TOLERANCE and high <= 1 + TOLERANCE):
        advice = "divide by 255" if high > 10 else "normalise inside the model, not before the attack"
        raise UserError(f"pixels must lie in [0, 1], got {low:g} to {high:g}; {advice}")


def _check_answers(logits: Tensor, y: Tensor) -> None:
    if logits.ndim != 2 or logits.shape[1] < 2:
        raise UserError(f"the model must return logits (n, classes) of two classes or more, got shape {tuple(logits.shape)}")
    classes = logits.shape[1]
    if not logits.isfinite().all():
        raise UserError("the model's logits are not finite (nan or infinite); check its weights and its input")
    if y.ndim == 1 and not ((y >= 0) & (y < classes)).all():
        low, high = y.min().item(), y.max().item()
        raise UserError(f"labels must lie in 0 to {classes - 1}, the classes of the model; got {low} to {high}")
    if y.ndim == 2 and y.shape[1] != classes:
        raise UserError(f"the target probabilities are of {y.shape[1]} classes, the model has {classes}")
    if probabilities(logits):
        raise UserError("the model returns probabilities (in [0, 1], summing to 1); attacks need logits: leave the softmax out")
