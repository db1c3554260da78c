"""The Square attack: random search with square-shaped changes (Andriushchenko et al. 2020)."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Gt, Le
from torch import Tensor, nn

from classwise.attacks.balls import Ball
from classwise.attacks.base import Attack, AttackResult
from classwise.attacks.losses import margin_loss
from classwise.attacks.pgd import ActiveSet
from classwise.core.options import Count

# The share of the image that a square covers is halved after these numbers of queries out of ten thousand.
_HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
_TINY = 1e-12


@dataclass
class _Left(ActiveSet):
    """The state of the search, one row for each image that is not broken yet."""

    place: Tensor  # in the batch
    now: Tensor
    centre: Tensor
    truth: Tensor
    best: Tensor  # the margin of `now`
    queries: Tensor

    def take(self, tried: Tensor, gap: Tensor, *, always: bool) -> None:
        """Count a query and move to the images tried where the margin has grown, or everywhere."""
        better = torch.ones_like(gap, dtype=torch.bool) if always else gap > self.best
        self.queries = self.queries + 1
        self.now = torch.where(better.view(-1, 1, 1, 1), tried, self.now)
        self.best = torch.where(better, gap, self.best)


@dataclass(frozen=True)
class Square(Attack):
    """Random search that changes one square at a time and keeps what decreases the margin; it uses logits, no gradients.

    In Linf a square takes one random colour at the boundary of the ball; in L2 it gets a bump of random sign, with the norm that
    another square gives up. queries: the most forward passes per image. share: the share of the image that the first squares
    cover. rescale: stretch the schedule of shares to `queries`; otherwise, as in AutoAttack, it is that of ten thousand queries.
    Squares are drawn for each image (the official code draws one for the batch); a misclassified image is left alone.
    """

    black_box: ClassVar[bool] = True
    queries: Count = 5000
    share: Annotated[float, Gt(0), Le(1), "above 0 and at most 1"] = 0.8
    rescale: bool = False

    def side(self, query: int, height: int, width: int) -> int:
        """Return the side of the squares at a query, in pixels."""
        place = query * 10_000 / self.queries if self.rescale else query
        share = self.share / 2 ** sum(place > halving for halving in _HALVINGS)
        return min(max(round(math.sqrt(share * height * width)), 1), height, width)

    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> AttackResult:
        begin, vary = (_stripes, _recolour) if ball.name == "linf" else (_bumps, _shift)
        result, clean = x.clone(), margin_loss(model(x), y)
        queries, left = torch.zeros_like(y), (clean <= 0).nonzero()[:, 0]
        # Of the images that are left; they are written back when one of them is broken.
        state = _Left(left, x[left], x[left], y[left], clean[left], torch.zeros_like(left))
        local = ball.select(left)
        for query in range(self.queries):
            if not len(state.place):
                break
            if query:
                tried = vary(state.now, state.centre, local, self.side(query, *x.shape[2:]), generator)
            else:
                tried = begin(state.centre, local, generator)
            tried = local.project(tried, state.centre)
            gap = margin_loss(model(tried), state.truth)
            state.take(tried, gap, always=query == 0)
            active = state.best <= 0
            if not active.all():
                result[state.place], queries[state.place] = state.now, state.queries
                state.keep(active.nonzero()[:, 0])
                local = ball.select(state.place)
        result[state.place], queries[state.place] = state.now, state.queries
        return AttackResult(result, queries)


def _radius(ball: Ball, x: Tensor) -> Tensor:
    return torch.as_tensor(ball.radius, dtype=x.dtype, device=x.device).view(-1, 1, 1, 1)


def _signs(x: Tensor, generator: torch.Generator, *shape: int) -> Tensor:
    coins = torch.rand(*x.shape[:2], *shape, generator=generator, device=x.device)
    return torch.where(coins < 0.5, -1.0, 1.0).to(x.dtype)


def _corners(x: Tensor, side: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the first row and the first column of a random square in each image: (n,) each."""
    (height, width), corners = x.shape[2:], torch.rand(len(x), 2, generator=generator, device=x.device)
    return (corners[:, 0] * (height - side + 1)).long(), (corners[:, 1] * (width - side + 1)).long()


