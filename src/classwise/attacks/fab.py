"""FAB: a minimum-norm attack by steps onto linearised decision boundaries (Croce and Hein 2020a)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from classwise.attacks.balls import Ball
from classwise.attacks.base import Attack, Passes, check_at_least_one
from classwise.attacks.losses import lead_of
from classwise.attacks.pgd import batch_targets, loss_and_gradient, predict

_TINY = 1e-12


def onto_plane(x: Tensor, normal: Tensor, offset: Tensor, pace: Tensor) -> Tensor:
    """Return the point nearest to `x` on the plane normal . z = offset inside [0, 1]; all (n, d), offset (n,).

    `pace` is the speed of each coordinate along the shortest path: 1 in Linf, |normal| in L2; a coordinate stops at its bound.
    The length t of the path is exact: its progress, sum_i |normal_i| min(t pace_i, room_i), is linear between the times at which
    coordinates reach their bounds. Where the plane does not meet the box, the corner nearest to it is returned.
    """
    gap = (normal * x).sum(1) - offset
    down = (normal * gap[:, None]) > 0
    room, pull = torch.where(down, x, 1 - x), normal.abs()
    met, order = torch.where(pace > 0, room / pace.clamp_min(_TINY), torch.inf).sort(1)
    stopped = torch.cumsum((pull * room).gather(1, order), 1)
    speed = (pull * pace).gather(1, order)
    moving = speed.sum(1, keepdim=True) - torch.cumsum(speed, 1)
    # `met` is infinite only for coordinates that never move, and these come last.
    gained = stopped + moving * torch.where(met.isinf(), 0.0, met)
    needed = gap.abs()[:, None]
    first = (gained < needed).sum(1, keepdim=True).clamp(max=x.shape[1] - 1)
    already = stopped.gather(1, first) - (pull * room).gather(1, order).gather(1, first)
    length = (needed - already) / (moving + speed).gather(1, first).clamp_min(_TINY)
    move = torch.minimum(length * pace, room) * (normal != 0)
    return x + torch.where(down, -move, move)


# The speed of the coordinates along the shortest path to a plane, from its normal.
_PACES: dict[str, Callable[[Tensor], Tensor]] = {"linf": torch.ones_like, "l2": torch.abs}


@dataclass(frozen=True)
class FAB(Attack):
    """Targeted FAB: `steps` steps towards each of the `targets` classes that the clean logits rank next.

    It returns the closest misclassified image, inside the ball or not; of the ball only the norm matters. backward: the factor by
    which a perturbation shrinks once it misclassifies. overshoot: the factor by which a step goes beyond the boundary. bias: the
    largest weight of the clean image in a step.
    """

    minimum_norm: ClassVar[bool] = True
    steps: int = 100
    targets: int = 9
    backward: float = 0.9
    overshoot: float = 1.05
    bias: float = 0.1

    def __post_init__(self) -> None:
        check_at_least_one(self, "steps", "targets")

    def _turns(self, classes: int) -> int:
        return min(self.targets, classes - 1)

    def cost(self, classes: int) -> Passes:
        turns = self.steps * self._turns(classes)
        return Passes(2 * turns, turns, 3 * turns)

    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        result, clean = x.clone(), model(x)
        left = (clean.argmax(1) == y).nonzero()[:, 0]
        closest = torch.full((len(left),), torch.inf, device=x.device, dtype=x.dtype)
        ranked = clean[left].argsort(1, descending=True)
        for group in batch_targets(self._turns(clean.shape[1]), x[left]) if len(left) else ():
            rows, target = left.repeat(len(group)), torch.cat([ranked[:, turn + 1] for turn in group])
            images, distance = self._towards(model, x[rows], y[rows], target, ball)
            least, turn = distance.view(len(group), -1).min(0)
            best, nearer = images[turn * len(left) + torch.arange(len(left), device=x.device)], least < closest
            result[left[nearer]], closest[nearer] = best[nearer], least[nearer]
        return result

    def _towards(self, model: nn.Module, x: Tensor, y: Tensor, target: Tensor, ball: Ball) -> tuple[Tensor, Tensor]:
        """Return the closest misclassified image towards a target and its distance, infinite where there is none."""
        now, best, least = x, x.clone(), torch.full((len(x),), torch.inf, device=x.device, dtype=x.dtype)
        flat = x.flatten(1)
        for _ in range(self.steps if len(x) else 0):
            _, lead, gradient = loss_and_gradient(model, now, y, lead_of(target))
            normal = gradient.flatten(1)
            offset = (normal * now.flatten(1)).sum(1) - lead
            pace = _PACES[ball.name](normal)
            points = torch.cat([now.flatten(1), flat])
            plane = (torch.cat([tensor, tensor]) for tensor in (normal, offset, pace))
            from_now, from_clean = (onto_plane(points, *plane) - points).chunk(2)
            near, far = ball.norm(from_now), ball.norm(from_clean)
            share = (near / (near + far).clamp_min(_TINY)).clamp(max=self.bias)[:, None]
            ahead, biased = now.flatten(1) + self.overshoot * from_now, flat + self.overshoot * from_clean
            now = (ahead * (1 - share) + biased * share).clamp(0, 1).view_as(x)
            wrong = predict(model, now) != y
            distance = ball.distance(now, x)
            nearer = wrong & (distance < least)
            best[nearer], least[nearer] = now[nearer], distance[nearer]
            now = torch.where(wrong.view(-1, 1, 1, 1), x + self.backward * (now - x), now)
        return best, least
