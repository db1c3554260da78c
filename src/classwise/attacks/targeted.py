"""PGD towards a target class."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from classwise.attacks.balls import Ball
from classwise.attacks.base import Attack, Passes
from classwise.attacks.pgd import PGD, predict
from classwise.core.errors import UserError


@dataclass(frozen=True)
class TargetedPGD(Attack):
    """PGD towards a target class (Benz 2020, section 3); images of the target class are attacked by untargeted PGD (ours).

    target: the number of a class; "all" targets every other class in turn and returns the first success; "next" the class after
    the label; "3 0 1" a target for each class, in the order of the labels. steps, step, rate, start: as in PGD.
    """

    sign_gradient: ClassVar[bool] = True
    target: int | str = "all"
    steps: int = 20
    step: float | None = None
    rate: float = 2.5
    start: str = "uniform"

    def __post_init__(self) -> None:
        self._pgd("ce")
        if self.target not in ("all", "next"):
            self._numbers()

    @property
    def stops_early(self) -> bool:
        return self.target == "all"

    @property
    def class_specific(self) -> bool:
        return self.target not in ("all", "next")

    def cost(self, classes: int) -> Passes:
        return Passes.gradients(self.steps * (classes - 1 if self.target == "all" else 1))

    def check(self, classes: int) -> None:
        """Raise UserError if a target does not exist."""
        if self.class_specific:
            numbers = self._numbers()
            if len(numbers) not in (1, classes):
                raise UserError(f"target={self.target!r} names {len(numbers)} classes of {classes}: name one, or one for each")
            if max(numbers) >= classes:
                raise UserError(f"target {max(numbers)} does not exist: the model has the classes 0 to {classes - 1}")

    def _numbers(self) -> list[int]:
        """Return the classes that the option names: a single one, or one for each class."""
        words = str(self.target).split()
        if not words or not all(word.isdecimal() for word in words):
            raise UserError(f'target is a class number, "all", "next" or a number for each class, got {self.target!r}')
        return [int(word) for word in words]

    def _pgd(self, loss: str) -> PGD:
        return PGD(steps=self.steps, step=self.step, rate=self.rate, start=self.start, loss=loss)

    def _targets(self, y: Tensor, classes: int) -> Iterator[Tensor]:
        """Yield the targets of all images, (n,), for each ascent."""
        if isinstance(self.target, str) and self.target in ("all", "next"):
            for turn in range(1, classes if self.target == "all" else 2):
                yield (y + turn) % classes
            return
        self.check(classes)
        numbers = self._numbers()
        yield torch.tensor(numbers * (classes if len(numbers) == 1 else 1), device=y.device)[y]

    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        if self.target != "all":
            (target,) = self._targets(y, model(x[:1]).shape[1])
            return self._towards(target, model, x, y, ball, generator)
        result = x.clone()
        for target in self._targets(y, model(x[:1]).shape[1]):
            left = predict(model, result) == y
            result[left] = self._towards(target, model, x, y, ball, generator)[left]
        return result

    def _towards(self, target: Tensor, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        moved, same = self._pgd("approach").search(model, x, target, ball, generator), target == y
        if same.any():
            moved[same] = self._pgd("ce").search(model, x[same], y[same], ball.select(same), generator)
        return moved
