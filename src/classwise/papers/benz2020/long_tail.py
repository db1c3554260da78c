"""Benz et al. 2020, section 3.3: methods for long-tailed data in adversarial training.

The paper plans two scenarios: each class counts alike, or one of them is critical. Claims take the Dataset "trainings", along
defence: defences by their name, and a weight of the critical class by that of WEIGHTS.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from classwise.core.datasets import class_names
from classwise.core.spec import Spec
from classwise.papers import variants
from classwise.papers.benz2020 import critical
from classwise.papers.benz2020.critical import change, critical_class, join_trainings
from classwise.papers.sections import Part, Section
from classwise.papers.terms import claims
from classwise.stats import metrics

NAME = "benz2020/3-3-long-tail"
BASE, COST_SENSITIVE = "pgd-at", "cost-sensitive"
# By the name of a training, the weight of the critical class; all others have 1.
WEIGHTS: Mapping[str, int] = {"weight 3": 3, "weight 10": 10}
# The part with further methods for long-tailed data, as other pages train them.
SCHEMES = "schemes"
# The trainings of the two scenarios, PGD-AT first, and all others.
BY_SCHEME, BY_WEIGHT = (BASE, COST_SENSITIVE, "class-balanced", "ldam", "ldam-drw"), (BASE, *WEIGHTS)
CHANGED = (*WEIGHTS, *BY_SCHEME[1:])


def _weight(name: str, **by_scale: variants.Variants) -> Part:
    """Return the part that weights the loss of the critical class; all weights have mean one, but not in the run of laptop."""

    def varied(scale: str, plain: Spec) -> Sequence[variants.Variant]:
        number = class_names(plain.dataset).index(critical_class(plain.dataset))
        options: dict[str, Any] = {"weights": f"{number}:{WEIGHTS[name]}"}
        once = critical.ONCE if scale == "quick" else {}
        return ({"options": options | ({} if scale == "laptop" else {"mean_one": True}), **once},)

    chosen = variants.choose_by_scale(varied, **by_scale)
    return Part(title=f"the critical class with {name}", defences=("at-per-class",), max_seeds=1, variants=chosen)


SECTION = Section(
    title="Methods for long-tailed data",
    defences=(BASE,),
    max_seeds=1,
    parts={
        SCHEMES: Part(title="methods for long-tailed data", defences=BY_SCHEME[1:], max_seeds=1),
        "weight 3": _weight("weight 3"),
        "weight 10": _weight("weight 10", laptop=variants.none),
        "choosing": Part(title="the runs that select the critical class", defences=(BASE,), evaluations=()),
    },
    arrange={"trainings": join_trainings({"": "", SCHEMES: "", **{name: name for name in WEIGHTS}})},
)

# Of the two weights the larger one; scale laptop has the smaller one only.
_WEIGHT = "weight 10|weight 3"
CLAIMS = claims(
    NAME,
    {
        "cost-sensitive-narrows": change(metrics.cv, COST_SENSITIVE, BASE),
        "cost-sensitive-costs-little": change(metrics.overall, COST_SENSITIVE, BASE),
        "weight-helps-critical": change(critical.recall, _WEIGHT, BASE),
        "weight-costs-others-little": change(critical.accuracy_of_others, _WEIGHT, BASE),
        "weight-keeps-precision": change(critical.precision, _WEIGHT, BASE),
    },
)
