"""Entropy 2022, section 1.1: which classes lose in adversarial training, and whether their features become more similar.

Claims on standard training at the clean accuracy of PGD-AT need networks along `network`: "standard", "pgd-at", and standard
trainings of fewer epochs, "standard, 2 epochs".
"""

from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from classwise.core.spec import Evaluation, Spec
from classwise.papers.claims import ON_CIFAR10, MeasurementError, claims_of
from classwise.papers.entropy2022 import similarity as likeness
from classwise.papers.extremes import extreme
from classwise.papers.scales import SCALES
from classwise.papers.sections import CLEAN_AND_PGD, Arranged, Section
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
    arrange={"": Arranged(lambda plain: plain, ("",)), "shorter": Arranged(with_shorter, ("", "shorter"))},
)


def _clean(sums: xr.Dataset, defence: str) -> xr.DataArray:
    return sums["count"].isel(attack=0, drop=True).sel(defence=defence, drop=True)


def _robust(sums: xr.Dataset, defence: str) -> xr.DataArray:
    return metrics.accuracy(sums["count"].isel(attack=1, drop=True).sel(defence=defence, drop=True))


def gap_change(sums: xr.Dataset) -> xr.DataArray:
    """Return how much further apart the best and the worst class are on clean images in PGD-AT than in standard training."""
    return metrics.mcd(_clean(sums, "pgd-at")) - metrics.mcd(_clean(sums, "standard"))


def pair_change(sums: xr.Dataset, first: str, second: str, *, attacked: bool = False) -> xr.DataArray:
    """Return how much further one class is above another in PGD-AT than, on clean images, in standard training."""
    trained = _robust(sums, "pgd-at") if attacked else metrics.accuracy(_clean(sums, "pgd-at"))
    change = trained - metrics.accuracy(_clean(sums, "standard"))
    return change.sel(label=first, drop=True) - change.sel(label=second, drop=True)


def drop(sums: xr.Dataset, defence: str = "pgd-at") -> xr.DataArray:
    """Return by how many points the clean accuracy of each class is lower than in standard training."""
    return metrics.accuracy(_clean(sums, "standard")) - metrics.accuracy(_clean(sums, defence))


def drops(count: xr.DataArray) -> xr.DataArray:
    """Return by how many points each class of each other network is below standard training on clean images.

    count: along defence and attack.
    """
    rates = metrics.accuracy(count.sel(attack="clean", drop=True))
    others = [name for name in rates.defence.values if name != "standard"]
    return (rates.sel(defence="standard", drop=True) - rates.sel(defence=others)).rename("drop")


def share_of_two(sums: xr.Dataset, defence: str = "pgd-at", named: tuple[str, ...] = ()) -> xr.DataArray:
    """Return the share of two classes, the least robust or the named ones, in the drop of clean accuracy, in percent."""
    lost, robust = drop(sums, defence), _robust(sums, defence)
    total, axis = lost.sum("label", skipna=False), robust.get_axis_num("label")
    if not total.ndim and float(total) <= 0:
        raise MeasurementError(f"the clean accuracy of {defence} is not below that of standard training: there is no drop")
    least = np.argsort(np.argsort(robust.values, axis=axis, kind="stable"), axis=axis) < 2
    chosen = robust.label.isin(named) if named else robust.copy(data=least)
    return 100 * lost.where(chosen, 0).sum("label") / total.where(total > 0)


def drop_and_robustness(sums: xr.Dataset) -> xr.DataArray:
    """Return the correlation over classes of the drop of clean accuracy with the robust accuracy of PGD-AT."""
    return xr.corr(drop(sums), _robust(sums, "pgd-at"), dim="label")


