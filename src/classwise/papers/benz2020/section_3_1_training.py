"""Benz et al. 2020, section 3.1: accuracy and robustness of the classes over the training.

The claims need along `epoch` the weights after some epochs of one training, without those that have not learned yet.
"""

import numpy as np
import xarray as xr

from classwise.core.spec import Evaluation
from classwise.papers.benz2020 import networks
from classwise.papers.benz2020.agreement import cross_half, interval
from classwise.papers.benz2020.kinds import where
from classwise.papers.benz2020.networks import KEPT_EPOCHS, STEP
from classwise.papers.claims import MeasurementError, claims_of
from classwise.papers.measures import lies_below
from classwise.papers.sections import CLEAN_AND_PGD, Arranged, Section
from classwise.stats import aggregate, metrics

NAME = "benz2020/3-1-over-training"
# The epochs that are evaluated of `networks.STEP`, whose learning rate drops after half and three quarters of them. The first of
# the second half is the last one before the drop.
EPOCHS = (2, 4, 8, 12, 15, 18, 22, 26, KEPT_EPOCHS)
HALF_WAY = KEPT_EPOCHS // 2


def _checkpoint(epoch: int) -> str:
    return "last" if epoch == KEPT_EPOCHS else f"last-{KEPT_EPOCHS - epoch}"


def by_epoch(kept: xr.Dataset) -> xr.Dataset:
    """Return outcomes along epoch in place of checkpoint, without the epochs that have not learned yet.

    The trainings are taken as given (`networks.as_given`).
    """
    places = {_checkpoint(epoch): epoch for epoch in EPOCHS}
    names = [name for name in places if name in kept.checkpoint.values]
    along = kept.sel(checkpoint=names).rename(checkpoint="epoch").assign_coords(epoch=[places[name] for name in names])
    return networks.as_given(networks.only_learned(along, "epoch"))


SECTION = Section(
    title="Over the training",
    defences=("pgd-at",),
    evaluations=CLEAN_AND_PGD,
    parts={
        "kept": Section(
            title=f"weights after each epoch, {STEP}",
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


def _second_half(count: xr.DataArray) -> xr.DataArray:
    late = count.sel(epoch=count.epoch >= HALF_WAY)
    if late.sizes["epoch"] < 2:
        raise MeasurementError("the training has not learned by half of its epochs")
    return late


def same_worst(sums: xr.Dataset) -> xr.DataArray:
    """Return by how much a class lies below all others in the epoch of the second half in which it does so least.

    Of the class that does so most: below 0, no class is the worst of every epoch.
    """
    late = _second_half(sums["count"].isel(defence=0, attack=0))
    return lies_below(late.to_dataset(name="count"), dims=("epoch",))


def early_agreement(sums: xr.Dataset) -> xr.DataArray:
    """Return the correlation of the classes half way with those at the end, less that of the end with itself.

    Each is the correlation of the accuracies of the classes in one half of the images with those in the other half.
    """
    late = _second_half(sums["count"].isel(defence=0, attack=0)).isel(epoch=[0, -1])
    with_end = cross_half(metrics.accuracy(late), "epoch").isel(other=-1, drop=True)
    return with_end.isel(epoch=0, drop=True) - with_end.isel(epoch=-1, drop=True)


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


_claim = claims_of(NAME, defences=("pgd-at",), attacks=("pgd-20",), dims=("epoch",))
CLAIMS = (
    _claim(
        "one-vulnerable-class",
        where("3.1", "asked"),
        "From half of the training on, the same class is the least robust one.",
        same_worst,
        data="epochs",
    ),
    _claim(
        "classes-settle-early",
        where("3.1", "control"),
        "Half way, the robust accuracies of the classes correlate with those at the end as well as these with themselves, less "
        "0.1.",
        early_agreement,
        data="halves",
        low=-0.1,
        high=np.inf,
        unit="correlation",
    ),
)
