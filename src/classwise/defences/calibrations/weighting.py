"""Calibrations that weigh classes: FRL, fixed settings by class, weights by difficulty, class-balanced weights and LDAM."""

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from classwise.core.errors import UserError, unknown
from classwise.core.options import check_not_negative, check_share
from classwise.defences.calibrations import Calibration, ClassSettings, EpochStats, Memory, per_class_accuracy
from classwise.defences.calibrations.frl import FLOOR

PROXIES = ("size", "robustness")


def parse_class_values(name: str, text: str) -> dict[int, float]:
    """Return what "5:0.5 3:2" says: a value for each class that is named by its number."""
    found = {}
    for word in text.split():
        label, _, value = word.partition(":")
        try:
            found[int(label)] = float(value)
        except ValueError:
            raise UserError(f'{name}={text!r} must list a class number and a value, like "5:0.5 3:2"') from None
        if not found[int(label)] >= 0:
            raise UserError(f"{name}={text!r}: a value must be 0 or more")
    return found


@dataclass(frozen=True)
class PerClass(Calibration):
    """Settings of single classes that stay as they are, all others as without.

    betas: the trade-off of a class ("5:0.5", Tian 2021, section 5.2). weights: of its whole loss, radii: in multiples of the
    radius (the critical class of Benz 2020). Classes are named by their number, in the order of the run's classes.
    """

    betas: str = ""
    weights: str = ""
    radii: str = ""

    def __post_init__(self) -> None:
        for each in fields(self):
            parse_class_values(each.name, getattr(self, each.name))

    def start(self, base: ClassSettings, sizes: Tensor) -> ClassSettings:
        """Return the settings with those of the named classes; a UserError where a class does not exist."""
        found = {each.name: getattr(base, each.name).clone() for each in fields(base)}
        for option in ("betas", "weights", "radii"):
            for label, value in parse_class_values(option, getattr(self, option)).items():
                if not 0 <= label < len(sizes):
                    raise UserError(f"{option} names class {label}, which does not exist: there are 0 to {len(sizes) - 1}")
                if option == "betas":
                    found["beta"][label] = value
                elif option == "radii":
                    found["radius"][label] *= value
                else:
                    found["weight"][label] = found["robust"][label] = value
        return ClassSettings(**found)


@dataclass(frozen=True)
class DifficultyWeighting(Calibration):
    """Cost-sensitive weights: a class weighs as (1 - t)^power, t its accuracy under attack in the epoch before; their mean is 1.

    Benz 2020 proposes such weights without a formula; this one is ours.
    """

    power: float = 1.0

    def __post_init__(self) -> None:
        check_not_negative(self, "power")

    def __call__(
        self, base: ClassSettings, current: ClassSettings, memory: Memory, fared: EpochStats
    ) -> tuple[ClassSettings, Memory]:
        """Return the weights that the epoch asks for."""
        if fared.train is None:
            return current, memory
        weight = (1 - per_class_accuracy(fared.train)).clamp_min(1e-6) ** self.power
        weight = weight / weight.mean()
        return replace(current, weight=weight, robust=weight), memory


@dataclass(frozen=True)
class ClassBalanced(Calibration):
    """Class-balanced weights (Cui et al. 2019) and margins (LDAM-DRW, Cao et al. 2019), by how many images a class has.

    weight ~ (1 - rarity) / (1 - rarity^n), their mean 1, from the share `weigh_from` of the training on (LDAM-DRW: .8, epoch 160
    of 200); margin ~ n^(-1/4), the largest of them the objective's own. by: "size", where balanced data make all classes alike;
    or "robustness", our stand-in for Benz 2020: n is the mean size x a class's accuracy under attack in the epoch before, in
    shares of the mean accuracy but at least a quarter, so that a class that is easily attacked counts as rare (without a floor
    a class that nothing withstands takes the whole weight, and digits collapse to one answer).
    """

    rarity: float = 0.999
    by: str = "robustness"
    weigh_from: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.rarity < 1:
            raise UserError(f"rarity must be 0 or more and below 1, got {self.rarity}")
        if self.by not in PROXIES:
            raise unknown("by", self.by, PROXIES)
        check_share("weigh_from", self.weigh_from)

    def start(self, base: ClassSettings, sizes: Tensor) -> ClassSettings:
        """Return weights and margins by the sizes of the classes; alike under "robustness", until there is an accuracy."""
        return self._settings(base, sizes, 0.0) if self.by == "size" else base

    def __call__(
        self, base: ClassSettings, current: ClassSettings, memory: Memory, fared: EpochStats
    ) -> tuple[ClassSettings, Memory]:
        """Return weights and margins for the next epoch."""
        if fared.train is None:
            return current, memory
        sizes = fared.train.sum(1)
        if self.by == "size":
            return self._settings(base, sizes, fared.progress), memory
        withstood = per_class_accuracy(fared.train)
        shares = (withstood / withstood.mean().clamp_min(1e-6)).clamp_min(FLOOR)
        return self._settings(base, sizes.float().mean() * shares, fared.progress), memory

    def _settings(self, base: ClassSettings, sizes: Tensor, progress: float) -> ClassSettings:
        sizes = sizes.double().clamp_min(1).to(base.radius.device)
        weight = (1 - self.rarity) / (1 - self.rarity**sizes)
        weight = (weight / weight.mean()).to(base.weight.dtype)
        rare = sizes**-0.25
        # From the largest margin: `base` may already carry those of the start.
        margin = (base.margin.max() * rare / rare.max()).to(base.margin.dtype)
        weighed = weight if progress >= self.weigh_from else torch.ones_like(base.weight)
        return replace(base, weight=weighed, robust=weighed, margin=margin)
