"""Wei et al. 2023: "CFA: Class-wise Calibrated Fair Adversarial Training"."""

from types import ModuleType

from classwise.papers.sections import Paper
from classwise.papers.wei2023 import section_2
from classwise.papers.wei2023.recipe import RECIPE
from classwise.papers.wei2023.tables import TABLES

# Those with runs, in the order of the paper; each has NAME, SECTION and CLAIMS.
_SECTIONS: tuple[ModuleType, ...] = ()

PAPER = Paper(
    name="wei2023",
    title="Wei et al. 2023",
    recipe=RECIPE,
    sections={module.NAME: module.SECTION for module in _SECTIONS},
    claims=tuple(claim for module in (section_2, *_SECTIONS) for claim in module.CLAIMS),
    tables=TABLES,
    theorems={section_2.NAME: section_2.verdicts},
    notebooks=(section_2.NAME, *(module.NAME for module in _SECTIONS)),
)
