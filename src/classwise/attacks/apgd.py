"""Auto-PGD: an ascent that chooses its own step lengths (Croce and Hein 2020b), and its losses."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from classwise.attacks.balls import Ball
from classwise.attacks.base import Attack
from classwise.attacks.losses import Loss, cross_entropy, dlr, dlr_towards, labels
from classwise.attacks.pgd import ActiveSet, batch_targets, loss_and_gradient, predict, start_surface, worth_compacting
from classwise.core.errors import UserError, unknown


def windows(steps: int) -> list[int]:
    """Return the steps (counted from 1) after which the progress is checked: first 22 % of them, then ever fewer, down to 6 %."""
    length, least, less = max(int(0.22 * steps), 1), max(int(0.06 * steps), 1), max(int(0.03 * steps), 1)
    ends, end = [], length
    while end <= steps:
        ends.append(end)
        length = max(length - less, least)
        end += length
    return ends


@dataclass
class _APGDState(ActiveSet):
    """The state of an ascent, a row for each image, broken ones among them until they are many."""

    place: Tensor  # in the batch
    now: Tensor
    before: Tensor
    slope: Tensor
    best: Tensor
    best_slope: Tensor
    best_loss: Tensor
    checked_loss: Tensor  # the best at the last check
    last_loss: Tensor
    rises: Tensor  # steps since the last check that raised the loss
    step: Tensor
    halved: Tensor  # whether the last check halved the step
    standing: Tensor  # not broken yet

    @classmethod
    def begin(cls, start: Tensor, uphill: Tensor, loss: Tensor, ball: Ball) -> "_APGDState":
        """Return the state at the start, with steps of twice the radius."""
        everything, zeros = torch.arange(len(start), device=start.device), torch.zeros_like(loss)
        return cls(
            place=everything,
            now=start,
            before=start,
            slope=uphill,
            best=start,
            best_slope=uphill,
            best_loss=loss,
            checked_loss=loss,
            last_loss=loss,
            rises=zeros,
            step=zeros + 2 * ball.radius,
            halved=torch.ones_like(loss, dtype=torch.bool),
            standing=torch.ones_like(loss, dtype=torch.bool),
        )

    def note(self, loss: Tensor) -> None:
        """Take over the loss at the present iterate."""
        self.rises = self.rises + (loss > self.last_loss)
        self.last_loss, better = loss, loss > self.best_loss
        self.best_loss = torch.where(better, loss, self.best_loss)
        spread = better.view(-1, 1, 1, 1)
        self.best = torch.where(spread, self.now, self.best)
        self.best_slope = torch.where(spread, self.slope, self.best_slope)

    def check(self, length: int) -> None:
        """Halve the step, and go back to the best iterate, where the last `length` steps rose too seldom or brought nothing."""
        seldom = self.rises <= 0.75 * length
        stuck = ~self.halved & (self.checked_loss >= self.best_loss)
        self.halved = seldom | stuck
        self.checked_loss, self.rises = self.best_loss, torch.zeros_like(self.rises)
        self.step = torch.where(self.halved, self.step / 2, self.step)
        spread = self.halved.view(-1, 1, 1, 1)
        self.now = torch.where(spread, self.best, self.now)
        self.slope = torch.where(spread, self.best_slope, self.slope)


@dataclass(frozen=True)
class APGD(Attack):
    """Auto-PGD: steps start at twice the radius, keep momentum, and are halved where a check finds too little progress.

    loss: "ce", "dlr", or "dlr-targeted", which aims at the `targets` classes that the clean logits rank next.
    restarts: random starts on the surface of the ball. The first misclassified iterate of an image is its adversarial image,
    and a clean mistake is one; broken images leave the batch. Target probabilities are taken with loss "ce" only.
    """

    signs_only: ClassVar[bool] = True
    steps: int = 100
    loss: str = "ce"
    targets: int = 9
    restarts: int = 1

    def __post_init__(self) -> None:
        if self.loss not in ("ce", "dlr", "dlr-targeted"):
            raise unknown("loss", self.loss, ("ce", "dlr", "dlr-targeted"))
        for name, value in (("steps", self.steps), ("targets", self.targets), ("restarts", self.restarts)):
            if value < 1:
                raise UserError(f"{name} must be 1 or more, got {value}")

    @property
    def labels_only(self) -> bool:
        return self.loss != "ce"

    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        found, truth, clean = x.clone(), labels(y), model(x)
        left = (clean.argmax(1) == truth).nonzero()[:, 0]
        ranked = clean.argsort(1, descending=True)
        turns = min(self.targets, clean.shape[1] - 1) if self.loss == "dlr-targeted" else 1
        for group in batch_targets(turns, x[left]):
            for _ in range(self.restarts):
                # Drawn for all, so that who is left does not change the noise of the others.
                starts = [start_surface(x, ball, generator)[left] for _ in group]
                if len(left):
                    rows, target = left.repeat(len(group)), torch.cat([ranked[left, turn + 1] for turn in group])
                    moved = self._climb(model, x[rows], y[rows], ball.at(rows), torch.cat(starts), self._loss(target), len(left))
                    broken = (predict(model, moved) != truth[rows]).view(len(group), -1)
                    best = broken.int().argmax(0) * len(left) + torch.arange(len(left), device=x.device)
                    found[left] = moved[best]
                    left = left[~broken.any(0)]
        return found

    def _loss(self, target: Tensor) -> Callable[[Tensor], Loss]:
        """Return a function from rows, each with its target, to their loss."""
        if self.loss == "dlr-targeted":
            return lambda rows: dlr_towards(target[rows])
        return lambda rows: cross_entropy if self.loss == "ce" else dlr

    def _climb(
        self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, start: Tensor, loss: Callable[[Tensor], Loss], images: int
    ) -> Tensor:
        """Return for each row the first misclassified iterate, else the one of the highest loss.

        Every `images` rows the same images come again, with another target: once one row is broken the others need not be.
        """
        found, truth, ends, last_end = start.clone(), labels(y), windows(self.steps), 0
        logits, each, uphill = loss_and_gradient(model, start, y, loss(torch.arange(len(x), device=x.device)))
        state, broken = _APGDState.begin(start, uphill, each, ball), torch.zeros(images, dtype=torch.bool, device=x.device)
        broken[state.place[logits.argmax(1) != truth] % images] = True
        state.keep(~broken[state.place % images])
        for step in range(1, self.steps + 1):
            rows = state.place
            if not len(rows):
                return found
            centre, own, share = x[rows], ball.at(rows), 1.0 if step == 1 else 0.75
            ahead = own.project(own.ascend(state.now, state.slope, state.step), centre)
            drift = share * (ahead - state.now) + (1 - share) * (state.now - state.before)
            state.before, state.now = state.now, own.project(state.now + drift, centre)
            logits, each, state.slope = loss_and_gradient(model, state.now, y[rows], loss(rows))
            state.note(each)
            newly = (logits.argmax(1) != truth[rows]) & state.standing
            found[rows] = torch.where(newly.view(-1, 1, 1, 1), state.now, found[rows])
            broken[rows[newly] % images] = True
            state.standing = ~broken[rows % images]
            if worth_compacting(state.standing):
                state.keep(state.standing)
            if step in ends:
                state.check(step - last_end)
                last_end = step
        state.keep(state.standing)
        found[state.place] = state.best
        return found
