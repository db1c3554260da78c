"""Attacks that ascend a loss inside a ball: FGSM and PGD, with one loop."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Gt
from torch import Tensor, nn

from classwise.attacks.balls import Ball
from classwise.attacks.base import Attack
from classwise.attacks.losses import LOSSES, Loss, labels
from classwise.core.errors import UserError
from classwise.core.options import Count, OneOf, Positive

Start = Callable[[Tensor, Ball, torch.Generator], Tensor]


# Where an ascent starts, and which papers or packages start there.
STARTS: dict[str, Start] = {
    "none": lambda x, ball, generator: x,
    # .001 N(0, 1), unclipped: TRADES, MART, HE, RST, DAFA.
    "gaussian": lambda x, ball, generator: x + 0.001 * torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype),
    # Uniform in the ball, clipped to [0, 1]: CFA, Rice, FAT.
    "uniform": lambda x, ball, generator: ball.project(ball.sample(x, generator), x),
    # Uniform in the ball, not clipped before the first step: the TRADES evaluator.
    "unclipped": lambda x, ball, generator: ball.sample(x, generator),
    # Uniform noise scaled to the full radius, clipped: APGD.
    "surface": lambda x, ball, generator: ball.project(ball.sample(x, generator, surface=True), x),
}


@torch.no_grad()
def predict(model: nn.Module, x: Tensor) -> Tensor:
    """Return the class that the model predicts for each image: (n,)."""
    label: Tensor = model(x).argmax(1)
    return label


def input_gradient(model: nn.Module, x: Tensor, y: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    """Return the logits at `x` and the gradient of the loss with respect to `x`."""
    logits, _, gradient = loss_and_gradient(model, x, y, loss)
    return logits, gradient


def loss_and_gradient(model: nn.Module, x: Tensor, y: Tensor, loss: Loss) -> tuple[Tensor, Tensor, Tensor]:
    """Return the logits at `x`, the loss of each image and its gradient with respect to `x`."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        logits = differentiable_logits(model, x)
        losses = loss(logits, y)
        (gradient,) = torch.autograd.grad(losses, x, torch.ones_like(losses))
    return logits.detach(), losses.detach(), gradient


class NoGradient(UserError):
    """A model whose logits have no gradient with respect to the pixels."""


def differentiable_logits(model: nn.Module, x: Tensor) -> Tensor:
    """Return the logits of a frozen model at `x`, which requires gradients; NoGradient if they do not depend on it."""
    logits: Tensor = model(x)
    if not logits.requires_grad:
        raise NoGradient(
            "the model's logits have no gradient with respect to its pixels (is there a torch.no_grad() or a .detach() in its "
            "forward?); make it differentiable, or use a black-box attack like square or n-attack"
        )
    return logits


def worth_compacting(active: Tensor) -> bool:
    """Return whether so many images of a batch are broken that it pays to drop them.

    A batch of a new size costs the libraries underneath a set-up; an eighth of the images is worth it.
    """
    return bool(8 * active.sum() <= 7 * len(active))


# The most pixels in a batch where each image is attacked towards several classes: 1,024 images of 3x32x32.
_MOST_PIXELS = 1024 * 3 * 32 * 32


