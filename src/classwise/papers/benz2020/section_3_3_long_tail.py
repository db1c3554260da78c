"""Benz et al. 2020, section 3.3: methods for long-tailed data in adversarial training.

The paper plans two scenarios: each class counts alike, or one of them is critical. Claims take the Dataset "trainings", along
defence: defences by their name, and a weight of the critical class by that of WEIGHTS.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from classwise.core.datasets import class_names
from classwise.core.spec import Spec
from classwise.papers import variants
from classwise.papers.benz2020 import critical
from classwise.papers.benz2020.critical import by_training, change, critical_class
from classwise.papers.sections import CLEAN_AND_PGD, Arranged, Request, Section
from classwise.papers.terms import claims
from classwise.papers.variants import Variant, Variants
from classwise.stats import metrics

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
        once = critical.ONCE if scale == "quick" else {}
        return ({"options": options | ({} if scale == "laptop" else {"mean_one": True}), **once},)

    return varied


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
    further = {} if schemes is None else {str(name): schemes.sel(defence=[name]) for name in schemes.defence.values}
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
        "weight 10": _weight("weight 10", laptop=variants.none),
        "choosing": Section(title="the runs that select the critical class", defences=(BASE,)),
    },
    arrange={"trainings": Arranged(arranged, ("",), (SCHEMES, *WEIGHTS))},
)

# Of the two weights the larger one; scale laptop has the smaller one only.
_WEIGHT = "weight 10|weight 3"
CLAIMS = claims(
    NAME,
    {
        "cost-sensitive-narrows": change(critical.variance, COST_SENSITIVE, BASE),
        "cost-sensitive-costs-little": change(metrics.overall, COST_SENSITIVE, BASE),
        "weight-helps-critical": change(critical.recall, _WEIGHT, BASE),
        "weight-costs-others-little": change(critical.of_others, _WEIGHT, BASE),
        "weight-keeps-precision": change(critical.precision, _WEIGHT, BASE),
    },
)
