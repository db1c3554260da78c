"""FRL: fair robust learning."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from classwise.core.errors import unknown
from classwise.core.options import check_not_negative, check_share
from classwise.defences.calibrations import Calibration, ClassSettings, EpochStats, Memory, NextSettings, per_class_accuracy

FORMS = ("rw", "rmrw")


@dataclass(frozen=True)
class FRL(Calibration):
    """Fair robust learning: classes with high validation errors get a larger weight (Xu et al. 2021; defaults of its code).

    form: "rw" weights the natural and the robust term, "rmrw" also enlarges the radius. tau: by how much the natural and the
    boundary error (natural minus robust accuracy) of a class may exceed the mean. rate: of the weights; the code halves it every
    40 epochs, and trains for 40. margin_rate: of the radius. limit: the upper bound of the sum of the multipliers of a term.
    warm_up: the share of the training without weights. It replaces the pretrained robust model that the authors start from and
    have not published; use 0 with a warm start.
    """

    needs_validation: ClassVar[bool] = True
    normalise_weights: ClassVar[bool] = True
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

    def active_at(self, progress: float) -> bool:
        return progress >= self.warm_up

    def __call__(self, base: ClassSettings, current: ClassSettings, memory: Memory, stats: EpochStats) -> NextSettings:
        if not self.active_at(stats.progress):
            return current, memory
        assert stats.clean is not None, "FRL needs the validation images"
        assert stats.attacked is not None, "FRL needs the attacked validation images"
        clean, attacked = per_class_accuracy(stats.clean), per_class_accuracy(stats.attacked)
        natural, boundary = self._excess(1 - clean), self._excess(clean - attacked)
        old = {name: memory.get(name, torch.zeros_like(base.radius)) for name in ("natural", "boundary", "margin")}
        memory = {
            "natural": self._limited(old["natural"] + self.rate * natural),
            "boundary": self._limited(old["boundary"] + 2 * self.rate * boundary),
            "margin": old["margin"] + self.margin_rate * boundary if self.form == "rmrw" else old["margin"],
        }
        wider = (2 * memory["margin"]).exp().clamp(0.98, 3.0) if self.form == "rmrw" else torch.ones_like(base.radius)
        weight, robust = self._weights(memory["natural"]), self._weights(memory["boundary"])
        return replace(current, radius=base.radius * wider, weight=weight, robust=robust), memory

    def _excess(self, error: Tensor) -> Tensor:
        """Return by how much the error of each class exceeds the mean over the classes plus tau."""
        return error - error.mean() - self.tau

    def _limited(self, multiplier: Tensor) -> Tensor:
        multiplier = multiplier.clamp_min(0)
        return multiplier * (self.limit / multiplier.sum().clamp_min(1e-12)).clamp_max(1)

    @staticmethod
    def _weights(multiplier: Tensor) -> Tensor:
        """Return 1 + C (multiplier - its mean): C times the published weights, which sum to 1."""
        return 1 + len(multiplier) * (multiplier - multiplier.mean())
