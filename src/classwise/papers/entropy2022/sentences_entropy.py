"""The findings of the page on entropy, each in a sentence with its numbers and their 95 % intervals."""

from collections.abc import Mapping

import pandas as pd
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.core.markup import decimal
from classwise.papers.entropy2022 import entropy
from classwise.papers.entropy2022.entropy import DETACHED, SLOWER
from classwise.papers.findings import interval, sample

_KINDS = ("clean", "attacked")
# By the title of a line of `differences`: a network, and the one that it is compared with.
PAIRS = {
    "TRADES less PGD-AT": ("trades", "pgd-at"),
    "label smoothing less PGD-AT": ("label-smoothing", "pgd-at"),
    "ME-AT less PGD-AT": ("me-at", "pgd-at"),
    "ME-TRADES less TRADES": ("me-trades", "trades"),
}
TWIN = {"TRADES less its twin": (SLOWER, DETACHED)}


def more_entropy(outcomes: xr.Dataset) -> str:
    """Return how much larger the entropy of TRADES is than that of PGD-AT, clean and attacked, and how far from its limit."""
    entropy.check(outcomes, "pgd-at", "trades")
    part = entropy.of_all(outcomes.sel(defence=["pgd-at", "trades"]))
    bounds = entropy.bounds(part, _difference)
    clean, attacked = (bounds.isel(attack=place, drop=True) for place in (0, -1))
    signs = {_sign(clean), _sign(attacked)}
    start = {1: "TRADES has a larger entropy than PGD-AT", -1: "TRADES has a smaller entropy than PGD-AT"}
    first = start.get(next(iter(signs)), "") if len(signs) == 1 else ""
    if signs == {1, -1}:
        first = "TRADES has a larger entropy than PGD-AT on clean images or on attacked ones, and a smaller one on the others"
    first = first or "Whether TRADES has a larger entropy than PGD-AT on clean and on attacked images is open"
    values = entropy.bounds(part, entropy.mean_entropy).sel(bound="value", defence="trades")
    most = entropy.limit(outcomes.sizes["predicted"])
    shares = " and ".join(f"{100 * float(value) / most:.0f} %" for value in (values[0], values[-1]))
    return (
        f"**{first}: the mean differs by {interval(clean, 'nats', 2)} on clean images and by {interval(attacked, 'nats', 2)} on "
        f"attacked ones.** The entropy of TRADES is {shares} of the largest possible one, {decimal(most, 2)} nats. {sample(part)}"
    )


def _difference(totals: xr.Dataset) -> xr.DataArray:
    mean = entropy.mean_entropy(totals)
    return mean.isel(defence=1, drop=True) - mean.isel(defence=0, drop=True)


def _sign(bounds: xr.DataArray) -> int:
    """Return 1 where an interval lies above 0, -1 where it lies below, 0 otherwise."""
    return int(float(bounds.sel(bound="low")) > 0) - int(float(bounds.sel(bound="high")) < 0)


def recorded_course(course: xr.DataArray) -> str:
    """Return what the chart over the epochs shows, and that it is the last epoch alone where no other was recorded."""
    if course.sizes["epoch"] == 1:
        return "The entropy of earlier epochs was not recorded with these trainings: the chart shows the last epoch alone."
    last = course.isel(epoch=-1).mean("seed")
    before = course.isel(epoch=course.sizes["epoch"] // 2).mean("seed")
    parts = [
        f"{name} from {float(before.sel(defence=name).mean()):.2f} to {float(last.sel(defence=name).mean()):.2f} nats"
        for name in map(str, course.defence.values)
    ]
    epoch = int(course.epoch[course.sizes["epoch"] // 2])
    return f"From epoch {epoch} to the last one, the mean of clean and attacked images changes: {'; '.join(parts)}."


def differences(outcomes: xr.Dataset, pairs: Mapping[str, tuple[str, str]]) -> pd.DataFrame:
    """Return by how much the mean entropy of one network exceeds that of another, in words with its 95 % interval.

    pairs: by the title of a line, the network and the one that it is compared with; a pair that is not recorded is left out. Of
    all images, and of those alone that both classify correctly.
    """
    rows = {}
    for title, (name, base) in pairs.items():
        if {name, base} <= set(map(str, outcomes.defence.values)):
            part = entropy.of_all(outcomes.sel(defence=[base, name]))
            chosen = {"all images": part, "both right": entropy.right_in_all(part)}
            for kind, some in chosen.items():
                bounds = entropy.bounds(some, _difference)
                rows[title, kind] = {
                    form: _bracketed(bounds.isel(attack=place, drop=True)) for place, form in zip((0, -1), _KINDS, strict=True)
                }
    if not rows:
        raise NotRecorded("no two networks that are compared are recorded")
    table = pd.DataFrame.from_dict(rows, orient="index", columns=list(_KINDS))
    return table.rename_axis(["difference", "images"])


def _bracketed(bounds: xr.DataArray) -> str:
    low, value, high = (decimal(float(bounds.sel(bound=name)), 2) for name in ("low", "value", "high"))
    return f"{value} [{low}, {high}]"


def gradient(outcomes: xr.Dataset) -> str:
    """Return whether TRADES has a larger entropy than its twin, which has no gradient through the clean prediction."""
    entropy.check(outcomes, SLOWER, DETACHED)
    part = entropy.of_all(outcomes.sel(defence=[DETACHED, SLOWER]))
    bounds = entropy.bounds(part, _difference).isel(attack=0, drop=True)
    start = {1: "raises", -1: "lowers"}.get(_sign(bounds))
    what = "the gradient through the clean prediction"
    first = f"{what.capitalize()} {start} the entropy" if start else f"Whether {what} changes the entropy is open"
    return (
        f"**{first}: on clean images TRADES differs from its twin without this gradient by {interval(bounds, 'nats', 2)}.** "
        f"{sample(part)}"
    )


def sums_up(terms: xr.Dataset) -> str:
    """Return how well the terms of the divergence add up, and what the mean entropy takes off."""
    mean = terms.mean(["seed", "image"])
    name = "trades" if "trades" in mean.defence.values else str(mean.defence.values[-1])
    one = mean.sel(defence=name)
    return (
        f"For {name} the cross-entropy of the two predictions is {float(one.cross_entropy):.2f} nats on average, of which "
        f"{-float(one.negative_entropy):.2f} are the entropy of the clean prediction: {float(one.divergence):.2f} nats remain as "
        f"divergence. The terms of no image miss their sum by more than {entropy.residual(terms):.1e} nats."
    )
