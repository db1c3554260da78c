"""Benz et al. 2020, section 1, Figures 1 and 2, and the datasets of section 3.1: are the classes unequally accurate and robust?

That classes differ is tested by the class-wise variance (CV), of which the bootstrap of a verdict takes off what the sampling of
the images adds. Classes differ if their standard deviation is above a point: a claim of more than none could not fail. Claims
that compare radii need them along `eval_eps`, "0" for clean images.
"""

from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from classwise.core.datasets import base_dataset
from classwise.core.identity import exact_radius
from classwise.core.spec import Spec
from classwise.papers import measures
from classwise.papers.benz2020 import discrepancy
from classwise.papers.benz2020.kinds import where
from classwise.papers.claims import ON_CIFAR10, MeasurementError, claims_of
from classwise.papers.extremes import extreme
from classwise.papers.sections import CLEAN_AND_PGD, Arranged, Section
from classwise.papers.variants import Variant, by_scale, none
from classwise.stats import aggregate, agreement, combine, metrics

NAME = "benz2020/1-class-discrepancy"
NETWORKS = ("standard", "pgd-at")
# Section 3.1 names MNIST, SVHN, CIFAR-10, CIFAR-100, Tiny-ImageNet and ImageNet, of which no run here trains on the last; 20
# classes stand for Tiny-ImageNet where a single core trains.
_LARGE = ("mnist", "svhn", "cifar100")
# The classes of Tiny-ImageNet are those of its folders: it is used where a reader names it.
DATASETS = {"laptop": ("mnist", "tiny-imagenet:tiny20"), "short": _LARGE, "paper": _LARGE}


def _cluttered(scale: str, plain: Spec) -> tuple[Variant, ...]:
    """Return the same drawings on clutter, for datasets of drawings; no page shows the epochs of standard training on them."""
    if base_dataset(plain.dataset) not in ("digits", "mnist"):
        return ()
    measured = {"measure": 60} if plain.defence == "standard" else {}
    return ({"dataset": f"{base_dataset(plain.dataset)}-cluttered", **measured},)


def with_clean(plain: xr.Dataset, radii: xr.Dataset) -> xr.Dataset:
    """Return attacks at several radii along `eval_eps`, from clean images ("0") to the largest radius.

    plain: under "clean". radii: along eval_eps, under one attack.
    """
    if "eval_eps" not in radii.dims:
        raise MeasurementError("the attacks of this section have one radius only", "at smaller radii")
    clean = plain.sel(attack=["clean"]).assign_coords(attack=radii.attack.values)
    parts = {"0": clean} | {
        value: radii.sel(eval_eps=value, drop=True) for value in sorted(map(str, radii.eval_eps.values), key=exact_radius)
    }
    return combine.combine("eval_eps", combine.shared_seeds(parts)).assign_attrs(plain.attrs)


SECTION = Section(
    title="Discrepancy between classes",
    defences=NETWORKS,
    evaluations=CLEAN_AND_PGD,
    parts={
        "radii": Section(
            title="smaller radii of the attack",
            defences=NETWORKS,
            evaluations=CLEAN_AND_PGD[1:],
            at=("1/8", "1/4", "1/2", "1"),
        ),
        "cluttered": Section(
            title="the same drawings on clutter",
            defences=("standard", "trades"),
            evaluations=CLEAN_AND_PGD,
            run={"averages": ()},
            max_seeds=2,
            variants=by_scale(none, quick=_cluttered),
        ),
    },
    datasets=DATASETS,
    arrange={
        "": Arranged(lambda plain: plain, ("",)),
        "radii": Arranged(with_clean, ("", "radii")),
        "halves": Arranged(aggregate.halved, ("",)),
    },
)


def standard_variance(sums: xr.Dataset) -> xr.DataArray:
    """Return the class-wise variance (CV) of standard training at the radius that leaves half of its clean accuracy."""
    return metrics.cv(_halved(sums))


