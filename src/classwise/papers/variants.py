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
from classwise.papers.scales import merge

Variant = Mapping[str, Any]
Variants = Callable[[str, Spec], Sequence[Variant]]
# Fields of runs whose course over the epochs no page shows: measured at the first and the last epoch, without averages.
ONCE: Variant = {"measure": 100, "averages": ()}


def each(*fields: Variant) -> Variants:
    """Return variants that are the same for every training, one for each mapping of fields."""
    return lambda scale, plain: fields


# One variant that changes nothing, and none: nothing is trained. Other initial weights and another batch order.
usual, none, reinitialised = each({}), each(), each({"redraw": 1}, {"redraw": 2})


def options(name: str, *values: float) -> Variants:
    """Return variants with other values of an option: of "beta", or of "lambda1", "lambda2" that calibrate radii and betas."""
    return each(*({"options": {name: value}} for value in values))


def leave_one_out(scale: str, plain: Spec) -> Sequence[Variant]:
    """Return for each class the variant that is trained on all other classes."""
    names = class_names(plain.dataset)
    return tuple({"classes": tuple(name for name in names if name != left_out)} for left_out in names)


def combine(*variants: Variants) -> Variants:
    """Return all combinations of the variants."""
    return lambda scale, plain: tuple(merge(*some) for some in product(*(one(scale, plain) for one in variants)))


def choose_by_scale(variants: Variants, **others: Variants) -> Variants:
    """Return `variants`, but at the scales named in `others` those given for them; scale matched has those of laptop."""
    shared = {"matched": others["laptop"], **others} if "laptop" in others else others
    return lambda scale, plain: shared.get(scale, variants)(scale, plain)


def margins(*multiples: str) -> Variants:
    """Return variants trained at multiples of the radius ("1/2"), all measured during the training at that of the scale."""
    return lambda scale, plain: tuple(
        {"eps": scaled_radius(plain.eps, Fraction(multiple)), "probe_eps": plain.eps} for multiple in multiples
    )


def attack_alone(*classes: str) -> Variants:
    """Return a variant of single-class-at for each class that is attacked: those named that the dataset has, or all."""
    return lambda scale, plain: tuple(
        {"options": {"label": number}} for number, name in enumerate(class_names(plain.dataset)) if name in classes or not classes
    )
