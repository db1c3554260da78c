"""Benz et al. 2020: "Robustness May Be at Odds with Fairness: An Empirical Study on Class-wise Accuracy"."""

from dataclasses import replace

from classwise.papers.benz2020 import section_3_3_long_tail, section_3_3_targets
from classwise.papers.scales import COMMON
from classwise.papers.sections import Paper

_SECTIONS = (section_3_3_long_tail, section_3_3_targets)

# It prints no settings; those of its predecessors are used.
PAPER = Paper(
    name="benz2020",
    title="Benz et al. 2020",
    recipe=replace(COMMON, run={**COMMON.run, "eps": "8/255"}),
    sections={module.NAME: module.SECTION for module in _SECTIONS},
    claims=tuple(claim for module in _SECTIONS for claim in module.CLAIMS),
    notebooks=tuple(module.NAME for module in _SECTIONS),
)
