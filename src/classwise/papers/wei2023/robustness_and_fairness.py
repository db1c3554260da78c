"""Wei et al. 2023, section 5.2, Table 1, and appendices C.1 and C.2: robustness and fairness of CFA.

Claims are judged at the last epoch, at the best one, or at both: the Datasets "last" and "best", along defence with the methods
of `methods.METHODS`. Figure 6 does not name the method that CFA and EMA are added to; we read AT.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from classwise.papers.sections import Derived, Section
from classwise.papers.terms import claims, least, value
from classwise.papers.wei2023 import gains, methods, preregistration
from classwise.papers.wei2023.tables import spread_change
from classwise.stats import metrics
from classwise.stats.metrics import Metric, overall, worst, worst_k

NAME = "wei2023/5-2-robustness-and-fairness"
SECTION = Section(
    **{
        **vars(methods.TABLES_1_TO_3),
        "title": "Robustness and fairness performance",
        "parts": {"best": methods.AT_BEST, **preregistration.PARTS},
        "arrange": {
            **preregistration.ARRANGE,
            "last": Derived(methods.name_methods, ("",)),
            "best": Derived(partial(methods.name_methods, best=True), ("best",)),
        },
    }
)

ATTACK = "autoattack|strong|cr"
# The classes that Figure 6 shows to gain.
FOUR = ("bird", "cat", "deer", "frog")


def spread(count: xr.DataArray) -> xr.DataArray:
    """Return the standard deviation of the accuracies of the classes, in points."""
    deviation: xr.DataArray = np.sqrt(metrics.cv(count))  # type: ignore[assignment]
    return deviation.rename("spread")


def gains_of_classes(sums: xr.Dataset, classes: Sequence[str] = ()) -> xr.DataArray:
    """Return how much more robust each class is with the first method than with the second. classes: of these, () for all."""
    rates = metrics.accuracy(sums["count"].isel(attack=0))
    change = rates.isel(defence=0) - rates.isel(defence=1)
    return change.sel(label=list(classes)) if classes else change


def farthest_class_gain(sums: xr.Dataset, classes: Sequence[str], middle: float) -> xr.DataArray:
    """Return the gain that is the farthest from `middle`, among the named classes."""
    change = gains_of_classes(sums, classes)
    lost = change.isnull().any("label")
    off = abs(change - middle).fillna(0)
    return change.isel(label=off.argmax("label")).drop_vars("label").where(~lost)


def losses_of_classes(sums: xr.Dataset) -> xr.DataArray:
    """Return how much less robust each class is with the first method than with the second."""
    return -gains_of_classes(sums)


def _between(measure: Metric, better: str, worse: str, checkpoint: str = "last") -> dict[str, Any]:
    reported = partial(gains.printed_gain, measure.__name__, [(better, worse)], checkpoint)
    return {"measure": value(measure, better, ATTACK) - value(measure, worse, ATTACK), "reported": reported}


def _at_both(name: str, fields: Callable[..., dict[str, Any]], **shared: Any) -> dict[str, dict[str, Any]]:
    """Return the fields of a claim at the last epoch, and at the best one, "-best"; fields: what gives those of a checkpoint."""
    return {f"{name}{end}": fields(checkpoint=one) | shared for end, one in (("", "last"), ("-best", "best"))}


_CFA, _EMA = "AT + CFA", "AT + EMA"
_TINY = {"reported_on": "tiny-imagenet"}
_over_ema = partial(gains.component_fields, component="CFA", over="EMA")

CLAIMS = claims(
    NAME,
    {
        **_at_both("cfa-overall", partial(gains.component_fields, overall, "CFA")),
        **_at_both("cfa-worst", partial(gains.component_fields, worst, "CFA")),
        **_at_both("cfa-over-ema-overall", partial(_over_ema, overall)),
        **_at_both("cfa-over-ema-worst", partial(_over_ema, worst)),
        **_at_both("fat-below-trades", partial(_between, worst, "FAT", "TRADES")),
        "frl-gains-little-best": _between(worst, "FRL + EMA", "TRADES + EMA", "best"),
        **_at_both("frl-costs-overall", partial(_between, overall, "TRADES + EMA", "FRL")),
        **_at_both("cfa-above-frl-overall", partial(_between, overall, "TRADES + CFA", "FRL + EMA")),
        "cfa-above-frl-worst-best": _between(worst, "TRADES + CFA", "FRL + EMA", "best"),
        "frl-above-cfa-worst": _between(worst, "FRL + EMA", "TRADES + CFA"),
        "smaller-spread": {"measure": value(spread, _CFA, ATTACK) - value(spread, _EMA, ATTACK), "reported": spread_change},
        "four-classes-gain": least(partial(gains_of_classes, classes=FOUR)),
        "two-classes-drop-slightly": partial(farthest_class_gain, classes=("horse", "ship"), middle=-1.0),
        "no-class-harmed": least(losses_of_classes, largest=True),
        **_at_both("worst-fifth", partial(_over_ema, worst_k, table=4), **_TINY),
        **_at_both("tiny-overall", partial(_over_ema, overall, table=4), **_TINY),
    },
    defences=(_CFA, _EMA),
    attacks=(ATTACK,),
)


# What is compared with what on the page: first the method that should be better.
COMPARISONS = (*gains.pairs_of("CFA"), *gains.pairs_of("CFA", "EMA"), ("TRADES + CFA", "FRL + EMA"))
