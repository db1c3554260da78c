"""Carlini and Wagner's attack in Linf, in tanh coordinates, which stay in [0, 1], with a binary search."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Gt, Lt
from torch import Tensor, nn

from classwise.attacks.balls import Ball
from classwise.attacks.base import Attack
from classwise.attacks.losses import labels, margin_loss
from classwise.attacks.pgd import ActiveSet, differentiable_logits
from classwise.core.options import Count, OneOf, Positive

# The search ends once no pixel changes by more than this, one grey level, as published.
_FINEST = 1 / 256
_SHRINK = 0.999999  # keeps arctanh finite at black and white


def box(w: Tensor) -> Tensor:
    """Return the pixels, within [0, 1], of tanh coordinates."""
    return (w.tanh() + 1) / 2


def unbox(x: Tensor) -> Tensor:
    """Return the tanh coordinates of pixels."""
    return (_SHRINK * (2 * x - 1)).atanh()


@dataclass
class _Search(ActiveSet):
    """The state of the search, one row per image: its round of c, its tau, and its step of Adam."""

    place: Tensor  # in the batch
    origin: Tensor  # the image itself in box coordinates
    warm: Tensor  # the start at this tau
    delta: Tensor
    first: Tensor  # first and second moment of Adam
    second: Tensor
    adam_step: Tensor
    checked: Tensor  # the loss at the last check of progress
    succeeded: Tensor  # misclassified at this tau
    tau: Tensor
    start_tau: Tensor
    c: Tensor
    lower: Tensor
    upper: Tensor
    round: Tensor

    @classmethod
    def begin(cls, place: Tensor, x: Tensor, c: float) -> "_Search":
        w, zeros = unbox(x), x.new_zeros(len(x))
        still, never = torch.zeros_like(w), torch.zeros_like(zeros, dtype=torch.bool)
        ones, inf, count = torch.ones_like(zeros), torch.full_like(zeros, torch.inf), torch.zeros_like(zeros, dtype=torch.long)
        constants = (ones, ones, c * ones, zeros, inf)
        return cls(place, w, w, still, still, still, count, inf, never, *constants, count)

    def descend(self, gradient: Tensor, rate: float) -> None:
        """Take one step of Adam (.9, .999, 1e-7); each image has its step count."""
        self.adam_step = self.adam_step + 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * gradient**2
        count = self.adam_step.view(-1, 1, 1, 1)
        mean, square = self.first / (1 - 0.9**count), self.second / (1 - 0.999**count)
        self.delta = self.delta - rate * mean / (square.sqrt() + 1e-7)

    def stalled(self, loss: Tensor, steps: int) -> Tensor:
        """Return which descents end: after all steps, or after a tenth of them without progress."""
        step, tenth = self.adam_step - 1, -(-steps // 10)
        due = step % tenth == 0
        ended = due & ~(self.checked - loss > 1e-4)
        self.checked = torch.where(due, loss, self.checked)
        return ended | (self.adam_step >= steps)

    def turn(self, ended: Tensor, gamma: float) -> None:
        """Continue where a descent `ended`: with a smaller tau if it misclassified, else with the next constant."""
        now = box(self.warm + self.delta)
        moved = (now - box(self.origin)).flatten(1).abs().amax(1)
        smaller = torch.minimum(self.tau, moved) * gamma
        onward = ended & self.succeeded & (smaller > _FINEST)
        over = ended & ~onward
        # A constant has worked if it misclassified at its last tau or at an earlier one.
        worked = self.succeeded | (self.tau < self.start_tau)
        self.start_tau = torch.where(over & ~self.succeeded, self.tau, self.start_tau)
        self.upper = torch.where(over & worked, self.c, self.upper)
        self.lower = torch.where(over & ~worked, self.c, self.lower)
        middle = torch.where(self.upper.isinf(), 10 * self.c, (self.lower + self.upper) / 2)
        self.c = torch.where(over, middle, self.c)
        self.tau = torch.where(over, self.start_tau, torch.where(onward, smaller, self.tau))
        self.round = self.round + over
        wide = (-1, 1, 1, 1)
        begun = torch.where(over.view(wide), self.origin, unbox(now))
        self.warm = torch.where(ended.view(wide), begun, self.warm)
        for name in ("delta", "first", "second"):
            setattr(self, name, torch.where(ended.view(wide), 0.0, getattr(self, name)))
        self.adam_step = torch.where(ended, 0, self.adam_step)
        self.checked = torch.where(ended, torch.inf, self.checked)
        self.succeeded = self.succeeded & ~ended


@dataclass(frozen=True)
class CW(Attack):
    """Carlini and Wagner's Linf attack: the smallest Linf norm that misclassifies (Carlini and Wagner 2017; Tian 2021, A.2).

    It minimises ``sum_i max(|x'_i - x_i| - tau, 0) + c max(0, z_y - max_{j != y} z_j)`` by Adam in tanh coordinates, lowers tau
    while that misclassifies, and searches c in `rounds` rounds, starting at `c`. steps: the most steps of one descent, which
    ends early after a tenth of them without progress. rate: learning rate of Adam. gamma: the factor by which tau shrinks. goal:
    "closest" searches to the end and returns the closest misclassified image, inside the ball or not; "inside" stops an image
    once one lies in the ball: the same verdict, sooner.
    """

    minimum_norm: ClassVar[bool] = True
    norms: ClassVar[tuple[str, ...]] = ("linf",)
    rounds: Count = 5
    steps: Count = 1000
    rate: Positive = 0.005
    c: Positive = 0.01
    gamma: Annotated[float, Gt(0), Lt(1), "above 0 and below 1"] = 0.9
    goal: Annotated[str, OneOf(("closest", "inside"))] = "closest"

    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        best, least = x.clone(), torch.full((len(x),), torch.inf, device=x.device, dtype=x.dtype)
        left = (model(x).argmax(1) == labels(y)).nonzero()[:, 0]
        state = _Search.begin(left, x[left], self.c)
        while len(state.place):
            place = state.place
            now, wrong, loss, gradient = self._look(model, state, y[place])
            distance = ball.distance(now, x[place])
            nearer = wrong & (distance < least[place])
            best[place[nearer]], least[place[nearer]] = now[nearer], distance[nearer]
            state.succeeded = state.succeeded | wrong
            state.descend(gradient, self.rate)
            ended = state.stalled(loss, self.steps)
            if ended.any():
                state.turn(ended, self.gamma)
            going = state.round < self.rounds
            if self.goal == "inside":
                going &= least[place] > ball.select(place).radius
            if not going.all():
                state.keep(going)
        return best

    @staticmethod
    def _look(model: nn.Module, state: _Search, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        with torch.enable_grad():
            delta = state.delta.detach().requires_grad_()
            now = box(state.warm + delta)
            logits = differentiable_logits(model, now)
            change = (now - box(state.origin)).abs() - state.tau.view(-1, 1, 1, 1)
            loss = change.relu().flatten(1).sum(1) + state.c * (-margin_loss(logits, y)).relu()
            (gradient,) = torch.autograd.grad(loss.sum(), delta)
        return now.detach(), logits.argmax(1) != y, loss.detach(), gradient
