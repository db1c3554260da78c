"""Defences: an objective, a calibration and an averaging, with the inner attack of the training.

To add one, write an Objective (objectives.py) or a Calibration (calibrations.py) where none fits, and its line in DEFENCES.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from classwise.core.errors import UserError, check_known
from classwise.core.options import configure
from classwise.defences.averaging import EMA, FAWA, Averaging, NoAveraging
from classwise.defences.calibrations import CFA, CODAT, CSR, DAFA, FAAL, FRL, WAT, Calibration, ClassSettings, Uniform
from classwise.defences.objectives import BATCH_NORM_MODES, MART, TRADES, Adversarial, FreeAT, Objective, SingleClassAT, Standard
from classwise.defences.weighting import ClassBalanced, DifficultyWeighting, PerClass

__all__ = ["BATCH_NORM_MODES", "DEFENCES", "Defence", "baseline_of", "build"]


@dataclass(frozen=True)
class Defence:
    """How a model is trained.

    Parameters
    ----------
    objective, calibration, averaging, head
        the loss; what gives each class its own settings; the average of weights, if any; the last layer, one of `models.HEADS`.
    attack, validation_attack, overfitting_check
        the inner attack, None for none; the attack that measures the validation images where the calibration or the averaging
        needs them; the one that detects catastrophic overfitting, None where the inner attack has several steps.
    """

    objective: Objective
    attack: str | None = None
    calibration: Calibration = Uniform()  # noqa: RUF009 (frozen)
    averaging: Averaging = NoAveraging()  # noqa: RUF009 (frozen)
    head: str = "linear"
    validation_attack: str = "pgd-10"
    overfitting_check: str | None = None

    @property
    def needs_validation(self) -> bool:
        """Whether training needs the validation images."""
        return self.calibration.needs_validation or self.averaging.needs_validation

    @property
    def class_specific(self) -> bool:
        """Whether options name classes, which a dataset may lack."""
        return self.calibration.class_specific or self.objective.class_specific

    def check(self, classes: int, radius: float = 0.0, reach: float = 1.0) -> None:
        """Raise UserError where an option does not suit a run of so many classes and of that radius.

        reach: a radius that covers every image.
        """
        self.objective.check(classes)
        settings = ClassSettings.uniform(classes, radius, 0.0, torch.device("cpu"))
        settings = self.calibration.start(settings, torch.ones(classes))
        largest = float(settings.radius.max())
        if largest >= reach:
            label = int(settings.radius.argmax())
            raise UserError(f"radii give class {label} the radius {largest:g}, and {reach:g} covers every image; write less")


_AT, _TRADES = Adversarial(), TRADES()
_CFA_TRADES = TRADES(normalised=True)

# With the settings of their papers, but the step size of inner attacks follows the radius (as published: "name@paper").
DEFENCES: dict[str, Defence] = {
    "standard": Defence(Standard()),
    "pgd-at": Defence(_AT, "pgd-10"),
    "trades": Defence(_TRADES, "pgd-10-gaussian"),
    "mart": Defence(MART(), "pgd-10-gaussian"),
    # HE, hypersphere embedding (Pang et al. 2020).
    "pgd-he": Defence(Adversarial(scale=10, margin=0.2), "pgd-10-gaussian", head="cosine"),
    "trades-he": Defence(TRADES(scale=15, margin=0.2), "pgd-10-gaussian", head="cosine"),
    # FAT, friendly adversarial training (Zhang et al. 2020).
    "fat": Defence(_AT, "friendly-10"),
    "fat-trades": Defence(_TRADES, "friendly-10-gaussian"),
    # Entropy 2022: label smoothing, and maximised entropy (ME).
    "label-smoothing": Defence(Adversarial(smoothing=0.1), "pgd-10"),
    "trades-smoothed": Defence(TRADES(smoothing=0.1), "pgd-10-gaussian"),
    "standard-smoothed": Defence(Standard(smoothing=0.1)),
    "me-at": Defence(Adversarial(entropy=0.5), "pgd-10"),
    "me-trades": Defence(TRADES(beta=15, entropy=1), "pgd-10-gaussian"),
    # Wei et al. 2023, tables 1 to 3: its TRADES divides by 1 + beta.
    "trades-normalised": Defence(_CFA_TRADES, "pgd-10-gaussian"),
    "at-ema": Defence(_AT, "pgd-10", averaging=EMA()),
    "trades-ema": Defence(_CFA_TRADES, "pgd-10-gaussian", averaging=EMA()),
    "at-fawa": Defence(_AT, "pgd-10", averaging=FAWA()),
    "at-ccm": Defence(_AT, "pgd-10", CFA(lambda1=0.5)),
    "trades-ccm": Defence(_CFA_TRADES, "pgd-10-gaussian", CFA(lambda1=0.3)),
    "trades-ccr": Defence(_CFA_TRADES, "pgd-10-gaussian", CFA(lambda1=None, lambda2=0.5)),
    "trades-ccm-ccr": Defence(_CFA_TRADES, "pgd-10-gaussian", CFA(lambda1=0.3, lambda2=0.5)),
    # Its FAT keeps tau at 3 and adds no noise.
    "fat-constant": Defence(_AT, "friendly-10-constant"),
    "fat-ccm": Defence(_AT, "friendly-10-constant", CFA(lambda1=0.7)),
    "at-cfa": Defence(_AT, "pgd-10", CFA(lambda1=0.5), FAWA()),
    "trades-cfa": Defence(_CFA_TRADES, "pgd-10-gaussian", CFA(lambda1=0.3, lambda2=0.5), FAWA()),
    "fat-cfa": Defence(_AT, "friendly-10-constant", CFA(lambda1=0.7), FAWA()),
    # FRL (Xu et al. 2021); the warm-up replaces their pretrained model.
    "frl-rw": Defence(TRADES(beta=1.5), "pgd-10-gaussian", FRL(warm_up=0.7), validation_attack="pgd-20"),
    "frl-rmrw": Defence(
        TRADES(beta=1.5), "pgd-10-gaussian", FRL(form="rmrw", tau=0.07, margin_rate=0.2, warm_up=0.7), validation_attack="pgd-20"
    ),
    # Tian et al. 2021, section 6.1: betas="5:0.5". Benz et al. 2020: weights="3:5" or radii="3:1.5" for a critical class.
    "trades-per-class": Defence(_TRADES, "pgd-10-gaussian", PerClass()),
    "at-per-class": Defence(_AT, "pgd-10", PerClass()),
    # Benz et al. 2020: methods for long-tailed data, applied to the robustness of a class instead of its size.
    "cost-sensitive": Defence(_AT, "pgd-10", DifficultyWeighting()),
    "class-balanced": Defence(_AT, "pgd-10", ClassBalanced()),
    "ldam": Defence(Adversarial(scale=30, margin=0.5), "pgd-10", ClassBalanced(rarity=0.9999, weigh_from=1.0), head="cosine"),
    "ldam-drw": Defence(Adversarial(scale=30, margin=0.5), "pgd-10", ClassBalanced(rarity=0.9999, weigh_from=0.8), head="cosine"),
    "similarity": Defence(Adversarial(similarity=0.1), "pgd-10"),
    # Towards one class: attack_options={"target": 3}; by default towards the one after each image's label.
    "targeted-at": Defence(_AT, "targeted-10"),
    # Entropy 2022: one class attacked, two-dimensional features; RST is TRADES with pseudo-labelled images (Spec.extra).
    "single-class-at": Defence(SingleClassAT(), "pgd-10", head="plane"),
    "rst": Defence(_TRADES, "pgd-10-gaussian"),
    "me-rst": Defence(TRADES(beta=27, entropy=1), "pgd-10-gaussian"),
    # Lee et al. 2024; Li and Liu 2023; Zhi et al. 2025; Zhang et al. 2024 and Jin et al. 2025, which fine-tune a robust run
    # (Spec.warm_start). Not implemented yet: BAT (balance adversarial training, AAAI 2023).
    "dafa": Defence(_TRADES, "pgd-10-gaussian", DAFA()),
    "wat": Defence(_TRADES, "pgd-10-gaussian", WAT()),
    "faal": Defence(_AT, "pgd-10", FAAL()),
    "codat": Defence(_AT, "pgd-10", CODAT()),
    "csr": Defence(_TRADES, "pgd-10-gaussian", CSR()),
    # Wong et al. 2020, de Jorge et al. 2022 and Shafahi et al. 2019.
    "fgsm-rs": Defence(_AT, "fast", overfitting_check="pgd-5"),
    "n-fgsm": Defence(_AT, "n-fgsm", overfitting_check="pgd-5"),
    "free-at": Defence(FreeAT()),
}


def build(name: str, options: Mapping[str, object] | None = None) -> Defence:
    """Return the named defence with options of its objective, calibration or averaging replaced."""
    check_known("defence", [name], DEFENCES)
    defence, options = DEFENCES[name], options or {}
    parts: dict[str, Any] = {role: getattr(defence, role) for role in ("objective", "calibration", "averaging")}
    names = {field.name: role for role, part in parts.items() for field in fields(part)}
    check_known(f"option of defence {name!r}", options, names)
    for role, part in parts.items():
        chosen = {option: value for option, value in options.items() if names[option] == role}
        parts[role] = configure(part, chosen, f"defence {name!r}")
    return replace(defence, **parts)


def baseline_of(name: str) -> str | None:
    """Return the defence with the same objective and attack but no calibration or averaging, None where there is none."""
    plain = {"calibration": Uniform(), "averaging": NoAveraging(), "validation_attack": Defence.validation_attack}
    baseline = replace(build(name), **plain)  # type: ignore[arg-type]
    return next((other for other, defence in DEFENCES.items() if defence == baseline and other != name), None)
