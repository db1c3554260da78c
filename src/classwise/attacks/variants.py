"""PGD with another loss or another aim: Temperature-PGD and targeted PGD."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from classwise.attacks.ascent import PGD, Loss, answers
from classwise.balls import Ball
from classwise.errors import UserError, unknown

FORMS = ("stable", "published")


@dataclass(frozen=True)
class TemperaturePGD(PGD):
    """PGD on softmax(z / T): a small T lets the strongest other class lead the ascent (Tian 2021, section 5, equations 3 and 4).

    inverse: 1 / T, above 0; 1 is PGD, and the larger it is, the nearer the margin loss. form: "published" is the cross-entropy
    of the scaled logits in their own precision, whose float32 gradient is cut short for a margin beyond about 16.6 T and vanishes
    beyond about 103 T; "stable" climbs logsumexp_{j != y} z_j / T - z_y / T instead: the same direction, without cancellation.
    """

    inverse: float = 1.0
    form: str = "stable"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.inverse > 0:
            raise UserError(f"inverse is 1 / T and must be above 0, got {self.inverse}")
        if self.form not in FORMS:
            raise unknown("form", self.form, FORMS)
        if self.loss != "ce":
            raise UserError(f"Temperature-PGD has a loss of its own, got loss={self.loss!r}")

    @property
    def labels_only(self) -> bool:
        return self.form == "stable"

    @property
    def climbed(self) -> Loss:
        return self._published if self.form == "published" else self._stable

    def _published(self, logits: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(logits * self.inverse, y, reduction="none")

    def _stable(self, logits: Tensor, y: Tensor) -> Tensor:
        if y.ndim != 1:
            raise UserError("the stable form needs labels, got target probabilities; use form='published'")
        scaled = logits * self.inverse
        others = scaled.scatter(1, y[:, None], -torch.inf)
        return others.logsumexp(1) - scaled.gather(1, y[:, None])[:, 0]


@dataclass(frozen=True)
class TargetedPGD:
    """PGD towards a class rather than away from one (Benz 2020, section 3; the untargeted case for images of the target is ours).

    target: the number of the class aimed at; -1 aims at every other class in turn and keeps what breaks an image.
    steps, step, rate, start: as in PGD. Images of the target class itself are attacked by untargeted PGD.
    """

    labels_only: ClassVar[bool] = True
    target: int = -1
    steps: int = 20
    step: float | None = None
    rate: float = 2.5
    start: str = "uniform"

    def __post_init__(self) -> None:
        self._pgd("ce")
        if self.target < -1:
            raise UserError(f"target must be the number of a class, or -1 for all, got {self.target}")

    def _pgd(self, loss: str) -> PGD:
        return PGD(steps=self.steps, step=self.step, rate=self.rate, start=self.start, loss=loss)

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        """Return adversarial images: shapes and meaning as in `classwise.attacks`; `y` holds labels."""
        if y.ndim != 1:
            raise UserError("targeted PGD needs labels, got target probabilities")
        with torch.no_grad():
            classes = model(x[:1]).shape[1]
        if self.target >= classes:
            raise UserError(f"target {self.target} does not exist: the model has the classes 0 to {classes - 1}")
        if self.target >= 0:
            return self._towards(torch.full_like(y, self.target), model, x, y, ball, generator)
        found = x.clone()
        for turn in range(1, classes):
            whole = answers(model, found) == y
            moved = self._towards((y + turn) % classes, model, x, y, ball, generator)
            found[whole] = moved[whole]
        return found

    def _towards(self, target: Tensor, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        moved, own = self._pgd("approach")(model, x, target, ball, generator), target == y
        if own.any():
            moved[own] = self._pgd("ce")(model, x[own], y[own], ball.at(own), generator)
        return moved
