"""Entropy 2022, section 3.1: label smoothing in standard and in adversarial training."""

from functools import partial
from typing import Any

from classwise.papers.entropy2022 import similarity
from classwise.papers.entropy2022.gains import SMOOTHED
from classwise.papers.entropy2022.networks import AUTOATTACK, EVALUATIONS
from classwise.papers.entropy2022.tables import TABLES
from classwise.papers.sections import Section
from classwise.papers.terms import Term, claims, least, value
from classwise.stats.metrics import overall

NAME = "entropy2022/3-1-label-smoothing"
# By the training without label smoothing: the same with it, and without.
PAIRS = {plain: (smoothed, plain) for plain, smoothed in SMOOTHED.items()}

SECTION = Section(
    title="Label smoothing",
    defences=tuple(name for pair in PAIRS.values() for name in reversed(pair)),
    evaluations=EVALUATIONS,
    max_seeds=2,
    features=("clean",),
)


# The printed differences by label smoothing, in points.
_printed = partial(TABLES.number, 1, "change")


def _added(training: str, attack: str = "clean") -> Term:
    smoothed, plain = (value(overall, name, attack) for name in PAIRS[training])
    return smoothed - plain


def _gain(training: str, attack: str = "clean") -> dict[str, Any]:
    return {"measure": _added(training, attack), "reported": partial(_printed, defence=training, attack=attack.partition("|")[0])}


CLAIMS = claims(
    NAME,
    {
        "smoothing-similarity-at": similarity.comparison_fields(similarity.similarity_change, *PAIRS["pgd-at"]),
        "smoothing-variance-at": similarity.comparison_fields(similarity.variance_ratio, *PAIRS["pgd-at"]),
        "smoothing-similarity-trades": similarity.comparison_fields(similarity.similarity_change, *PAIRS["trades"]),
        "smoothing-variance-trades": similarity.comparison_fields(similarity.variance_ratio, *PAIRS["trades"]),
        "smoothing-clean-at": _gain("pgd-at"),
        "smoothing-clean-trades": _gain("trades"),
        "smoothing-more-than-standard": {
            "measure": least(*(_added(name) - _added("standard") for name in ("pgd-at", "trades"))),
            "defences": SECTION.defences,
            "reported": lambda: (
                min(_printed(defence=name, attack="clean") for name in ("pgd-at", "trades"))
                - _printed(defence="standard", attack="clean")
            ),
        },
        "smoothing-robust-at": _gain("pgd-at", AUTOATTACK),
        "smoothing-robust-trades": _gain("trades", AUTOATTACK),
    },
    attacks=("clean",),
)
