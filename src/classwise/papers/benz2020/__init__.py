"""Benz et al. 2020: "Robustness May Be at Odds with Fairness: An Empirical Study on Class-wise Accuracy"."""

from dataclasses import replace

from classwise.papers.scales import COMMON
from classwise.papers.sections import Paper

# It prints no settings; those of its predecessors are used.
PAPER = Paper(name="benz2020", title="Benz et al. 2020", recipe=replace(COMMON, run={**COMMON.run, "eps": "8/255"}))
