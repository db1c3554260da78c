"""How Benz et al. 2020 train and attack: a plan names no radius and no attack, so both are those of Tian et al. 2021."""

from dataclasses import replace
from pathlib import Path

from classwise.papers.published import Tables
from classwise.papers.scales import COMMON

# They are compared with PGD-AT, so that their inner attack is the same.
_ATTACKED = ("at-per-class", "cost-sensitive", "class-balanced", "ldam", "ldam-drw", "similarity")

RECIPE = replace(
    COMMON,
    defences={**COMMON.defences, **{name: {"attack": "pgd-10@tian2021"} for name in _ATTACKED}},
    attacks={"pgd-20": {"attack": "pgd-20@tian2021-a1"}},
)
# Its settings and misprints; it prints no numbers.
TABLES = Tables(folder=Path(__file__).parent, readers={})