def _window(x: Tensor, side: int, generator: torch.Generator) -> tuple[Tensor, slice, Tensor, Tensor]:
    """Return the index of a random square in each image; indexed values have the shape (n, side, side, channels)."""
    along, (top, first) = torch.arange(side, device=x.device), _corners(x, side, generator)
    rows, columns = top[:, None] + along, first[:, None] + along
    return torch.arange(len(x), device=x.device)[:, None, None], slice(None), rows[:, :, None], columns[:, None, :]


def _stripes(x: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
    return x + _radius(ball, x) * _signs(x, generator, 1, x.shape[3])


def _recolour(best: Tensor, centre: Tensor, ball: Ball, side: int, generator: torch.Generator) -> Tensor:
    """Return images with one square each moved to the boundary of the Linf ball, by a random sign for each channel."""
    (top, first), (height, width) = _corners(best, side, generator), best.shape[2:]
    down = torch.arange(height, device=best.device) - top[:, None]
    across = torch.arange(width, device=best.device) - first[:, None]
    inside = ((down >= 0) & (down < side))[:, None, :, None] & ((across >= 0) & (across < side))[:, None, None, :]
    return torch.where(inside, best + 2 * _radius(ball, best) * _signs(best, generator, 1, 1), best)


def _bump(side: int, x: Tensor, generator: torch.Generator) -> Tensor:
    """Return a square of norm 1 for each image: two opposite bumps, next to or above each other: (n, side, side)."""
    half = torch.cat([_mound(side // 2, side, x), -_mound(side - side // 2, side, x)])
    half = half / half.norm().clamp_min(_TINY)
    upright = torch.rand(len(x), 1, 1, generator=generator, device=x.device) < 0.5
    return torch.where(upright, half, half.T)


def _mound(height: int, width: int, x: Tensor) -> Tensor:
    """Return nested rectangles around the centre, each adding less than the one inside it, with norm 1."""
    mound = torch.zeros(height, width, dtype=x.dtype, device=x.device)
    row, column = height // 2, width // 2
    for ring in range(max(height, width) // 2 + 1):
        top, first = max(row - ring, 0), max(column - ring, 0)
        mound[top : row + ring + 1, first : column + ring + 1] += 1 / (ring + 1) ** 2
    norm: Tensor = mound.norm().clamp_min(_TINY)
    return mound / norm


def _scaled(delta: Tensor, ball: Ball, x: Tensor) -> Tensor:
    scaled: Tensor = x + _radius(ball, x) * delta / ball.norm(delta).clamp_min(_TINY).view(-1, 1, 1, 1)
    return scaled


def _bumps(x: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
    """Return images tiled with bumps, five across, at the full L2 radius."""
    height, width = x.shape[2:]
    side = max(height // 5, 1)
    delta, border = torch.zeros_like(x), (height - 5 * side) // 2 if height >= 5 else 0
    for top in range(border, height - side + 1, side):
        for first in range(border, width - side + 1, side):
            bump = _bump(side, x, generator)[:, None] * _signs(x, generator, 1, 1)
            delta[:, :, top : top + side, first : first + side] += bump
    return _scaled(delta, ball, x)


def _shift(best: Tensor, centre: Tensor, ball: Ball, side: int, generator: torch.Generator) -> Tensor:
    """Return images with a bump added in one square, with the norm that another square, now emptied, and the slack leave."""
    side = min(max(side, 3) | 1, *best.shape[2:])
    delta, channels = best - centre, best.shape[1]
    filled, emptied = (_window(best, side, generator) for _ in range(2))
    covered = torch.zeros_like(delta)
    covered[filled] = covered[emptied] = 1.0
    freed = (delta * covered).square().sum((2, 3))
    slack = (_radius(ball, best).view(-1, 1) ** 2 - ball.norm(delta)[:, None] ** 2).clamp_min(0) / channels
    old = delta[filled]
    old = old / old.square().sum((1, 2), keepdim=True).sqrt().clamp_min(_TINY)
    fresh = _bump(side, best, generator)[..., None] * _signs(best, generator, 1, 1).permute(0, 2, 3, 1) + old
    fresh = fresh / fresh.square().sum((1, 2), keepdim=True).sqrt().clamp_min(_TINY)
    delta[emptied] = 0.0
    delta[filled] = fresh * (slack + freed).sqrt()[:, None, None, :]
    return _scaled(delta, ball, centre)
