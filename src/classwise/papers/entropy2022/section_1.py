"""Entropy 2022, section 1.1: which classes lose in adversarial training, and whether their features become more similar.

Claims on standard training at the clean accuracy of PGD-AT need networks along `network`: "standard", "pgd-at", and standard
trainings of fewer epochs, "standard, 2 epochs".
"""

from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from classwise.core.spec import Evaluation, Spec
from classwise.papers.claims import MeasurementError
from classwise.papers.entropy2022 import similarity as likeness
from classwise.papers.joined import plain
from classwise.papers.scales import SCALES
from classwise.papers.sections import CLEAN_AND_PGD, Arranged, Section
from classwise.papers.terms import claims, correlation, least, of
from classwise.papers.variants import Variant, by_scale, none
from classwise.stats import combine, features, metrics

NAME = "entropy2022/1-robust-fairness"
NETWORKS = ("standard", "pgd-at", "trades")
_TRAINED = NETWORKS[1:]
# Epochs of standard trainings that are too short, at scale quick: from one whose clean accuracy is far below that of PGD-AT.
_SHORTER = (2, 3, 4, 6, 8)


def _fewer_epochs(scale: str, plain: Spec) -> tuple[Variant, ...]:
    return tuple({"epochs": epochs, "measure": 100} for epochs in _SHORTER)


def with_shorter(plain: xr.Dataset, shorter: xr.Dataset) -> xr.Dataset:
    """Return the networks and the standard trainings of fewer epochs along `network`, of the seeds that all have.

    plain: of standard and other networks along defence. shorter: along epochs. The coordinate `epochs` is 0 for networks that
    are not of standard training.
    """
    full = {name: plain.sel(defence=[name]) for name in map(str, plain.defence.values)}
    parts = {f"standard, {epochs} epochs": shorter.sel(epochs=epochs, drop=True) for epochs in shorter.epochs.values}
    kept = [name for name in plain.attack.values if name in shorter.attack.values]
    full = {name: part.sel(attack=kept) for name, part in full.items()}
    joined = combine.combine("network", combine.shared_seeds(full | parts))
    epochs = [_epochs(name) for name in map(str, joined.network.values)]
    return joined.assign_coords(epochs=("network", epochs))


def _epochs(network: str) -> int:
    """Return the epochs of a standard training, which only scale quick repeats with fewer; 0 for other networks."""
    if network == "standard":
        return int(SCALES["quick"].run["epochs"])
    return int(network.split(", ")[1].split()[0]) if network.startswith("standard, ") else 0


SECTION = Section(
    title="Robust fairness",
    defences=NETWORKS,
    evaluations=CLEAN_AND_PGD,
    features=("clean",),
    parts={
        "shorter": Section(
            title="standard trainings of fewer epochs",
            defences=("standard",),
            evaluations=(Evaluation(attack="clean"),),
            features=("clean",),
            variants=by_scale(none, quick=_fewer_epochs),
        ),
    },
    arrange={"": plain(), "shorter": Arranged(with_shorter, ("", "shorter"))},
)


def lead_of_car_over_cat(count: xr.DataArray) -> xr.DataArray:
    """Return the accuracy of the class car less that of the class cat."""
    rates = metrics.accuracy(count)
    return rates.sel(label="automobile", drop=True) - rates.sel(label="cat", drop=True)


def drops(count: xr.DataArray) -> xr.DataArray:
    """Return by how many points each class of each other network is below standard training on clean images.

    count: along defence and attack.
    """
    rates = metrics.accuracy(count.sel(attack="clean", drop=True))
    others = [name for name in rates.defence.values if name != "standard"]
    return (rates.sel(defence="standard", drop=True) - rates.sel(defence=others)).rename("drop")


def share_of_two(sums: xr.Dataset, defence: str = "pgd-at", named: tuple[str, ...] = ()) -> xr.DataArray:
    """Return the share of two classes, the least robust or the named ones, in the drop of clean accuracy, in percent."""
    clean, attacked = (metrics.accuracy(sums["count"].isel(attack=place, drop=True)) for place in (0, 1))
    lost = clean.sel(defence="standard", drop=True) - clean.sel(defence=defence, drop=True)
    robust = attacked.sel(defence=defence, drop=True)
    total, axis = lost.sum("label", skipna=False), robust.get_axis_num("label")
    if not total.ndim and float(total) <= 0:
        raise MeasurementError(f"the clean accuracy of {defence} is not below that of standard training: there is no drop")
    least = np.argsort(np.argsort(robust.values, axis=axis, kind="stable"), axis=axis) < 2
    chosen = robust.label.isin(named) if named else robust.copy(data=least)
    return 100 * lost.where(chosen, 0).sum("label") / total.where(total > 0)


