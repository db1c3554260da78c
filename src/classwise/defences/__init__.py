"""Defences: an objective, a calibration and an averaging, with the inner attack that the objective is used with."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from classwise.core.errors import UserError, unknown
from classwise.core.options import configure
from classwise.defences.adversary import BATCH_NORM_MODES
from classwise.defences.averaging import EMA, FAWA, Averaging, NoAveraging
from classwise.defences.calibrations import CFA, Calibration, ClassSettings, Uniform
from classwise.defences.calibrations.dafa import DAFA
from classwise.defences.calibrations.faal import FAAL
from classwise.defences.calibrations.frl import FRL
from classwise.defences.calibrations.wat import WAT
from classwise.defences.calibrations.weighting import ClassBalanced, DifficultyWeighting, PerClass
from classwise.defences.free import FreeAT
from classwise.defences.objectives import MART, TRADES, Adversarial, Objective, SingleClassAT, Standard

__all__ = ["BATCH_NORM_MODES", "DEFENCES", "Defence", "baseline_of", "build"]


@dataclass(frozen=True)
class Defence:
    """How a model is trained.

    attack: the name of the inner attack, None where nothing is attacked. head: of the network, a name of models.HEADS.
    watch: the attack that measures the validation images where the calibration or the averaging needs them. guard: the attack
    that notices catastrophic overfitting, None where a multi-step attack leaves none to notice.
    """

    objective: Objective
    attack: str | None = None
    calibration: Calibration = Uniform()  # noqa: RUF009 (frozen)
    averaging: Averaging = NoAveraging()  # noqa: RUF009 (frozen)
    head: str = "linear"
    watch: str = "pgd-10"
    guard: str | None = None

    @property
    def watches(self) -> bool:
        """Whether training needs to see how the validation images fare."""
        return self.calibration.watches or self.averaging.watches

    @property
    def names_classes(self) -> bool:
        """Whether options name classes, which a dataset may not have."""
        return isinstance(self.calibration, PerClass) or isinstance(self.objective, SingleClassAT)

    def check(self, classes: int, radius: float = 0.0, reach: float = 1.0) -> None:
        """Raise UserError where an option does not suit a run of so many classes and of that radius.

        A radius of `reach` covers all images there are.
        """
        self.objective.check(classes)
        settings = ClassSettings.alike(classes, radius, 0.0, torch.device("cpu"))
        settings = self.calibration.start(settings, torch.ones(classes))
        widest = float(settings.radius.max())
        if widest >= reach:
            which = int(settings.radius.argmax())
            raise UserError(f"radii give class {which} the radius {widest:g}, and {reach:g} covers every image; write less")


_AT, _TRADES = Adversarial(), TRADES()
_CFA_TRADES = TRADES(normalised=True)

# With the settings of their papers; attacks whose steps follow the radius stand for the published ones ("name@paper").
DEFENCES: dict[str, Defence] = {
    "standard": Defence(Standard()),
    "pgd-at": Defence(_AT, "pgd-10"),
    "trades": Defence(_TRADES, "pgd-10-gaussian"),
    "mart": Defence(MART(), "pgd-10-gaussian"),
    # Hypersphere embedding (Pang et al. 2020).
    "pgd-he": Defence(Adversarial(scale=10, margin=0.2), "pgd-10-gaussian", head="cosine"),
    "trades-he": Defence(TRADES(scale=15, margin=0.2), "pgd-10-gaussian", head="cosine"),
    # Friendly adversarial training (Zhang et al. 2020).
    "fat": Defence(_AT, "friendly-10"),
    "fat-trades": Defence(_TRADES, "friendly-10-gaussian"),
    # Entropy 2022: label smoothing, and maximised entropy at its two settings.
    "label-smoothing": Defence(Adversarial(smoothing=0.1), "pgd-10"),
    "me-at": Defence(Adversarial(entropy=0.5), "pgd-10"),
    "me-trades": Defence(TRADES(beta=15, entropy=1), "pgd-10-gaussian"),
    # Wei 2023, tables 1 to 3: its TRADES divides by 1 + beta.
    "trades-normalised": Defence(_CFA_TRADES, "pgd-10-gaussian"),
    "at-ema": Defence(_AT, "pgd-10", averaging=EMA()),
    "trades-ema": Defence(_CFA_TRADES, "pgd-10-gaussian", averaging=EMA()),
    "at-fawa": Defence(_AT, "pgd-10", averaging=FAWA()),
    "at-ccm": Defence(_AT, "pgd-10", CFA(lambda1=0.5)),
    "trades-ccm": Defence(_CFA_TRADES, "pgd-10-gaussian", CFA(lambda1=0.3)),
    "trades-ccr": Defence(_CFA_TRADES, "pgd-10-gaussian", CFA(lambda1=None, lambda2=0.5)),
    "at-cfa": Defence(_AT, "pgd-10", CFA(lambda1=0.5), FAWA()),
    "trades-cfa": Defence(_CFA_TRADES, "pgd-10-gaussian", CFA(lambda1=0.3, lambda2=0.5), FAWA()),
    "fat-cfa": Defence(_AT, "friendly-10-constant", CFA(lambda1=0.7), FAWA()),
    # Xu et al. 2021; the warm-up stands for their pretrained model.
    "frl-rw": Defence(TRADES(beta=1.5), "pgd-10-gaussian", FRL(warm_up=0.7), watch="pgd-20"),
    "frl-rmrw": Defence(
        TRADES(beta=1.5), "pgd-10-gaussian", FRL(form="rmrw", tau=0.07, margin_rate=0.2, warm_up=0.7), watch="pgd-20"
    ),
    # Tian 2021, section 5.2: betas="5:0.5". Benz 2020: weights="3:5" or radii="3:1.5" for a critical class.
    "trades-per-class": Defence(_TRADES, "pgd-10-gaussian", PerClass()),
    "at-per-class": Defence(_AT, "pgd-10", PerClass()),
    # Benz 2020: what it borrows from long-tailed data, fed by how robust a class is.
    "cost-sensitive": Defence(_AT, "pgd-10", DifficultyWeighting()),
    "class-balanced": Defence(_AT, "pgd-10", ClassBalanced()),
    "ldam": Defence(Adversarial(scale=30, margin=0.5), "pgd-10", ClassBalanced(rarity=0.9999, weigh_from=1.0), head="cosine"),
    "ldam-drw": Defence(Adversarial(scale=30, margin=0.5), "pgd-10", ClassBalanced(rarity=0.9999, weigh_from=0.8), head="cosine"),
    "similarity": Defence(Adversarial(similarity=0.1), "pgd-10"),
    # Towards a class: attack_options={"target": 3}; "next" to each image's own otherwise.
    "targeted-at": Defence(_AT, "targeted-10"),
    # Entropy 2022: one class attacked, features of two numbers; RST is TRADES with pseudo-labelled images (Spec.extra).
    "single-class-at": Defence(SingleClassAT(), "pgd-10", head="plane"),
    "rst": Defence(_TRADES, "pgd-10-gaussian"),
    "me-rst": Defence(TRADES(beta=27, entropy=1), "pgd-10-gaussian"),
    # Newer peers, Lee et al. 2024, Li and Liu 2023, Zhang et al. 2024: the last fine-tunes a robust run (Spec.warm_start). BAT is
    # left out: no code is published, and what is known of it does not decide its formula.
    "dafa": Defence(_TRADES, "pgd-10-gaussian", DAFA()),
    "wat": Defence(_TRADES, "pgd-10-gaussian", WAT()),
    "faal": Defence(_AT, "pgd-10", FAAL()),
    # Wong et al. 2020 and Shafahi et al. 2019.
    "fgsm-rs": Defence(_AT, "fast", guard="pgd-5"),
    "free-at": Defence(FreeAT()),
}


def build(name: str, options: Mapping[str, object] | None = None) -> Defence:
    """Return the named defence with options of its objective, calibration or averaging replaced."""
    if name not in DEFENCES:
        raise unknown("defence", name, DEFENCES)
    defence, rest = DEFENCES[name], dict(options or {})
    parts: dict[str, Any] = {"objective": defence.objective, "calibration": defence.calibration, "averaging": defence.averaging}
    names = {field.name: role for role, part in parts.items() for field in fields(part)}
    for option in rest:
        if option not in names:
            if not names:
                raise UserError(f"defence {name!r} takes no options, got {option}={rest[option]!r}")
            raise unknown(f"option of defence {name!r}", option, names)
    for role, part in parts.items():
        own = {option: value for option, value in rest.items() if names[option] == role}
        parts[role] = configure(part, own, f"defence {name!r}")
    return replace(defence, **parts)


def baseline_of(name: str) -> str | None:
    """Return the defence of the same objective and attack with neither calibration nor averaging, None where there is none."""
    own = build(name)
    bare = replace(own, calibration=Uniform(), averaging=NoAveraging(), watch=Defence.watch)
    return next((other for other, defence in DEFENCES.items() if defence == bare and other != name), None)
