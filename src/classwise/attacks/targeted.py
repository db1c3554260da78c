"""PGD with another loss or another aim: Temperature-PGD and targeted PGD."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from classwise.attacks.balls import Ball
from classwise.attacks.base import Attack
from classwise.attacks.pgd import PGD, predict
from classwise.core.errors import UserError


@dataclass(frozen=True)
class TargetedPGD(Attack):
    """PGD towards a class rather than away from one (Benz 2020, section 3; the untargeted case for images of the target is ours).

    target: the number of the class aimed at; "all" aims at every other class in turn and keeps what breaks an image; "next" at
    the class after the image's own; "3 0 1" at a class for each class, by its place. steps, step, rate, start: as in PGD. Images
    of the target class itself are attacked by untargeted PGD.
    """

    signs_only: ClassVar[bool] = True
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
    def names_classes(self) -> bool:
        return self.target not in ("all", "next")

    def check(self, classes: int) -> None:
        """Raise UserError where a target does not exist."""
        if self.names_classes:
            numbers = self._numbers()
            if len(numbers) not in (1, classes):
                raise UserError(f"target={self.target!r} names {len(numbers)} classes of {classes}: name one, or one for each")
            if max(numbers) >= classes:
                raise UserError(f"target {max(numbers)} does not exist: the model has the classes 0 to {classes - 1}")

    def _numbers(self) -> list[int]:
        """Return the classes that the option names, one or one for each class."""
        words = str(self.target).split()
        if not words or not all(word.isdecimal() for word in words):
            raise UserError(f'target is a class number, "all", "next" or a number for each class, got {self.target!r}')
        return [int(word) for word in words]

    def _pgd(self, loss: str) -> PGD:
        return PGD(steps=self.steps, step=self.step, rate=self.rate, start=self.start, loss=loss)

    def _targets(self, y: Tensor, classes: int) -> Iterator[Tensor]:
        """Yield the target of each image, for each ascent."""
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
        found = x.clone()
        for target in self._targets(y, model(x[:1]).shape[1]):
            whole = predict(model, found) == y
            found[whole] = self._towards(target, model, x, y, ball, generator)[whole]
        return found

    def _towards(self, target: Tensor, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        moved, own = self._pgd("approach").search(model, x, target, ball, generator), target == y
        if own.any():
            moved[own] = self._pgd("ce").search(model, x[own], y[own], ball.at(own), generator)
        return moved