def _means(values: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the mean over the classes of both adversarial trainings, and that of standard training."""
    means = values.mean("label", skipna=False)
    return means.sel(defence=list(_TRAINED)), means.sel(defence="standard", drop=True)


def variance_ratios(statistics: xr.Dataset, *, relative: bool = False) -> xr.DataArray:
    """Return the mean variance of PGD-AT and of TRADES over that of standard training, along defence."""
    trained, standard = _means((likeness.relative_variance if relative else likeness.variance)(statistics))
    return trained / standard


def largest_variance_ratio(statistics: xr.Dataset, *, relative: bool = False) -> xr.DataArray:
    """Return the mean variance of PGD-AT or TRADES over that of standard training, whichever is larger."""
    return variance_ratios(statistics, relative=relative).max("defence", skipna=False)


def similarity_gains(statistics: xr.Dataset, *, corrected: bool = False) -> xr.DataArray:
    """Return by how much the mean similarity of PGD-AT and of TRADES exceeds that of standard training, along defence."""
    trained, standard = _means(likeness.similarity(statistics, centred=corrected, debiased=corrected))
    return trained - standard


def least_similarity_gain(statistics: xr.Dataset, *, corrected: bool = False) -> xr.DataArray:
    """Return by how much the mean similarity of PGD-AT or TRADES exceeds that of standard training, whichever less."""
    return similarity_gains(statistics, corrected=corrected).min("defence", skipna=False)


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


def least_gain_at_equal_accuracy(statistics: xr.Dataset) -> xr.DataArray:
    """Return by how much the similarity of PGD-AT or TRADES exceeds that of the nearest standard training, whichever less."""
    return gains_at_equal_accuracy(statistics).min("trained", skipna=False)


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


def largest_variance_lead(statistics: xr.Dataset) -> xr.DataArray:
    """Return by which share the variance of the hardest class exceeds the largest other one where it does so most, in percent."""
    return variance_leads(statistics).max("defence", skipna=False)


def similarity_leads(statistics: xr.Dataset) -> xr.DataArray:
    """Return by how much the similarity of the hardest class exceeds that of all pairs without it, along defence."""
    cosines = features.similarity(likeness.of_clean(statistics)).mean("seed")
    hardest = _of_hardest(statistics)
    pairs = cosines.where(cosines.label != cosines.other)
    of_hardest = pairs.where(hardest).max(["label", "other"])
    return of_hardest - pairs.where(~hardest & ~hardest.rename(label="other")).max(["label", "other"])


def least_similarity_lead(statistics: xr.Dataset) -> xr.DataArray:
    """Return by how much the similarity of the hardest class exceeds that of all pairs without it, where it does so least."""
    return similarity_leads(statistics).min("defence", skipna=False)


def similarity_and_robustness(statistics: xr.Dataset, similar: str) -> xr.DataArray:
    """Return the correlation over classes of the similarity in a training with the robust accuracy in PGD-AT."""
    first = likeness.similarity(statistics).sel(defence=similar, drop=True)
    return xr.corr(first, likeness.robust_accuracy(statistics).sel(defence="pgd-at", drop=True), dim="label")


_UNDER_ATTACK = "pgd-20|pgd-10"
_claim = claims_of(NAME, defences=("standard", "pgd-at"), attacks=("clean", _UNDER_ATTACK))
_OF_FEATURES: dict[str, Any] = {"of": "features", "defences": NETWORKS}
_COSINE: dict[str, Any] = {"unit": "of the cosine", **_OF_FEATURES}
_BELOW: dict[str, Any] = {"low": -np.inf, "high": 0}
_CORRELATION: dict[str, Any] = {"unit": "correlation", "low": -np.inf, "high": 0}
_LESS: dict[str, Any] = {"unit": "times", "low": -np.inf, "high": 1, **_OF_FEATURES}
_both = partial(extreme, of="features")

CLAIMS = (
    _claim(
        "clean-gap-grows",
        "1.1, Figure 1a, b",
        "Classes whose accuracies are similar in standard training are far apart after PGD-AT: without an attack, the gap grows.",
        gap_change,
    ),
    _claim(
        "cat-and-car",
        "1.1, Figure 1a, b",
        "Without an attack, the class cat falls further behind the class car in PGD-AT than in standard training.",
        partial(pair_change, first="automobile", second="cat"),
        **ON_CIFAR10,
    ),
    _claim(
        "cat-and-car-attacked",
        "1.1, Figure 1a, b",
        "Under an attack, the class cat is further behind the class car in PGD-AT than without one in standard training.",
        partial(pair_change, first="automobile", second="cat", attacked=True),
        **ON_CIFAR10,
    ),
    _claim(
        "half-of-the-drop",
        "1.1, Figure 1c",
        "Two classes, the least robust ones, contribute almost half of the drop in clean accuracy: more than 40 %.",
        share_of_two,
        low=40,
        unit="%",
    ),
    _claim(
        "cat-and-bird",
        "1.1, Figure 1c",
        "The classes cat and bird contribute almost half of the drop in clean accuracy: more than 40 %.",
        partial(share_of_two, named=("cat", "bird")),
        low=40,
        unit="%",
        **ON_CIFAR10,
    ),
    _claim(
        "hard-classes-pay",
        "1.1, Figure 1c",
        "The classes that lose most clean accuracy in PGD-AT are those of the lowest robust accuracy.",
        drop_and_robustness,
        **_CORRELATION,
    ),
    _claim(
        "lower-variance",
        "1.1, Figure 2b",
        "The variance of the features of a class is lower in PGD-AT and in TRADES than in standard training.",
        largest_variance_ratio,
        truth=_both(variance_ratios, largest=True),
        **_LESS,
    ),
    _claim(
        "lower-relative-variance",
        "1.1, a control of ours",
        "The same of the variance over the squared length of the mean, which does not depend on the scale of the features.",
        partial(largest_variance_ratio, relative=True),
        truth=_both(partial(variance_ratios, relative=True), largest=True),
        **_LESS,
    ),
    _claim(
        "higher-similarity",
        "1.1, Figure 2a",
        "The largest cosine of a class with another one is higher in PGD-AT and in TRADES than in standard training.",
        least_similarity_gain,
        truth=_both(similarity_gains),
        **_COSINE,
    ),
    _claim(
        "higher-corrected-similarity",
        "1.1, a control of ours",
        "The same of the means less the mean of all classes, corrected for the number of images.",
        partial(least_similarity_gain, corrected=True),
        truth=_both(partial(similarity_gains, corrected=True)),
        **_COSINE,
    ),
    _claim(
        "higher-similarity-at-equal-accuracy",
        "1.1, a control of ours",
        "The similarity of PGD-AT and of TRADES is higher than that of standard training of as many epochs as give their clean "
        "accuracy.",
        least_gain_at_equal_accuracy,
        truth=_both(gains_at_equal_accuracy),
        **_COSINE | {"defences": (), "attacks": ("clean",), "dims": ("network",), "data": "shorter"},
    ),
    _claim(
        "hardest-has-not-the-largest-variance",
        "1.1, Figure 2b",
        "The least robust class does not have the largest variance in any of the three networks.",
        largest_variance_lead,
        truth=_both(variance_leads, largest=True),
        **{**_OF_FEATURES, "unit": "%", **_BELOW},
    ),
    _claim(
        "hardest-has-the-largest-similarity",
        "1.1, Figure 2a",
        "The least robust class has the largest similarity in each of the three networks.",
        least_similarity_lead,
        truth=_both(similarity_leads),
        **_COSINE,
    ),
    _claim(
        "hard-classes-are-similar-classes",
        "2.3",
        "The more similar a class is to another one in standard training, the less robust it is after PGD-AT.",
        partial(similarity_and_robustness, similar="standard"),
        **_CORRELATION | {"of": "features", "defences": ("standard", "pgd-at")},
    ),
    _claim(
        "hard-classes-are-similar-in-pgd-at",
        "2.3, a control of ours",
        "The more similar a class is to another one in PGD-AT, the less robust it is.",
        partial(similarity_and_robustness, similar="pgd-at"),
        **_CORRELATION | {"of": "features", "defences": ("pgd-at",)},
    ),
)
