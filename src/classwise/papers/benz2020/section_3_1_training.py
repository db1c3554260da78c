"""Benz et al. 2020, section 3.1: accuracy and robustness of the classes over the training.

The claims need along `epoch` the weights after some epochs of one training, without those that have not learned yet.
"""

import numpy as np
import xarray as xr

from classwise.core.datasets import base_dataset
from classwise.core.spec import Evaluation
from classwise.papers.benz2020 import networks
from classwise.papers.benz2020.networks import KEPT_EPOCHS, STEP
from classwise.papers.claims import MeasurementError
from classwise.papers.extremes import extreme
from classwise.papers.sections import CLEAN_AND_PGD, Arranged, Section
from classwise.papers.selection import VULNERABLE_PAIRS
from classwise.papers.terms import claims, of_profiles
from classwise.stats import aggregate, agreement, metrics
from classwise.stats.agreement import cross_half, interval

NAME = "benz2020/3-1-over-training"
# The epochs that are evaluated of `networks.STEP`, whose learning rate drops after half and three quarters of them. The first of
# the second half is the last one before the drop.
EPOCHS = (2, 4, 8, 12, 15, 18, 22, 26, KEPT_EPOCHS)
HALF_WAY = KEPT_EPOCHS // 2


def _checkpoint(epoch: int) -> str:
    return "last" if epoch == KEPT_EPOCHS else f"last-{KEPT_EPOCHS - epoch}"


def by_epoch(kept: xr.Dataset) -> xr.Dataset:
    """Return outcomes along epoch in place of checkpoint, without the epochs that have not learned yet.

    The trainings are taken as given (`networks.as_given`). The coordinate `vulnerable` marks the class that is the weakest on
    validation images of PGD-AT, where it is known.
    """
    places = {_checkpoint(epoch): epoch for epoch in EPOCHS}
    names = [name for name in places if name in kept.checkpoint.values]
    along = kept.sel(checkpoint=names).rename(checkpoint="epoch").assign_coords(epoch=[places[name] for name in names])
    given = networks.as_given(networks.only_learned(along, "epoch"))
    dataset = base_dataset(str(given.attrs.get("dataset", "")))
    if dataset not in VULNERABLE_PAIRS:
        return given
    return given.assign_coords(vulnerable=("predicted", given.predicted.values == VULNERABLE_PAIRS[dataset][0]))


SECTION = Section(
    title="Over the training",
    defences=("pgd-at",),
    evaluations=CLEAN_AND_PGD,
    parts={
        "kept": Section(
            title=f"weights after {len(EPOCHS)} of {KEPT_EPOCHS} epochs, {STEP}",
            defences=("pgd-at",),
            evaluations=tuple(
                Evaluation(attack=one.attack, checkpoint=_checkpoint(epoch)) for one in CLEAN_AND_PGD for epoch in EPOCHS
            ),
            max_seeds=2,
            variants=networks.varied(STEP),
        ),
    },
    arrange={
        "epochs": Arranged(by_epoch, ("kept",)),
        "halves": Arranged(lambda kept: aggregate.halved(by_epoch(kept)), ("kept",)),
    },
)


def second_half(values: xr.DataArray) -> xr.DataArray:
    """Return the epochs from half of the training on; MeasurementError where it has not learned by then."""
    if HALF_WAY not in values.epoch.values or values.epoch.values[-1] == HALF_WAY:
        raise MeasurementError("the training has not learned by half of its epochs")
    return values.sel(epoch=values.epoch >= HALF_WAY)


def margins(sums: xr.Dataset, name: str = "") -> xr.DataArray:
    """Return by how many points a class lies below each other one after each epoch of the second half, along `margin`.

    name: of the class; by default the weakest one on validation images.
    """
    rates = metrics.accuracy(second_half(sums["count"].isel(defence=0, attack=0)))
    names = rates.label.values.astype(str)
    chosen = names == name if name else _vulnerable(sums["count"])
    below = rates.isel(label=np.flatnonzero(~chosen)) - rates.isel(label=int(np.argmax(chosen)), drop=True)
    return below.drop_vars(set(below.coords) - {"epoch", "label"}).stack(margin=("epoch", "label"))


def _vulnerable(count: xr.DataArray) -> np.ndarray:
    if "vulnerable" not in count.coords:
        raise MeasurementError("which class of this dataset is the weakest on validation images is not known")
    marks: np.ndarray = count.vulnerable.values
    return marks


def same_worst(sums: xr.Dataset, name: str = "") -> xr.DataArray:
    """Return by how much the weakest class on validation images lies below all others, in the epoch where it does so least.

    Of the second half of the training; below 0, it is not the least robust one of every epoch. name: of another class.
    """
    return margins(sums, name).min("margin", skipna=False)


def settled(profiles: xr.DataArray) -> xr.DataArray:
    """Return the corrected correlation of the classes half way with those at the end, of opposite halves of the images."""
    late = second_half(profiles)
    both = late.sel(epoch=[HALF_WAY, int(late.epoch[-1])])
    value = agreement.corrected(both, "epoch").isel(epoch=0, other=-1, drop=True)
    if not value.ndim and not np.isfinite(value):
        raise MeasurementError("the classes half way, or at the end, hardly differ, so that their order is unknown")
    return value


def agreements(outcomes: xr.Dataset) -> xr.DataArray:
    """Return low, value and high of the correlation of the classes after each epoch with those after the last one.

    The accuracies of the two are of opposite halves of the images; of the last epoch it is the correlation of its two halves.
    Dimensions attack, epoch and bound.
    """
    parts = [
        interval(outcomes.sel(attack=[name]), lambda profiles: cross_half(profiles, "epoch").isel(other=-1, drop=True), "epoch")
        for name in outcomes.attack.values
    ]
    bounds: xr.DataArray = xr.concat(parts, "attack").assign_coords(attack=outcomes.attack.values)
    return bounds


_WORST = {"measure": same_worst, "truth": extreme(margins)}
CLAIMS = claims(
    NAME,
    {
        "one-vulnerable-class": _WORST,
        "one-inaccurate-class": {**_WORST, "attacks": ("clean",)},
        "classes-settle-early": of_profiles(settled, "epoch"),
    },
    defences=("pgd-at",),
    attacks=("pgd-20",),
)
