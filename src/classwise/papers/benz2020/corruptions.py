"""What the page on corruptions shows, from outcomes with the corruptions along `attack` (`section_3_4.by_corruption`)."""

import numpy as np
import pandas as pd
import xarray as xr

from classwise.papers.benz2020 import section_3_4
from classwise.papers.benz2020.section_3_4 import (
    ATTACK,
    CORRUPTIONS,
    KINDS,
    SEVERITIES,
    SEVERITY,
    SWEPT,
    at_severity,
    correlation,
    drops,
)
from classwise.stats import agreement, bootstrap, metrics, pooling

# Rows of correlations: all corruptions together, the loss as a share of clean accuracy, and what is left.
ALL, RELATIVE, LEFT = "all corruptions", "all, loss / clean accuracy", "all, accuracy left"
# Of intervals of accuracies.
_DRAWS = 1000
# Of intervals that hold together, of which the ends lie far out.
_JOINT_DRAWS = 6000


def _renamed(outcomes: xr.Dataset, severity: int = SEVERITY) -> dict[str, str]:
    """Return the corruptions that there are at a severity, by their name along `attack`."""
    names = {at_severity(name, severity): name for name in CORRUPTIONS}
    return {written: name for written, name in names.items() if written in outcomes.attack.values}


def at_one(outcomes: xr.Dataset, severity: int = SEVERITY, *, clean: bool = False) -> xr.Dataset:
    """Return outcomes along corruption at a severity; clean: with clean images as the first one."""
    names = ({"clean": "clean"} if clean else {}) | _renamed(outcomes, severity)
    kept = outcomes.sel(attack=list(names)).assign_coords(attack=list(names.values()))
    return kept.rename(attack="corruption").transpose("defence", "seed", "corruption", ...)


def accuracy(outcomes: xr.Dataset) -> xr.DataArray:
    """Return low, value and high of the accuracy on all images, along bound, defence and corruption ("clean" first)."""
    return bootstrap.bootstrap(at_one(outcomes, clean=True), metrics.overall, draws=_DRAWS)


def _lost(count: xr.DataArray) -> xr.DataArray:
    """Return how much lower the accuracy is than on clean images, along defence and corruption."""
    return drops(metrics.overall(count)).assign_coords(corruption=lambda some: _names(some.corruption))


def _names(corruption: xr.DataArray) -> list[str]:
    return [str(name).rpartition("-")[0] for name in corruption.values]


def _of_severity(outcomes: xr.Dataset) -> xr.Dataset:
    return outcomes.sel(attack=["clean", *_renamed(outcomes)])


def mean_loss(outcomes: xr.Dataset) -> xr.DataArray:
    """Return low, value and high of the mean loss over the corruptions, along bound and defence."""
    return bootstrap.paired(_of_severity(outcomes), lambda count: _lost(count).mean("corruption"), span=(-100, 100))


def more_lost(outcomes: xr.Dataset, *, joint: bool = False) -> xr.DataArray | None:
    """Return how much more pgd-at loses to each corruption than standard, along bound and corruption; None without both.

    joint: the intervals hold for all corruptions together (Bonferroni), instead of for each by itself.
    """
    first, second = section_3_4.DEFENCES[::-1]
    if not recorded(outcomes, first, second):
        return None

    def difference(count: xr.DataArray) -> xr.DataArray:
        lost = _lost(count)
        return lost.sel(defence=first, drop=True) - lost.sel(defence=second, drop=True)

    level, draws = (1 - 0.05 / len(_renamed(outcomes)), _JOINT_DRAWS) if joint else (0.95, 2 * _DRAWS)
    return bootstrap.paired(_of_severity(outcomes).sel(defence=[first, second]), difference, level, draws, span=(-200, 200))


def change(outcomes: xr.Dataset) -> xr.DataArray:
    """Return by how many points each corruption changes the accuracy of each class, along defence, corruption and label."""
    rates = metrics.accuracy(pooling.pooled(_of_severity(outcomes)))
    lost = drops(rates)
    # Zero without a sign.
    return 0.0 - lost.assign_coords(corruption=_names(lost.corruption))


