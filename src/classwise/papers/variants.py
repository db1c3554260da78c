"""What a section varies apart from its defences and seeds.

A variant is a mapping of fields of Spec. Which variants there are depends on the scale and on the dataset.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from classwise.core.datasets import class_names

Variant = Mapping[str, Any]
Variants = Callable[[str, str], Sequence[Variant]]


def unvaried(scale: str, dataset: str) -> Sequence[Variant]:
    """Return the one variant that changes nothing."""
    return ({},)


def reinitialised(*numbers: int) -> Variants:
    """Return variants with other initial weights and another batch order, one for each number."""
    return lambda scale, dataset: tuple({"redraw": number} for number in numbers)


def without(scale: str, dataset: str) -> Sequence[Variant]:
    """Return for each class the variant that is trained on all other classes."""
    names = class_names(dataset)
    return tuple({"classes": tuple(name for name in names if name != left_out)} for left_out in names)


def combined(*variants: Variants) -> Variants:
    """Return all combinations of the variants."""

    def varied(scale: str, dataset: str) -> Sequence[Variant]:
        result: list[dict[str, Any]] = [{}]
        for some in variants:
            result = [{**fields, **other} for fields in result for other in some(scale, dataset)]
        return tuple(result)

    return varied
