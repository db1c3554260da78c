"""Calibrations that weigh classes: FRL, fixed settings by class, weights by difficulty, class-balanced weights and LDAM."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from classwise.core.errors import unknown
from classwise.core.options import check_not_negative, check_share
from classwise.defences.calibrations import Calibration, ClassSettings, EpochStats, Memory, per_class_accuracy

FORMS = ("rw", "rmrw")

# No class counts as rarer than this share of the mean.
FLOOR = 0.25


@dataclass(frozen=True)
class FRL(Calibration):
    """Fair robust learning: classes that lag behind on validation weigh more (Xu et al. 2021; numbers of its code).

    form: "rw" weighs the natural and the robust term, "rmrw" also widens the radius. tau: how far a class may lag behind the mean
    in clean and in boundary error (clean minus robust accuracy). rate: of the weights, margin_rate: of the radius; the code
    halves the first every 40 epochs, which its 40 epochs never reach. limit: what the multipliers of a term may sum to.
    warm_up: the share of the training before which all classes are alike: it stands for the pretrained robust model that the
    authors begin with and do not ship; 0 with a warm start.
    """

    watches: ClassVar[bool] = True
    relative: ClassVar[bool] = True
    form: str = "rw"
    tau: float = 0.1
    rate: float = 0.05
    margin_rate: float = 0.1
    limit: float = 0.5
    warm_up: float = 0.0

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise unknown("form", self.form, FORMS)
        check_not_negative(self, "tau", "rate", "margin_rate", "limit")
        check_share("warm_up", self.warm_up)

    def asks(self, progress: float) -> bool:
        """Return whether the warm-up is over."""
        return progress >= self.warm_up

    def __call__(
        self, base: ClassSettings, current: ClassSettings, memory: Memory, fared: EpochStats
    ) -> tuple[ClassSettings, Memory]:
        """Return weights, and radii under "rmrw", from how far each class lags behind."""
        if not self.asks(fared.progress):
            return current, memory
        assert fared.clean is not None, "FRL needs the validation images"
        assert fared.attacked is not None, "FRL needs the attacked validation images"
        behind = (
            self._behind(1 - per_class_accuracy(fared.clean)),
            self._behind(per_class_accuracy(fared.clean) - per_class_accuracy(fared.attacked)),
        )
        old = {name: memory.get(name, torch.zeros_like(base.radius)) for name in ("natural", "boundary", "margin")}
        memory = {
            "natural": self._limited(old["natural"] + self.rate * behind[0]),
            "boundary": self._limited(old["boundary"] + 2 * self.rate * behind[1]),
            "margin": old["margin"] + self.margin_rate * behind[1] if self.form == "rmrw" else old["margin"],
        }
        wider = (2 * memory["margin"]).exp().clamp(0.98, 3.0) if self.form == "rmrw" else torch.ones_like(base.radius)
        weight, robust = self._weights(memory["natural"]), self._weights(memory["boundary"])
        return replace(current, radius=base.radius * wider, weight=weight, robust=robust), memory

    def _behind(self, error: Tensor) -> Tensor:
        """Return by how much more than tau each class errs than the mean of the classes."""
        return error - error.mean() - self.tau

    def _limited(self, multiplier: Tensor) -> Tensor:
        multiplier = multiplier.clamp_min(0)
        return multiplier * (self.limit / multiplier.sum().clamp_min(1e-12)).clamp_max(1)

    @staticmethod
    def _weights(multiplier: Tensor) -> Tensor:
        """Return 1 + C (multiplier - its mean): C times the published weights, which sum to 1."""
        return 1 + len(multiplier) * (multiplier - multiplier.mean())
