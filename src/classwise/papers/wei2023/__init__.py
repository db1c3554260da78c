"""Wei et al. 2023: "CFA: Class-wise Calibrated Fair Adversarial Training"."""

from classwise.papers.sections import Paper
from classwise.papers.wei2023 import ablation, fluctuation, margins, regularisations, robustness_and_fairness, theorems
from classwise.papers.wei2023.recipe import RECIPE
from classwise.papers.wei2023.tables import TABLES

# Those with runs.
_SECTIONS = (margins, regularisations, fluctuation, robustness_and_fairness, ablation)

PAPER = Paper(
    name="wei2023",
    title="Wei et al. 2023",
    sections={module.NAME: module.SECTION for module in _SECTIONS},
    claims=(*theorems.CLAIMS, *(claim for module in _SECTIONS for claim in module.CLAIMS)),
    recipe=RECIPE,
    tables=TABLES,
    theorems={theorems.NAME: theorems.verdicts},
    notebooks=(theorems.NAME, *(module.NAME for module in _SECTIONS), "wei2023/A-settings"),
)
