"""Benz et al. 2020, section 3.3: methods for long-tailed data in adversarial training.

The paper plans two scenarios: each class counts alike, or one of them is critical. Claims take the Dataset "trainings", along
defence: defences by their name, and a weight of the critical class by that of WEIGHTS.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from classwise.core.datasets import class_names
from classwise.core.spec import Spec
from classwise.papers import variants
from classwise.papers.benz2020 import critical
from classwise.papers.benz2020.critical import by_training, critical_class
from classwise.papers.benz2020.kinds import where
from classwise.papers.claims import claims_of
from classwise.papers.sections import CLEAN_AND_PGD, Arranged, Request, Section
from classwise.papers.variants import Variant, Variants

NAME = "benz2020/3-3-long-tail"
BASE, COST_SENSITIVE = "pgd-at", "cost-sensitive"
# By the name of a training, the weight of the critical class; all others have 1.
WEIGHTS: Mapping[str, int] = {"weight 3": 3, "weight 10": 10}
# The part with further methods for long-tailed data, as other pages train them.
SCHEMES = "schemes"
# What the page compares: the trainings of the two scenarios, PGD-AT first, and all others.
BY_SCHEME, BY_WEIGHT = (BASE, COST_SENSITIVE, "class-balanced", "ldam", "ldam-drw"), (BASE, *WEIGHTS)
CHANGED = (*BY_SCHEME[1:], *WEIGHTS)


def recorded(outcomes: xr.Dataset) -> list[str]:
    """Return the names of the trainings that have results, PGD-AT first."""
    return [name for name in (BASE, *CHANGED) if name in outcomes.defence.values]


def epochs(request: Request) -> dict[str, int]:
    """Return the epochs of each training of a request of this section, PGD-AT first."""
    specs = {name: request.parts[name].specs for name in (SCHEMES, *WEIGHTS) if name in request.parts}
    schemes = {spec.defence: (spec,) for spec in specs.pop(SCHEMES, ())}
    return critical.epochs({BASE: request.specs} | schemes | specs)


def weighted(weight: int) -> Variants:
    """Return the variant that weights the loss of the critical class.

    The weights of all classes have mean one, but at scale laptop, whose run is recorded without.
    """

    def varied(scale: str, plain: Spec) -> Sequence[Variant]:
        number = class_names(plain.dataset).index(critical_class(plain.dataset))
        options: dict[str, Any] = {"weights": f"{number}:{weight}"}
        return ({"options": options | ({} if scale == "laptop" else {"mean_one": True}), **_once(scale)},)

    return varied


def _once(scale: str) -> Mapping[str, int]:
    return critical.ONCE if scale == "quick" else {}


def _never(scale: str, plain: Spec) -> Sequence[Variant]:
    return ()


def _weight(name: str, **by_scale: Variants) -> Section:
    return Section(
        title=f"the critical class with {name}",
        defences=("at-per-class",),
        evaluations=CLEAN_AND_PGD,
        max_seeds=1,
        variants=variants.by_scale(weighted(WEIGHTS[name]), **by_scale),
    )


def arranged(plain: xr.Dataset, schemes: xr.Dataset | None, *weighted: xr.Dataset | None) -> xr.Dataset:
    """Return outcomes of all trainings along defence; weighted: in the order of WEIGHTS. None: not recorded."""
    known = [] if schemes is None else [str(name) for name in schemes.defence.values]
    further = {} if schemes is None else {name: schemes.sel(defence=[name]) for name in known}
    return by_training(plain, further | dict(zip(WEIGHTS, weighted, strict=True)))


SECTION = Section(
    title="Methods for long-tailed data",
    defences=(BASE,),
    evaluations=CLEAN_AND_PGD,
    max_seeds=1,
    parts={
        SCHEMES: Section(
            title="methods for long-tailed data",
            defences=BY_SCHEME[1:],
            evaluations=CLEAN_AND_PGD,
            max_seeds=1,
        ),
        "weight 3": _weight("weight 3"),
        "weight 10": _weight("weight 10", laptop=_never),
        "choosing": Section(title="the runs that select the critical class", defences=(BASE,)),
    },
    arrange={"trainings": Arranged(arranged, ("",), (SCHEMES, *WEIGHTS))},
)

_claim = claims_of(NAME, attacks=("pgd-20",), data="trainings")
_SCHEME = (COST_SENSITIVE, BASE)
_BELOW: dict[str, Any] = {"low": -np.inf, "high": 0.0}
# Of the two weights the larger one; scale laptop has the smaller one only.
_CRITICAL: dict[str, Any] = {
    "defences": ("weight 10|weight 3", BASE),
    "datasets": critical.KNOWN,
    "excluded_because": critical.UNKNOWN,
    "dims": ("critical",),
}
CLAIMS = (
    _claim(
        "cost-sensitive-narrows",
        where("3.3", "asked"),
        "Cost-sensitive weights reduce the discrepancy: the robust accuracies of the classes have a smaller variance.",
        critical.variance_change,
        unit="points squared",
        defences=_SCHEME,
        **_BELOW,
    ),
    _claim(
        "cost-sensitive-costs-little",
        where("3.3", "asked"),
        "Cost-sensitive weights cost less than 2 points of the robust accuracy over all images.",
        critical.overall_change,
        low=-2,
        defences=_SCHEME,
    ),
    _claim(
        "weight-helps-critical",
        where("3.3", "asked"),
        "A larger weight makes the critical class more robust.",
        critical.recall_change,
        **_CRITICAL,
    ),
    _claim(
        "weight-costs-others-little",
        where("3.3", "asked"),
        "A larger weight of the critical class costs the others, on average, less than 2 points of robust accuracy.",
        critical.others_change,
        low=-2,
        **_CRITICAL,
    ),
    _claim(
        "weight-keeps-precision",
        where("3.3", "control"),
        "The critical class is not only predicted more often: a larger weight costs less than 5 points of its precision "
        "under attack.",
        critical.precision_change,
        low=-5,
        **_CRITICAL,
    ),
)
