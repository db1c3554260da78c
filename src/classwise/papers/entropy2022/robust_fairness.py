"""Entropy 2022, section 1.1: which classes lose in adversarial training, and whether their features become more similar.

Claims on standard training at the clean accuracy of PGD-AT need networks along `network`: "standard", "pgd-at", and standard
trainings of fewer epochs, "standard, 2 epochs".
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from classwise.core.errors import NotAtScale
from classwise.core.spec import Evaluation
from classwise.papers.entropy2022 import similarity as likeness
from classwise.papers.scales import SCALES
from classwise.papers.sections import Derived, Member, Part, Section, join_parts
from classwise.papers.terms import claims, correlation, least, value
from classwise.papers.variants import choose_by_scale, each, none
from classwise.stats import combine, features, metrics

NAME = "entropy2022/1-robust-fairness"
NETWORKS = ("standard", "pgd-at", "trades")
_TRAINED = NETWORKS[1:]
# Epochs of standard trainings that are too short, at scale quick: from one whose clean accuracy is far below that of PGD-AT.
_SHORTER = (2, 3, 4, 6, 8)


def _with_epochs(networks: xr.Dataset, members: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Return networks with the coordinate `epochs`, 0 of all but standard trainings, which only scale quick has."""
    epochs = {"standard": int(SCALES["quick"].run["epochs"])} | {name: int(name) for name in members if name.isdigit()}
    names = [f"standard, {name} epochs" if name.isdigit() else name for name in members]
    return networks.assign_coords(network=names, epochs=("network", [epochs.get(name, 0) for name in members]))


SECTION = Section(
    title="Robust fairness",
    defences=NETWORKS,
    features=("clean",),
    parts={
        "shorter": Part(
            title="standard trainings of fewer epochs",
            defences=("standard",),
            evaluations=(Evaluation(attack="clean"),),
            features=("clean",),
            variants=choose_by_scale(none, quick=each(*({"epochs": epochs, "measure": 100} for epochs in _SHORTER))),
        )
    },
    arrange={
        "": Derived(lambda outcomes: outcomes, ("",)),
        "shorter": join_parts(
            "network",
            *(Member("", name, at={"defence": name, "attack": "clean"}) for name in NETWORKS),
            Member("shorter", by="epochs"),
            then=_with_epochs,
        ),
    },
)


def car_minus_cat(count: xr.DataArray) -> xr.DataArray:
    """Return the accuracy of the class car less that of the class cat."""
    rates = metrics.accuracy(count)
    return rates.sel(label="automobile", drop=True) - rates.sel(label="cat", drop=True)


def drops(count: xr.DataArray) -> xr.DataArray:
    """Return by how many points each class of PGD-AT and of TRADES is below standard training on clean images."""
    rates = metrics.accuracy(count.sel(attack="clean", drop=True))
    return rates.sel(defence="standard", drop=True) - rates.sel(defence=list(_TRAINED))


def share_of_two(sums: xr.Dataset, defence: str = "pgd-at", named: tuple[str, ...] = ()) -> xr.DataArray:
    """Return the share of two classes, the least robust or the named ones, in the drop of clean accuracy, in percent."""
    clean, attacked = (metrics.accuracy(sums["count"].isel(attack=place, drop=True)) for place in (0, 1))
    lost = clean.sel(defence="standard", drop=True) - clean.sel(defence=defence, drop=True)
    robust = attacked.sel(defence=defence, drop=True)
    total, axis = lost.sum("label", skipna=False), robust.get_axis_num("label")
    if not total.ndim and float(total) <= 0:
        raise NotAtScale(f"standard training is no more accurate on clean images than {defence}: there is no drop")
    least = np.argsort(np.argsort(robust.values, axis=axis, kind="stable"), axis=axis) < 2
    chosen = robust.label.isin(named) if named else robust.copy(data=least)
    return 100 * lost.where(chosen, 0).sum("label") / total.where(total > 0)


