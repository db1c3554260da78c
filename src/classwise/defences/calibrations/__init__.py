"""Calibrations: the radius, trade-off and weights that each class is trained with, updated before each epoch.

The word is that of CFA (Wei et al. 2023, class-wise calibrated fair adversarial training): training settings are adapted to each
class. It has nothing to do with the calibration of predicted probabilities.
"""

from dataclasses import dataclass, fields, replace
from typing import ClassVar

import torch
from torch import Tensor

from classwise.core.options import check_not_negative, check_share

# What a calibration remembers from epoch to epoch: tensors by name, kept in the checkpoint.
Memory = dict[str, Tensor]


@dataclass(frozen=True)
class ClassSettings:
    """The settings of each class for one epoch, (classes,) each; `at(y)` gives those of each image, (n,) each.

    radius: of the attack, in units of the pixels, which lie in [0, 1]. beta: the trade-off. weight: of the first term of the
    loss, the natural one where there are two. robust: the weight of the robust term. margin: subtracted from the logit of the
    label before the logits are scaled.
    """

    radius: Tensor
    beta: Tensor
    weight: Tensor
    robust: Tensor
    margin: Tensor

    @classmethod
    def uniform(cls, classes: int, radius: float, beta: float, device: torch.device, margin: float = 0.0) -> "ClassSettings":
        """Return the same settings for all classes, with weights 1."""
        ones = torch.ones(classes, device=device)
        return cls(radius * ones, beta * ones, ones, ones.clone(), margin * ones)

    def at(self, y: Tensor) -> "ClassSettings":
        """Return the settings of each image of a batch with labels `y`."""
        return ClassSettings(**{field.name: getattr(self, field.name)[y] for field in fields(self)})


# The settings of the next epoch and the memory.
NextSettings = tuple[ClassSettings, Memory]


@dataclass(frozen=True)
class EpochStats:
    """What the last epoch measured class by class; None: not measured. Counts are counts[label, predicted].

    progress: the completed share of the training, 0 to 1. train: counts of the training images as they were trained on, attacked
    where the defence attacks. clean, attacked: counts of the validation images after the epoch. predictions: the mean softmax of
    the training images as they were trained on, predictions[label, predicted]. losses: the mean objective on the validation
    images, by class and then over all, (classes + 1,).
    """

    progress: float
    train: Tensor | None = None
    clean: Tensor | None = None
    attacked: Tensor | None = None
    predictions: Tensor | None = None
    losses: Tensor | None = None


class Calibration:
    """The base class of all calibrations: by default it changes nothing.

    needs_validation: whether it needs the counts of the validation images. needs_losses: whether it needs their losses.
    needs_predictions: whether it needs the mean softmax of the training images. normalise_weights: whether the weights of a batch
    are divided by their mean. class_specific: whether its options name classes, which a dataset may lack.
    """

    needs_validation: ClassVar[bool] = False
    needs_losses: ClassVar[bool] = False
    needs_predictions: ClassVar[bool] = False
    normalise_weights: ClassVar[bool] = False
    class_specific: ClassVar[bool] = False

    def active_at(self, progress: float) -> bool:
        """Return whether it needs the counts of the validation images after a share `progress` of the training."""
        return self.needs_validation

    def start(self, base: ClassSettings, sizes: Tensor) -> ClassSettings:
        """Return the settings before the first epoch; `sizes` (classes,) counts the training images."""
        return base

    def __call__(self, base: ClassSettings, current: ClassSettings, memory: Memory, stats: EpochStats) -> NextSettings:
        """Return the settings of the next epoch and the memory; `base` are the settings before any calibration."""
        return current, memory

    def for_batch(self, settings: ClassSettings, logits: Tensor, y: Tensor) -> ClassSettings:
        """Return the settings that weight a batch, given the logits (n, classes) of its images as they were trained on."""
        return settings


@dataclass(frozen=True)
class Uniform(Calibration):
    """The same settings for all classes in all epochs."""


def per_class_accuracy(counts: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the accuracy of each class, 0 to 1, from counts[label, predicted]: (classes,); of a class without images: 0."""
    return counts.diag().to(dtype) / counts.sum(1).clamp_min(1).to(dtype)


@dataclass(frozen=True)
class CFA(Calibration):
    """Class-wise calibrated fair adversarial training (Wei et al. 2023, equations 6 and 7).

    The radius of class k is (lambda1 + t_k) x radius (CCM), its trade-off (lambda2 + t_k) x beta (CCR), where t_k is the accuracy
    of the class on the attacked training images of the last epoch, each attacked within the radius of its class.

    lambda1, lambda2: the offsets, 0 or more; None leaves the radius or the trade-off as it is. calibrate_from: the share of the
    training at which it begins. 0 is "after the first epoch" as in the paper, .05 epoch 10 of 200 as in its code.
    """

    lambda1: float | None = 0.5
    lambda2: float | None = None
    calibrate_from: float = 0.0

    def __post_init__(self) -> None:
        check_not_negative(self, *(name for name in ("lambda1", "lambda2") if getattr(self, name) is not None))
        check_share("calibrate_from", self.calibrate_from)

    def __call__(self, base: ClassSettings, current: ClassSettings, memory: Memory, stats: EpochStats) -> NextSettings:
        if stats.train is None or stats.progress < self.calibrate_from:
            return current, memory
        accuracy, changed = per_class_accuracy(stats.train), {}
        if self.lambda1 is not None:
            changed["radius"] = (self.lambda1 + accuracy) * base.radius
        if self.lambda2 is not None:
            changed["beta"] = (self.lambda2 + accuracy) * base.beta
        return replace(current, **changed), memory
