"""Attacks that climb a loss inside a ball: FGSM and PGD, from one loop."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from classwise.attacks.balls import Ball
from classwise.attacks.base import Attack
from classwise.attacks.losses import LOSSES, Loss, labels
from classwise.core.errors import UserError, unknown

Start = Callable[[Tensor, Ball, torch.Generator], Tensor]


def start_none(x: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
    return x


def start_gaussian(x: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
    return x + 0.001 * torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)


def start_uniform(x: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
    return ball.project(ball.sample(x, generator), x)


def start_unclipped(x: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
    return ball.sample(x, generator)


def start_surface(x: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
    return ball.project(ball.sample(x, generator, surface=True), x)


# Where an ascent begins, and who begins there.
STARTS: dict[str, Start] = {
    "none": start_none,  # the image itself
    "gaussian": start_gaussian,  # .001 N(0, 1), unclipped: TRADES, MART, HE, RST, DAFA
    "uniform": start_uniform,  # uniform in the ball, clipped to [0, 1]: CFA, Rice, FAT
    "unclipped": start_unclipped,  # uniform in the ball, not clipped before the first step: the TRADES evaluator
    "surface": start_surface,  # uniform noise scaled to the full radius, clipped: APGD
}


@torch.no_grad()
def predict(model: nn.Module, x: Tensor) -> Tensor:
    """Return the label that the model gives to each image: (n,)."""
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
        logits = model(x)
        each = loss(logits, y)
        (gradient,) = torch.autograd.grad(each.sum(), x)
    return logits.detach(), each.detach(), gradient


def worth_compacting(standing: Tensor) -> bool:
    """Return whether so many images of a batch are broken that the others are better off without them.

    A batch of a new size costs the libraries below a set-up of their own; an eighth of the images is worth it.
    """
    return bool(8 * standing.sum() <= 7 * len(standing))


# So many pixels at most are attacked at once where one image is attacked towards several classes: 1,024 images of 3x32x32.
_ABREAST = 1024 * 3 * 32 * 32


def batch_targets(turns: int, x: Tensor) -> list[range]:
    """Return the turns 0 to `turns` - 1 in groups that may be taken at once for the images `x`."""
    at_once = max(1, min(turns, _ABREAST // max(x.numel(), 1)))
    return [range(first, min(first + at_once, turns)) for first in range(0, turns, at_once)]


class ActiveSet:
    """The state of a search: a dataclass of tensors with a row for each image that it still works on."""

    def keep(self, rows: Tensor) -> None:
        """Forget the images that are not in `rows`: positions or a mask."""
        for name, value in vars(self).items():
            setattr(self, name, value[rows])


@dataclass(frozen=True)
class PGD(Attack):
    """Projected gradient descent: `steps` steps uphill, each projected back into the ball (Madry et al. 2018; Tian 2021, 3).

    step: length of a step in the units of the pixels; None makes it `rate` x radius / `steps`, so that it follows a radius
        per image. start: a name of STARTS. loss: a name of LOSSES.
    success: "last" takes the final iterate; "any" takes the first misclassified one, counts an image that is misclassified
        as it stands as broken, and lets broken images leave the batch, so that more steps or restarts never help the defender.
    restarts: how many random starts; an image once broken stays broken.
    """

    signs_only: ClassVar[bool] = True
    steps: int = 10
    step: float | None = None
    rate: float = 2.5
    start: str = "uniform"
    loss: str = "ce"
    success: str = "last"
    restarts: int = 1

    def __post_init__(self) -> None:
        for name, value, table in (("start", self.start, STARTS), ("loss", self.loss, LOSSES)):
            if value not in table:
                raise unknown(name, value, table)
        if self.success not in ("last", "any"):
            raise unknown("success", self.success, ("last", "any"))
        for name, number in (("steps", self.steps), ("restarts", self.restarts)):
            if number < 1:
                raise UserError(f"{name} must be 1 or more, got {number}")
        if (self.step if self.step is not None else self.rate) <= 0:
            raise UserError(f"the step must be above 0, got step={self.step}, rate={self.rate}")

    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        return (self._any if self.success == "any" else self._last)(model, x, y, ball, generator)

    @property
    def labels_only(self) -> bool:
        """Whether the loss has no meaning for target probabilities."""
        return self.loss != "ce"

    @property
    def stops_early(self) -> bool:
        return self.success == "any"

    @property
    def climbed(self) -> Loss:
        """What the steps go up."""
        return LOSSES[self.loss]

    def _uphill(self, x: Tensor, gradient: Tensor, centre: Tensor, ball: Ball) -> Tensor:
        step = self.step if self.step is not None else self.rate * ball.radius / self.steps
        return ball.project(ball.ascend(x, gradient, step), centre)

    def _last(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        found, broken = x, torch.zeros(len(x), dtype=torch.bool, device=x.device)
        for restart in range(self.restarts):
            moved = STARTS[self.start](x, ball, generator)
            for _ in range(self.steps):
                moved = self._uphill(moved, input_gradient(model, moved, y, self.climbed)[1], x, ball)
            found = torch.where(broken.view(-1, 1, 1, 1), found, moved)
            if restart + 1 < self.restarts:
                broken = predict(model, found) != labels(y)
        return found

    def _any(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        truth, found = labels(y), x.clone()
        left = (predict(model, x) == truth).nonzero()[:, 0]
        for _ in range(self.restarts):
            # Drawn for all, so that who is left does not change the noise of the others.
            moved = STARTS[self.start](x, ball, generator)[left]
            standing = torch.ones_like(left, dtype=torch.bool)
            for step in range(self.steps + 1):
                if not len(left):
                    return found
                # The pass that gives the gradient also judges the step before it.
                last = step == self.steps
                logits, gradient = (model(moved), moved) if last else input_gradient(model, moved, y[left], self.climbed)
                if step > 0:
                    found[left] = torch.where(standing.view(-1, 1, 1, 1), moved, found[left])
                    standing &= logits.argmax(1) == truth[left]
                if last or worth_compacting(standing):
                    left, moved, gradient, standing = (one[standing] for one in (left, moved, gradient, standing))
                if not last:
                    moved = self._uphill(moved, gradient, x[left], ball.at(left))
        return found


@dataclass(frozen=True)
class FGSM(Attack):
    """The fast gradient sign method: one step of the full radius (Goodfellow et al. 2015; Tian 2021, 4.3).

    start: "none" as first published; "uniform" begins at a random point of the ball, as Tian et al. do.
    """

    signs_only: ClassVar[bool] = True
    start: str = "none"
    loss: str = "ce"

    def __post_init__(self) -> None:
        self._as_pgd()

    def _as_pgd(self) -> PGD:
        return PGD(steps=1, rate=1.0, start=self.start, loss=self.loss)

    @property
    def labels_only(self) -> bool:
        return self._as_pgd().labels_only

    @property
    def climbed(self) -> Loss:
        return self._as_pgd().climbed

    @property
    def stops_early(self) -> bool:
        return False

    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        return self._as_pgd().search(model, x, y, ball, generator)
