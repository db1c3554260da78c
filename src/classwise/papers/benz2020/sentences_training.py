"""The findings of the page on the course of the training, each in a sentence with its number and its 95 % interval."""

import xarray as xr

from classwise.core.markup import counted
from classwise.papers.benz2020 import section_3_1_training as section
from classwise.papers.benz2020.section_3_1_training import HALF_WAY
from classwise.papers.benz2020.sentences_networks import sample
from classwise.papers.findings import interval
from classwise.stats import aggregate, bootstrap, metrics, pooling


def finding(history: xr.Dataset, kept: xr.Dataset | None) -> str:
    """Return whether one class is the least robust from half of the training on.

    history: of the training of the scale. kept: outcomes of `section.by_epoch`, None if they are not recorded.
    """
    if kept is None:
        return f"**{_of_history(history)}** The weights after single epochs are not recorded at this scale."
    under, attack = _attacked(kept)
    names = list(dict.fromkeys(worst_after(under, from_epoch=HALF_WAY)))
    late = under.sel(epoch=under.epoch >= HALF_WAY)
    if late.sizes["epoch"] < 2:
        return f"**The training has not learned by half of its epochs.** {_of_history(history)}"
    margin = bootstrap.paired(late, lambda count: section.same_worst(count.to_dataset(name="count")))
    epochs = f"the {late.sizes['epoch']} epochs from {int(late.epoch[0])} to {int(late.epoch[-1])}"
    if len(names) > 1:
        start = f"Under {attack}, {len(names)} classes are the least robust one after some of {epochs}: {', '.join(names)}"
    else:
        sure = "significantly" if float(margin.sel(bound="low")) > 0 else "but not significantly"
        start = f"Under {attack}, class {names[0]} is the least robust one after each of {epochs}, {sure}"
    return (
        f"**{start}: where it does so least, the class lies {interval(margin, 'points')} below all others.** "
        f"{_of_history(history)} {sample(under)}"
    )


def _attacked(outcomes: xr.Dataset) -> tuple[xr.Dataset, str]:
    """Return the outcomes under the last attack, which stays a dimension, and its name."""
    return outcomes.isel(attack=[-1]), str(outcomes.attack.values[-1])


def worst_after(outcomes: xr.Dataset, from_epoch: int = 0) -> list[str]:
    """Return the least robust class after each epoch; outcomes: of one defence and attack, along epoch."""
    rates = metrics.accuracy(pooling.pooled(outcomes)).isel(defence=0, attack=0)
    return [str(name) for name in rates.sel(epoch=rates.epoch >= from_epoch).idxmin("label").values]


def course(history: xr.Dataset) -> xr.DataArray:
    """Return counts of the test images of a history of pgd-at after each measured epoch: seed, epoch, images_are and classes."""
    count = history["count"].sel(split="test", defence="pgd-at", drop=True)
    return aggregate.measured_epochs(aggregate.clean_and_attacked(count))


def _of_history(history: xr.Dataset) -> str:
    """Return in how many runs one class is the least robust after every measured epoch of the second half."""
    attacked = course(history).sel(images_are="attacked", drop=True)
    late = attacked.sel(epoch=attacked.epoch >= int(history.epoch[-1]) / 2)
    worst = metrics.accuracy(late).idxmin("label")
    single = [seed for seed in late.seed.values if len(set(worst.sel(seed=seed).values)) == 1]
    together = metrics.accuracy(late.sum("seed")).idxmin("label").values.astype(str)
    return (
        f"In the usual training, the same class is the least robust one after all of {counted(late.sizes['epoch'], 'epoch')} "
        f"measured in its second half in {len(single)} of {counted(late.sizes['seed'], 'run')}; of all runs together, it is "
        f"class {' or '.join(dict.fromkeys(together))}."
    )


def gap(kept: xr.Dataset) -> str:
    """Return by how much the gap between the classes, and what they explain, change from the first epoch to the last."""
    under, attack = _attacked(kept)

    def change(count: xr.DataArray, of: metrics.Metric) -> xr.DataArray:
        value = of(count.isel(defence=0, attack=0))
        return value.isel(epoch=-1, drop=True) - value.isel(epoch=0, drop=True)

    wider = bootstrap.paired(under, lambda count: change(count, metrics.mcd), span=(-100, 100))
    share = bootstrap.paired(under, lambda count: change(count, metrics.explained), span=(-100, 100))
    side = "grows" if float(wider.sel(bound="low")) > 0 else "shrinks" if float(wider.sel(bound="high")) < 0 else ""
    start = f"the gap between the best and the worst class {side}" if side else "it is open whether the gap grows or shrinks"
    return (
        f"**From epoch {int(under.epoch[0])} to epoch {int(under.epoch[-1])}, under {attack}, {start}: the change is "
        f"{interval(wider, 'points')}.** The share of the variance that the class explains changes by "
        f"{interval(share, 'points of a percentage', 1)}."
    )


def settling(bounds: xr.DataArray) -> str:
    """Return how the classes half way correlate with those at the end: bounds of `section.agreements`, under attack."""
    attacked = bounds.isel(attack=-1, drop=True)
    first, half, last = (attacked.sel(epoch=epoch, drop=True) for epoch in (attacked.epoch[0], HALF_WAY, attacked.epoch[-1]))
    return (
        f"**Half way, after epoch {HALF_WAY}, the robust accuracies of the classes correlate with those at the end by "
        f"{interval(half, digits=2)}; those at the end correlate with themselves by {interval(last, digits=2)}.** Those of epoch "
        f"{int(attacked.epoch[0])} correlate with them by {interval(first, digits=2)}."
    )
