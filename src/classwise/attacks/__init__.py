"""Attacks: a frozen dataclass each, called as `attack(model, x, y, ball, generator) -> x_adv`.

The hyper-parameters stand in the dataclass, the problem in the call, the randomness in the generator (on the device of `x`).
`x` is float (n, channels, height, width) in [0, 1]; `y` holds labels (n,) or target probabilities (n, classes). An attack runs
the model in the mode it finds it in, and leaves its mode, its parameters and the global random state as they were.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from classwise.attacks.apgd import APGD
from classwise.attacks.ascent import FGSM, PGD
from classwise.attacks.ensemble import AutoAttack, Strong
from classwise.attacks.fab import FAB
from classwise.attacks.square import Square
from classwise.attacks.variants import TargetedPGD, TemperaturePGD
from classwise.balls import Ball
from classwise.errors import unknown
from classwise.options import configure

__all__ = ["ATTACKS", "FGSM", "PGD", "Attack", "Clean", "TargetedPGD", "TemperaturePGD", "build"]


class Attack(Protocol):
    """What every attack is."""

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator, /) -> Tensor:
        """Return adversarial images for `x`."""
        ...


@dataclass(frozen=True)
class Clean:
    """No attack: the images as they are."""

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        """Return `x` itself."""
        return x


ATTACKS: dict[str, Attack] = {
    "clean": Clean(),
    "fgsm": FGSM(),
    "fgsm-rs": FGSM(start="uniform"),
    "pgd-10": PGD(steps=10),
    "pgd-10@trades": PGD(steps=10, start="gaussian"),
    "pgd-20": PGD(steps=20),
    "pgd-40": PGD(steps=40),
    "pgd-20@tian2021": PGD(steps=20, step=0.003, start="unclipped"),
    "margin-20": PGD(steps=20, loss="margin"),
    "margin-30@fat": PGD(steps=30, rate=7.5, loss="margin"),
    "temperature-pgd-20": TemperaturePGD(steps=20, inverse=5.0),
    "temperature-pgd-20@tian2021": TemperaturePGD(steps=20, step=0.003, start="unclipped", inverse=5.0, form="published"),
    "targeted-pgd-20": TargetedPGD(steps=20),
    "apgd-ce": APGD(),
    "apgd-dlr": APGD(loss="dlr"),
    "apgd-t": APGD(loss="dlr-targeted"),
    "fab-t": FAB(),
    "square": Square(),
    "strong": Strong(),
    "autoattack": AutoAttack(),
}


def build(name: str, options: Mapping[str, object] | None = None) -> Attack:
    """Return the named attack with some of its options replaced."""
    if name not in ATTACKS:
        raise unknown("attack", name, ATTACKS)
    return configure(ATTACKS[name], options or {}, f"attack {name!r}")
