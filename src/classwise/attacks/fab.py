"""FAB: the closest misclassified image, by steps onto linearised boundaries (Croce and Hein 2020a)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from classwise.attacks.balls import Ball
from classwise.attacks.base import Attack
from classwise.attacks.pgd import batch_targets, predict
from classwise.core.errors import UserError

_TINY = 1e-12


def onto_plane(x: Tensor, normal: Tensor, offset: Tensor, pace: Tensor) -> Tensor:
    """Return the nearest point to `x` on the plane normal . z = offset inside [0, 1]; all (n, d), offset (n,).

    `pace` says how fast each coordinate moves on the shortest way: all alike in Linf, by |normal| in L2; a coordinate that meets
    its bound stays there. The length t of the way is found exactly: what it gains, sum_i |normal_i| min(t pace_i, room_i), is
    linear between the times at which coordinates meet their bounds. Where the plane does not meet the box, the corner nearest to
    it is returned.
    """
    gap = (normal * x).sum(1) - offset
    down = (normal * gap[:, None]) > 0
    room, pull = torch.where(down, x, 1 - x), normal.abs()
    met, order = torch.where(pace > 0, room / pace.clamp_min(_TINY), torch.inf).sort(1)
    stopped = torch.cumsum((pull * room).gather(1, order), 1)
    speed = (pull * pace).gather(1, order)
    moving = speed.sum(1, keepdim=True) - torch.cumsum(speed, 1)
    # met is infinite only for coordinates that never move, which nothing after them does either.
    gained = stopped + moving * torch.where(met.isinf(), 0.0, met)
    needed = gap.abs()[:, None]
    first = (gained < needed).sum(1, keepdim=True).clamp(max=x.shape[1] - 1)
    already = stopped.gather(1, first) - (pull * room).gather(1, order).gather(1, first)
    length = (needed - already) / (moving + speed).gather(1, first).clamp_min(_TINY)
    move = torch.minimum(length * pace, room) * (normal != 0)
    return x + torch.where(down, -move, move)


# How fast the coordinates move on the shortest way to a plane, from its normal.
_PACES: dict[str, Callable[[Tensor], Tensor]] = {"linf": torch.ones_like, "l2": torch.abs}


@dataclass(frozen=True)
class FAB(Attack):
    """Targeted FAB: for the `targets` classes that the clean logits rank next, `steps` steps each.

    It returns the closest misclassified image that it found, inside the ball or not (`confined` is False); the ball only tells
    the norm. backward: how far an image is drawn back to the clean one once it is misclassified. overshoot: how far a step goes
    beyond the boundary. bias: the largest share of the clean image in a step.
    """

    confined: ClassVar[bool] = False
    steps: int = 100
    targets: int = 9
    backward: float = 0.9
    overshoot: float = 1.05
    bias: float = 0.1

    def __post_init__(self) -> None:
        for name, value in (("steps", self.steps), ("targets", self.targets)):
            if value < 1:
                raise UserError(f"{name} must be 1 or more, got {value}")

    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        found, clean = x.clone(), model(x)
        left = (clean.argmax(1) == y).nonzero()[:, 0]
        closest = torch.full((len(left),), torch.inf, device=x.device, dtype=x.dtype)
        ranked = clean[left].argsort(1, descending=True)
        for group in batch_targets(min(self.targets, clean.shape[1] - 1), x[left]) if len(left) else ():
            rows, target = left.repeat(len(group)), torch.cat([ranked[:, turn + 1] for turn in group])
            images, distance = self._towards(model, x[rows], y[rows], target, ball)
            least, turn = distance.view(len(group), -1).min(0)
            best, nearer = images[turn * len(left) + torch.arange(len(left), device=x.device)], least < closest
            found[left[nearer]], closest[nearer] = best[nearer], least[nearer]
        return found

    def _towards(self, model: nn.Module, x: Tensor, y: Tensor, target: Tensor, ball: Ball) -> tuple[Tensor, Tensor]:
        """Return the closest misclassified image towards a target and its distance; infinity where there is none."""
        now, best, least = x, x.clone(), torch.full((len(x),), torch.inf, device=x.device, dtype=x.dtype)
        flat = x.flatten(1)
        for _ in range(self.steps if len(x) else 0):
            lead, normal = _lead(model, now, y, target)
            offset = (normal * now.flatten(1)).sum(1) - lead
            pace = _PACES[ball.name](normal)
            points = torch.cat([now.flatten(1), flat])
            ways = onto_plane(points, *(torch.cat([one, one]) for one in (normal, offset, pace))) - points
            here, there = ways.chunk(2)
            near, far = ball.length(here), ball.length(there)
            share = (near / (near + far).clamp_min(_TINY)).clamp(max=self.bias)[:, None]
            mixed = (now.flatten(1) + self.overshoot * here) * (1 - share) + (flat + self.overshoot * there) * share
            now = mixed.clamp(0, 1).view_as(x)
            wrong = predict(model, now) != y
            distance = ball.distance(now, x)
            nearer = wrong & (distance < least)
            best[nearer], least[nearer] = now[nearer], distance[nearer]
            now = torch.where(wrong.view(-1, 1, 1, 1), x + self.backward * (now - x), now)
        return best, least


def _lead(model: nn.Module, x: Tensor, y: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return z_target - z_y of each image (n,) and its gradient (n, d)."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        logits = model(x)
        lead = logits.gather(1, target[:, None])[:, 0] - logits.gather(1, y[:, None])[:, 0]
        (gradient,) = torch.autograd.grad(lead.sum(), x)
    return lead.detach(), gradient.flatten(1)