def batch_targets(turns: int, x: Tensor) -> list[range]:
    """Return the turns 0 to `turns` - 1 in groups that fit into one batch for the images `x`."""
    at_once = max(1, min(turns, _MOST_PIXELS // max(x.numel(), 1)))
    return [range(first, min(first + at_once, turns)) for first in range(0, turns, at_once)]


class ActiveSet:
    """The state of a search: a dataclass of tensors, one row for each image that is still attacked."""

    def keep(self, rows: Tensor) -> None:
        """Drop the images that are not in `rows`: positions or a mask."""
        for name, value in vars(self).items():
            setattr(self, name, value[rows])


@dataclass(frozen=True)
class PGD(Attack):
    """Projected gradient descent: `steps` ascent steps, each projected onto the ball (Madry et al. 2018; Tian 2021, section 3).

    step: size of a step in the units of the pixels; None means `rate` x radius / `steps`, for each image its radius.
    start: a name of STARTS. loss: a name of LOSSES. success: "last" returns the final iterate; "any" the first misclassified
    one, leaves images that are misclassified unperturbed alone, and drops broken images from the batch, so that more steps or
    restarts never help the defender. restarts: number of random starts; a broken image stays broken.
    """

    sign_gradient: ClassVar[bool] = True
    steps: Count = 10
    step: Annotated[float | None, Gt(0)] = None
    rate: Positive = 2.5
    start: Annotated[str, OneOf(STARTS)] = "uniform"
    loss: Annotated[str, OneOf(LOSSES)] = "ce"
    success: Annotated[str, OneOf(("last", "any"))] = "last"
    restarts: Count = 1

    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        return (self._any if self.success == "any" else self._last)(model, x, y, ball, generator)

    @property
    def needs_labels(self) -> bool:
        return self.loss != "ce"

    @property
    def stops_early(self) -> bool:
        return self.success == "any"

    @property
    def traceable(self) -> bool:
        return self.success == "last" and self.restarts == 1 and self.loss == "ce"

    @property
    def loss_fn(self) -> Loss:
        return LOSSES[self.loss]

    def _next(self, x: Tensor, gradient: Tensor, centre: Tensor, ball: Ball) -> Tensor:
        step = self.step if self.step is not None else self.rate * ball.radius / self.steps
        return ball.project(ball.step(x, gradient, step), centre)

    def _last(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        result, broken = x, torch.zeros(len(x), dtype=torch.bool, device=x.device)
        for restart in range(self.restarts):
            moved = STARTS[self.start](x, ball, generator)
            for _ in range(self.steps):
                moved = self._next(moved, input_gradient(model, moved, y, self.loss_fn)[1], x, ball)
            result = torch.where(broken.view(-1, 1, 1, 1), result, moved)
            if restart + 1 < self.restarts:
                broken = predict(model, result) != labels(y)
        return result

    def _any(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        truth, result = labels(y), x.clone()
        left = (predict(model, x) == truth).nonzero()[:, 0]
        for _ in range(self.restarts):
            # Drawn for all images, so that the noise of one does not depend on which others are left.
            moved = STARTS[self.start](x, ball, generator)[left]
            active = torch.ones_like(left, dtype=torch.bool)
            for step in range(self.steps + 1):
                if not len(left):
                    return result
                # The pass for the gradient also decides whether the step before it succeeded.
                last = step == self.steps
                logits, gradient = (model(moved), moved) if last else input_gradient(model, moved, y[left], self.loss_fn)
                if step > 0:
                    result[left] = torch.where(active.view(-1, 1, 1, 1), moved, result[left])
                    active &= logits.argmax(1) == truth[left]
                if last or worth_compacting(active):
                    left, moved, gradient, active = (tensor[active] for tensor in (left, moved, gradient, active))
                if not last:
                    moved = self._next(moved, gradient, x[left], ball.select(left))
        return result


@dataclass(frozen=True)
class FGSM(Attack):
    """The fast gradient sign method: one step of the full radius (Goodfellow et al. 2015; Tian 2021, 4.3).

    start: "none" as in the original; "uniform" starts at a random point of the ball, as Tian et al. do.
    """

    sign_gradient: ClassVar[bool] = True
    stops_early = False
    start: Annotated[str, OneOf(STARTS)] = "none"
    loss: Annotated[str, OneOf(LOSSES)] = "ce"

    @property
    def needs_labels(self) -> bool:
        return self.loss != "ce"

    @property
    def loss_fn(self) -> Loss:
        return LOSSES[self.loss]

    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        return PGD(steps=1, rate=1.0, start=self.start, loss=self.loss).search(model, x, y, ball, generator)
