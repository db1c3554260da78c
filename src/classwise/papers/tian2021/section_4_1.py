"""Tian et al. 2021, section 4.1: class-biased learning.

In all sections ranges are the widest that the words allow: "larger" is more than 0, "almost 0" less than 1, "roughly" a
correlation above .5.
"""

from functools import partial

from classwise.papers import measures
from classwise.papers.sections import CLEAN_AND_PGD, Section
from classwise.papers.terms import claims, of
from classwise.papers.tian2021.networks import BIASED, OTHERS, UNDER_ATTACK
from classwise.papers.tian2021.tables import in_text
from classwise.stats.metrics import mcd

NAME = "tian2021/4-1-class-bias"
SECTION = Section(title="Class-biased learning", defences=BIASED, evaluations=CLEAN_AND_PGD, gallery=True, datasets=OTHERS)


def _gap(dataset: str) -> dict[str, object]:
    """Return fields of a claim on the gap that the text reports of a dataset."""
    return {"measure": measures.gap, "reported": partial(in_text, "gap", dataset), "reported_on": dataset}


CLAIMS = claims(
    NAME,
    {
        "gap": _gap("mnist"),
        "gap-of-40-to-50": _gap("svhn, cifar10, stl10 or cifar100"),
        "gap-of-80": _gap("imagenet"),
        "simple-is-robust": {
            "measure": measures.overall,
            "reported": partial(in_text, "overall", "mnist"),
            "reported_on": "mnist",
        },
        "wider-than-standard": of(mcd, "pgd-at", UNDER_ATTACK) - of(mcd, "standard"),
    },
    defences=("pgd-at",),
    attacks=(UNDER_ATTACK,),
)
