"""The findings of the page on networks and optimisers, each in a sentence with its number and its 95 % interval."""

import numpy as np
import xarray as xr

from classwise.core.markup import counted, decimal
from classwise.papers.benz2020 import networks
from classwise.papers.findings import interval
from classwise.stats import bootstrap, metrics, pooling

_ATTACKED = {"defence": "pgd-at"}


def discrepancy(outcomes: xr.Dataset, what: str) -> str:
    """Return in how many settings the classes differ under attack, and in which they differ least.

    outcomes: along setting, of those that have learned. what: the settings in words, "networks".
    """
    under, attack = _attacked(outcomes)
    count = pooling.pooled(under)
    gaps, unequal = metrics.mcd(count), networks.unequal(count)
    shares = bootstrap.bootstrap(under, metrics.explained)
    least = str(shares.sel(bound="value").idxmin("setting").item())
    low, high = (str(gaps.setting[int(place)].item()) for place in (gaps.argmin("setting"), gaps.argmax("setting")))
    share = interval(shares.sel(setting=least, drop=True), "%", 1)
    differ = f"the classes of pgd-at differ significantly in {int(unequal.sum())} of {unequal.size} {what}"
    return (
        f"**Under {attack}, {differ}; the class explains least in {least}: {share} of the variance of right and wrong "
        f"predictions.** The gap between the best and the worst class is between {float(gaps.min()):.0f} points ({low}) and "
        f"{float(gaps.max()):.0f} points ({high})."
    )


def finding(judged: xr.Dataset, trainings: xr.Dataset) -> str:
    """Return the finding of the page: the networks and the trainings that are judged, along setting."""
    others = discrepancy(trainings, "trainings of the first network").replace("**", "")
    return f"{discrepancy(judged, 'networks')} {others} {networks.sample(judged)}"


def _attacked(outcomes: xr.Dataset) -> tuple[xr.Dataset, str]:
    """Return the outcomes of pgd-at under the last attack, and the name of the attack."""
    return outcomes.sel(_ATTACKED, drop=True).isel(attack=-1, drop=True), str(outcomes.attack.values[-1])


def excluded(outcomes: xr.Dataset) -> str:
    """Return which settings are at chance and therefore judged nowhere; outcomes: of all settings."""
    lost = [str(name) for name in outcomes.setting.values[~networks.learned(outcomes).values]]
    kept = f"All {outcomes.sizes['setting']} are surely above it." if not lost else f"Excluded for that: {', '.join(lost)}."
    return f"A setting whose accuracy is not surely above chance is not judged: its gap is that of a constant prediction. {kept}"


def worst_classes(outcomes: xr.Dataset) -> str:
    """Return which class is the worst of pgd-at under attack in how many settings."""
    under, attack = _attacked(outcomes)
    worst = metrics.accuracy(pooling.pooled(under)).idxmin("label").values.astype(str)
    names, numbers = np.unique(worst, return_counts=True)
    parts = [f"class {names[place]} in {numbers[place]}" for place in np.argsort(-numbers, kind="stable")]
    return f"**The worst class under {attack}, of {len(worst)} settings: {', '.join(parts)}.**"


def widening(bounds: xr.DataArray) -> str:
    """Return in how many networks the gap of pgd-at is wider than that of standard training: bounds of `section.widening`.

    bounds: along attack, setting and bound.
    """
    lines = []
    for attack in map(str, bounds.attack.values):
        part = bounds.sel(attack=attack)
        wider, narrower = int((part.sel(bound="low") > 0).sum()), int((part.sel(bound="high") < 0).sum())
        value = part.sel(bound="value")
        where = "on clean images" if attack == "clean" else f"under {attack}"
        lines.append(
            f"{where} it is significantly wider in {wider} and narrower in "
            f"{narrower} of {counted(part.sizes['setting'], 'network')} (from {decimal(float(value.min()), 0)} to "
            f"{decimal(float(value.max()), 0)} points)"
        )
    return f"**The gap of pgd-at less that of standard training on clean images**: {'; '.join(lines)}."
