"""Variants of PGD: friendly (stopped early), at a temperature, and towards a target class."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, ClassVar, Self

import torch
from annotated_types import Ge, Gt
from torch import Tensor, nn

from classwise.attacks.balls import Ball
from classwise.attacks.base import Attack
from classwise.attacks.losses import Loss, cross_entropy, labels
from classwise.attacks.pgd import PGD, STARTS, input_gradient, predict
from classwise.core.errors import UserError
from classwise.core.options import Count, NotNegative, OneOf, Positive


@dataclass(frozen=True)
class FriendlyPGD(PGD):
    """PGD that stops an image soon after it is misclassified (FAT, Zhang et al. 2020).

    tau: how many more steps a misclassified image takes; with `steps` or more, and omega 0, this is PGD. An image that has used
    them up stops at its next misclassified iterate. In the code of CFA (Wei et al. 2023) it stops for good once they are used up,
    also where its iterate is classified correctly again. omega: standard deviation of the normal noise added at every step.
    rises: shares of the training, like "50/120 90/120", at each of which tau grows by one (`attack_at`).
    With target probabilities (TRADES) an image is misclassified if its prediction differs from their likeliest class.
    """

    stops_early = True
    traceable = False
    tau: Annotated[int, Ge(0)] = 0
    omega: NotNegative = 0.0
    rises: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.success != "last" or self.restarts != 1:
            raise UserError("friendly PGD has one start and stops early: leave success='last' and restarts=1")
        self._shares()

    def _shares(self) -> list[Fraction]:
        try:
            return [Fraction(word) for word in self.rises.split()]
        except (ValueError, ZeroDivisionError):
            raise UserError(f"rises={self.rises!r} must list shares of the training, like '50/120 90/120'") from None

    def attack_at(self, progress: float) -> Self:
        """Return the attack at a share `progress` of the training, 0 to 1."""
        passed = sum(progress >= share for share in self._shares())
        return replace(self, tau=self.tau + passed, rises="") if self.rises else self

    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        return self.friendly_search(model, x, y, labels(y), ball, generator)

    def friendly_search(
        self, model: nn.Module, x: Tensor, y: Tensor, truth: Tensor, ball: Ball, generator: torch.Generator
    ) -> Tensor:
        """Return images that ascend the loss of `y` until `truth` (n,), the labels, are mispredicted; unchecked, as `search`."""
        moved = STARTS[self.start](x, ball, generator)
        left = torch.full_like(truth, self.tau)
        going = torch.ones_like(truth, dtype=torch.bool)
        for _ in range(self.steps):
            logits, gradient = input_gradient(model, moved, y, self.loss_fn)
            wrong = logits.argmax(1) != truth
            going = going & ~(wrong & (left == 0))
            left = left - wrong.long()
            further = self._next(moved, gradient, x, ball)
            if self.omega > 0:
                noise = torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
                further = ball.project(further + self.omega * noise, x)
            moved = torch.where(going.view(-1, 1, 1, 1), further, moved)
        return moved


@dataclass(frozen=True)
class TemperaturePGD(PGD):
    """PGD on softmax(z / T): the smaller T, the more the strongest other class dominates (Tian 2021, section 5, equations 3, 4).

    inverse: 1 / T, above 0; 1 is PGD, and large values approach the margin loss. form: "published" is the cross-entropy of the
    scaled logits in their precision, whose float32 gradient loses digits for a margin beyond about 16.6 T and vanishes beyond
    about 103 T; "stable" ascends logsumexp_{j != y} z_j / T - z_y / T: the same direction, without cancellation.
    """

    sign_gradient: ClassVar[bool] = False  # not in bfloat16: with large 1 / T the direction depends on small differences
    inverse: Annotated[float, Gt(0), "1 / T, above 0"] = 1.0
    form: Annotated[str, OneOf(("stable", "published"))] = "stable"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss != "ce":
            raise UserError(f"Temperature-PGD has its own loss, got loss={self.loss!r}; leave it out")

    @property
    def needs_labels(self) -> bool:
        return self.form == "stable"

    @property
    def traceable(self) -> bool:
        return super().traceable and self.form == "stable"

    @property
    def loss_fn(self) -> Loss:
        return self._loss

    def _loss(self, logits: Tensor, y: Tensor) -> Tensor:
        scaled = logits * self.inverse
        if self.form == "published":
            return cross_entropy(scaled, y)
        others = scaled.scatter(1, y[:, None], -torch.inf)
        return others.logsumexp(1) - scaled.gather(1, y[:, None])[:, 0]


@dataclass(frozen=True)
class NoisyFGSM(Attack):
    """N-FGSM: a step of the full radius from noise of several radii, not projected onto the ball (de Jorge et al. 2022).

    The noise and the result are clipped to [0, 1] only, so that it may serve in a training, and evaluates nothing.

    noise: the radius of the uniform noise, in radii of the ball.
    """

    sign_gradient: ClassVar[bool] = True
    leaves_ball: ClassVar[bool] = True
    needs_labels = False
    stops_early = False
    noise: Positive = 2.0

    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        noisy = (x + self.noise * (ball.sample(x, generator) - x)).clamp(0, 1)
        return ball.step(noisy, input_gradient(model, noisy, y, cross_entropy)[1], ball.radius).clamp(0, 1)


@dataclass(frozen=True)
class TargetedPGD(Attack):
    """PGD towards a target class (Benz 2020, section 3); images of the target class are attacked by untargeted PGD (ours).

    target: the number of a class; "all" targets every other class in turn and returns the first success; "next" the class after
    the label; "3 0 1" a target for each class, in the order of the labels. steps, step, rate, start: as in PGD.
    """

    sign_gradient: ClassVar[bool] = True
    target: int | str = "all"
    steps: Count = 20
    step: Annotated[float | None, Gt(0)] = None
    rate: Positive = 2.5
    start: Annotated[str, OneOf(STARTS)] = "uniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target not in ("all", "next"):
            self._numbers()

    @property
    def stops_early(self) -> bool:
        return self.target == "all"

    @property
    def class_specific(self) -> bool:
        return self.target not in ("all", "next")

    def cost(self, classes: int) -> float:
        return super().cost(classes) * (classes - 1 if self.target == "all" else 1)

    def check(self, classes: int) -> None:
        """Raise UserError if a target does not exist."""
        if self.class_specific:
            numbers = self._numbers()
            if len(numbers) not in (1, classes):
                raise UserError(f"target={self.target!r} names {len(numbers)} classes of {classes}: name one, or one for each")
            if max(numbers) >= classes:
                raise UserError(f"target {max(numbers)} does not exist: the model has the classes 0 to {classes - 1}")

    def _numbers(self) -> list[int]:
        words = str(self.target).split()
        if not words or not all(word.isdecimal() for word in words):
            raise UserError(f'target is a class number, "all", "next" or a number for each class, got {self.target!r}')
        return [int(word) for word in words]

    def _pgd(self, loss: str) -> PGD:
        return PGD(steps=self.steps, step=self.step, rate=self.rate, start=self.start, loss=loss)

    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        classes = model(x[:1]).shape[1]
        if self.target == "all":
            result = x.clone()
            for turn in range(1, classes):
                left = predict(model, result) == y
                result[left] = self._towards((y + turn) % classes, model, x, y, ball, generator)[left]
            return result
        target = (y + 1) % classes
        if self.class_specific:
            self.check(classes)
            numbers = self._numbers()
            target = torch.tensor(numbers * (classes if len(numbers) == 1 else 1), device=y.device)[y]
        return self._towards(target, model, x, y, ball, generator)

    def _towards(self, target: Tensor, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        moved, same = self._pgd("approach").search(model, x, target, ball, generator), target == y
        if same.any():
            moved[same] = self._pgd("ce").search(model, x[same], y[same], ball.select(same), generator)
        return moved
