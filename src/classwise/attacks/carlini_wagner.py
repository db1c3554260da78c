"""The Linf attack of Carlini and Wagner, with a binary search over its constant, for a whole batch at once."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from classwise.attacks.balls import Ball
from classwise.attacks.base import Attack
from classwise.attacks.losses import labels, margin_loss
from classwise.attacks.pgd import ActiveSet
from classwise.core.errors import UserError, unknown

# The search goes on until no pixel moves by more than this: the distance between two grey levels, as published.
_FINEST = 1 / 256
_SHRINK = 0.999999  # keeps arctanh finite at black and white


def _box(w: Tensor) -> Tensor:
    return (w.tanh() + 1) / 2


def _unbox(x: Tensor) -> Tensor:
    return (_SHRINK * (2 * x - 1)).atanh()


@dataclass
class _Search(ActiveSet):
    """Where each image stands, a row each: in which round of c, at which tau, and in which step of Adam."""

    place: Tensor  # in the batch
    origin: Tensor  # the image itself in box coordinates
    warm: Tensor  # where this tau began
    delta: Tensor
    first: Tensor  # Adam's two moments
    second: Tensor
    at: Tensor  # the step of Adam
    checked: Tensor  # the loss when progress was last checked
    found: Tensor  # misclassified at this tau
    tau: Tensor
    start_tau: Tensor
    c: Tensor
    lower: Tensor
    upper: Tensor
    round: Tensor

    @classmethod
    def begin(cls, place: Tensor, x: Tensor, c: float) -> "_Search":
        w, zeros = _unbox(x), x.new_zeros(len(x))
        still, never = torch.zeros_like(w), torch.zeros_like(zeros, dtype=torch.bool)
        ones, inf, count = torch.ones_like(zeros), torch.full_like(zeros, torch.inf), torch.zeros_like(zeros, dtype=torch.long)
        constants = (ones, ones, c * ones, zeros, inf)
        return cls(place, w, w, still, still, still, count, inf, never, *constants, count)

    def descend(self, gradient: Tensor, rate: float) -> None:
        """Take one step of Adam (.9, .999, 1e-7), each image at its own count."""
        self.at = self.at + 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * gradient**2
        count = self.at.view(-1, 1, 1, 1)
        mean, square = self.first / (1 - 0.9**count), self.second / (1 - 0.999**count)
        self.delta = self.delta - rate * mean / (square.sqrt() + 1e-7)

    def stalled(self, loss: Tensor, steps: int) -> Tensor:
        """Return which descents end: after all steps, or at a tenth of them without progress since the last tenth."""
        step, tenth = self.at - 1, -(-steps // 10)
        due = step % tenth == 0
        ended = due & ~(self.checked - loss > 1e-4)
        self.checked = torch.where(due, loss, self.checked)
        return ended | (self.at >= steps)

    def turn(self, ended: Tensor, gamma: float) -> None:
        """Where a descent ended go on: to a smaller tau where it misclassified, else to the next constant."""
        now = _box(self.warm + self.delta)
        moved = (now - _box(self.origin)).flatten(1).abs().amax(1)
        smaller = torch.minimum(self.tau, moved) * gamma
        lowered = ended & self.found
        onward = lowered & (smaller > _FINEST)
        over = ended & ~onward
        # A constant has worked if it misclassified at its last tau or at any before.
        worked = self.found | (self.tau < self.start_tau)
        self.start_tau = torch.where(over & ~self.found, self.tau, self.start_tau)
        self.upper = torch.where(over & worked, self.c, self.upper)
        self.lower = torch.where(over & ~worked, self.c, self.lower)
        middle = torch.where(self.upper.isinf(), 10 * self.c, (self.lower + self.upper) / 2)
        self.c = torch.where(over, middle, self.c)
        self.tau = torch.where(over, self.start_tau, torch.where(onward, smaller, self.tau))
        self.round = self.round + over
        wide = (-1, 1, 1, 1)
        begun = torch.where(over.view(wide), self.origin, _unbox(now))
        self.warm = torch.where(ended.view(wide), begun, self.warm)
        for name in ("delta", "first", "second"):
            setattr(self, name, torch.where(ended.view(wide), 0.0, getattr(self, name)))
        self.at = torch.where(ended, 0, self.at)
        self.checked = torch.where(ended, torch.inf, self.checked)
        self.found = self.found & ~ended


@dataclass(frozen=True)
class CW(Attack):
    """Carlini and Wagner's Linf attack: the least largest change that misclassifies (Carlini and Wagner 2017; Tian 2021, A.2).

    It minimises sum_i max(|x'_i - x_i| - tau, 0) + c max(0, z_y - max_{j != y} z_j) by Adam in tanh coordinates, lowers tau while
    that misclassifies, and searches c in `rounds` rounds, from `c` on. steps: of one descent at most; it ends at the first tenth
    of them without progress. rate: Adam's learning rate. gamma: by how much tau shrinks. goal: "closest" goes on to the end and
    returns the closest misclassified image, inside the ball or not; "inside" leaves an image alone once one lies in the ball:
    the same verdict, sooner.
    """

    confined: ClassVar[bool] = False
    norms: ClassVar[tuple[str, ...]] = ("linf",)
    rounds: int = 5
    steps: int = 1000
    rate: float = 0.005
    c: float = 0.01
    gamma: float = 0.9
    goal: str = "closest"

    def __post_init__(self) -> None:
        for name, number in (("rounds", self.rounds), ("steps", self.steps)):
            if number < 1:
                raise UserError(f"{name} must be 1 or more, got {number}")
        for name, value in (("rate", self.rate), ("c", self.c)):
            if not value > 0:
                raise UserError(f"{name} must be above 0, got {value}")
        if not 0 < self.gamma < 1:
            raise UserError(f"gamma must lie between 0 and 1, got {self.gamma}")
        if self.goal not in ("closest", "inside"):
            raise unknown("goal", self.goal, ("closest", "inside"))

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
            state.found = state.found | wrong
            state.descend(gradient, self.rate)
            ended = state.stalled(loss, self.steps)
            if ended.any():
                state.turn(ended, self.gamma)
            going = state.round < self.rounds
            if self.goal == "inside":
                going &= least[place] > ball.at(place).radius
            if not going.all():
                state.keep(going)
        return best

    @staticmethod
    def _look(model: nn.Module, state: _Search, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the images, whether each is misclassified, the loss of each and its gradient."""
        with torch.enable_grad():
            delta = state.delta.detach().requires_grad_()
            now = _box(state.warm + delta)
            logits = model(now)
            change = (now - _box(state.origin)).abs() - state.tau.view(-1, 1, 1, 1)
            loss = change.relu().flatten(1).sum(1) + state.c * (-margin_loss(logits, y)).relu()
            (gradient,) = torch.autograd.grad(loss.sum(), delta)
        return now.detach(), logits.argmax(1) != y, loss.detach(), gradient
