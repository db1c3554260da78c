"""The findings of the page on section 2.1 of Entropy 2022, in sentences with 95 % intervals."""

from collections.abc import Mapping
from functools import partial

import xarray as xr

from classwise.core.markup import decimal, escaped
from classwise.papers.entropy2022 import section_2_1, single_class
from classwise.papers.findings import interval, sample
from classwise.papers.selection import by_robustness
from classwise.stats import bootstrap, features, metrics


def alone(outcomes: xr.Dataset) -> str:
    """Return the accuracy of the hardest and of the easiest class, each attacked alone; outcomes: of `by_attacked`."""
    shown = single_class.shown_classes(single_class.attacked_names(outcomes))
    rates, ends = single_class.accuracies(outcomes)
    bounds = xr.concat([ends, rates.expand_dims(bound=["value"])], "bound").sel(label=list(shown.values()))
    kinds = [str(name) for name in bounds.of.values]
    clean, robust = (bounds.sel(of=name, drop=True) for name in kinds[1:])
    attack = outcomes.attack.values[-1]
    hard, easy = (
        f"{interval(clean.sel(label=name), '%')} of its clean images correctly, "
        f"{interval(robust.sel(label=name), '%')} under {attack}"
        for name in shown.values()
    )
    hardest = shown["hardest"]
    change = interval(bootstrap.paired(outcomes, partial(_clean_change, label=hardest), span=(-100, 100)), "points")
    return (
        f"**Attacked alone, the hardest class ({escaped(hardest)}) changes its clean accuracy by {change}: its network "
        f"classifies {hard}.** That of the easiest ({escaped(shown['easiest'])}): {easy}. "
        f"{sample(outcomes.isel(attacked=0, drop=True))}"
    )


def _clean_change(count: xr.DataArray, label: str) -> xr.DataArray:
    """Return how much higher the clean accuracy of a class is where it is attacked alone than in standard training."""
    rates = metrics.accuracy(count.isel(defence=0, drop=True).sel(attack="clean", drop=True)).sel(label=label, drop=True)
    return rates.sel(attacked=label, drop=True) - rates.sel(attacked="", drop=True)


def selection(history: xr.Dataset, dataset: str) -> str:
    """Return which classes `selection.by_robustness` names, and whether they are those of the page."""
    ranked = by_robustness(history, dataset)
    shown = single_class.shown_classes(ranked)
    rule = {"hardest": ranked[0], "easiest": ranked[-1]}
    others = "these" if rule == shown else f"class {shown['hardest']} and class {shown['easiest']}"
    return (
        f"**By this rule** the hardest class is {escaped(rule['hardest'])} and the easiest is {escaped(rule['easiest'])}. "
        f"Those of this page are {escaped(others)}."
    )


def perturbation(taken: Mapping[str, xr.DataArray], shown: Mapping[str, str]) -> str:
    """Return how often attacked images of other classes are predicted as the hardest class; taken: of `attacked_class_shares`."""
    others = taken[single_class.OF_OTHERS].sel(attacked=shown["hardest"], drop=True)
    kinds = [str(name) for name in others.of.values]
    clean, attacked, transferred = (interval(others.sel(of=name), "%") for name in kinds[:3])
    more = float(others.sel(of=kinds[2], bound="low")) > float(others.sel(of=kinds[0], bound="high"))
    start = "Whether a perturbation is evidence for the attacked class is open"
    start = "A perturbation is evidence for the attacked class" if more else start
    mean = decimal(float(taken[single_class.OF_OTHERS].sel(of=kinds[1], bound="value").mean()), 0)
    return (
        f"**{start}: of the images of all other classes, the network that is attacked in class {escaped(shown['hardest'])} alone "
        f"predicts {clean} as this class without an attack, and {transferred} of those that are attacked on the network of "
        f"standard training.** Attacked on the network itself, under {kinds[1]}, they are {attacked}; the mean over all attacked "
        f"classes is then {mean} %."
    )


def similarity(outcomes: xr.Dataset) -> str:
    """Return in how many classes the largest cosine exceeds that of standard training.

    outcomes: of `by_attacked`, with features.
    """
    gains = features.interval(features.by_block(outcomes), section_2_1.similarity_gains)
    low, value, high = (gains.sel(bound=name) for name in ("low", "value", "high"))
    more, less = int((low > 0).sum()), int((high < 0).sum())
    mean = decimal(float(value.mean()), 3)
    return (
        f"**Attacked alone, {more} of {gains.sizes['attacked']} classes are more similar to another class than in standard "
        f"training, and {less} are less similar** (95 % intervals of the differences). The mean difference is {mean}."
    )
