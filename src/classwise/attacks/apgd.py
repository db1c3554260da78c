"""Auto-PGD: an ascent with adaptive step sizes (Croce and Hein 2020b)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from classwise.attacks.balls import Ball
from classwise.attacks.base import Attack, Passes, check_at_least_one
from classwise.attacks.losses import Loss, cross_entropy, dlr, dlr_towards, labels
from classwise.attacks.pgd import STARTS, ActiveSet, batch_targets, loss_and_gradient, predict, worth_compacting
from classwise.core.errors import unknown


def windows(steps: int) -> list[int]:
    """Return the steps (counted from 1) after which progress is checked: windows of 22 % of the steps, shrinking to 6 %."""
    length, least, less = max(int(0.22 * steps), 1), max(int(0.06 * steps), 1), max(int(0.03 * steps), 1)
    ends, end = [], length
    while end <= steps:
        ends.append(end)
        length = max(length - less, least)
        end += length
    return ends


@dataclass
class _APGDState(ActiveSet):
    """The state of an ascent, one row for each image; broken images stay until there are many of them."""

    place: Tensor  # in the batch
    image: Tensor  # of which the row is one of several
    centre: Tensor
    y: Tensor
    misclassified: Tensor  # the first misclassified iterate
    now: Tensor
    before: Tensor
    gradient: Tensor
    best: Tensor
    best_gradient: Tensor
    best_loss: Tensor
    checked_loss: Tensor  # the best at the last check
    last_loss: Tensor
    n_increases: Tensor  # steps since the last check that increased the loss
    step: Tensor
    halved: Tensor  # whether the last check halved the step
    active: Tensor  # not broken yet

    @classmethod
    def begin(cls, x: Tensor, y: Tensor, images: int, start: Tensor, gradient: Tensor, loss: Tensor, ball: Ball) -> "_APGDState":
        """Return the state at the start, with steps of twice the radius."""
        place, zeros = torch.arange(len(start), device=start.device), torch.zeros_like(loss)
        return cls(
            place=place,
            image=place % images,
            centre=x,
            y=y,
            misclassified=start,
            now=start,
            before=start,
            gradient=gradient,
            best=start,
            best_gradient=gradient,
            best_loss=loss,
            checked_loss=loss,
            last_loss=loss,
            n_increases=zeros,
            step=zeros + 2 * ball.radius,
            halved=torch.ones_like(loss, dtype=torch.bool),
            active=torch.ones_like(loss, dtype=torch.bool),
        )

    def update(self, loss: Tensor) -> None:
        """Record the losses (n,) of the present iterate."""
        self.n_increases = self.n_increases + (loss > self.last_loss)
        self.last_loss, better = loss, loss > self.best_loss
        self.best_loss = torch.where(better, loss, self.best_loss)
        spread = better.view(-1, 1, 1, 1)
        self.best = torch.where(spread, self.now, self.best)
        self.best_gradient = torch.where(spread, self.gradient, self.best_gradient)

    def check(self, length: int) -> None:
        """Halve the step and return to the best iterate where the last `length` steps made too little progress."""
        too_few = self.n_increases <= 0.75 * length
        stuck = ~self.halved & (self.checked_loss >= self.best_loss)
        self.halved = too_few | stuck
        self.checked_loss, self.n_increases = self.best_loss, torch.zeros_like(self.n_increases)
        self.step = torch.where(self.halved, self.step / 2, self.step)
        spread = self.halved.view(-1, 1, 1, 1)
        self.now = torch.where(spread, self.best, self.now)
        self.gradient = torch.where(spread, self.best_gradient, self.gradient)


@dataclass(frozen=True)
class APGD(Attack):
    """Auto-PGD: steps start at twice the radius, have momentum, and are halved where a check finds too little progress.

    loss: "ce", "dlr", or "dlr-targeted", which targets the `targets` classes that the clean logits rank next.
    restarts: random starts on the surface of the ball. The first misclassified iterate of an image is its adversarial image;
    an image that is misclassified unperturbed is left alone. Broken images are dropped from the batch. Target probabilities are
    accepted with loss "ce" only.
    """

    sign_gradient: ClassVar[bool] = True
    steps: int = 100
    loss: str = "ce"
    targets: int = 9
    restarts: int = 1

    def __post_init__(self) -> None:
        if self.loss not in ("ce", "dlr", "dlr-targeted"):
            raise unknown("loss", self.loss, ("ce", "dlr", "dlr-targeted"))
        check_at_least_one(self, "steps", "targets", "restarts")

    @property
    def needs_labels(self) -> bool:
        return self.loss != "ce"

    def _turns(self, classes: int) -> int:
        """Return to how many classes each image is moved."""
        return min(self.targets, classes - 1) if self.loss == "dlr-targeted" else 1

    def cost(self, classes: int) -> Passes:
        return Passes.gradients(self.steps * self.restarts * self._turns(classes))

    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        result, truth, clean = x.clone(), labels(y), model(x)
        left = (clean.argmax(1) == truth).nonzero()[:, 0]
        ranked = clean.argsort(1, descending=True)
        for group in batch_targets(self._turns(clean.shape[1]), x[left]):
            for _ in range(self.restarts):
                # Drawn for all images, so that the noise of one does not depend on which others are left.
                starts = [STARTS["surface"](x, ball, generator)[left] for _ in group]
                if len(left):
                    rows, target = left.repeat(len(group)), torch.cat([ranked[left, turn + 1] for turn in group])
                    batch = (x[rows], y[rows], ball.select(rows), torch.cat(starts))
                    moved = self._ascend(model, *batch, self._loss(target), len(left))
                    broken = (predict(model, moved) != truth[rows]).view(len(group), -1)
                    best = broken.int().argmax(0) * len(left) + torch.arange(len(left), device=x.device)
                    result[left] = moved[best]
                    left = left[~broken.any(0)]
        return result

    def _loss(self, target: Tensor) -> Callable[[Tensor], Loss]:
        """Return a function from rows, each with its target, to the loss of these rows."""
        if self.loss == "dlr-targeted":
            return lambda rows: dlr_towards(target[rows])
        return lambda rows: cross_entropy if self.loss == "ce" else dlr

    def _ascend(
        self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, start: Tensor, loss: Callable[[Tensor], Loss], images: int
    ) -> Tensor:
        """Return for each row the first misclassified iterate, else the one of the highest loss.

        The same `images` images repeat, each time with another target: an image is done once one of its rows is broken.
        """
        result, ends, last_end = start.clone(), windows(self.steps), 0
        logits, losses, gradient = loss_and_gradient(model, start, y, loss(torch.arange(len(x), device=x.device)))
        state = _APGDState.begin(x, y, images, start, gradient, losses, ball)
        broken = torch.zeros(images, dtype=torch.int64, device=x.device)  # how often
        broken.index_add_(0, state.image, (logits.argmax(1) != labels(y)).long())
        state.keep((broken[state.image] == 0).nonzero()[:, 0])
        local, objective = ball.select(state.place), loss(state.place)
        for step in range(1, self.steps + 1):
            if not len(state.place):
                return result
            share = 1.0 if step == 1 else 0.75
            ahead = local.project(local.step(state.now, state.gradient, state.step), state.centre)
            drift = share * (ahead - state.now) + (1 - share) * (state.now - state.before)
            state.before, state.now = state.now, local.project(state.now + drift, state.centre)
            logits, losses, state.gradient = loss_and_gradient(model, state.now, state.y, objective)
            state.update(losses)
            newly = (logits.argmax(1) != labels(state.y)) & state.active
            state.misclassified = torch.where(newly.view(-1, 1, 1, 1), state.now, state.misclassified)
            broken.index_add_(0, state.image, newly.long())
            state.active = broken[state.image] == 0
            if worth_compacting(state.active):
                result[state.place] = state.misclassified
                state.keep(state.active.nonzero()[:, 0])
                local, objective = ball.select(state.place), loss(state.place)
            if step in ends:
                state.check(step - last_end)
                last_end = step
        result[state.place] = torch.where(state.active.view(-1, 1, 1, 1), state.best, state.misclassified)
        return result
