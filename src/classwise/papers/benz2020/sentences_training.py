"""The findings of the page on the course of the training, each in a sentence with its number and its 95 % interval."""

from functools import partial

import xarray as xr

from classwise.core.markup import counted, escaped
from classwise.papers.benz2020 import section_3_1_training as section
from classwise.papers.benz2020.networks import KEPT_EPOCHS
from classwise.papers.benz2020.section_3_1_training import HALF_WAY
from classwise.papers.benz2020.sentences_networks import sample
from classwise.papers.extremes import extreme
from classwise.papers.findings import interval
from classwise.stats import aggregate, bootstrap, metrics, pooling
from classwise.stats.intervals import interval_ends

_LATE = "The training has not learned by half of its epochs."
_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def written(number: int) -> str:
    """Return a small number in words, a large one in digits."""
    return _WORDS[number] if number < len(_WORDS) else str(number)


def finding(history: xr.Dataset, kept: xr.Dataset | None) -> str:
    """Return whether one class is the least robust from half of the training on.

    history: of the training of the scale. kept: outcomes of `section.by_epoch`, None if they are not recorded.
    """
    if kept is None:
        return f"**{_of_history(history)}** The weights after single epochs are not recorded at this scale."
    under, attack = _attacked(kept)
    late = under.sel(epoch=under.epoch >= HALF_WAY)
    if late.sizes["epoch"] < 2 or HALF_WAY not in late.epoch.values:
        return f"**{_LATE}** {_of_history(history)}"
    names = list(dict.fromkeys(worst_after(under, from_epoch=HALF_WAY)))
    epochs = f"{written(late.sizes['epoch'])} kept epochs from {int(late.epoch[0])} to {int(late.epoch[-1])}"
    if len(names) > 1:
        listed = ", ".join(map(escaped, names))
        start = f"Under {attack}, {written(len(names))} classes are the least robust after some of the {epochs}: {listed}."
    else:
        margin = _least_margin(late, names[0])
        sure = "significantly" if float(margin.sel(bound="low")) > 0 else "but not significantly"
        start = (
            f"Under {attack}, class {escaped(names[0])} is the least robust after all {epochs}, {sure}: in the epoch in which it "
            f"stands out least, it is {interval(margin, 'points')} below the next class."
        )
    return f"**{start}** {_of_history(history)} {sample(under)}"


def _least_margin(late: xr.Dataset, name: str, draws: int = 1000) -> xr.DataArray:
    """Return low, value and high of `section.same_worst` of a class; the interval is that of the claim (`extremes`)."""
    value = float(section.same_worst(bootstrap.sums(late, {}), name))
    low, high = interval_ends(extreme(partial(section.margins, name=name))(late, draws, 0), 0.025)
    ends = [min(low, value), value, max(high, value)]
    return xr.DataArray(ends, {"bound": ["low", "value", "high"]})


def kept_epochs(kept: xr.Dataset) -> str:
    """Return how many epochs of the second training are evaluated, and which are left out because they have not learned.

    kept: outcomes of `section.by_epoch`.
    """
    lost = [str(epoch) for epoch in section.EPOCHS if epoch not in kept.epoch.values]
    left = f"At chance or not recorded, and judged nowhere: {', '.join(lost)}." if lost else "None of these is at chance."
    return f"Evaluated are the weights after {written(len(section.EPOCHS))} of its {KEPT_EPOCHS} epochs. {left}"


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
    """Return in how many runs one class is the least robust at every measurement of the second half."""
    attacked = course(history).sel(images_are="attacked", drop=True)
    late = attacked.sel(epoch=attacked.epoch >= int(history.epoch[-1]) / 2)
    worst = metrics.accuracy(late).idxmin("label")
    single = [seed for seed in late.seed.values if len(set(worst.sel(seed=seed).values)) == 1]
    together = list(dict.fromkeys(metrics.accuracy(late.sum("seed")).idxmin("label").values.astype(str)))
    measured = f"at all {written(late.sizes['epoch'])} measurements of its second half"
    runs, classes = late.sizes["seed"], " or ".join(map(escaped, together))
    if runs == 1 and len(together) == 1:
        return f"In the usual training (1 run) class {classes} is the least robust {measured}."
    if runs == 1:
        return f"In the usual training (1 run) the least robust class changes in its second half: class {classes}."
    return (
        f"In the usual training one class is the least robust {measured} in {len(single)} of {counted(runs, 'run')}; in all runs "
        f"together it is class {classes}."
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
    if HALF_WAY not in attacked.epoch.values or int(attacked.epoch[-1]) == HALF_WAY:
        return f"**{_LATE}**"
    first, half, last = (attacked.sel(epoch=epoch, drop=True) for epoch in (attacked.epoch[0], HALF_WAY, attacked.epoch[-1]))
    return (
        f"**Half way, after epoch {HALF_WAY}, the robust accuracies of the classes correlate with those at the end by "
        f"{interval(half, digits=2)}; those at the end correlate with themselves by {interval(last, digits=2)}.** Those of epoch "
        f"{int(attacked.epoch[0])} correlate with them by {interval(first, digits=2)}."
    )
