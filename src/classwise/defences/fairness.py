"""Calibrations that weigh classes: FRL, fixed settings by class, weights by difficulty, class-balanced weights and LDAM."""

from dataclasses import dataclass, fields, replace
from typing import ClassVar

import torch
from torch import Tensor

from classwise.defences.calibrations import Calibration, ClassWise, Fared, Memory, recall, share
from classwise.errors import UserError, unknown

FORMS = ("rw", "rmrw")
PROXIES = ("size", "robustness")
# No class counts as rarer than this share of the mean.
_FLOOR = 0.25


def _not_negative(item: object, *names: str) -> None:
    for name in names:
        if not getattr(item, name) >= 0:
            raise UserError(f"{name} must be 0 or more, got {getattr(item, name)}")


@dataclass(frozen=True)
class Frl(Calibration):
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
        _not_negative(self, "tau", "rate", "margin_rate", "limit")
        share("warm_up", self.warm_up)

    def asks(self, progress: float) -> bool:
        """Return whether the warm-up is over."""
        return progress >= self.warm_up

    def __call__(self, base: ClassWise, current: ClassWise, memory: Memory, fared: Fared) -> tuple[ClassWise, Memory]:
        """Return weights, and radii under "rmrw", from how far each class lags behind."""
        if not self.asks(fared.progress):
            return current, memory
        assert fared.clean is not None, "FRL needs the validation images"
        assert fared.attacked is not None, "FRL needs the attacked validation images"
        behind = self._behind(1 - recall(fared.clean)), self._behind(recall(fared.clean) - recall(fared.attacked))
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


def _pairs(name: str, text: str) -> dict[int, float]:
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
            _pairs(each.name, getattr(self, each.name))

    def start(self, base: ClassWise, sizes: Tensor) -> ClassWise:
        """Return the settings with those of the named classes; a UserError where a class does not exist."""
        found = {each.name: getattr(base, each.name).clone() for each in fields(base)}
        for option in ("betas", "weights", "radii"):
            for label, value in _pairs(option, getattr(self, option)).items():
                if not 0 <= label < len(sizes):
                    raise UserError(f"{option} names class {label}, which does not exist: there are 0 to {len(sizes) - 1}")
                if option == "betas":
                    found["beta"][label] = value
                elif option == "radii":
                    found["radius"][label] *= value
                else:
                    found["weight"][label] = found["robust"][label] = value
        return ClassWise(**found)


@dataclass(frozen=True)
class Difficulty(Calibration):
    """Cost-sensitive weights: a class weighs as (1 - t)^power, t its accuracy under attack in the epoch before; their mean is 1.

    Benz 2020 proposes such weights without a formula; this one is ours.
    """

    power: float = 1.0

    def __post_init__(self) -> None:
        _not_negative(self, "power")

    def __call__(self, base: ClassWise, current: ClassWise, memory: Memory, fared: Fared) -> tuple[ClassWise, Memory]:
        """Return the weights that the epoch asks for."""
        if fared.train is None:
            return current, memory
        weight = (1 - recall(fared.train)).clamp_min(1e-6) ** self.power
        weight = weight / weight.mean()
        return replace(current, weight=weight, robust=weight), memory


@dataclass(frozen=True)
class Balanced(Calibration):
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
        share("weigh_from", self.weigh_from)

    def start(self, base: ClassWise, sizes: Tensor) -> ClassWise:
        """Return weights and margins by the sizes of the classes; alike under "robustness", until there is an accuracy."""
        return self._settings(base, sizes, 0.0) if self.by == "size" else base

    def __call__(self, base: ClassWise, current: ClassWise, memory: Memory, fared: Fared) -> tuple[ClassWise, Memory]:
        """Return weights and margins for the next epoch."""
        if fared.train is None:
            return current, memory
        sizes = fared.train.sum(1)
        if self.by == "size":
            return self._settings(base, sizes, fared.progress), memory
        withstood = recall(fared.train)
        shares = (withstood / withstood.mean().clamp_min(1e-6)).clamp_min(_FLOOR)
        return self._settings(base, sizes.float().mean() * shares, fared.progress), memory

    def _settings(self, base: ClassWise, sizes: Tensor, progress: float) -> ClassWise:
        sizes = sizes.double().clamp_min(1).to(base.radius.device)
        weight = (1 - self.rarity) / (1 - self.rarity**sizes)
        weight = (weight / weight.mean()).to(base.weight.dtype)
        rare = sizes**-0.25
        # From the largest margin: `base` may already carry those of the start.
        margin = (base.margin.max() * rare / rare.max()).to(base.margin.dtype)
        weighed = weight if progress >= self.weigh_from else torch.ones_like(base.weight)
        return replace(base, weight=weighed, robust=weighed, margin=margin)
