"""Benz et al. 2020, section 3.1: accuracy and robustness of the classes over the training.

The claims need along `epoch` the weights after some epochs of one training, without those that have not learned yet.
"""

import numpy as np
import xarray as xr

from classwise.core.errors import NotAtScale
from classwise.core.spec import Evaluation
from classwise.papers.benz2020 import networks
from classwise.papers.sections import CLEAN_AND_PGD, Derived, Part, Section
from classwise.papers.terms import claims, least, profile_fields
from classwise.stats import aggregate, agreement, metrics

NAME = "benz2020/3-1-over-training"
# The epochs that are evaluated of `networks.STEP`, whose learning rate drops after half and three quarters of them. The first of
# the second half is the last one before the drop.
EPOCHS = (2, 4, 8, 12, 15, 18, 22, 26, networks.KEPT_EPOCHS)
HALF_WAY = networks.KEPT_EPOCHS // 2
_CHECKPOINTS = {f"last-{networks.KEPT_EPOCHS - epoch}" if epoch < networks.KEPT_EPOCHS else "last": epoch for epoch in EPOCHS}


def stack_epochs(kept: xr.Dataset) -> xr.Dataset:
    """Return outcomes along epoch in place of checkpoint, without the epochs that have not learned yet.

    The trainings are taken as given (`networks.merge_seeds`), and the class that is the weakest on other images is marked.
    """
    names = [name for name in _CHECKPOINTS if name in kept.checkpoint.values]
    epochs = [_CHECKPOINTS[name] for name in names]
    along = kept.sel(checkpoint=names).rename(checkpoint="epoch").assign_coords(epoch=epochs)
    return networks.mark_vulnerable(networks.merge_seeds(networks.only_learned(along, "epoch")))


SECTION = Section(
    title="Over the training",
    defences=("pgd-at",),
    parts={
        "kept": Part(
            title=f"weights after {len(EPOCHS)} of {networks.KEPT_EPOCHS} epochs, {networks.STEP}",
            defences=("pgd-at",),
            evaluations=tuple(Evaluation(attack=one.attack, checkpoint=name) for one in CLEAN_AND_PGD for name in _CHECKPOINTS),
            max_seeds=2,
            variants=networks.network_variant(networks.STEP),
        )
    },
    arrange={
        "epochs": Derived(stack_epochs, ("kept",)),
        "halves": Derived(lambda kept: aggregate.split_halves(stack_epochs(kept)), ("kept",)),
    },
)


def second_half(values: xr.DataArray) -> xr.DataArray:
    """Return the epochs from half of the training on; NotAtScale where it has not learned by then."""
    if HALF_WAY not in values.epoch.values or values.epoch.values[-1] == HALF_WAY:
        raise NotAtScale("the network has not learned by half of its epochs")
    return values.sel(epoch=values.epoch >= HALF_WAY)


def margins(sums: xr.Dataset) -> xr.DataArray:
    """Return how far the weakest class on validation images lies below each other class, from the middle of training on.

    In points, along `margin`; where one is below 0, the class is not the least robust one of every epoch.
    """
    rates = metrics.accuracy(second_half(sums["count"].isel(defence=0, attack=0)))
    chosen = networks.weakest(sums["count"])
    below = rates.isel(label=np.flatnonzero(~chosen)) - rates.isel(label=int(np.argmax(chosen)), drop=True)
    return below.drop_vars(set(below.coords) - {"epoch", "label"}).stack(margin=("epoch", "label"))


def halfway_agreement(profiles: xr.DataArray) -> xr.DataArray:
    """Return the corrected correlation of the classes halfway with the classes at the end, on opposite halves of the images."""
    late = second_half(profiles)
    both = late.sel(epoch=[HALF_WAY, int(late.epoch[-1])])
    value = agreement.corrected_agreement(both, "epoch").isel(epoch=0, other=-1, drop=True)
    if not value.ndim and not np.isfinite(value):
        raise NotAtScale("the classes halfway, or at the end, hardly differ, so that their order is unknown")
    return value


CLAIMS = claims(
    NAME,
    {
        "one-vulnerable-class": least(margins),
        "one-inaccurate-class": {"measure": least(margins), "attacks": ("clean",)},
        "classes-settle-early": {**profile_fields(halfway_agreement, "epoch"), "permuted": f"epoch={HALF_WAY}"},
    },
    defences=("pgd-at",),
    attacks=("pgd-20",),
)


def course(history: xr.Dataset) -> xr.DataArray:
    """Return counts of the test images of a history of pgd-at after each measured epoch: seed, epoch, images_are and classes."""
    count = history["count"].sel(split="test", defence="pgd-at", drop=True)
    return aggregate.measured_epochs(aggregate.clean_and_attacked(count))


def least_robust(count: xr.DataArray) -> list[str]:
    """Return the least robust class after each epoch from half of the training on; count: of `course`, seeds pooled."""
    rates = metrics.accuracy(count.sum("seed").sel(images_are="attacked"))
    late = rates.sel(epoch=rates.epoch >= int(rates.epoch[-1]) / 2)
    return [str(name) for name in late.idxmin("label").values]


def agreements(outcomes: xr.Dataset) -> xr.DataArray:
    """Return low, value and high of the correlation of the classes after each epoch with those after the last one.

    The accuracies of the two are of opposite halves of the images; of the last epoch it is the correlation of its two halves.
    Dimensions attack, epoch and bound.
    """

    def agree_with_last(profiles: xr.DataArray) -> xr.DataArray:
        return agreement.cross_half(profiles, "epoch").isel(other=-1, drop=True)

    parts = [agreement.interval(outcomes.sel(attack=[name]), agree_with_last, "epoch") for name in outcomes.attack.values]
    return xr.concat(parts, "attack").assign_coords(attack=outcomes.attack.values)
