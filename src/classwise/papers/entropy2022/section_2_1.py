"""Entropy 2022, section 2.1: networks of which the training attacks the images of one class alone, with two features.

Claims need along `attacked` the class that a network was attacked in, "" for a network of standard training. That on the images
of the training needs them along `shown`.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import xarray as xr

from classwise.core.spec import Evaluation, Spec
from classwise.papers import variants
from classwise.papers.claims import MeasurementError
from classwise.papers.entropy2022 import single_class
from classwise.papers.entropy2022.single_class import CLEAN, TRAINING, TRANSFERRED, attacked_names, of_attacked_class
from classwise.papers.entropy2022.tables import single_accuracy
from classwise.papers.sections import CLEAN_AND_PGD, Arranged, Section
from classwise.papers.terms import claims, least
from classwise.papers.variants import Variant
from classwise.stats import features, metrics

NAME = "entropy2022/2-1-single-class"
# Of digits, half of this is enough for 90 % of clean images, but not for the attacked ones of the hardest class in training. At
# the rate of the scale some networks with two features diverge.
_SMALL = {"epochs": 24, "measure": 24, "lr": 0.1}


def plane(scale: str, plain: Spec) -> Sequence[Variant]:
    """Return the one variant with two features and a last layer without bias."""
    return ({"head": "plane", **(_SMALL if scale == "quick" else {})},)


_EACH = variants.combined(
    plane, variants.by_scale(variants.attacked_alone(), laptop=variants.attacked_alone(*single_class.CLASSES["cifar10"]))
)
_ALONE: dict[str, Any] = {"defences": ("single-class-at",), "variants": _EACH, "max_seeds": 1}


SECTION = Section(
    title="Adversarial training of one class",
    defences=("standard",),
    variants=plane,
    max_seeds=1,
    evaluations=CLEAN_AND_PGD,
    features=("clean",),
    parts={
        "alone": Section(title="one class attacked alone", evaluations=CLEAN_AND_PGD, features=("clean", "pgd-20"), **_ALONE),
        "training": Section(
            title="images of the training", evaluations=(Evaluation(attack="pgd-20", split="train", per_class=100),), **_ALONE
        ),
        "transferred": Section(
            title="attacked on standard training", evaluations=(Evaluation(attack="pgd-20", substitute="standard"),), **_ALONE
        ),
        "choosing": Section(title="the runs that select the hardest and the easiest class", defences=("pgd-at",)),
    },
    arrange={
        "alone": Arranged(single_class.by_attacked, ("", "alone")),
        "training": Arranged(partial(single_class.by_images, kind=TRAINING), ("alone", "training")),
        "transferred": Arranged(partial(single_class.by_images, kind=TRANSFERRED), ("alone", "transferred")),
    },
)


def _of_group(values: xr.DataArray, group: str) -> xr.DataArray:
    """Return the member of `attacked` that is the hardest or the easiest class."""
    return values.sel(attacked=single_class.shown_classes(attacked_names(values))[group], drop=True)


def attacked_accuracy(sums: xr.Dataset, group: str, attack: str) -> xr.DataArray:
    """Return the accuracy of a class in the network that is attacked in this class alone."""
    rates = of_attacked_class(metrics.accuracy(sums["count"].isel(defence=0, drop=True).sel(attack=attack, drop=True)))
    return _of_group(rates, group)


def similarity_gains(statistics: xr.Dataset) -> xr.DataArray:
    """Return by how much the largest cosine of each class, on clean images, exceeds that in standard training.

    In the network that is attacked in this class alone; along `attacked`. The mean over the seeds.
    """
    clean = statistics.sel(attack="clean", drop=True).isel(defence=0, drop=True)
    nearest = features.nearest(features.similarity(clean)).mean("seed")
    names = attacked_names(nearest)
    plain = nearest.sel(attacked="", drop=True).sel(label=names).rename(label="attacked")
    return of_attacked_class(nearest) - plain


def similarity_gain(statistics: xr.Dataset, group: str) -> xr.DataArray:
    """Return by how much the largest cosine of a class exceeds that in standard training, if it is attacked alone."""
    return _of_group(similarity_gains(statistics), group)


def all_similarity_gains(statistics: xr.Dataset) -> xr.DataArray:
    """Return by how much the largest cosine of each class exceeds that in standard training, if it is attacked alone.

    `similarity_gains` of all classes; MeasurementError where some class has no network.
    """
    gains = similarity_gains(statistics)
    if gains.sizes["attacked"] < statistics.sizes["label"]:
        raise MeasurementError("not each class has a network that was attacked in it alone", "for each class attacked alone")
    return gains


def overlap_of(sums: xr.Dataset, overlapping: tuple[str, ...], others: tuple[str, ...]) -> xr.DataArray:
    """Return the clean accuracy of some classes less that of others, each in the network that is attacked in it alone."""
    rates = of_attacked_class(metrics.accuracy(sums["count"].isel(defence=0, drop=True).sel(attack="clean", drop=True)))
    if not set(attacked_names(rates)) >= {*overlapping, *others}:
        raise MeasurementError("not each class has a network that was attacked in it alone", "for each class attacked alone")
    first, second = (rates.sel(attacked=list(names)).mean("attacked", skipna=False) for names in (overlapping, others))
    return first - second


def beyond_training(sums: xr.Dataset, group: str) -> xr.DataArray:
    """Return the accuracy of a class on attacked images of the training less that on clean test images.

    In the network that is attacked in this class alone.
    """
    rates = _of_group(of_attacked_class(metrics.accuracy(sums["count"].isel(defence=0, attack=0, drop=True))), group)
    return rates.sel(shown=TRAINING, drop=True) - rates.sel(shown=CLEAN, drop=True)


def taken_beyond_clean(sums: xr.Dataset, group: str) -> xr.DataArray:
    """Return how much more images of other classes are predicted as a class if they are attacked on another network.

    By the network that is attacked in this class alone, in points.
    """
    count = _of_group(sums["count"].isel(defence=0, attack=0, drop=True), group)
    name = single_class.shown_classes(attacked_names(sums))[group]
    others = count.where(count.label != name, 0)
    share = 100 * others.sel(predicted=name, drop=True).sum("label") / others.sum(["label", "predicted"])
    return share.sel(shown=TRANSFERRED, drop=True) - share.sel(shown=CLEAN, drop=True)


_BOTH: dict[str, Any] = {"attacks": ("clean", "pgd-20")}
_SIMILAR: dict[str, Any] = {"of": "features", "attacks": ("clean",)}
_OVERLAPPING, _OTHERS = ("bird", "deer", "dog"), ("airplane", "frog", "horse", "ship", "truck")


def _accuracy(group: str, name: str, attack: str) -> dict[str, Any]:
    """Return the fields of a claim on the accuracy of a class in the network that is attacked in it alone; name: on CIFAR-10."""
    theirs = partial(single_accuracy, name, "clean" if attack == "clean" else "pgd-10")
    return {"measure": partial(attacked_accuracy, group=group, attack=attack), "reported": theirs, **_BOTH}


CLAIMS = claims(
    NAME,
    {
        "hardest-alone-lost": _accuracy("hardest", "cat", "clean"),
        "hardest-alone-not-robust": _accuracy("hardest", "cat", "pgd-20"),
        "easiest-alone-accurate": _accuracy("easiest", "automobile", "clean"),
        "easiest-alone-robust": _accuracy("easiest", "automobile", "pgd-20"),
        "easiest-more-similar": {"measure": partial(similarity_gain, group="easiest"), **_SIMILAR},
        "each-more-similar": {"measure": least(all_similarity_gains), **_SIMILAR},
        "others-overlap": {"measure": partial(overlap_of, overlapping=_OVERLAPPING, others=_OTHERS), **_BOTH},
        "perturbation-not-learned": partial(beyond_training, group="hardest"),
        "perturbation-no-evidence": partial(taken_beyond_clean, group="hardest"),
    },
    defences=("single-class-at",),
)
