"""Sections of no paper: the attacks, and all defences side by side."""

from classwise.core.spec import Evaluation
from classwise.papers.sections import CLEAN_AND_PGD, Section

# From weak to strong; the slow ones cut down to a budget of seconds.
_ATTACKS = (
    *(Evaluation(attack=name) for name in ("clean", "fgsm", "pgd-20", "margin-20", "temperature-pgd-20", "apgd-ce", "strong")),
    Evaluation(attack="square", options={"queries": 500}),
    Evaluation(attack="n-attack", options={"steps": 30, "population": 50}),
    Evaluation(attack="cw", options={"goal": "inside", "rounds": 2, "steps": 100}),
    *(Evaluation(attack=name, precision="bfloat16") for name in ("pgd-20", "apgd-ce")),
)

# Every defence has its place here or in NOT_COMPARED; a test compares both with DEFENCES, which needs torch.
_COMPARED = (
    *("standard", "pgd-at", "trades", "trades-normalised", "mart", "pgd-he", "trades-he", "fat", "fat-trades"),
    *("label-smoothing", "me-at", "me-trades", "similarity", "targeted-at", "fgsm-rs", "free-at"),
    *("cost-sensitive", "class-balanced", "ldam", "ldam-drw"),
    *("at-ccm", "at-cfa", "trades-ccm", "trades-ccr", "trades-cfa", "fat-cfa"),
    *("frl-rw", "frl-rmrw", "dafa", "wat", "faal"),
    *("at-ema", "at-fawa", "trades-ema"),
)
NOT_COMPARED = {
    "trades-per-class": "its options name classes",
    "at-per-class": "its options name classes",
    "single-class-at": "it attacks one class only, as a diagnostic",
    "rst": "it needs pseudo-labelled images",
    "me-rst": "it needs pseudo-labelled images",
}
# The defences that also return an average of their weights.
_AVERAGED = ("at-ema", "at-fawa", "trades-ema", "at-cfa", "trades-cfa", "fat-cfa")
_OF_THE_AVERAGE = tuple(Evaluation(attack=name, checkpoint="average") for name in ("clean", "pgd-20", "strong"))

SECTIONS: dict[str, Section] = {
    "performance": Section(
        title="How strong and how fast the attacks are",
        defences=("pgd-at",),
        evaluations=_ATTACKS,
    ),
    "defences": Section(
        title="The defences, class by class",
        defences=_COMPARED,
        evaluations=(*CLEAN_AND_PGD, Evaluation(attack="strong")),
        max_seeds=1,
        extra_evaluations=dict.fromkeys(_AVERAGED, _OF_THE_AVERAGE),
    ),
}
