"""Entropy 2022: "Understanding the Robustness-Accuracy Tradeoff by Rethinking Robust Fairness"."""

from classwise.papers.entropy2022 import (
    label_smoothing,
    maximum_entropy,
    more_data,
    robust_fairness,
    similar_classes,
    similarity_and_variance,
    single_class,
    trade_off,
)
from classwise.papers.entropy2022.recipe import RECIPE
from classwise.papers.entropy2022.tables import TABLES
from classwise.papers.sections import Paper

_SECTIONS = (
    robust_fairness,
    single_class,
    similar_classes,
    label_smoothing,
    maximum_entropy,
    similarity_and_variance,
    trade_off,
    more_data,
)

PAPER = Paper.from_modules("Entropy 2022", _SECTIONS, recipe=RECIPE, tables=TABLES)
