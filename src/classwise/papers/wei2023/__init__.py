"""Wei et al. 2023: "CFA: Class-wise Calibrated Fair Adversarial Training"."""

from classwise.papers.sections import Paper
from classwise.papers.wei2023 import section_3_1, section_3_2, section_3_3
from classwise.papers.wei2023.recipe import RECIPE
from classwise.papers.wei2023.tables import TABLES

_SECTIONS = (section_3_1, section_3_2, section_3_3)

PAPER = Paper(
    name="wei2023",
    title="Wei et al. 2023",
    sections={module.NAME: module.SECTION for module in _SECTIONS},
    claims=tuple(claim for module in _SECTIONS for claim in module.CLAIMS),
    recipe=RECIPE,
    tables=TABLES,
    notebooks=tuple(module.NAME for module in _SECTIONS),
)
