"""Constraint relaxation: ascents that leave the ball for a while and return ("Efficient robustness evaluation", AAAI 2025)."""

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge
from torch import Tensor, nn

from classwise.attacks.autoattack import Ensemble
from classwise.attacks.balls import Ball
from classwise.attacks.base import Attack
from classwise.attacks.losses import dlr, margin_towards
from classwise.attacks.pgd import PGD, STARTS, ActiveSet, batch_targets, loss_and_gradient, worth_compacting
from classwise.attacks.square import Square
from classwise.core.errors import UserError
from classwise.core.options import Count

# It ranks the classes: steps of half a radius.
_RANKING = PGD(steps=10, rate=5.0, start="surface", success="any")


@dataclass
class _Ascents(ActiveSet):
    """The state of the ascents, one row for each image and target that is still pursued."""

    place: Tensor  # in the batch
    now: Tensor
    gap: Tensor  # the smallest of this cycle


@dataclass(frozen=True)
class ConstraintRelaxation(Attack):
    """Ascents of the logit margin in a larger, the given and a smaller ball, towards the `targets` classes that PGD ranks next.

    Of `steps` steps each, in cycles of `cycle`: a third in a ball of (1 + s) radii, a third in the given one, a third in one of
    (1 - s) radii; s is `slack` in the first cycle and halves from cycle to cycle down to `least_slack`. A misclassified iterate
    counts if its projection onto the given ball is misclassified. The gap of an iterate is minus its difference of logits ratio:
    0 at the boundary, whatever the scale of the logits. Ascents whose smallest gap in a cycle exceeds s / 2 are given up; images
    that came nearer than `near` get `restarts` random starts. An image that is misclassified unperturbed is left alone. The
    lengths of the steps, the ratio as the gap and its bounds are ours; the noise of the third ball is left out.
    """

    sign_gradient: ClassVar[bool] = True
    steps: Count = 150
    cycle: Count = 30
    targets: Count = 3
    restarts: Annotated[int, Ge(0)] = 4
    slack: float = 0.8
    least_slack: float = 0.05
    near: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.least_slack <= self.slack < 1:
            raise UserError(f"0 < least_slack <= slack < 1 is needed, got {self.least_slack} and {self.slack}")

    def cost(self, classes: int) -> float:
        # Of an image that no ascent gives up, without restarts, which few get; a third of the steps project with a further pass.
        return _RANKING.cost(classes) + 7 / 3 * self.steps * min(self.targets, classes - 1)

    def _third(self, step: int) -> int:
        """Return in which third of its cycle a step lies: 0, 1 or 2."""
        return 3 * (step % self.cycle) // self.cycle

    def _slack(self, step: int) -> float:
        return max(self.slack / 2.0 ** (step // self.cycle), self.least_slack)

    def _share(self, step: int) -> float:
        """Return the length of a step in radii: proportional to s, and falling to 0 within each third."""
        passed = 3 * (step % self.cycle) % self.cycle / self.cycle
        return self._slack(step) / self.slack * (1 + math.cos(math.pi * passed)) / 2

    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        result = _RANKING.search(model, x, y, ball, generator)
        logits = model(result)
        ranked = logits.scatter(1, y[:, None], -torch.inf).argsort(1, descending=True)
        targets = ranked[:, : min(self.targets, logits.shape[1] - 1)].T
        left, least = (logits.argmax(1) == y).nonzero()[:, 0], torch.full_like(logits[:, 0], torch.inf)
        # Drawn for all images, so that the noise of one does not depend on which others are left.
        again = [STARTS["surface"](x, ball, generator) for _ in range(self.restarts)]
        for starts in ([result], again):
            turns = [(start, target) for start in starts for target in targets]
            for group in batch_targets(len(turns), x[left]) if len(left) else ():
                rows, some = left.repeat(len(group)), [turns[turn] for turn in group]
                begin, target = torch.cat([start[left] for start, _ in some]), torch.cat([target[left] for _, target in some])
                moved, gap = self._ascend(model, x[rows], y[rows], ball.select(rows), begin, target, len(left))
                smallest, turn = gap.view(len(group), -1).min(0)
                nearer = smallest < least[left]
                best = turn * len(left) + torch.arange(len(left), device=x.device)
                result[left[nearer]], least[left[nearer]] = moved[best[nearer]], smallest[nearer]
            left = left[(least[left] < self.near) & ~least[left].isneginf()]
        return result

    def _ascend(
        self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, start: Tensor, target: Tensor, images: int
    ) -> tuple[Tensor, Tensor]:
        """Return for each row the iterate of the smallest gap, and this gap; minus infinity where it is misclassified.

        The same `images` images repeat, each time with another target: an image is done once one of its rows is broken.
        """
        place, result, least = torch.arange(len(x), device=x.device), start.clone(), torch.full_like(x[:, 0, 0, 0], torch.inf)
        broken = torch.zeros(images, dtype=torch.bool, device=x.device)
        state = _Ascents(place, start, least)
        for step in range(self.steps):
            rows = state.place
            if not len(rows):
                break
            centre, local = x[rows], ball.select(rows)
            larger = replace(local, radius=local.radius * (1 + (1 - self._third(step)) * self._slack(step)))
            iterate = larger.project(state.now, centre)
            logits, _, gradient = loss_and_gradient(model, iterate, y[rows], margin_towards(target[rows]))
            state.now = local.step(iterate, gradient, local.radius * self._share(step))
            if self._third(step) == 0:
                iterate = local.project(iterate, centre)
                logits = model(iterate)
            wrong = logits.argmax(1) != y[rows]
            gap = torch.where(wrong, -torch.inf, -dlr(logits, y[rows]))
            nearer = gap < least[rows]
            result[rows] = torch.where(nearer.view(-1, 1, 1, 1), iterate, result[rows])
            least[rows], state.gap = torch.minimum(gap, least[rows]), torch.minimum(gap, state.gap)
            broken[rows[wrong] % images] = True
            active = ~broken[rows % images]
            if (step + 1) % self.cycle == 0:
                active &= state.gap <= self._slack(step) / 2
                state.gap = torch.full_like(state.gap, torch.inf)
                state.keep(active)
            elif worth_compacting(active):
                state.keep(active)
        return result, least


@dataclass(frozen=True)
class CR(Ensemble):
    """Constraint relaxation, then Square, which checks whether gradients were masked.

    steps: of each ascent. queries: of Square, whose schedule is stretched to them.
    """

    steps: Count = 150
    queries: Count = 100

    def members(self) -> dict[str, Attack]:
        return {"relaxation": ConstraintRelaxation(steps=self.steps), "square": Square(queries=self.queries, rescale=True)}
