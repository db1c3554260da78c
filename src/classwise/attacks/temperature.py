"""Temperature-PGD: PGD on the cross-entropy of scaled logits."""

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
    """PGD on softmax(z / T): the smaller T, the more the strongest other class dominates (Tian 2021, section 5, equations 3, 4).

    inverse: 1 / T, above 0; 1 is PGD, and large values approach the margin loss. form: "published" is the cross-entropy of the
    scaled logits in their precision, whose float32 gradient loses digits for a margin beyond about 16.6 T and vanishes beyond
    about 103 T; "stable" ascends logsumexp_{j != y} z_j / T - z_y / T: the same direction, without cancellation.
    """

    sign_gradient: ClassVar[bool] = False  # not in bfloat16: with large 1 / T the direction depends on small differences
    inverse: float = 1.0
    form: str = "stable"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.inverse > 0:
            raise UserError(f"inverse is 1 / T and must be above 0, got {self.inverse}")
        if self.form not in FORMS:
            raise unknown("form", self.form, FORMS)
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
        return self._published if self.form == "published" else self._stable

    def _published(self, logits: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(logits * self.inverse, y, reduction="none")

    def _stable(self, logits: Tensor, y: Tensor) -> Tensor:
        if y.ndim != 1:
            raise UserError("the stable form needs labels, got target probabilities; use form='published'")
        scaled = logits * self.inverse
        others = scaled.scatter(1, y[:, None], -torch.inf)
        return others.logsumexp(1) - scaled.gather(1, y[:, None])[:, 0]
