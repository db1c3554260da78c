"""PGD with another loss or another aim: Temperature-PGD and targeted PGD."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from classwise.attacks.losses import Loss
from classwise.attacks.pgd import PGD
from classwise.core.errors import UserError, unknown

FORMS = ("stable", "published")


@dataclass(frozen=True)
class TemperaturePGD(PGD):
    """PGD on softmax(z / T): a small T lets the strongest other class lead the ascent (Tian 2021, section 5, equations 3 and 4).

    inverse: 1 / T, above 0; 1 is PGD, and the larger it is, the nearer the margin loss. form: "published" is the cross-entropy
    of the scaled logits in their own precision, whose float32 gradient is cut short for a margin beyond about 16.6 T and vanishes
    beyond about 103 T; "stable" climbs logsumexp_{j != y} z_j / T - z_y / T instead: the same direction, without cancellation.
    """

    signs_only: ClassVar[bool] = False  # not in bfloat16: the larger 1 / T, the more the direction hangs on small differences
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
