"""Wei et al. 2023, section 5.2 and appendices C.1 and C.2: robustness and fairness of CFA.

Claims are judged at the last epoch, at the best one, or at both: the Datasets "last" and "best", along defence with the methods
of `methods.METHODS`. Figure 6 does not name the method that CFA and EMA are added to; we read AT.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from classwise.papers.sections import Arranged
from classwise.papers.terms import claims, least, of
from classwise.papers.wei2023 import gains, methods
from classwise.papers.wei2023.tables import spread_change
from classwise.stats.metrics import Metric, overall, worst, worst_k

NAME = "wei2023/5-2-robustness-and-fairness"
SECTION = replace(
    methods.TABLES_1_TO_3,
    title="Robustness and fairness performance",
    parts={"best": methods.AT_BEST},
    arrange={
        "last": Arranged(methods.by_method, ("",)),
        "best": Arranged(partial(methods.by_method, best=True), ("best",)),
    },
)

ATTACK = "autoattack|strong|cr"
# The classes that Figure 6 shows to gain.
FOUR = ("bird", "cat", "deer", "frog")


def _between(measure: Metric, better: str, worse: str, checkpoint: str = "last") -> dict[str, Any]:
    """Return the fields of a claim on the gain of one method over another."""
    reported = partial(gains.printed, measure.__name__, [(better, worse)], checkpoint)
    return {"measure": of(measure, better, ATTACK) - of(measure, worse, ATTACK), "reported": reported}


def _at_both(name: str, fields: Callable[..., dict[str, Any]], **shared: Any) -> dict[str, dict[str, Any]]:
    """Return the fields of a claim at the last epoch, and at the best one, "-best"; fields: what gives those of a checkpoint."""
    return {f"{name}{end}": fields(checkpoint=one) | shared for end, one in (("", "last"), ("-best", "best"))}


_CFA, _EMA = "AT + CFA", "AT + EMA"
_TINY = {"reported_on": "tiny-imagenet"}
_over_ema = partial(gains.by_component, component="CFA", over="EMA")

CLAIMS = claims(
    NAME,
    {
        **_at_both("cfa-overall", partial(gains.by_component, overall, "CFA")),
        **_at_both("cfa-worst", partial(gains.by_component, worst, "CFA")),
        **_at_both("cfa-over-ema-overall", partial(_over_ema, overall)),
        **_at_both("cfa-over-ema-worst", partial(_over_ema, worst)),
        **_at_both("fat-below-trades", partial(_between, worst, "FAT", "TRADES")),
        "frl-gains-little-best": _between(worst, "FRL + EMA", "TRADES + EMA", "best"),
        **_at_both("frl-costs-overall", partial(_between, overall, "TRADES + EMA", "FRL")),
        **_at_both("cfa-above-frl-overall", partial(_between, overall, "TRADES + CFA", "FRL + EMA")),
        "cfa-above-frl-worst-best": _between(worst, "TRADES + CFA", "FRL + EMA", "best"),
        "frl-above-cfa-worst": _between(worst, "FRL + EMA", "TRADES + CFA"),
        "smaller-spread": {
            "measure": of(gains.spread, _CFA, ATTACK) - of(gains.spread, _EMA, ATTACK),
            "reported": spread_change,
        },
        "four-classes-gain": least(partial(gains.gains_of_classes, classes=FOUR)),
        "two-classes-drop-slightly": partial(gains.farthest_class_gain, classes=("horse", "ship"), middle=-1.0),
        "no-class-harmed": least(gains.losses_of_classes, largest=True),
        **_at_both("worst-fifth", partial(_over_ema, worst_k, table=4), **_TINY),
        **_at_both("tiny-overall", partial(_over_ema, overall, table=4), **_TINY),
    },
    defences=(_CFA, _EMA),
    attacks=(ATTACK,),
)
