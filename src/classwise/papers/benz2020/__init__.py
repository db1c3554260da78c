"""Benz et al. 2020: "Robustness May Be at Odds with Fairness: An Empirical Study on Class-wise Accuracy"."""

from classwise.papers.benz2020 import (
    class_discrepancy,
    class_similarity,
    corruptions,
    long_tail,
    networks_and_optimisers,
    over_training,
    robust_features,
    same_classes,
    targets,
)
from classwise.papers.benz2020.recipe import RECIPE, TABLES
from classwise.papers.sections import Paper

_SECTIONS = (
    class_discrepancy,
    networks_and_optimisers,
    over_training,
    same_classes,
    class_similarity,
    robust_features,
    long_tail,
    targets,
    corruptions,
)

PAPER = Paper.from_modules("Benz et al. 2020", _SECTIONS, recipe=RECIPE, tables=TABLES)
