"""What a section varies beside its defences and seeds: classes left out, the trade-off of a class, backgrounds.

A variant is a mapping of fields of Spec. Which ones there are depends on the scale and on the dataset that is asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from classwise.errors import UserError, unknown
from classwise.scales import MNIST
from classwise.superclasses import SUPERCLASSES

Variant = Mapping[str, Any]
Variants = Callable[[str, str], Sequence[Variant]]

_NUMBERS = tuple("0123456789")
# In the order of their labels.
CLASSES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("digits", "mnist", "svhn"), _NUMBERS),
    **{dataset: tuple(groups) for dataset, groups in SUPERCLASSES.items()},
}
# The most vulnerable class and the one it is mixed up with most. Tian 2021 chooses 3 and 5 for CIFAR-10 (section 6.1); for digits
# `homing.pair_of` chose, on validation images of the seeds CHOOSING, which its page asks again. For MNIST nothing has chosen yet.
PAIRS: dict[str, tuple[str, str]] = {"digits": ("8", "1"), "mnist": ("9", "4"), "cifar10": ("cat", "dog")}
# Seeds of which no validation image is a test image of the first two, by which sections 6.1 and 6.2 are judged; of others all.
CHOOSING: dict[str, tuple[int, ...]] = {"digits": (1, 2, 3)}


def plain(scale: str, dataset: str) -> Sequence[Variant]:
    """Return the one variant that changes nothing."""
    return ({},)


def undressed(dataset: str) -> str:
    """Return the name of a dataset without its backgrounds: "digits" for "digits-apart"."""
    return dataset.split("-")[0]


def classes(dataset: str) -> tuple[str, ...]:
    """Return the names of a dataset's classes; a UserError names the datasets that are known here."""
    if undressed(dataset) not in CLASSES:
        raise unknown("dataset whose classes can be left out", dataset, CLASSES)
    return CLASSES[undressed(dataset)]


def kept(names: tuple[str, ...], some: Sequence[str]) -> tuple[str, ...]:
    """Return those of the classes that are trained on, all where `some` is empty; a UserError where they make no problem."""
    for name in some:
        if name not in names:
            raise unknown("class", name, names)
    if len(set(some)) == 1:
        raise UserError(f"1 class left of {', '.join(names)}: a classifier needs at least two")
    return tuple(name for name in names if name in some or not some)


def pair(dataset: str) -> tuple[str, str]:
    """Return a vulnerable class and the one it is taken for (`PAIRS`)."""
    if undressed(dataset) not in PAIRS:
        raise unknown("dataset whose vulnerable class is known", dataset, PAIRS)
    return PAIRS[undressed(dataset)]


def redraws(*numbers: int) -> Variants:
    """Return variants whose weights and order of batches are drawn anew, once for each number."""
    return lambda scale, dataset: tuple({"redraw": number} for number in numbers)


def choosing(dataset: str) -> tuple[int, ...]:
    """Return the seeds whose validation images choose the pair of a dataset (`CHOOSING`), () for all."""
    return CHOOSING.get(undressed(dataset), ())


def without(scale: str, dataset: str) -> Sequence[Variant]:
    """Return a variant for each class: all others (Tian 2021, Figure 4b)."""
    names = classes(dataset)
    return tuple({"classes": tuple(name for name in names if name != left_out)} for left_out in names)


def trade_offs(*values: str) -> Variants:
    """Return variants of "trades-per-class" in which the class that the vulnerable one is taken for has another beta (eq. 5)."""

    def varied(scale: str, dataset: str) -> Sequence[Variant]:
        number = classes(dataset).index(pair(dataset)[1])
        return tuple({"options": {"betas": f"{number}:{value}"}} for value in values)

    return varied


def _drawings(scale: str, dataset: str) -> Variant:
    """Return the fields of runs on drawings: of MNIST where the dataset is none."""
    return {"dataset": undressed(dataset)} if undressed(dataset) in ("digits", "mnist") else {"dataset": "mnist", **MNIST[scale]}


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
    base = undressed(dataset)
    return ({"dataset": f"{base}-cluttered"} if base in ("digits", "mnist") else {},)


def both(*variants: Variants) -> Variants:
    """Return all combinations of the variants."""

    def varied(scale: str, dataset: str) -> Sequence[Variant]:
        found: list[dict[str, Any]] = [{}]
        for each in variants:
            found = [{**one, **other} for one in found for other in each(scale, dataset)]
        return tuple(found)

    return varied
