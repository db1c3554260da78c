"""FAB: the closest misclassified image, by steps onto linearised boundaries (Croce and Hein 2020a)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from classwise.attacks.ascent import answers, frozen
from classwise.balls import Ball, Linf
from classwise.errors import UserError


def onto_plane(x: Tensor, normal: Tensor, offset: Tensor) -> Tensor:
    """Return the Linf-nearest point to `x` on the plane normal . z = offset inside [0, 1]; all (n, d), offset (n,).

    Every coordinate moves by the same length, or to its bound where that is nearer. The length is found exactly: what a length
    t gains on the plane, sum_i |normal_i| min(t, room_i), is linear between the sorted rooms. Where the plane does not meet the
    box, the corner nearest to it is returned.
    """
    gap = (normal * x).sum(1) - offset
    down = (normal * gap[:, None]) > 0
    room = torch.where(down, x, 1 - x)
    sorted_room, order = room.sort(1)
    weight = normal.abs().gather(1, order)
    spent = torch.cumsum(weight * sorted_room, 1)
    rest = weight.sum(1, keepdim=True) - torch.cumsum(weight, 1)
    gained = spent + rest * sorted_room
    needed = gap.abs()[:, None]
    first = (gained < needed).sum(1, keepdim=True).clamp(max=x.shape[1] - 1)
    already = (spent - weight * sorted_room).gather(1, first)
    slope_there = (rest + weight).gather(1, first)
    length = (needed - already) / slope_there.clamp_min(1e-12)
    move = torch.minimum(length, room) * (normal != 0)
    return x + torch.where(down, -move, move)


@dataclass(frozen=True)
class FAB:
    """Targeted FAB: in turn for the `targets` classes that the clean logits rank next, `steps` steps each. Linf only.

    It returns the closest misclassified image that it found, inside the ball or not (`confined` is False); the ball only tells
    the norm. backward: how far an image is drawn back to the clean one once it is misclassified. overshoot: how far a step goes
    beyond the boundary. bias: the largest share of the clean image in a step.
    """

    confined: ClassVar[bool] = False
    labels_only: ClassVar[bool] = True
    steps: int = 100
    targets: int = 9
    backward: float = 0.9
    overshoot: float = 1.05
    bias: float = 0.1

    def __post_init__(self) -> None:
        for name, value in (("steps", self.steps), ("targets", self.targets)):
            if value < 1:
                raise UserError(f"{name} must be 1 or more, got {value}")

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        """Return the closest misclassified images; the clean ones where none was found or none was needed."""
        if y.ndim != 1 or not isinstance(ball, Linf):
            raise UserError("FAB needs labels and an Linf ball")
        found = x.clone()
        with frozen(model), torch.no_grad():
            clean = model(x)
            left = (clean.argmax(1) == y).nonzero()[:, 0]
            closest = torch.full((len(left),), torch.inf, device=x.device, dtype=x.dtype)
            ranked = clean[left].argsort(1, descending=True)
            for rank in range(1, min(self.targets, clean.shape[1] - 1) + 1):
                images, distance = self._towards(model, x[left], y[left], ranked[:, rank])
                nearer = distance < closest
                found[left[nearer]], closest[nearer] = images[nearer], distance[nearer]
        return found

    def _towards(self, model: nn.Module, x: Tensor, y: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return the closest misclassified image towards a target and its distance; infinity where there is none."""
        now, best, least = x, x.clone(), torch.full((len(x),), torch.inf, device=x.device, dtype=x.dtype)
        flat = x.flatten(1)
        for _ in range(self.steps if len(x) else 0):
            lead, normal = _lead(model, now, y, target)
            offset = (normal * now.flatten(1)).sum(1) - lead
            here = onto_plane(now.flatten(1), normal, offset) - now.flatten(1)
            there = onto_plane(flat, normal, offset) - flat
            near, far = here.abs().amax(1), there.abs().amax(1)
            share = (near / (near + far).clamp_min(1e-12)).clamp(max=self.bias)[:, None]
            mixed = (now.flatten(1) + self.overshoot * here) * (1 - share) + (flat + self.overshoot * there) * share
            now = mixed.clamp(0, 1).view_as(x)
            wrong = answers(model, now) != y
            distance = (now - x).flatten(1).abs().amax(1)
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
