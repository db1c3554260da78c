"""Tian et al. 2021, section 4.2: the relations among classes."""

from functools import partial

from classwise.papers import measures
from classwise.papers.sections import Section
from classwise.papers.terms import claims
from classwise.papers.tian2021.recipe import BIASED, OTHERS, UNDER_ATTACK
from classwise.stats import metrics

NAME = "tian2021/4-2-class-relations"
SECTION = Section(title="The relations among classes", defences=BIASED, datasets=OTHERS)

CLAIMS = claims(
    NAME,
    {
        "symmetry": {**measures.SYMMETRY, "measure": partial(measures.first_value, measure=metrics.symmetry)},
        "six-and-eight": partial(measures.pair, first="6", second="8"),
        "cat-and-dog": partial(measures.pair, first="cat", second="dog"),
        "same-superclass": measures.superclass_excess,
        "few-across": partial(measures.superclass_excess, times=2),
        "dog-and-truck": {
            "measure": partial(measures.confusion_of, first="dog", second="truck"),
            "reported": 0,
            "reported_on": "stl10",
        },
    },
    defences=("pgd-at",),
    attacks=(UNDER_ATTACK,),
)