def _means(values: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    means = likeness.mean(values)
    return means.sel(defence=list(_TRAINED)), means.sel(defence="standard", drop=True)


def variance_ratios(statistics: xr.Dataset, *, relative: bool = False) -> xr.DataArray:
    """Return the mean variance of PGD-AT and of TRADES over that of standard training, along defence."""
    trained, standard = _means((likeness.relative_variance if relative else likeness.variance)(statistics))
    return trained / standard


def similarity_gains(statistics: xr.Dataset, *, corrected: bool = False) -> xr.DataArray:
    """Return by how much the mean similarity of PGD-AT and of TRADES exceeds that of standard training, along defence."""
    trained, standard = _means(likeness.similarity(statistics, centred=corrected, debiased=corrected))
    return trained - standard


def gains_at_equal_accuracy(statistics: xr.Dataset) -> xr.DataArray:
    """Return by how much the mean similarity of PGD-AT and of TRADES exceeds that of the nearest standard training in accuracy.

    Along `trained`.
    """
    both = accuracy_and_similarity(statistics)
    accuracy, values = (both.sel(quantity=name, drop=True) for name in ("accuracy", "similarity"))
    standard = accuracy.where(accuracy.epochs > 0)

    def gain(name: str) -> xr.DataArray:
        distance = abs(standard - accuracy.sel(network=name, drop=True))
        return values.sel(network=name, drop=True) - values.where(distance == distance.min("network")).mean("network")

    return combine.concat_named("trained", {name: name for name in _TRAINED}, gain)


def accuracy_and_similarity(statistics: xr.Dataset) -> xr.DataArray:
    """Return clean accuracy, in percent, and mean similarity of each network along a new dimension `quantity`."""
    statistics = statistics.isel(defence=0, drop=True)
    similar = likeness.mean(likeness.similarity(statistics))
    accuracy = metrics.overall(likeness.clean_statistics(statistics)["count"].sum("seed"))
    return combine.concat_named("quantity", {"accuracy": accuracy, "similarity": similar})


def _of_hardest(statistics: xr.Dataset) -> xr.DataArray:
    robust = likeness.robust_accuracy(statistics).sel(defence="pgd-at", drop=True)
    return robust == robust.min("label")


def variance_leads(statistics: xr.Dataset) -> xr.DataArray:
    """Return by which share the variance of the hardest class exceeds the largest other one, in percent, along defence."""
    values, hardest = likeness.variance(statistics), _of_hardest(statistics)
    return 100 * (values.where(hardest).mean("label") / values.where(~hardest).max("label") - 1)


def similarity_leads(statistics: xr.Dataset) -> xr.DataArray:
    """Return by how much the similarity of the hardest class exceeds that of all pairs without it, along defence."""
    cosines = features.similarity(likeness.clean_statistics(statistics)).mean("seed")
    hardest = _of_hardest(statistics)
    pairs = cosines.where(cosines.label != cosines.other)
    of_hardest = pairs.where(hardest).max(["label", "other"])
    return of_hardest - pairs.where(~hardest & ~hardest.rename(label="other")).max(["label", "other"])


def similarity_and_robustness(statistics: xr.Dataset, similar: str) -> xr.DataArray:
    """Return the correlation over classes of the similarity in a training with the robust accuracy in PGD-AT."""
    first = likeness.similarity(statistics).sel(defence=similar, drop=True)
    return xr.corr(first, likeness.robust_accuracy(statistics).sel(defence="pgd-at", drop=True), dim="label")


_UNDER_ATTACK = "pgd-20|pgd-10"
_BOTH: dict[str, Any] = {"attacks": ("clean", _UNDER_ATTACK)}
_TWO: dict[str, Any] = {"defences": ("standard", "pgd-at")}
_FEATURES: dict[str, Any] = {"of": "features", "defences": NETWORKS, "permuted": "count"}
_LEAD = value(car_minus_cat, "standard")

CLAIMS = claims(
    NAME,
    {
        "clean-gap-grows": {"measure": value(metrics.mcd, "pgd-at") - value(metrics.mcd, "standard"), **_BOTH},
        "cat-and-car": {"measure": value(car_minus_cat, "pgd-at") - _LEAD, **_BOTH},
        "cat-and-car-attacked": value(car_minus_cat, "pgd-at", _UNDER_ATTACK) - _LEAD,
        "half-of-the-drop": {"measure": share_of_two, **_TWO},
        "cat-and-bird": {"measure": partial(share_of_two, named=("cat", "bird")), **_TWO},
        "hard-classes-pay": {
            "measure": correlation(
                value(metrics.accuracy, "standard") - value(metrics.accuracy, "pgd-at"),
                value(metrics.accuracy, "pgd-at", _UNDER_ATTACK),
            ),
            "permuted": "attack",
        },
        "lower-variance": {"measure": least(variance_ratios, largest=True), **_FEATURES},
        "lower-relative-variance": {"measure": least(partial(variance_ratios, relative=True), largest=True), **_FEATURES},
        "higher-similarity": {"measure": least(similarity_gains), **_FEATURES},
        "higher-corrected-similarity": {"measure": least(partial(similarity_gains, corrected=True)), **_FEATURES},
        "higher-similarity-at-equal-accuracy": {
            "measure": least(gains_at_equal_accuracy),
            "of": "features",
            "attacks": ("clean",),
        },
        "hardest-has-not-the-largest-variance": {"measure": least(variance_leads, largest=True), **_FEATURES},
        "hardest-has-the-largest-similarity": {"measure": least(similarity_leads), **_FEATURES},
        "hard-classes-are-similar-classes": {
            "measure": partial(similarity_and_robustness, similar="standard"),
            **_FEATURES,
            **_TWO,
        },
        "hard-classes-are-similar-in-pgd-at": {
            "measure": partial(similarity_and_robustness, similar="pgd-at"),
            **_FEATURES,
            "defences": ("pgd-at",),
        },
    },
    **_BOTH,
)


def stack_epochs(values: xr.DataArray) -> xr.DataArray:
    """Return values along network by defence and epochs, those of networks that are not of standard training by their name."""
    networks = zip(values.network.values, values.epochs.values, strict=True)
    keys = [("standard", str(epochs)) if epochs else (str(name), str(name)) for name, epochs in networks]
    return combine.apart(values.drop_vars("epochs"), "network", keys, ("defence", "epochs"))
