"""The Square attack: black-box random search with squares (Andriushchenko et al. 2020)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from classwise.attacks.ascent import frozen, margin
from classwise.balls import Ball, Linf
from classwise.errors import UserError

# The share of the image that a square covers is halved after these numbers of queries, of ten thousand.
_HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)


@dataclass(frozen=True)
class Square:
    """Try squares of random colour at random places, keep what lowers the margin; it sees logits, no gradients. Linf only.

    queries: forward passes of an image at most. share: of the image that the first squares cover. rescale: stretch the schedule
    of the shares to `queries`; without it, as AutoAttack has it, the schedule is that of ten thousand queries. Each image draws
    its own square (the official code draws one for the batch); an image once misclassified is left alone.
    """

    labels_only: ClassVar[bool] = True
    queries: int = 5000
    share: float = 0.8
    rescale: bool = False

    def __post_init__(self) -> None:
        if self.queries < 1:
            raise UserError(f"queries must be 1 or more, got {self.queries}")
        if not 0 < self.share <= 1:
            raise UserError(f"share must be above 0 and at most 1, got {self.share}")

    def side(self, query: int, height: int, width: int) -> int:
        """Return the side of the squares at a query, in pixels."""
        at = query * 10_000 / self.queries if self.rescale else query
        share = self.share / 2 ** sum(at > halving for halving in _HALVINGS)
        return min(max(round(math.sqrt(share * height * width)), 1), height, width)

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        """Return adversarial images: shapes and meaning as in `classwise.attacks`; `y` holds labels."""
        if y.ndim != 1 or not isinstance(ball, Linf):
            raise UserError("the Square attack needs labels and an Linf ball")
        found = x.clone()
        with frozen(model), torch.no_grad():
            best = margin(model(x), y)
            left = (best <= 0).nonzero()[:, 0]
            for query in range(self.queries):
                if not len(left):
                    break
                own, centre = ball.at(left), x[left]
                tried = own.project(self._tried(found[left], centre, own, query, generator), centre)
                gap = margin(model(tried), y[left])
                better = (gap > best[left]) if query else torch.ones_like(gap, dtype=torch.bool)
                found[left[better]], best[left[better]] = tried[better], gap[better]
                left = left[best[left] <= 0]
        return found

    def _tried(self, best: Tensor, centre: Tensor, ball: Linf, query: int, generator: torch.Generator) -> Tensor:
        """Return what is tried next: vertical stripes first, then a square of one colour at the edge of the ball."""
        n, channels, height, width = best.shape
        radius = torch.as_tensor(ball.radius, dtype=best.dtype, device=best.device).view(-1, 1, 1, 1)

        def signs(*shape: int) -> Tensor:
            coins = torch.rand(n, channels, *shape, generator=generator, device=best.device)
            return torch.where(coins < 0.5, -1.0, 1.0).to(best.dtype)

        if query == 0:
            return centre + radius * signs(1, width)
        side = self.side(query, height, width)
        corners = torch.rand(n, 2, generator=generator, device=best.device)
        top = (corners[:, :1] * (height - side + 1)).long()
        first = (corners[:, 1:] * (width - side + 1)).long()
        rows, columns = torch.arange(height, device=best.device), torch.arange(width, device=best.device)
        across, along = (rows >= top) & (rows < top + side), (columns >= first) & (columns < first + side)
        inside = across[:, None, :, None] & along[:, None, None, :]
        return torch.where(inside, best + 2 * radius * signs(1, 1), best)
