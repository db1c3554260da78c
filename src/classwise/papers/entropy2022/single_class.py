"""Entropy 2022, section 2.1: networks of which the training attacks the images of one class alone, with two features.

Along `attacked` is the class that a network was attacked in, "" for standard training; along `shown` are kinds of images. What is
measured of a class is of the network that is attacked in it alone. group: "hardest" or "easiest"; "" is all.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core.errors import NotAtScale, NotRecorded, UserError
from classwise.core.markup import printed_name
from classwise.core.spec import Evaluation, Spec
from classwise.papers import variants
from classwise.papers.entropy2022.tables import TABLES
from classwise.papers.sections import Derived, Part, Section
from classwise.papers.selection import SAFEST, VULNERABLE_PAIRS
from classwise.papers.terms import claims, least
from classwise.stats import combine, features, intervals, metrics, pooling

NAME = "entropy2022/2-1-single-class"
# The hardest and the easiest class: of CIFAR-10 as in the paper. Those of digits are the first and the last of
# `selection.classes_by_robustness`, on other images than those that they are judged on.
CLASSES: dict[str, tuple[str, str]] = {name: (VULNERABLE_PAIRS[name][0], easiest) for name, easiest in SAFEST.items()}
CLEAN, TRAINING, TRANSFERRED = "clean test images", "attacked training images", "attacked on standard training"
# Of digits, half of this is enough for 90 % of clean images, but not for the attacked ones of the hardest class in training. At
# the rate of the scale some networks with two features diverge.
_SMALL = {"epochs": 24, "measure": 24, "lr": 0.1}
_plane = variants.choose_by_scale(variants.each({"head": "plane"}), quick=variants.each({"head": "plane", **_SMALL}))


def shown_classes(names: Sequence[str]) -> dict[str, str]:
    """Return the "hardest" and the "easiest" one of the classes of a dataset; UserError if they are not known."""
    for both in CLASSES.values():
        if set(both) <= set(names):
            return dict(zip(("hardest", "easiest"), both, strict=True))
    raise UserError(f"the hardest and the easiest of these classes are not known: {', '.join(names)}")


def _named(alone: xr.Dataset) -> xr.Dataset:
    names = [str(alone.predicted.values[number]) for number in alone.option_label.values]
    return alone.assign_coords(option_label=names).rename(option_label="attacked")


def stack_attacked(plain: xr.Dataset, alone: xr.Dataset) -> xr.Dataset:
    """Return outcomes along `attacked`: of networks that were each attacked in one class, and "" of standard training."""
    several = _named(alone)
    parts = {str(name): several.sel(attacked=name, drop=True) for name in several.attacked.values} | {"": plain}
    return combine.combine("attacked", combine.shared_seeds(parts)).assign_attrs(plain.attrs)


def _by_images(alone: xr.Dataset, other: xr.Dataset, kind: str) -> xr.Dataset:
    if kind == TRAINING:
        # They are other images, although each split counts them from 0.
        other = other.assign_coords(image=other.image + int(alone.image.max()) + 1)
    parts = {CLEAN: alone.sel(attack=["clean"]), kind: other.isel(attack=[0])}
    alike = {name: _named(part.assign_coords(attack=["any"])) for name, part in parts.items()}
    return combine.combine("shown", combine.shared_seeds(alike)).assign_attrs(alone.attrs)


_EACH = variants.combine(
    _plane, variants.choose_by_scale(variants.attack_alone(), laptop=variants.attack_alone(*CLASSES["cifar10"]))
)
_ALONE: dict[str, Any] = {"defences": ("single-class-at",), "variants": _EACH, "max_seeds": 1}
_ON_TRAINING = Evaluation(attack="pgd-20", split="train", per_class=100)
_SUBSTITUTE = Evaluation(attack="pgd-20", substitute="standard")

SECTION = Section(
    title="Adversarial training of one class",
    defences=("standard",),
    variants=_plane,
    max_seeds=1,
    features=("clean",),
    parts={
        "alone": Part(title="one class attacked alone", features=("clean", "pgd-20"), **_ALONE),
        "training": Part(title="images of the training", evaluations=(_ON_TRAINING,), **_ALONE),
        "transferred": Part(title="attacked on standard training", evaluations=(_SUBSTITUTE,), **_ALONE),
        "choosing": Part(title="the runs that select the hardest and the easiest class", defences=("pgd-at",), evaluations=()),
    },
    arrange={
        "alone": Derived(stack_attacked, ("", "alone")),
        "training": Derived(partial(_by_images, kind=TRAINING), ("alone", "training")),
        "transferred": Derived(partial(_by_images, kind=TRANSFERRED), ("alone", "transferred")),
    },
)


def attacked_names(data: xr.DataArray | xr.Dataset) -> list[str]:
    """Return the classes that some network was attacked in, without "" for standard training."""
    return [str(name) for name in data.attacked.values if name]


def select_attacked_class(values: xr.DataArray, dim: str = "label") -> xr.DataArray:
    """Return values of classes (attacked, `dim`) in the network attacked in each: along `attacked`."""
    names = attacked_names(values)
    place = xr.DataArray(names, dims="attacked", coords={"attacked": names})
    return values.sel(attacked=names).sel({dim: place}).drop_vars(dim)


def _in_standard(values: xr.DataArray) -> xr.DataArray:
    return values.sel(attacked="", drop=True).sel(label=attacked_names(values)).rename(label="attacked")


def _of_group(values: xr.DataArray, group: str) -> xr.DataArray:
    return values.sel(attacked=shown_classes(attacked_names(values))[group], drop=True)


def _rates(sums: xr.Dataset, **at: str) -> xr.DataArray:
    return select_attacked_class(metrics.accuracy(sums["count"].isel(defence=0, drop=True).sel(at, drop=True)))


def attacked_accuracy(sums: xr.Dataset, group: str, attack: str) -> xr.DataArray:
    """Return the accuracy of a class in the network that is attacked in this class alone."""
    return _of_group(_rates(sums, attack=attack), group)


def similarities(statistics: xr.Dataset) -> xr.DataArray:
    """Return the largest cosine of each class on clean images, by training along `of`, and attacked."""
    clean = statistics.sel(attack="clean", drop=True).isel(defence=0, drop=True)
    nearest = features.nearest(features.similarity(clean)).mean("seed")
    return combine.concat_named(
        "of", {"standard training": _in_standard(nearest), "attacked alone": select_attacked_class(nearest)}
    )


def similarity_gains(statistics: xr.Dataset, group: str = "") -> xr.DataArray:
    """Return by how much the largest cosine of each class exceeds that in standard training, if it is attacked alone."""
    gains = similarities(statistics).diff("of").isel(of=0, drop=True)
    return _of_group(gains, group) if group else _complete(gains, list(map(str, statistics.label.values)))


def _complete(values: xr.DataArray, names: Sequence[str]) -> xr.DataArray:
    if not {*attacked_names(values)}.issuperset(names):
        raise NotRecorded("not each class has a network that was attacked in it alone", "for each class attacked alone")
    return values


def overlap_of(sums: xr.Dataset, overlapping: tuple[str, ...], others: tuple[str, ...]) -> xr.DataArray:
    """Return the clean accuracy of some classes less that of others, each in the network that is attacked in it alone."""
    rates = _complete(_rates(sums, attack="clean"), (*overlapping, *others))
    first, second = (rates.sel(attacked=list(names)).mean("attacked", skipna=False) for names in (overlapping, others))
    return first - second


def beyond_training(sums: xr.Dataset, group: str) -> xr.DataArray:
    """Return the accuracy of a class on attacked images of the training less that on clean test images.

    NotAtScale where the former is below chance: the attack hides whether the network recognises its perturbation.
    """
    rates = _of_group(_rates(sums.isel(attack=0, drop=True)), group)
    if set(rates.dims) == {"shown"} and float(rates.sel(shown=TRAINING)) < 100 / sums.sizes["label"]:
        raise NotAtScale("under attack, even training images of the class are recognised less often than by chance")
    return rates.sel(shown=TRAINING, drop=True) - rates.sel(shown=CLEAN, drop=True)


def excess_taken(sums: xr.Dataset, group: str) -> xr.DataArray:
    """Return how much more images of other classes are predicted as a class if they are attacked on another network."""
    count = _of_group(sums["count"].isel(defence=0, attack=0, drop=True), group)
    name = shown_classes(attacked_names(sums))[group]
    others = count.where(count.label != name, 0)
    share = 100 * others.sel(predicted=name, drop=True).sum("label") / others.sum(["label", "predicted"])
    return share.sel(shown=TRANSFERRED, drop=True) - share.sel(shown=CLEAN, drop=True)


_BOTH = {"attacks": ("clean", "pgd-20")}
_SIMILAR: dict[str, Any] = {"of": "features", "attacks": ("clean",)}
_OVERLAPPING, _OTHERS = ("bird", "deer", "dog"), ("airplane", "frog", "horse", "ship", "truck")


def _accuracy(group: str, name: str, attack: str) -> dict[str, Any]:
    at = {"defence": "single-class-at", "label": name, "attack": "clean" if attack == "clean" else "pgd-10"}
    theirs = partial(TABLES.number, "text", "accuracy", **at)
    return {"measure": partial(attacked_accuracy, group=group, attack=attack), "reported": theirs, **_BOTH}


CLAIMS = claims(
    NAME,
    {
        "hardest-alone-lost": _accuracy("hardest", "cat", "clean"),
        "hardest-alone-not-robust": _accuracy("hardest", "cat", "pgd-20"),
        "easiest-alone-accurate": _accuracy("easiest", "automobile", "clean"),
        "easiest-alone-robust": _accuracy("easiest", "automobile", "pgd-20"),
        "easiest-more-similar": {"measure": partial(similarity_gains, group="easiest"), **_SIMILAR},
        "each-more-similar": {"measure": least(similarity_gains), **_SIMILAR},
        "others-overlap": {"measure": partial(overlap_of, overlapping=_OVERLAPPING, others=_OTHERS), **_BOTH},
        "perturbation-not-learned": partial(beyond_training, group="hardest"),
        "perturbation-no-evidence": partial(excess_taken, group="hardest"),
    },
    defences=("single-class-at",),
)


def clean_changes(count: xr.DataArray) -> xr.DataArray:
    """Return how much higher the clean accuracy of each class is, attacked alone, than in standard training: along `attacked`."""
    rates = metrics.accuracy(count.isel(defence=0, drop=True).sel(attack="clean", drop=True))
    return select_attacked_class(rates) - _in_standard(rates)


def accuracies(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the accuracy of each class along attacked, `of` (the training and the images) and bound, with Wilson's interval."""
    count = pooling.pool(outcomes).isel(defence=0, drop=True)
    rates = intervals.rate_bounds(metrics.correct(count), metrics.images(count))
    clean, robust = (rates.isel(attack=place, drop=True) for place in (0, -1))
    kinds = {"standard training, clean": _in_standard(clean), "attacked alone, clean": select_attacked_class(clean)}
    return combine.concat_named("of", kinds | {f"attacked alone, {outcomes.attack.values[-1]}": select_attacked_class(robust)})


