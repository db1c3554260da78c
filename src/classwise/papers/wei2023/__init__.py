"""Wei et al. 2023: "CFA: Class-wise Calibrated Fair Adversarial Training"."""

from classwise.papers.sections import Paper
from classwise.papers.wei2023.recipe import RECIPE
from classwise.papers.wei2023.tables import TABLES

PAPER = Paper(name="wei2023", title="Wei et al. 2023", recipe=RECIPE, tables=TABLES)