def _halved(sums: xr.Dataset) -> xr.DataArray:
    """Return counts of standard training at the radius that leaves half of its clean accuracy."""
    count = sums["count"].isel(attack=0, drop=True).sel(defence="standard", drop=True)
    return _reached(discrepancy.at_accuracy(count, metrics.overall(count.isel(eval_eps=0, drop=True)) / 2))


def _reached(count: xr.DataArray) -> xr.DataArray:
    """Return counts; MeasurementError where standard training has the accuracy at no radius."""
    if "draw" not in count.dims and not bool(count.notnull().all()):
        raise MeasurementError("standard training has this accuracy at no radius that it was evaluated at")
    return count


def _trained(sums: xr.Dataset) -> xr.DataArray:
    """Return counts of adversarial training at the largest radius."""
    return sums["count"].isel(attack=0, eval_eps=-1, drop=True).sel(defence="pgd-at", drop=True)


def standard_lies_below(sums: xr.Dataset, name: str) -> xr.DataArray:
    """Return by how much a class lies below all others in standard training, at the radius that leaves half of its accuracy."""
    return measures.lies_below(_halved(sums).to_dataset(name="count"), name, dims=())


def widened(sums: xr.Dataset, measure: metrics.Metric = metrics.mcd) -> xr.DataArray:
    """Return a measure after PGD-AT less that after standard training, on the same images."""
    value = measure(sums["count"].isel(attack=0, drop=True))
    return value.sel(defence="pgd-at", drop=True) - value.sel(defence="standard", drop=True)


def widened_attacked(sums: xr.Dataset) -> xr.DataArray:
    """Return `widened`; MeasurementError where standard training is right on no more images than a network that names one class.

    Such a network has no gap that could be widened.
    """
    count = sums["count"].isel(attack=0, drop=True).sel(defence="standard", drop=True)
    if "draw" not in count.dims and float(metrics.overall(count)) <= 100 / count.sizes["label"]:
        raise MeasurementError("standard training is right on no more attacked images than one class for all")
    return widened(sums)


def widened_at_equal_accuracy(sums: xr.Dataset) -> xr.DataArray:
    """Return the share of the variance that the class explains, PGD-AT attacked less standard training as inaccurate."""
    trained, count = _trained(sums), sums["count"].isel(attack=0, drop=True).sel(defence="standard", drop=True)
    standard = _reached(discrepancy.at_accuracy(count, metrics.overall(trained)))
    return metrics.explained_by_rates(trained) - metrics.explained_by_rates(standard)


def alike_in_halves(sums: xr.Dataset) -> xr.DataArray:
    """Return the correlation of the accuracies of the classes, standard training and PGD-AT in opposite halves of the images."""
    return between_networks(metrics.accuracy(sums["count"].isel(attack=0, drop=True)))


def between_networks(profiles: xr.DataArray) -> xr.DataArray:
    """Return the same of profiles along defence, half and label, the mean of both directions."""
    return agreement.cross_half(profiles, "defence").sel(defence="standard", other="pgd-at", drop=True)


def _drawn_between_networks(outcomes: xr.Dataset, draws: int, seed: int) -> np.ndarray:
    """Return draws of `between_networks`; reflected ones would move a correlation that few images lower further."""
    return between_networks(agreement.drawn_profiles(outcomes, "defence", draws, seed)).values


def ahead_of_the_rest(sums: xr.Dataset) -> xr.DataArray:
    """Return the gap (MCD) of PGD-AT attacked less the largest of the other three panels of Figures 1 and 2."""
    return ahead_of_each(sums).min("panel", skipna=False)


def ahead_of_each(sums: xr.Dataset) -> xr.DataArray:
    """Return the gap (MCD) of PGD-AT attacked less that of each other panel."""
    gaps = metrics.mcd(sums["count"])
    most = gaps.sel(defence="pgd-at", drop=True).isel(attack=1, drop=True)
    others = [gaps.sel(defence=name, drop=True).isel(attack=place, drop=True) for name, place in _OTHER_PANELS]
    return xr.concat([most - other for other in others], "panel")


_OTHER_PANELS = (("standard", 0), ("standard", 1), ("pgd-at", 0))


