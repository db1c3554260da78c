"""The base class of all attacks: a search, called through checks of its arguments and of its result."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

import torch
from torch import Tensor, nn

from classwise.attacks.balls import TOLERANCE, Ball
from classwise.attacks.losses import Loss
from classwise.core.errors import UserError
from classwise.core.options import check_bounds
from classwise.models.modes import eval_mode, frozen, look_like_probabilities

# The first images of a batch are passed through the model once, to check the shape and the range of its logits.
_PROBED = 8


@dataclass(frozen=True)
class AttackResult:
    """What a search returns: `images` like `x`.

    queries: int64 (n,), forward passes of each image; None where they are not counted. member: int64 (n,), the number of the
    attack of an ensemble that broke each image, -1 where none did; None where the attack is no ensemble.
    """

    images: Tensor
    queries: Tensor | None = None
    member: Tensor | None = None


class Attack(ABC):
    """Base of attacks: frozen dataclasses with `search`, called as `attack(model, x, y, ball, generator) -> x_adv`.

    Attributes
    ----------
    norms, minimum_norm, leaves_ball
        the balls for which it is defined; whether it returns the closest misclassified image, inside the ball or not, where other
        attacks stay in the ball; whether its images may leave the ball, for training only.
    black_box, needs_labels
        whether it uses no gradients, and counts its queries; whether it takes labels only, no target probabilities.
    sign_gradient, stops_early, class_specific
        whether its steps follow the sign of the gradient, so that the search may run in bfloat16; whether it leaves an image
        alone once it is misclassified; whether its options name classes, which a dataset may lack.
    traceable, loss_fn
        whether all images take the same steps up the cross-entropy at one temperature, so that the attack can be followed step by
        step; the loss that its steps ascend, None where there is more than one, or no ascent.
    """

    minimum_norm: ClassVar[bool] = False
    leaves_ball: ClassVar[bool] = False
    black_box: ClassVar[bool] = False
    norms: ClassVar[tuple[str, ...]] = ("linf", "l2")
    sign_gradient: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_bounds(self)

    @property
    def needs_labels(self) -> bool:
        return True

    @property
    def stops_early(self) -> bool:
        return True

    @property
    def class_specific(self) -> bool:
        return False

    @property
    def traceable(self) -> bool:
        return False

    @property
    def loss_fn(self) -> Loss | None:
        return None

    def members(self) -> Mapping[str, "Attack"]:
        """Return the attacks of an ensemble by name, in their order; empty for a single attack."""
        return {}

    def check(self, classes: int) -> None:
        """Raise UserError if an option does not fit a model of so many classes."""
        assert classes > 0, "a model has classes"

    def cost(self, classes: int) -> float:
        """Return about how many passes, forward and backward, an image that withstands the attack takes: it serves estimates."""
        counts = (getattr(self, name, 1) for name in ("steps", "restarts", "rounds", "queries", "population"))
        return math.prod(counts) * (1.0 if self.black_box else 2.0)

    @abstractmethod
    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor | AttackResult:
        """Return adversarial images for `x`, unchecked; the caller has frozen the model and turned gradients off."""

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        """Return adversarial images for `x`: shapes and meaning as in `classwise.attacks`; UserError for bad arguments."""
        return self.run(model, x, y, ball, generator).images

    def run(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> AttackResult:
        """Return the same with queries and members."""
        _check(self, model, x, y, ball)
        checked = _FiniteChecked(model, x)
        with frozen(model), torch.no_grad():
            result = self.search(checked, x, y, ball, generator)
        result = result if isinstance(result, AttackResult) else AttackResult(result)
        checked.raise_if_broken()
        if not result.images.isfinite().all():
            raise UserError("the attack made images that are not finite; check the model's weights")
        # Stored outcomes of a black-box attack are recognised by their queries.
        if self.black_box != (result.queries is not None):
            raise TypeError(f"{type(self).__name__}: an attack counts queries if, and only if, it is a black-box attack")
        return result

    def craft(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        """Return adversarial images without any check: for training steps, whose images are known to be valid."""
        with frozen(model), torch.no_grad():
            result = self.search(model, x, y, ball, generator)
        return result.images if isinstance(result, AttackResult) else result


class _FiniteChecked(nn.Module):
    """A model that records, without waiting for the device, whether its logits or their gradients were ever not finite.

    An attack on such gradients finds nothing, and the model would look robust.
    """

    def __init__(self, model: nn.Module, x: Tensor) -> None:
        super().__init__()
        self.model = model
        self.training = model.training
        # The largest absolute value of each pass, on the device: nan or infinite where one value is.
        self.largest: dict[str, list[Tensor]] = {"gradients": [], "logits": []}

    def forward(self, x: Tensor) -> Tensor:
        if x.requires_grad:
            x.register_hook(lambda gradient: self._note("gradients", gradient))  # type: ignore[no-untyped-call]
        logits: Tensor = self.model(x)
        self._note("logits", logits.detach())
        return logits

    def _note(self, what: str, values: Tensor) -> None:
        if values.numel():
            self.largest[what].append(torch.linalg.vector_norm(values, torch.inf))

    def raise_if_broken(self) -> None:
        """Raise UserError if something was not finite."""
        # Gradients first: they make the images, and then the logits, not finite too.
        for what, largest in self.largest.items():
            if largest and not torch.stack(largest).isfinite().all():
                raise UserError(f"the model's {what} were not finite during the attack (nan or infinite); check its weights")


def _check(attack: Attack, model: nn.Module, x: Tensor, y: Tensor, ball: Ball) -> None:
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
    if y.ndim == 2 and attack.needs_labels:
        raise UserError(f"{name} needs labels, got target probabilities")
    if y.ndim == 1 and y.dtype != torch.int64:
        raise UserError(f"labels must be integers (torch.int64), got {y.dtype}; write y.long()")
    with eval_mode(model), torch.no_grad():  # in train mode this pass would move the statistics of batch norm
        _check_logits(model(x[:_PROBED]), y)


def _check_images(model: nn.Module, x: Tensor) -> None:
    if x.ndim != 4:
        raise UserError(f"images must have the shape (n, channels, height, width), got {tuple(x.shape)}")
    if not len(x):
        raise UserError("there are no images to attack: the batch is empty")
    if not x.is_floating_point():
        raise UserError(f"images must be floating point in [0, 1], got {x.dtype}; write x.float() / 255")
    device = next((tensor.device for tensor in chain(model.parameters(), model.buffers())), x.device)
    if device != x.device:
        raise UserError(f"the model is on {device}, the images are on {x.device}; move one of them with .to()")
    low, high = (bound.item() for bound in x.aminmax())
    if not (low >= -TOLERANCE and high <= 1 + TOLERANCE):
        advice = "divide by 255" if high > 10 else "normalise inside the model, not before the attack"
        raise UserError(f"pixels must lie in [0, 1], got {low:g} to {high:g}; {advice}")


def _check_logits(logits: Tensor, y: Tensor) -> None:
    if logits.ndim != 2 or logits.shape[1] < 2:
        raise UserError(f"the model must return logits (n, classes) of two classes or more, got shape {tuple(logits.shape)}")
    classes = logits.shape[1]
    if not logits.isfinite().all():
        raise UserError("the model's logits are not finite (nan or infinite); check its weights and its input")
    if y.ndim == 1 and not ((y >= 0) & (y < classes)).all():
        low, high = y.min().item(), y.max().item()
        raise UserError(f"labels must lie in 0 to {classes - 1}, the classes of the model; got {low} to {high}")
    if y.ndim == 2 and y.shape[1] != classes:
        raise UserError(f"the target probabilities have {y.shape[1]} classes, the model has {classes}")
    if look_like_probabilities(logits):
        raise UserError("the model returns probabilities (in [0, 1], summing to 1); attacks need logits: leave the softmax out")
