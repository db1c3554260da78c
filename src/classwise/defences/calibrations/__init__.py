"""Calibrations: what each class is trained with, decided anew before each epoch from how the classes fared."""

from dataclasses import dataclass, fields, replace
from typing import ClassVar

import torch
from torch import Tensor

from classwise.core.errors import UserError
from classwise.core.options import check_share

# What a calibration remembers from epoch to epoch: tensors by name, kept in the checkpoint.
Memory = dict[str, Tensor]


@dataclass(frozen=True)
class ClassSettings:
    """The settings of each class for one epoch, (classes,) each; `at(y)` gives those of each image, (n,) each.

    radius: of the attack, in pixels. beta: the trade-off. weight: of the natural term, the only one where there is no other.
    robust: weight of the robust term. margin: subtracted from the own logit before it is scaled.
    """

    radius: Tensor
    beta: Tensor
    weight: Tensor
    robust: Tensor
    margin: Tensor

    @classmethod
    def alike(cls, classes: int, radius: float, beta: float, device: torch.device, margin: float = 0.0) -> "ClassSettings":
        """Return the same settings for all classes, with weights 1."""
        ones = torch.ones(classes, device=device)
        return cls(radius * ones, beta * ones, ones, ones.clone(), margin * ones)

    def at(self, y: Tensor) -> "ClassSettings":
        """Return the settings of each image of a batch with labels `y`."""
        return ClassSettings(**{each.name: getattr(self, each.name)[y] for each in fields(self)})


@dataclass(frozen=True)
class EpochStats:
    """How the classes fared in the epoch before, as counts[label, predicted]; None: not measured.

    train: the training images as they were trained on, attacked where the defence attacks; answers[label, predicted]: the mean
    softmax of the same. clean, attacked: the validation images afterwards; losses (classes + 1,): what the objective would cost
    on them, on average by class and then over all. progress: the share of the training that is done, 0 to 1.
    """

    progress: float
    train: Tensor | None = None
    clean: Tensor | None = None
    attacked: Tensor | None = None
    answers: Tensor | None = None
    losses: Tensor | None = None


class Calibration:
    """What every calibration is.

    watches: whether it needs the counts of the validation images. compares_losses: whether it needs their losses. reads_answers:
    whether it needs the softmax of the training images. relative: whether the weights of a batch are divided by their mean.
    """

    watches: ClassVar[bool] = False
    compares_losses: ClassVar[bool] = False
    reads_answers: ClassVar[bool] = False
    relative: ClassVar[bool] = False

    def asks(self, progress: float) -> bool:
        """Return whether it needs those counts when a share `progress` of the training is done."""
        return self.watches

    def start(self, base: ClassSettings, sizes: Tensor) -> ClassSettings:
        """Return the settings of the whole training before any epoch; `sizes` (classes,) counts the training images."""
        return base

    def __call__(
        self, base: ClassSettings, current: ClassSettings, memory: Memory, fared: EpochStats
    ) -> tuple[ClassSettings, Memory]:
        """Return the settings of the next epoch and what is remembered; `base` are the settings before any calibration."""
        return current, memory

    def within(self, each: ClassSettings, answers: Tensor, y: Tensor) -> ClassSettings:
        """Return the settings that weigh a batch, from its logits (n, classes), attacked where it was; by default its own."""
        return each


@dataclass(frozen=True)
class Uniform(Calibration):
    """All classes alike, always."""


def per_class_accuracy(counts: Tensor) -> Tensor:
    """Return the accuracy of each class from counts[label, predicted], float32 (classes,); of no images: 0."""
    return (counts.diag() / counts.sum(1).clamp_min(1)).float()


@dataclass(frozen=True)
class CFA(Calibration):
    """A radius and a trade-off for each class that follow its accuracy under attack in training (Wei 2023, equations 6 and 7).

    radius_k = (lambda1 + t_k) x radius (CCM) and beta_k = (lambda2 + t_k) x beta (CCR), with t_k the share of the class's
    training images that withstood the attack in the epoch before, each at the class's own radius. None leaves one out.
    calibrate_from: from which share of the training on: 0 is the paper's "after the first epoch", .05 the code's epoch 10 of 200.
    """

    lambda1: float | None = 0.5
    lambda2: float | None = None
    calibrate_from: float = 0.0

    def __post_init__(self) -> None:
        for name in ("lambda1", "lambda2"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise UserError(f"{name} must be 0 or more, got {value}")
        check_share("calibrate_from", self.calibrate_from)

    def __call__(
        self, base: ClassSettings, current: ClassSettings, memory: Memory, fared: EpochStats
    ) -> tuple[ClassSettings, Memory]:
        """Return radii and trade-offs by equations 6 and 7."""
        if fared.train is None or fared.progress < self.calibrate_from:
            return current, memory
        withstood, changed = per_class_accuracy(fared.train), {}
        if self.lambda1 is not None:
            changed["radius"] = (self.lambda1 + withstood) * base.radius
        if self.lambda2 is not None:
            changed["beta"] = (self.lambda2 + withstood) * base.beta
        return replace(current, **changed), memory