def _losses(profiles: xr.DataArray) -> xr.DataArray:
    """Return what corruptions take of each class, along `row`; profiles: of `agreement.profiles` along attack."""
    lost, clean = drops(profiles), profiles.sel(attack="clean", drop=True)
    lost = lost.assign_coords(corruption=_names(lost.corruption))
    mean = lost.mean("corruption")
    kinds = {kind: [name for name in names if name in lost.corruption.values] for kind, names in KINDS.items()}
    parts = {kind: lost.sel(corruption=names).mean("corruption") for kind, names in kinds.items() if names}
    parts = {ALL: mean, **parts, RELATIVE: mean / clean.where(clean > 0), LEFT: clean - mean}
    return xr.concat(list(parts.values()), pd.Index(list(parts), name="row"))


def _shared(profiles: xr.DataArray) -> xr.DataArray:
    """Return the correlation of what corruptions take with the robust accuracy of other images, along `row`."""
    losses = _losses(profiles)
    each = [correlation(losses.sel(row=row, drop=True), profiles) for row in losses.row.values]
    return xr.concat(each, losses.row)


def shared(outcomes: xr.Dataset, defence: str = "pgd-at") -> xr.DataArray | None:
    """Return low, value and high of the correlation of losses with robust accuracy over classes, along bound and row.

    The losses are those of one half of the images of each class, the robust accuracies those of the other half. defence: whose
    losses and robust accuracies; None where it has no results. Attributes: the reliability of the robust accuracies, and p, by
    row, of the correlation under permuted classes.
    """
    if not recorded(outcomes, defence):
        return None
    kept = outcomes.sel(defence=defence, attack=["clean", ATTACK, *_renamed(outcomes)], drop=True)
    bounds = agreement.interval(kept, _shared, along="attack")
    return bounds.assign_attrs(reliability=_reliability(kept), p=_permuted(agreement.profiles(kept, along="attack")))


def _reliability(outcomes: xr.Dataset) -> float:
    """Return the correlation of the robust accuracies of the classes in the two halves of the images of a network."""
    profiles = agreement.profiles(outcomes.sel(attack=[ATTACK]), along="attack")
    return float(agreement.reliability(profiles, along="attack").item())


def _permuted(profiles: xr.DataArray) -> dict[str, float]:
    """Return by row the two-sided chance that losses of permuted classes correlate as much with the robust accuracies."""
    # Of the sign of the correlation, so that the one-sided chance is that of as strong a one.
    losses = _losses(profiles) * np.sign(_shared(profiles))
    rows = [str(row) for row in losses.row.values]
    parts = [profiles.sel(attack=ATTACK, drop=True), *(losses.sel(row=row, drop=True) for row in rows)]
    both = xr.concat(parts, pd.Index([ATTACK, *rows], name="row"))
    return {row: min(1.0, 2 * agreement.permutation_p(both, ATTACK, [row], along="row")) for row in rows}


def recorded(outcomes: xr.Dataset, *defences: str) -> bool:
    """Return whether all these networks were evaluated on all corruptions."""
    some = (outcomes.truth >= 0).any([dim for dim in outcomes.truth.dims if dim != "defence"])
    return all(name in outcomes.defence.values and bool(some.sel(defence=name)) for name in defences)


def by_severity(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the accuracy on all images along bound, defence, corruption (SWEPT) and severity; 0 are clean images."""
    clean = bootstrap.bootstrap(outcomes.sel(attack=["clean"]), metrics.overall, draws=_DRAWS).isel(attack=0, drop=True)
    parts = {0: clean.expand_dims(corruption=[name for name in SWEPT if _swept(outcomes, name)])}
    for severity in sorted({SEVERITY, *SEVERITIES}):
        at_this = at_one(outcomes, severity)
        some = at_this.sel(corruption=[name for name in SWEPT if name in at_this.corruption.values])
        parts[severity] = bootstrap.bootstrap(some, metrics.overall, draws=_DRAWS)
    return xr.concat(list(parts.values()), pd.Index(list(parts), name="severity"), join="outer")


def _swept(outcomes: xr.Dataset, name: str) -> bool:
    return any(at_severity(name, severity) in outcomes.attack.values for severity in (SEVERITY, *SEVERITIES))


def count(outcomes: xr.Dataset) -> xr.DataArray:
    """Return pooled counts along defence, corruption ("clean" first), label and predicted."""
    return pooling.pooled(at_one(outcomes, clean=True))