def even_cosine(classes: int) -> float:
    """Return the cosine between two neighbours of so many directions that are spread evenly in a plane."""
    return float(np.cos(2 * np.pi / classes))


def places(by_run: Mapping[Spec, Sequence[xr.Dataset]], most: int = 100) -> xr.DataArray:
    """Return the features of images in the plane along attacked, images_are, label, number and axis ("x", "y").

    by_run: by a run, its features (`runs.features`) of clean images, and of attacked ones, of which those of the attacked class
    are taken; of each class at most so many images. Lengths are shares of the largest but 2 % of a network.
    """
    parts = []
    for spec, both in by_run.items():
        names = both[0].label.values.astype(str)
        attacked, length = names[int(str(spec.options["label"]))], np.quantile(np.hypot(*both[0].place.values.T), 0.98)
        for kind, data in zip(("clean", "attacked"), both, strict=True):
            table = pd.DataFrame(data.place.values / length, columns=["x", "y"]).assign(label=names[data.truth.values])
            table = table[(table["label"] == attacked) | (kind == "clean")].assign(attacked=attacked, images_are=kind)
            parts.append(table.assign(number=table.groupby("label").cumcount()).query(f"number < {most}"))
    rows = pd.concat(parts).set_index(["attacked", "images_are", "label", "number"])
    result: xr.DataArray = rows.to_xarray().to_dataarray("axis").sel(images_are=["clean", "attacked"])
    return result


def rate_as_attacked_class(outcomes: xr.Dataset, transferred: xr.Dataset, training: xr.Dataset) -> xr.DataArray:
    """Return how often images are predicted as the class that a network was attacked in, in percent with Wilson's interval.

    Along attacked, `of` (the kind of images), images_of (that class, all others) and bound. outcomes: of `stack_attacked`.
    """
    alone, attack = outcomes.sel(attacked=attacked_names(outcomes)), str(outcomes.attack.values[-1])
    kinds = {
        "clean": alone.isel(attack=[0]),
        attack: alone.isel(attack=[-1]),
        f"transferred {printed_name(attack)}": transferred.sel(shown=TRANSFERRED, drop=True),
        f"training images, {attack}": training.sel(shown=TRAINING, drop=True),
    }
    count = combine.concat_named("of", kinds, lambda some: pooling.pool(some).isel(defence=0, attack=0, drop=True))
    hits, total, same = select_attacked_class(count, "predicted"), metrics.images(count), count.label == count.attacked
    groups = {"the attacked class": same, "all other classes": ~same}
    bounds = intervals.rate_bounds
    return combine.concat_named("images_of", groups, lambda of: bounds(hits.where(of).sum("label"), total.where(of).sum("label")))
