"""Entropy 2022: "Understanding the Robustness-Accuracy Tradeoff by Rethinking Robust Fairness"."""

from classwise.papers.entropy2022.recipe import RECIPE
from classwise.papers.entropy2022.tables import TABLES
from classwise.papers.sections import Paper

PAPER = Paper(name="entropy2022", title="Entropy 2022", recipe=RECIPE, tables=TABLES)
