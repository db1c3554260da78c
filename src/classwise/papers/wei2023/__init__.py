"""Wei et al. 2023: "CFA: Class-wise Calibrated Fair Adversarial Training"."""

from classwise.papers.sections import Paper
from classwise.papers.wei2023 import ablation, fluctuation, margins, regularisations, robustness_and_fairness, theorems
from classwise.papers.wei2023.recipe import RECIPE
from classwise.papers.wei2023.tables import TABLES

_SECTIONS = (margins, regularisations, fluctuation, robustness_and_fairness, ablation)

PAPER = Paper.from_modules("Wei et al. 2023", _SECTIONS, (theorems,), recipe=RECIPE, tables=TABLES)