def _means(values: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the mean over the classes of both adversarial trainings, and that of standard training."""
    means = values.mean("label", skipna=False)
    return means.sel(defence=list(_TRAINED)), means.sel(defence="standard", drop=True)


def variance_ratios(statistics: xr.Dataset, *, relative: bool = False) -> xr.DataArray:
    """Return the mean variance of PGD-AT and of TRADES over that of standard training, along defence."""
    trained, standard = _means((likeness.relative_variance if relative else likeness.variance)(statistics))
    return trained / standard


def similarity_gains(statistics: xr.Dataset, *, corrected: bool = False) -> xr.DataArray:
    """Return by how much the mean similarity of PGD-AT and of TRADES exceeds that of standard training, along defence."""
    trained, standard = _means(likeness.similarity(statistics, centred=corrected, debiased=corrected))
    return trained - standard


def nearest_in_accuracy(accuracy: xr.DataArray, trained: str) -> xr.DataArray:
    """Return which standard training, along `network`, has the clean accuracy nearest to that of a network: true or false."""
    distance = abs(accuracy - accuracy.sel(network=trained, drop=True)).where(accuracy.epochs > 0)
    return distance == distance.min("network")


def gains_at_equal_accuracy(statistics: xr.Dataset) -> xr.DataArray:
    """Return by how much the mean similarity of PGD-AT and of TRADES exceeds that of the nearest standard training in accuracy.

    Along `trained`.
    """
    statistics = statistics.isel(defence=0, drop=True)
    accuracy, values = likeness.clean_accuracy(statistics), likeness.similarity(statistics).mean("label", skipna=False)
    names = [name for name in _TRAINED if name in values.network.values]
    gains = [
        values.sel(network=name, drop=True) - values.where(nearest_in_accuracy(accuracy, name)).mean("network") for name in names
    ]
    return xr.concat(gains, "trained").assign_coords(trained=names)


def accuracy_and_similarity(statistics: xr.Dataset) -> xr.DataArray:
    """Return clean accuracy, in percent, and mean similarity of each network along a new dimension `quantity`."""
    statistics = statistics.isel(defence=0, drop=True)
    parts = [likeness.clean_accuracy(statistics), likeness.similarity(statistics).mean("label")]
    joined: xr.DataArray = xr.concat(parts, "quantity", coords="minimal", compat="override")
    return joined.assign_coords(quantity=["accuracy", "similarity"])


def hardest(count: xr.DataArray) -> str:
    """Return the name of the class that is the least robust in PGD-AT under the last attack."""
    name = "pgd-at" if "pgd-at" in count.defence.values else count.defence.values[-1]
    return str(metrics.accuracy(count.isel(attack=-1).sel(defence=name)).idxmin("label").item())


def _of_hardest(statistics: xr.Dataset) -> xr.DataArray:
    """Return which class is the least robust in PGD-AT, as true or false along label."""
    robust = likeness.robust_accuracy(statistics).sel(defence="pgd-at", drop=True)
    return robust == robust.min("label")


def variance_leads(statistics: xr.Dataset) -> xr.DataArray:
    """Return by which share the variance of the hardest class exceeds the largest other one, in percent, along defence."""
    values, hardest = likeness.variance(statistics), _of_hardest(statistics)
    return 100 * (values.where(hardest).mean("label") / values.where(~hardest).max("label") - 1)


def similarity_leads(statistics: xr.Dataset) -> xr.DataArray:
    """Return by how much the similarity of the hardest class exceeds that of all pairs without it, along defence."""
    cosines = features.similarity(likeness.of_clean(statistics)).mean("seed")
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
_FEATURES: dict[str, Any] = {"of": "features", "defences": NETWORKS}
_LEAD = of(lead_of_car_over_cat, "standard")

CLAIMS = claims(
    NAME,
    {
        "clean-gap-grows": {"measure": of(metrics.mcd, "pgd-at") - of(metrics.mcd, "standard"), **_BOTH},
        "cat-and-car": {"measure": of(lead_of_car_over_cat, "pgd-at") - _LEAD, **_BOTH},
        "cat-and-car-attacked": of(lead_of_car_over_cat, "pgd-at", _UNDER_ATTACK) - _LEAD,
        "half-of-the-drop": {"measure": share_of_two, **_TWO},
        "cat-and-bird": {"measure": partial(share_of_two, named=("cat", "bird")), **_TWO},
        "hard-classes-pay": correlation(
            of(metrics.accuracy, "standard") - of(metrics.accuracy, "pgd-at"), of(metrics.accuracy, "pgd-at", _UNDER_ATTACK)
        ),
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
            **_FEATURES,
            "measure": partial(similarity_and_robustness, similar="pgd-at"),
            "defences": ("pgd-at",),
        },
    },
    **_BOTH,
)
