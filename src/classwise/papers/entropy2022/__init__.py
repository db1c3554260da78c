"""Entropy 2022: "Understanding the Robustness-Accuracy Tradeoff by Rethinking Robust Fairness"."""

from types import ModuleType

from classwise.papers.entropy2022.recipe import RECIPE
from classwise.papers.entropy2022.tables import TABLES
from classwise.papers.sections import Paper

_SECTIONS: tuple[ModuleType, ...] = ()

PAPER = Paper(
    name="entropy2022",
    title="Entropy 2022",
    sections={module.NAME: module.SECTION for module in _SECTIONS},
    claims=tuple(claim for module in _SECTIONS for claim in module.CLAIMS),
    recipe=RECIPE,
    tables=TABLES,
    notebooks=tuple(module.NAME for module in _SECTIONS),
)
