"""What a section varies apart from its defences and seeds.

A variant is a mapping of fields of Spec. Which variants there are depends on the scale and on the training that they vary.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from classwise.core.datasets import class_names
from classwise.core.identity import scaled_radius
from classwise.core.spec import Spec

Variant = Mapping[str, Any]
Variants = Callable[[str, Spec], Sequence[Variant]]
# Fields of runs whose course over the epochs no page shows: measured at the first and the last epoch, without averages.
ONCE: Variant = {"measure": 100, "averages": ()}


def usual(scale: str, plain: Spec) -> Sequence[Variant]:
    """Return the one variant that changes nothing."""
    return ({},)


def none(scale: str, plain: Spec) -> Sequence[Variant]:
    """Return no variant: nothing is trained."""
    return ()


def reinitialise(*numbers: int) -> Variants:
    """Return variants with other initial weights and another batch order, one for each number."""
    return lambda scale, plain: tuple({"redraw": number} for number in numbers)


def leave_one_out(scale: str, plain: Spec) -> Sequence[Variant]:
    """Return for each class the variant that is trained on all other classes."""
    names = class_names(plain.dataset)
    return tuple({"classes": tuple(name for name in names if name != left_out)} for left_out in names)


def combine(*variants: Variants) -> Variants:
    """Return all combinations of the variants."""
    return lambda scale, plain: tuple(
        {name: value for fields in some for name, value in fields.items()}
        for some in product(*(one(scale, plain) for one in variants))
    )


def choose_by_scale(variants: Variants, **others: Variants) -> Variants:
    """Return `variants`, but at the scales named in `others` those given for them; scale matched has those of laptop."""
    shared = {"matched": others["laptop"], **others} if "laptop" in others else others
    return lambda scale, plain: shared.get(scale, variants)(scale, plain)


def margins(*multiples: str) -> Variants:
    """Return variants trained at multiples of the radius ("1/2"), all measured during the training at that of the scale."""

    def varied(scale: str, plain: Spec) -> Sequence[Variant]:
        radii = (scaled_radius(plain.eps, Fraction(multiple)) for multiple in multiples)
        return tuple({"eps": eps, "probe_eps": plain.eps} for eps in radii)

    return varied


def betas(*values: float) -> Variants:
    """Return variants with other weights of the robust term."""
    return lambdas("beta", *values)


def lambdas(name: str, *values: float) -> Variants:
    """Return variants with other values of `name`, "lambda1" or "lambda2", by which CFA calibrates radii or betas."""
    return lambda scale, plain: tuple({"options": {name: value}} for value in values)


def attack_alone(*classes: str) -> Variants:
    """Return a variant of single-class-at for each class that is attacked: those named that the dataset has, or all."""

    def varied(scale: str, plain: Spec) -> Sequence[Variant]:
        names = class_names(plain.dataset)
        return tuple({"options": {"label": names.index(name)}} for name in names if name in classes or not classes)

    return varied