def lost_and_gained(sums: xr.Dataset) -> xr.DataArray:
    """Return the accuracy that PGD-AT loses on clean images, and the robust accuracy that it gains."""
    rates = metrics.overall(sums["count"])
    gain = rates.sel(defence="pgd-at", drop=True) - rates.sel(defence="standard", drop=True)
    return xr.concat([-gain.isel(attack=0, drop=True), gain.isel(attack=1, drop=True)], "kind")


def least_of_both(sums: xr.Dataset) -> xr.DataArray:
    """Return the accuracy lost on clean images by PGD-AT, or the robust accuracy gained, whichever is less."""
    return lost_and_gained(sums).min("kind", skipna=False)


_ATTACK = "pgd-20|pgd-40|pgd-50"
_SQUARED: dict[str, Any] = {"unit": "points squared", "low": 1}
_UNDER_ATTACK: dict[str, Any] = {"attacks": (_ATTACK,)}
_OVER_RADII: dict[str, Any] = {"attacks": (_ATTACK,), "data": "radii", "dims": ("eval_eps",)}
_BOTH: dict[str, Any] = {"attacks": ("clean", _ATTACK)}
_claim = claims_of(NAME, defences=NETWORKS, attacks=("clean",))
# Their classes have as many images, of digits up to a few.
_BALANCED = ("digits", "cifar10", "cifar100", "stl10", "tiny-imagenet", "tiny-imagenet:tiny20")

CLAIMS = (
    _claim(
        "standard-clean-discrepancy",
        where("abstract, Figure 1", "found"),
        "After standard training the classes differ in accuracy.",
        partial(measures.of_first, measure=metrics.cv),
        **_SQUARED | {"defences": ("standard",)},
    ),
    _claim(
        "standard-robust-discrepancy",
        where("abstract, Figure 1", "found"),
        "After standard training the classes differ in robustness: at the radius that leaves half of the clean accuracy.",
        standard_variance,
        **_SQUARED | _OVER_RADII | {"defences": ("standard",)},
    ),
    _claim(
        "cat-is-vulnerable",
        where("abstract", "found"),
        "After standard training the class cat is more vulnerable than all others: at the radius that leaves half the accuracy.",
        partial(standard_lies_below, name="cat"),
        **_OVER_RADII | ON_CIFAR10 | {"defences": ("standard",)},
    ),
    _claim(
        "wider-clean",
        where("1", "found"),
        "Adversarial training widens the gap between the classes without an attack.",
        widened,
    ),
    _claim(
        "wider-attacked",
        where("1", "found"),
        "Adversarial training widens the gap under attack at the same radius "
        "(tested only where standard training has any robust accuracy).",
        widened_attacked,
        **_UNDER_ATTACK,
    ),
    _claim(
        "not-from-unequal-classes",
        where("1, first", "found"),
        "After adversarial training the classes differ in robustness although each has as many images.",
        partial(measures.of_first, measure=metrics.cv),
        **_SQUARED | _UNDER_ATTACK | {"defences": ("pgd-at",)},
        datasets=_BALANCED,
        excluded_because="its classes differ in the number of images",
    ),
    _claim(
        "wider-at-equal-accuracy",
        where("1", "control"),
        "The class explains more of the mistakes after adversarial training than after standard training at the radius at which "
        "that is as inaccurate.",
        widened_at_equal_accuracy,
        **_OVER_RADII,
    ),
    _claim(
        "similar-trend",
        where("1, second", "found"),
        "Classes that are inaccurate after standard training are so after adversarial training, on other images.",
        alike_in_halves,
        truth=_drawn_between_networks,
        unit="correlation",
        data="halves",
        dims=("half",),
    ),
    _claim(
        "most-for-attacked",
        where("1, third, as read here", "found"),
        "The gap of the adversarially trained network under attack is the largest of the four panels.",
        ahead_of_the_rest,
        truth=extreme(ahead_of_each),
        **_BOTH,
    ),
    _claim(
        "accuracy-for-robustness",
        where("2.1", "cited"),
        "Adversarial training brings robustness and costs accuracy.",
        least_of_both,
        truth=extreme(lost_and_gained),
        **_BOTH,
    ),
)
