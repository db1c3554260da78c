"""Class weights: fixed by hand, by difficulty, and class-balanced ones with the margins of LDAM."""

from dataclasses import dataclass, fields, replace
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from classwise.core.errors import UserError
from classwise.core.options import BelowOne, NotNegative, OneOf, Share
from classwise.defences.calibrations import Calibration, ClassSettings, EpochStats, Memory, NextSettings, per_class_accuracy


def parse_class_values(name: str, text: str) -> dict[int, float]:
    """Return the value of each class in a text like "5:0.5 3:2"; a UserError shows the right form."""
    values = {}
    for word in text.split():
        label, _, value = word.partition(":")
        try:
            values[int(label)] = float(value)
        except ValueError:
            raise UserError(f'{name}={text!r} must list a class number and a value, like "5:0.5 3:2"') from None
        if not values[int(label)] >= 0:
            raise UserError(f"{name}={text!r}: a value must be 0 or more")
    return values


@dataclass(frozen=True)
class PerClass(Calibration):
    """Fixed settings for single classes, written as "class:value class:value"; all other classes keep theirs.

    Classes are numbered in the order of the run's classes.

    betas: the trade-off of a class, such as "5:0.5" (Tian et al. 2021, section 6.1). weights, radii: the weight of a class's
    loss, and its radius in multiples of the run's (Benz et al. 2020). mean_one: divide the weights of all classes by their mean,
    else a larger weight of one class also is a larger learning rate.
    """

    class_specific: ClassVar[bool] = True
    betas: str = ""
    weights: str = ""
    radii: str = ""
    mean_one: bool = False

    def __post_init__(self) -> None:
        self._listed()

    def _listed(self) -> dict[str, dict[int, float]]:
        return {option: parse_class_values(option, getattr(self, option)) for option in ("betas", "weights", "radii")}

    def start(self, base: ClassSettings, sizes: Tensor) -> ClassSettings:
        """Return the settings with those of the named classes.

        A UserError where a class does not exist, or where weights of mean one are all 0.
        """
        settings = {field.name: getattr(base, field.name).clone() for field in fields(base)}
        for option, values in self._listed().items():
            for label, value in values.items():
                if not 0 <= label < len(sizes):
                    raise UserError(f"{option} names class {label}, which does not exist: the classes are 0 to {len(sizes) - 1}")
                if option == "betas":
                    settings["beta"][label] = value
                elif option == "radii":
                    settings["radius"][label] *= value
                else:
                    settings["weight"][label] = settings["robust"][label] = value
        if self.mean_one:
            for name in ("weight", "robust"):
                if not settings[name].any():
                    raise UserError(f"weights={self.weights!r} are all 0, so that their mean cannot be one")
                settings[name] /= settings[name].mean()
        return ClassSettings(**settings)


@dataclass(frozen=True)
class DifficultyWeighting(Calibration):
    """Cost-sensitive weights (1 - t)^power with mean 1, where t is the robust accuracy of the class in the last epoch.

    Benz et al. 2020 propose such weights without a formula; this one is ours.
    """

    power: NotNegative = 1.0

    def __call__(self, base: ClassSettings, current: ClassSettings, memory: Memory, stats: EpochStats) -> NextSettings:
        if stats.train is None:
            return current, memory
        weight = (1 - per_class_accuracy(stats.train)).clamp_min(1e-6) ** self.power
        weight = weight / weight.mean()
        return replace(current, weight=weight, robust=weight), memory


@dataclass(frozen=True)
class ClassBalanced(Calibration):
    """Class-balanced weights (Cui et al. 2019) and margins (LDAM-DRW, Cao et al. 2019) by the size n of each class.

    weight ~ (1 - rarity) / (1 - rarity^n) with mean 1; margin ~ n^(-1/4), the largest being that of the objective.

    rarity: 0 or more and below 1. by: "size" takes n from the training images, so that balanced data give all classes the same.
    "robustness" is our reading of Benz et al. 2020: n is the mean size times the robust accuracy of the class in the last epoch
    divided by the mean robust accuracy, at least a quarter of the mean size. Without this bound a class of robust accuracy 0
    takes all the weight, and on digits the network ends up predicting one class. weigh_from: the share of the training at which
    the weights begin (LDAM-DRW: .8, epoch 160 of 200).
    """

    rarity: BelowOne = 0.999
    by: Annotated[str, OneOf(("size", "robustness"))] = "robustness"
    weigh_from: Share = 0.0

    def start(self, base: ClassSettings, sizes: Tensor) -> ClassSettings:
        """Return weights and margins by the sizes of the classes; under "robustness" uniform ones until an accuracy is known."""
        return self._settings(base, sizes, 0.0) if self.by == "size" else base

    def __call__(self, base: ClassSettings, current: ClassSettings, memory: Memory, stats: EpochStats) -> NextSettings:
        if stats.train is None:
            return current, memory
        sizes = stats.train.sum(1)
        if self.by == "size":
            return self._settings(base, sizes, stats.progress), memory
        accuracy = per_class_accuracy(stats.train)
        shares = (accuracy / accuracy.mean().clamp_min(1e-6)).clamp_min(0.25)
        return self._settings(base, sizes.float().mean() * shares, stats.progress), memory

    def _settings(self, base: ClassSettings, sizes: Tensor, progress: float) -> ClassSettings:
        sizes = sizes.double().clamp_min(1).to(base.radius.device)
        weight = (1 - self.rarity) / (1 - self.rarity**sizes)
        weight = (weight / weight.mean()).to(base.weight.dtype)
        rare = sizes**-0.25
        # Relative to the largest margin, because `base` may already hold those of the start.
        margin = (base.margin.max() * rare / rare.max()).to(base.margin.dtype)
        weight = weight if progress >= self.weigh_from else torch.ones_like(base.weight)
        return replace(base, weight=weight, robust=weight, margin=margin)
