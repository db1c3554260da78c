"""What a section varies beside its defences and seeds: classes left out, the trade-off of a class, backgrounds.

A variant is a mapping of fields of Spec. Which ones there are depends on the scale and on the dataset that is asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from classwise.core.datasets import base_dataset, class_names
from classwise.core.errors import unknown
from classwise.papers.scales import MNIST

Variant = Mapping[str, Any]
Variants = Callable[[str, str], Sequence[Variant]]


# The most vulnerable class and the one it is mixed up with most. Tian 2021 chooses 3 and 5 for CIFAR-10 (section 6.1); for digits
# `homing.pair_of` chose, on validation images of the seeds CHOOSING, which its page asks again. For MNIST nothing has chosen yet.
VULNERABLE_PAIRS: dict[str, tuple[str, str]] = {"digits": ("8", "1"), "mnist": ("9", "4"), "cifar10": ("cat", "dog")}
# Seeds of which no validation image is a test image of the first two, by which sections 6.1 and 6.2 are judged; of others all.
SELECTION_SEEDS: dict[str, tuple[int, ...]] = {"digits": (1, 2, 3)}


def unvaried(scale: str, dataset: str) -> Sequence[Variant]:
    """Return the one variant that changes nothing."""
    return ({},)


def vulnerable_pair(dataset: str) -> tuple[str, str]:
    """Return a vulnerable class and the one it is taken for (`PAIRS`)."""
    if base_dataset(dataset) not in VULNERABLE_PAIRS:
        raise unknown("dataset whose vulnerable class is known", dataset, VULNERABLE_PAIRS)
    return VULNERABLE_PAIRS[base_dataset(dataset)]


def reinitialised(*numbers: int) -> Variants:
    """Return variants whose weights and order of batches are drawn anew, once for each number."""
    return lambda scale, dataset: tuple({"redraw": number} for number in numbers)


def selection_seeds(dataset: str) -> tuple[int, ...]:
    """Return the seeds whose validation images choose the pair of a dataset (`CHOOSING`), () for all."""
    return SELECTION_SEEDS.get(base_dataset(dataset), ())


def without(scale: str, dataset: str) -> Sequence[Variant]:
    """Return a variant for each class: all others (Tian 2021, Figure 4b)."""
    names = class_names(dataset)
    return tuple({"classes": tuple(name for name in names if name != left_out)} for left_out in names)


def trade_offs(*values: str) -> Variants:
    """Return variants of "trades-per-class" in which the class that the vulnerable one is taken for has another beta (eq. 5)."""

    def varied(scale: str, dataset: str) -> Sequence[Variant]:
        number = class_names(dataset).index(vulnerable_pair(dataset)[1])
        return tuple({"options": {"betas": f"{number}:{value}"}} for value in values)

    return varied


def _drawings(scale: str, dataset: str) -> Variant:
    """Return the fields of runs on drawings: of MNIST where the dataset is none."""
    return (
        {"dataset": base_dataset(dataset)}
        if base_dataset(dataset) in ("digits", "mnist")
        else {"dataset": "mnist", **MNIST[scale]}
    )


def drawings(scale: str, dataset: str) -> Sequence[Variant]:
    """Return drawings as they are."""
    return (_drawings(scale, dataset),)


def coloured(*dresses: str, **fields: Any) -> Variants:
    """Return variants on drawings before backgrounds of their class's colour, for each of `dresses` (images.DATASETS)."""

    def varied(scale: str, dataset: str) -> Sequence[Variant]:
        base = _drawings(scale, dataset)
        return tuple({**base, "dataset": f"{base['dataset']}-{dress}", **fields} for dress in dresses)

    return varied


def scenes(scale: str, dataset: str) -> Sequence[Variant]:
    """Return a dataset of objects before uneven backgrounds: photographs as they are, drawings before clutter."""
    base = base_dataset(dataset)
    return ({"dataset": f"{base}-cluttered"} if base in ("digits", "mnist") else {},)


def combined(*variants: Variants) -> Variants:
    """Return all combinations of the variants."""

    def varied(scale: str, dataset: str) -> Sequence[Variant]:
        found: list[dict[str, Any]] = [{}]
        for each in variants:
            found = [{**one, **other} for one in found for other in each(scale, dataset)]
        return tuple(found)

    return varied
