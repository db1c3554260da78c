"""Tian et al. 2021: "Analysis and Applications of Class-wise Robustness in Adversarial Training"."""

from classwise.papers.sections import Paper
from classwise.papers.tian2021 import (
    attacks_and_defences,
    background,
    class_bias,
    class_relations,
    temperature,
    training_adjustment,
)
from classwise.papers.tian2021.recipe import RECIPE
from classwise.papers.tian2021.tables import TABLES

_SECTIONS = (class_bias, class_relations, attacks_and_defences, temperature, training_adjustment, background)

PAPER = Paper.from_modules("Tian et al. 2021", _SECTIONS, recipe=RECIPE, tables=TABLES)
