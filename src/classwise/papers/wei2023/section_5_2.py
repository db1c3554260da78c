"""Wei et al. 2023, section 5.2 and appendices C.1 and C.2: robustness and fairness of CFA.

Claims are judged at the last epoch, at the best one, or at both: the Datasets "last" and "best", along defence with the methods
of `methods.METHODS`. Figure 6 does not name the method that CFA and EMA are added to; we read AT.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from classwise.papers.claims import ON_CIFAR10, Claim, claims_of
from classwise.papers.extremes import extreme
from classwise.papers.sections import Arranged
from classwise.papers.wei2023 import gains, methods
from classwise.papers.wei2023.calibrations import gains_of_methods, least_gain
from classwise.papers.wei2023.tables import spread_change
from classwise.stats import metrics
from classwise.stats.metrics import Metric

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
_claim = claims_of(NAME, attacks=(ATTACK,), data="last")
# Best epochs are selected at the larger scales only, whose runs are on photographs.
_AT_BEST: dict[str, Any] = {
    "data": "best",
    "datasets": ("cifar10",),
    "excluded_because": "no best epoch is selected, since nothing overfits there",
}
_TINY: dict[str, Any] = {
    "where": "C.1, Table 4",
    "datasets": ("tiny-imagenet",),
    "excluded_because": "it has too few classes; the paper has 200",
    "reported_on": "tiny-imagenet",
}
# The classes that Figure 6 shows to gain.
FOUR = ("bird", "cat", "deer", "frog")
_BELOW: dict[str, Any] = {"low": -np.inf, "high": 0.0}


def _by_cfa(measure: Metric, over: str = "", checkpoint: str = "last", table: int = 1) -> dict[str, Any]:
    """Return the fields of a claim on the least gain by CFA over all methods that a table has."""
    pairs = gains.with_cfa(over)
    others: dict[str, Any] = {"over": over} if over else {}
    return {
        "measure": partial(least_gain, component="CFA", measure=measure, **others),
        "truth": extreme(partial(gains_of_methods, component="CFA", measure=measure, **others)),
        "defences": tuple(dict.fromkeys(name for pair in pairs for name in pair)),
        "over": ("defence",),
        "reported": partial(gains.printed, str(measure.__name__), pairs, checkpoint, table),
    }


def _between(measure: Metric, better: str, worse: str, checkpoint: str = "last") -> dict[str, Any]:
    """Return the fields of a claim on the gain of one method over another."""
    return {
        "measure": partial(gains.gain, measure=measure),
        "defences": (better, worse),
        "reported": partial(gains.printed, str(measure.__name__), [(better, worse)], checkpoint),
    }


def _of_classes(measure: Any, classes: Sequence[str] = (), **fixed: Any) -> dict[str, Any]:
    """Return the fields of a claim on what single classes gain from AT + EMA to AT + CFA."""
    named = {"classes": tuple(classes)} if classes else {}
    return {"measure": partial(measure, **named, **fixed) if named else measure, "defences": ("AT + CFA", "AT + EMA")}


def _at_both(name: str, statement: str, fields: Callable[..., dict[str, Any]], **shared: Any) -> tuple[Claim, Claim]:
    """Return a claim at the last epoch, and at the best one, "-best"; fields: what gives those of a checkpoint."""
    last, best = (
        {"where": _TABLE_1, "statement": f"At the {one} epoch, {statement}", **fields(checkpoint=one)} for one in _EPOCHS
    )
    return _claim(name, **{**last, **shared}), _claim(f"{name}-best", **{**best, **_AT_BEST, **shared})


_TABLE_1, _EPOCHS = "5.2, Table 1", ("last", "best")
CLAIMS = (
    *_at_both("cfa-overall", "CFA raises the overall robust accuracy of AT, TRADES and FAT.", partial(_by_cfa, metrics.overall)),
    *_at_both(
        "cfa-worst",
        "CFA raises the robust accuracy of the worst class of AT, TRADES and FAT.",
        partial(_by_cfa, metrics.worst),
    ),
    *_at_both(
        "cfa-over-ema-overall",
        "every method has a higher overall robust accuracy with CFA than with EMA.",
        partial(_by_cfa, metrics.overall, "EMA"),
    ),
    _claim(
        "cfa-over-ema-worst",
        _TABLE_1,
        "At the last epoch, the worst class of every method is more robust with CFA than with EMA.",
        **_by_cfa(metrics.worst, "EMA"),
    ),
    _claim(
        "cfa-over-ema-worst-best",
        _TABLE_1,
        "At the best epoch, the worst class of every method is more than 2 points more robust with CFA than with EMA.",
        low=2,
        **_by_cfa(metrics.worst, "EMA", "best"),
        **_AT_BEST,
    ),
    *_at_both(
        "fat-below-trades",
        "the worst class of FAT is less robust than that of TRADES.",
        partial(_between, metrics.worst, "FAT", "TRADES"),
        **_BELOW,
    ),
    _claim(
        "frl-gains-little-best",
        _TABLE_1,
        "At the best epoch, the worst class of FRL with EMA is less than 2 points more robust than that of TRADES with EMA.",
        low=-np.inf,
        high=2,
        **_between(metrics.worst, "FRL + EMA", "TRADES + EMA", "best"),
        **_AT_BEST,
    ),
    *_at_both(
        "frl-costs-overall",
        "the overall robust accuracy of FRL is more than 2 points below that of TRADES with EMA.",
        partial(_between, metrics.overall, "TRADES + EMA", "FRL"),
        low=2,
    ),
    *_at_both(
        "cfa-above-frl-overall",
        "TRADES with CFA has a higher overall robust accuracy than FRL with EMA.",
        partial(_between, metrics.overall, "TRADES + CFA", "FRL + EMA"),
    ),
    _claim(
        "cfa-above-frl-worst-best",
        _TABLE_1,
        "At the best epoch, TRADES with CFA has a more robust worst class than FRL with EMA.",
        **_between(metrics.worst, "TRADES + CFA", "FRL + EMA", "best"),
        **_AT_BEST,
    ),
    _claim(
        "frl-above-cfa-worst",
        _TABLE_1,
        "At the last epoch, FRL with EMA has a more robust worst class than TRADES with CFA.",
        **_between(metrics.worst, "FRL + EMA", "TRADES + CFA"),
    ),
    _claim(
        "smaller-spread",
        "C.2, Figure 6",
        "The robust accuracies of the classes differ less with CFA than with EMA: their standard deviation is smaller.",
        partial(gains.gain, measure=gains.spread),
        defences=("AT + CFA", "AT + EMA"),
        reported=spread_change,
        **_BELOW,
    ),
    _claim(
        "four-classes-gain",
        "C.2, Figure 6",
        "Birds, cats, deer and frogs are more robust with CFA than with EMA.",
        **_of_classes(gains.least_class_gain, FOUR),
        truth=extreme(partial(gains.gains_of_classes, classes=FOUR)),
        **ON_CIFAR10,
    ),
    _claim(
        "two-classes-drop-slightly",
        "C.2, Figure 6",
        "Horses and ships are less robust with CFA than with EMA, but by less than 2 points.",
        low=-2,
        high=0,
        **_of_classes(gains.farthest_class_gain, ("horse", "ship"), middle=-1.0),
        **ON_CIFAR10,
    ),
    _claim(
        "no-class-harmed",
        "5.2; C.2, Figure 6",
        "No class is more than 2 points less robust with CFA than with EMA.",
        low=-np.inf,
        high=2,
        **_of_classes(gains.largest_class_loss),
        truth=extreme(gains.losses_of_classes, largest=True),
    ),
    *_at_both(
        "worst-fifth",
        "the worst fifth of the classes of Tiny ImageNet is more robust with CFA than with EMA, after every method.",
        partial(_by_cfa, metrics.worst_k, "EMA", table=4),
        **_TINY,
    ),
    *_at_both(
        "tiny-overall",
        "every method has a higher overall robust accuracy on Tiny ImageNet with CFA than with EMA.",
        partial(_by_cfa, metrics.overall, "EMA", table=4),
        **_TINY,
    ),
)
