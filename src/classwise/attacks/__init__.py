"""Attacks: a frozen dataclass each, called as `attack(model, x, y, ball, generator) -> x_adv`.

Hyper-parameters are fields of the dataclass, the problem is in the call, and all randomness comes from the generator (on the
device of `x`). `x` is float (n, channels, height, width) in [0, 1]; `y` holds labels (n,) or target probabilities (n, classes).
An attack runs the model in its present mode, and changes neither mode, nor parameters, nor the global random state.

A new attack is a dataclass and its line in ATTACKS.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from classwise.attacks.autoattack import APGD, FAB, APGDThenSquare, AutoAttack, Strong
from classwise.attacks.balls import Ball
from classwise.attacks.base import Attack, AttackResult
from classwise.attacks.carlini_wagner import CW
from classwise.attacks.n_attack import NAttack
from classwise.attacks.pgd import FGSM, PGD
from classwise.attacks.pgd_variants import FriendlyPGD, NoisyFGSM, TargetedPGD, TemperaturePGD
from classwise.attacks.relaxation import CR, ConstraintRelaxation
from classwise.attacks.square import Square
from classwise.core.errors import UserError, check_known
from classwise.core.options import configure

__all__ = ["APGD", "ATTACKS", "CR", "CW", "FAB", "FGSM", "PGD", "APGDThenSquare", "Attack", "AttackResult", "AutoAttack"]
__all__ += ["Clean", "ConstraintRelaxation", "FriendlyPGD", "NAttack", "NoisyFGSM", "Square", "Strong"]
__all__ += ["TargetedPGD", "TemperaturePGD", "build", "build_for_evaluation"]


@dataclass(frozen=True)
class Clean(Attack):
    """No attack: returns the images unchanged."""

    needs_labels = False
    stops_early = False

    def cost(self, classes: int) -> float:
        return 0.0

    def search(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: torch.Generator) -> Tensor:
        return x


# Step sizes proportional to the radius, for any radius.
_GENERAL: dict[str, Attack] = {
    "clean": Clean(),
    "fgsm": FGSM(),
    "fgsm-rs": FGSM(start="uniform"),
    "pgd-10": PGD(steps=10),
    "pgd-10-gaussian": PGD(steps=10, start="gaussian"),
    "pgd-20": PGD(steps=20),
    "pgd-40": PGD(steps=40),
    "margin-20": PGD(steps=20, loss="margin"),
    # FAT: tau grows on the authors' schedule, for AT and for TRADES; CFA keeps it at 3.
    "friendly-10": FriendlyPGD(omega=0.001, rises="50/120 90/120"),
    "friendly-10-gaussian": FriendlyPGD(omega=0.001, rises="30/85 50/85 70/85", start="gaussian"),
    "friendly-10-constant": FriendlyPGD(tau=3),
    # Wong et al. 2020: one step of 1.25 radii from a random start.
    "fast": PGD(steps=1, rate=1.25),
    "n-fgsm": NoisyFGSM(),
    "pgd-5": PGD(steps=5),
    # The gate of scale "matched": broken images are left alone.
    "pgd-5-any": PGD(steps=5, success="any"),
    "temperature-pgd-20": TemperaturePGD(steps=20, inverse=5.0),
    "targeted-10": TargetedPGD(steps=10, target="next"),
    "targeted-pgd-20": TargetedPGD(steps=20),
    "cw": CW(),
    "n-attack": NAttack(),
    "apgd-ce": APGD(),
    "apgd-dlr": APGD(loss="dlr"),
    "apgd-t": APGD(loss="dlr-targeted"),
    "fab-t": FAB(),
    "square": Square(),
    "apgd-square": APGDThenSquare(),
    "strong": Strong(),
    "autoattack": AutoAttack(),
    "cr": CR(),
}

# Settings as published ("name@paper"): steps in pixels, for the radius that the paper uses. Where a paper says nothing, the
# setting of its code or of its predecessor.
_PUBLISHED: dict[str, Attack] = {
    # The training attacks of TRADES, MART and HE; evaluators of FAT.
    "pgd-10@trades": PGD(steps=10, step=0.007, start="gaussian"),
    "friendly-10@fat": FriendlyPGD(step=0.007, omega=0.001, rises="50/120 90/120"),
    "pgd-40@trades-mnist": PGD(steps=40, step=0.01, start="gaussian"),
    "margin-30@fat": PGD(steps=30, rate=7.5, loss="margin"),
    # Tian 2021: A.1 trains and tests ResNet-18 with steps of .007; A.2 and section 4.3 test with steps of .003.
    "fgsm@tian2021": FGSM(start="uniform"),
    "pgd-10@tian2021": PGD(steps=10, step=0.007),
    "pgd-20@tian2021-a1": PGD(steps=20, step=0.007),
    "pgd-20@tian2021": PGD(steps=20, step=0.003, start="unclipped"),
    "pgd-40@tian2021-mnist": PGD(steps=40, step=0.01),
    "pgd-50@tian2021-imagenet": PGD(steps=50, step=0.003),
    "pgd-40@rst": PGD(steps=40, step=0.01, success="any", restarts=5),
    "temperature-pgd-20@tian2021": TemperaturePGD(steps=20, step=0.003, start="unclipped", inverse=5.0, form="published"),
    "cw@tian2021": CW(goal="inside"),
    "n-attack@tian2021": NAttack(reward="code"),
    # Wei 2023 trains and selects checkpoints with steps of 2/255, also where a class has another radius.
    "pgd-10@wei2023": PGD(steps=10, step=2 / 255),
    "pgd-10@wei2023-trades": PGD(steps=10, step=2 / 255, start="gaussian"),
    "friendly-10@wei2023": FriendlyPGD(step=2 / 255, tau=3),
    # Entropy 2022 trains with steps of .008 and states none for its tests, which take those of its predecessors or training.
    "pgd-10@entropy2022": PGD(steps=10, step=0.008),
    "pgd-20@entropy2022": PGD(steps=20, step=0.003),
    "pgd-20@entropy2022-train": PGD(steps=20, step=0.008),
    "margin-20@entropy2022": PGD(steps=20, step=0.003, loss="margin"),
}

ATTACKS: dict[str, Attack] = _GENERAL | _PUBLISHED


def build(name: str, options: Mapping[str, object] | None = None) -> Attack:
    """Return the named attack with some of its options replaced."""
    check_known("attack", [name], ATTACKS)
    return configure(ATTACKS[name], options or {}, f"attack {name!r}")


def build_for_evaluation(name: str, options: Mapping[str, object] | None = None) -> Attack:
    """Return the named attack as `build`; a UserError where it leaves the ball, as an attack inside a training may."""
    attack = build(name, options)
    if attack.leaves_ball:
        raise UserError(f"{name!r} leaves the ball, so that it may only train (attack={name!r}); evaluate with pgd-20")
    return attack
