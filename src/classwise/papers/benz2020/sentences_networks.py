"""The findings of the page on networks and optimisers, each in a sentence with its number and its 95 % interval."""

import numpy as np
import xarray as xr

from classwise.core.markup import counted, decimal, escaped
from classwise.papers import findings
from classwise.papers.benz2020 import networks
from classwise.papers.findings import interval
from classwise.stats import bootstrap, intervals, metrics, pooling

_ATTACKED = {"defence": "pgd-at"}


def finding(judged: xr.Dataset, trainings: xr.Dataset) -> str:
    """Return the finding of the page: the networks and the trainings that are judged, along setting."""
    others = discrepancy(trainings, "trainings of the first network").replace("**", "")
    others = f" {others}" if trainings.sizes["setting"] > 1 else " No other training of this network has results at this scale."
    return f"{discrepancy(judged, 'networks')}{others} {sample(judged)}"


def sample(outcomes: xr.Dataset) -> str:
    """Return how many runs of each setting there are, on how many test images, and what the intervals do not cover."""
    if "runs" not in outcomes.attrs:
        return findings.sample(outcomes)
    present = (outcomes.truth >= 0).any([dim for dim in outcomes.truth.dims if dim != "image"])
    return f"{taken_as_given(int(outcomes.attrs['runs']))} {counted(int(present.sum()), 'test image')}."


def taken_as_given(runs: int, *, least: bool = False) -> str:
    """Return how many runs of each setting there are, and that intervals do not cover others. least: some settings have more."""
    number = "One run" if runs == 1 else counted(runs, "run")
    number = f"At least {number.lower()}" if least else number
    return f"{number} of each setting, taken as given: the intervals do not cover other trainings."


def discrepancy(outcomes: xr.Dataset, what: str) -> str:
    """Return in how many settings the classes differ under attack, and in which they differ least.

    outcomes: along setting, of those that have learned. what: the settings in words, "networks".
    """
    under, attack = _attacked(outcomes)
    count = pooling.pooled(under)
    gaps, unequal = metrics.mcd(count), networks.unequal(count)
    shares = bootstrap.bootstrap(under, metrics.explained)
    least = str(shares.sel(bound="value").idxmin("setting").item())
    share = interval(shares.sel(setting=least, drop=True), "%", 1)
    explained = f"{share} of the variance of right and wrong predictions"
    if unequal.size == 1:
        differ = "differ significantly" if bool(unequal.all()) else "do not differ significantly"
        return (
            f"**Under {attack}, the classes of pgd-at {differ} in {least}, the only one of the {what} with results; the class "
            f"explains {explained}.** The gap between the best and the worst class is {float(gaps[0]):.0f} points."
        )
    low, high = (str(gaps.setting[int(place)].item()) for place in (gaps.argmin("setting"), gaps.argmax("setting")))
    differ = f"the classes of pgd-at differ significantly in {int(unequal.sum())} of {unequal.size} {what}"
    return (
        f"**Under {attack}, {differ}; the class explains least in {least}: {explained}.** The gap between the best and the worst "
        f"class is between {float(gaps.min()):.0f} points ({low}) and {float(gaps.max()):.0f} points ({high})."
    )


def _attacked(outcomes: xr.Dataset) -> tuple[xr.Dataset, str]:
    """Return the outcomes of pgd-at under the last attack, and the name of the attack."""
    return outcomes.sel(_ATTACKED, drop=True).isel(attack=-1, drop=True), str(outcomes.attack.values[-1])


def excluded(outcomes: xr.Dataset) -> str:
    """Return which settings are at chance and therefore judged nowhere, and which classes single ones have not learned.

    outcomes: of all settings.
    """
    lost = [str(name) for name in outcomes.setting.values[~networks.learned(outcomes).values]]
    rule = "A setting whose accuracy is not significantly above chance is not judged: its gap is that of a constant prediction."
    number = outcomes.sizes["setting"]
    above = f"All {number} are significantly above it." if number > 1 else "It is significantly above it."
    kept = f"Excluded: {', '.join(map(escaped, lost))}." if lost else above
    clean = pooling.pooled(outcomes).sel(_ATTACKED).sel(attack="clean")
    chance = 100 / clean.sizes["label"]
    classes = intervals.wilson(clean).sel(bound="low") <= chance
    named = {str(name): classes.label.values[classes.sel(setting=name).values] for name in classes.setting.values}
    words = [f"{name}: {', '.join(f'class {label}' for label in labels)}" for name, labels in named.items() if len(labels)]
    return f"{rule} {kept} Classes that pgd-at has not learned, by their accuracy on clean images: {'; '.join(words) or 'none'}."


def judged_without(outcomes: xr.Dataset) -> str:
    """Return on which settings no claim is judged; "" if there are none. outcomes: of all settings."""
    lost = [str(name) for name in outcomes.setting.values[~networks.learned(outcomes).values]]
    return f"No claim is judged on {', '.join(map(escaped, lost))}: at chance on the test images that judge." if lost else ""


def worst_classes(outcomes: xr.Dataset) -> str:
    """Return which class is the worst of pgd-at under attack in how many settings."""
    under, attack = _attacked(outcomes)
    worst = metrics.accuracy(pooling.pooled(under)).idxmin("label").values.astype(str)
    names, numbers = np.unique(worst, return_counts=True)
    if len(worst) == 1:
        return f"**The worst class under {attack} is class {worst[0]}.**"
    parts = [f"class {names[place]} in {numbers[place]}" for place in np.argsort(-numbers, kind="stable")]
    return f"**The worst class under {attack}, of {len(worst)} settings: {', '.join(parts)}.**"


def widening(bounds: xr.DataArray) -> str:
    """Return in how many networks the interval shows that the gap of pgd-at is wider than that of standard training.

    bounds: of `section.changes`, along attack, setting and bound.
    """
    lines = []
    for attack in map(str, bounds.attack.values):
        part = bounds.sel(attack=attack)
        where = "on clean images" if attack == "clean" else f"under {attack}"
        if part.sizes["setting"] == 1:
            lines.append(f"{where} {interval(part.isel(setting=0, drop=True), 'points')} in {part.setting.item()}")
            continue
        wider, narrower = int((part.sel(bound="low") > 0).sum()), int((part.sel(bound="high") < 0).sum())
        value = part.sel(bound="value")
        lines.append(
            f"{where} the 95 % interval lies above 0 in {wider} and below 0 in {narrower} of {part.sizes['setting']} networks "
            f"(values from {decimal(float(value.min()), 0)} to {decimal(float(value.max()), 0)} points)"
        )
    return f"**The gap of pgd-at less that of standard training on clean images**: {'; '.join(lines)}."
