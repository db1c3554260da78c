"""AutoAttack and its parts: Auto-PGD, FAB, and ensembles of attacks (Croce and Hein 2020a, 2020b)."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn

from classwise.attacks.balls import Ball
from classwise.attacks.base import Attack, AttackResult
from classwise.attacks.losses import Loss, cross_entropy, dlr, labels, margin_towards, targeted_dlr
from classwise.attacks.pgd import STARTS, ActiveSet, batch_targets, loss_and_gradient, predict, worth_compacting
from classwise.attacks.square import Square
from classwise.core.options import Count, OneOf

_TINY = 1e-12


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
        known = dict.fromkeys(("misclassified", "now", "before", "best"), start)
        known |= dict.fromkeys(("gradient", "best_gradient"), gradient)
        known |= dict.fromkeys(("best_loss", "checked_loss", "last_loss"), loss)
        known |= dict.fromkeys(("halved", "active"), torch.ones_like(loss, dtype=torch.bool))
        step = zeros + 2 * ball.radius
        return cls(place=place, image=place % images, centre=x, y=y, n_increases=zeros, step=step, **known)

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
    steps: Count = 100
    loss: Annotated[str, OneOf(("ce", "dlr", "dlr-targeted"))] = "ce"
    targets: Count = 9
    restarts: Count = 1

    @property
    def needs_labels(self) -> bool:
        return self.loss != "ce"

    def _turns(self, classes: int) -> int:
        return min(self.targets, classes - 1) if self.loss == "dlr-targeted" else 1

    def cost(self, classes: int) -> float:
        return super().cost(classes) * self._turns(classes)

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
        if self.loss == "dlr-targeted":
            return lambda rows: targeted_dlr(target[rows])
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
    steps: Count = 100
    targets: Count = 9
    backward: float = 0.9
    overshoot: float = 1.05
    bias: float = 0.1

    def cost(self, classes: int) -> float:
        return 3.0 * self.steps * min(self.targets, classes - 1)

    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        result, clean = x.clone(), model(x)
        left = (clean.argmax(1) == y).nonzero()[:, 0]
        closest = torch.full((len(left),), torch.inf, device=x.device, dtype=x.dtype)
        ranked = clean[left].argsort(1, descending=True)
        for group in batch_targets(min(self.targets, clean.shape[1] - 1), x[left]) if len(left) else ():
            rows, target = left.repeat(len(group)), torch.cat([ranked[:, turn + 1] for turn in group])
            images, distance = self._towards(model, x[rows], y[rows], target, ball)
            least, turn = distance.view(len(group), -1).min(0)
            best, nearer = images[turn * len(left) + torch.arange(len(left), device=x.device)], least < closest
            result[left[nearer]], closest[nearer] = best[nearer], least[nearer]
        return result

    def _towards(self, model: nn.Module, x: Tensor, y: Tensor, target: Tensor, ball: Ball) -> tuple[Tensor, Tensor]:
        now, best, least = x, x.clone(), torch.full((len(x),), torch.inf, device=x.device, dtype=x.dtype)
        flat = x.flatten(1)
        for _ in range(self.steps if len(x) else 0):
            _, lead, gradient = loss_and_gradient(model, now, y, margin_towards(target))
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


@dataclass(frozen=True)
class Ensemble(Attack):
    """Several attacks in turn, each on the images that withstood the ones before it."""

    @abstractmethod
    def members(self) -> Mapping[str, Attack]:
        """Return the attacks by name, in their order; the names are those of `results.MEMBERS`."""

    def cost(self, classes: int) -> float:
        return sum(member.cost(classes) for member in self.members().values())

    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> AttackResult:
        images, broken_by = x.clone(), torch.full_like(y, -1)
        for number, member in enumerate(self.members().values()):
            left = (predict(model, images) == y).nonzero()[:, 0]
            if not len(left):
                continue
            local = ball.select(left)
            result = member.search(model, x[left], y[left], local, generator)
            moved = result.images if isinstance(result, AttackResult) else result
            inside = local.contains(moved, x[left])
            broken = (predict(model, moved) != y[left]) & inside
            # The image of a failed ascent is more informative than the clean one; one outside the ball is not.
            kept = broken if member.minimum_norm else inside
            images[left[kept]], broken_by[left[broken]] = moved[kept], number
        return AttackResult(images, member=broken_by)


@dataclass(frozen=True)
class Strong(Ensemble):
    """APGD-CE, then targeted APGD: nearly as strong as AutoAttack, without FAB and Square.

    steps: of each ascent.
    """

    steps: Count = 100

    def members(self) -> dict[str, Attack]:
        return {"apgd-ce": APGD(steps=self.steps), "apgd-t": APGD(steps=self.steps, loss="dlr-targeted")}


@dataclass(frozen=True)
class APGDThenSquare(Ensemble):
    """APGD-CE, then Square on the images that remain: what only an attack without gradients breaks, without its time on the rest.

    steps: of the ascent. queries: of Square.
    """

    steps: Count = 20
    queries: Count = 1000

    def members(self) -> dict[str, Attack]:
        return {"apgd-ce": APGD(steps=self.steps), "square": Square(queries=self.queries)}


@dataclass(frozen=True)
class AutoAttack(Strong):
    """The standard AutoAttack: APGD-CE, targeted APGD, targeted FAB, Square (Croce and Hein 2020b).

    queries: of Square. With fewer than ten classes the targeted attacks target all others; with fewer than four (untargeted:
    three) the difference of logits ratio is the plain difference.
    """

    queries: Count = 5000

    def members(self) -> dict[str, Attack]:
        return {**super().members(), "fab-t": FAB(steps=self.steps), "square": Square(queries=self.queries)}
