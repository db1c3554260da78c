"""Sections of no paper: the attacks, and all defences side by side."""

import xarray as xr

from classwise.core.results import MISSING
from classwise.core.spec import Evaluation
from classwise.papers.sections import Section
from classwise.papers.wei2023 import methods

# From weak to strong; the slow ones cut down to a budget of seconds.
_ATTACKS = (
    *(Evaluation(attack=name) for name in ("clean", "fgsm", "pgd-20", "margin-20", "temperature-pgd-20", "apgd-ce", "strong")),
    Evaluation(attack="square", options={"queries": 500}),
    Evaluation(attack="n-attack", options={"steps": 30, "population": 50}),
    Evaluation(attack="cw", options={"goal": "inside", "rounds": 2, "steps": 100}),
    *(Evaluation(attack=name, precision="bfloat16") for name in ("pgd-20", "apgd-ce")),
)

# Every defence is here, in OF_CFA or in NOT_COMPARED; a test compares them with DEFENCES, which needs torch.
_COMPARED = (
    *("standard", "pgd-at", "trades", "trades-normalised", "mart", "pgd-he", "trades-he", "fat", "fat-trades"),
    *("label-smoothing", "me-at", "me-trades", "similarity", "targeted-at", "fgsm-rs", "n-fgsm", "free-at"),
    *("cost-sensitive", "class-balanced", "ldam", "ldam-drw"),
    *("trades-ccm", "trades-ccr", "frl-rw", "frl-rmrw", "dafa", "wat", "faal", "codat", "csr"),
)
# Those that the trainings of Wei 2023, Tables 1 to 3, give, by their names in `methods.METHODS`.
OF_CFA = {
    "at-ccm": "AT + CCM",
    "at-cfa": "AT + CFA",
    "trades-ccm-ccr": "TRADES + CCM + CCR",
    "trades-cfa": "TRADES + CFA",
    "fat-constant": "FAT",
    "fat-ccm": "FAT + CCM",
    "fat-cfa": "FAT + CFA",
    "at-ema": "AT + EMA",
    "at-fawa": "AT + FAWA",
    "trades-ema": "TRADES + EMA",
}
NOT_COMPARED = {
    "standard-smoothed": "section 3.1 of Entropy 2022 compares it with standard",
    "trades-smoothed": "section 3.1 of Entropy 2022 compares it with trades",
    "trades-per-class": "its options name classes",
    "at-per-class": "its options name classes",
    "single-class-at": "it attacks one class only, as a diagnostic",
    "rst": "it needs pseudo-labelled images",
    "me-rst": "it needs pseudo-labelled images",
}
# Not on digits: each is a variant of a row that is, or converges too slowly (targeted-at), and no claim reads it.
_ON_PHOTOGRAPHS = ("trades-he", "trades-normalised", "fat", "fat-trades", "frl-rw", "targeted-at")
# The part of the page "defences" with the trainings of CFA.
CFA = "CFA"
# By paper the defences that it proposes, or describes as they are here; a test compares them with DEFENCES and references.bib.
SOURCES = {
    "Madry et al. 2018": ("pgd-at",),
    "Zhang et al. 2019": ("trades",),
    "Wang et al. 2020": ("mart",),
    "Pang et al. 2020": ("pgd-he", "trades-he"),
    "Zhang et al. 2020": ("fat", "fat-trades"),
    "Wong et al. 2020": ("fgsm-rs",),
    "De Jorge et al. 2022": ("n-fgsm",),
    "Shafahi et al. 2019": ("free-at",),
    "Carmon et al. 2019": ("rst",),
    "Cui et al. 2019": ("class-balanced",),
    "Cao et al. 2019": ("ldam", "ldam-drw"),
    "Benz et al. 2020": ("similarity", "targeted-at", "cost-sensitive", "at-per-class"),
    "Tian et al. 2021": ("trades-per-class",),
    "Xu et al. 2021": ("frl-rw", "frl-rmrw"),
    "Entropy 2022": (
        *("label-smoothing", "trades-smoothed", "standard-smoothed", "me-at", "me-trades", "me-rst", "single-class-at"),
    ),
    "Wei et al. 2023": (*OF_CFA, "trades-normalised", "trades-ccm", "trades-ccr"),
    "Li and Liu 2023": ("wat",),
    "Lee et al. 2024": ("dafa",),
    "Zhang et al. 2024": ("faal",),
    "Zhi et al. 2025": ("codat",),
    "Jin et al. 2025": ("csr",),
}


SECTIONS: dict[str, Section] = {
    "performance": Section(title="How strong and how fast the attacks are", defences=("pgd-at",), evaluations=_ATTACKS),
    "defences": Section(
        title="The defences, class by class",
        defences=_COMPARED,
        evaluations=methods.EVALUATIONS,
        max_seeds=1,
        variants=lambda scale, plain: () if scale == "quick" and plain.defence in _ON_PHOTOGRAPHS else ({},),
        parts={CFA: methods.TABLES_1_TO_3},
    ),
}


def add_cfa(data: xr.Dataset, cfa: xr.Dataset) -> xr.Dataset:
    """Return outcomes or histories of the page "defences" with those of OF_CFA, along defence.

    cfa: the same of its part CFA; a defence whose training or average it lacks is left out.
    """
    rows = [data]
    for name, (training, checkpoint) in ((name, methods.METHODS[method]) for name, method in OF_CFA.items()):
        at = {"defence": training} | ({"checkpoint": checkpoint} if "checkpoint" in cfa.dims else {})
        if all(value in cfa[dim].values for dim, value in at.items()):
            row = cfa.sel(at, drop=True).expand_dims(defence=[name])
            known = "truth" not in row or (bool((row.truth >= 0).any()) and methods.is_accepted(cfa, training, checkpoint))
            rows += [row] * known
    how = {"join": "outer", "fill_value": MISSING, "coords": "minimal", "compat": "override", "combine_attrs": "override"}
    return xr.concat(rows, "defence", **how)  # type: ignore[call-overload,no-any-return]
