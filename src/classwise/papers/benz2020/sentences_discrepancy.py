"""What section 1 of Benz et al. 2020 finds on our images, in sentences: gaps, the share explained, and equal accuracy."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core.datasets import title
from classwise.core.markup import decimal, escaped
from classwise.papers.benz2020 import discrepancy, section_1
from classwise.papers.findings import interval, sample
from classwise.stats import agreement, bootstrap, metrics, pooling

_TRAINED, _PLAIN = "pgd-at", "standard"
_AT_FLOOR = ", no more than by one class for all: it has no gap that could be wider, and the claim is not tested"


def _written(row: pd.Series, name: str, unit: str, digits: int = 0) -> str:
    """Return a column of `discrepancy.table` with its interval; name: "" for the gap."""
    value, low, high = (row[part] for part in ((name, f"{name}, low", f"{name}, high") if name else ("value", "low", "high")))
    return f"{decimal(value, digits)} {unit} (95 % interval {decimal(low, digits)} to {decimal(high, digits)})"


def headline(outcomes: xr.Dataset, attack: str) -> str:
    """Return the gap of PGD-AT under an attack, that of equal classes, and the share that the class explains.

    outcomes: of standard training and PGD-AT, or of one of them, clean and under the attack.
    """
    rows = {(row["defence"], row["attack"]): row for _, row in discrepancy.table({"": outcomes}).iterrows()}
    name = _TRAINED if (_TRAINED, attack) in rows else str(outcomes.defence.values[-1])
    row = rows[name, attack]
    equal = f"{row['equal classes']:.0f} (at most {row['equal classes, high']:.0f} in 97.5 % of the cases)"
    text = (
        f"**Under {attack}, the best class of {name} is {_written(row, '', 'points')} above its worst; equal classes of as many "
        f"images would be {equal} apart by chance.** The class explains {_written(row, 'explained', '%', 1)} of the variance of "
        "its right and wrong predictions"
    )
    if (_PLAIN, "clean") in rows:
        other = rows[_PLAIN, "clean"]
        share = "" if pd.isna(other["explained"]) else f", and the class explains {_written(other, 'explained', '%', 1)}"
        text += f"; without an attack the gap of standard training is {_written(other, '', 'points')}{share}"
    return f"{text}. {sample(outcomes)}"


def above_chance(table: pd.DataFrame) -> str:
    """Return which gaps exceed what equal classes of as many images reach in 97.5 % of the cases; table: of `discrepancy`."""
    sides: dict[bool, list[str]] = {True: [], False: []}
    for _, row in table.iterrows():
        words = f"{row['case']} ({row['value']:.0f} points, equal classes {row['equal classes']:.0f})"
        sides[bool(row["value"] > row["equal classes, high"])].append(words)
    more, less = (", ".join(some) or "none" for some in sides.values())
    return f"**A larger gap than equal classes have by chance**: {more}. **Not larger**: {less}."


def wider(outcomes: xr.Dataset, attack: str) -> str:
    """Return whether adversarial training widens the gap without an attack, and under one at the same radius.

    outcomes: of standard training and PGD-AT, clean and under the attack.
    """
    lines = []
    for name, words in (("clean", "Without an attack"), (attack, f"Under {attack} at the same radius")):
        change = bootstrap.paired(outcomes.sel(attack=[name]), _change, span=(-100, 100))
        lines.append(f"{words}, {_moved(change, 'it')}: {interval(change, 'points', 1)}")
    right = float(metrics.overall(pooling.pooled(outcomes.sel(defence=[_PLAIN], attack=[attack]))).item())
    floor = "" if right > 100 / outcomes.sizes["predicted"] else _AT_FLOOR
    return (
        f"**PGD-AT less standard training, gap between best and worst class.** {'. '.join(lines)}. Standard training classifies "
        f"{decimal(right, 1)} % of the attacked images correctly{floor}."
    )


def _change(count: xr.DataArray) -> xr.DataArray:
    return section_1.widened(count.to_dataset(name="count"))


def _moved(change: xr.DataArray, what: str) -> str:
    if float(change.sel(bound="low")) > 0:
        return f"{what} is wider"
    return f"{what} is narrower" if float(change.sel(bound="high")) < 0 else f"whether {what} is wider is open"


def equal_accuracy(radii: xr.Dataset) -> str:
    """Return whether the class explains more after PGD-AT than after standard training where that is as inaccurate.

    radii: of both networks under one attack along eval_eps, "0" for clean images.
    """
    count = bootstrap.sums(radii, {})["count"].isel(attack=0, drop=True)
    trained = count.sel(defence=_TRAINED, drop=True).isel(eval_eps=-1)
    target, standard = metrics.overall(trained), count.sel(defence=_PLAIN, drop=True)
    radius = float(discrepancy.radius_at(standard, target.drop_vars("eval_eps")))
    largest, share = str(radii.eval_eps.values[-1]), float(target)
    if pd.isna(radius):
        return f"Standard training has the accuracy of {_TRAINED} at radius {largest}, {share:.0f} %, at none of these radii."
    difference = bootstrap.paired(radii, _at_equal_accuracy, span=(-100, 100))
    start = "Whether the class explains more after adversarial training is open"
    if float(difference.sel(bound="low")) > 0:
        start = "The class explains more after adversarial training"
    elif float(difference.sel(bound="high")) < 0:
        start = "The class explains less after adversarial training"
    return (
        f"**{start}, at an equal accuracy of {share:.0f} %: PGD-AT at radius {largest} less standard training at about "
        f"{radius:.3f}, {interval(difference, 'points', 1)} of the variance.** {sample(radii)}"
    )


def _at_equal_accuracy(count: xr.DataArray) -> xr.DataArray:
    return section_1.widened_at_equal_accuracy(count.to_dataset(name="count"))


def alike(outcomes: xr.Dataset) -> str:
    """Return the correlation of the profiles of both networks in opposite halves of the images, and that of each with itself.

    outcomes: of standard training and PGD-AT under one or more attacks.
    """
    lines = []
    for name in map(str, outcomes.attack.values):
        part, where = outcomes.sel(attack=[name]), "Without an attack" if name == "clean" else f"Under {escaped(name)}"
        bounds = agreement.interval(part, section_1.between_networks, "defence")
        sure = agreement.reliability(agreement.profiles(part, "defence"), "defence")
        if not bool(np.isfinite(bounds).all() and sure.notnull().all()):
            lines.append(f"{where}: no interval, for the classes of a network hardly differ")
            continue
        each = ", ".join(f"{kind} {float(sure.sel(defence=kind)):.2f}" for kind in (_PLAIN, _TRAINED))
        lines.append(f"{where}: {interval(bounds, '', 2)}; of each network with itself: {each}")
    return (
        "**Correlation of the accuracies of the classes, standard training in one half of the images and PGD-AT in the other.** "
        f"{'. '.join(lines)}."
    )


def datasets(outcomes: Mapping[str, xr.Dataset], table: pd.DataFrame) -> str:
    """Return for each dataset how many images a class has, and the gap of its adversarial training under attack."""
    lines = []
    for name in outcomes:
        rows = table[table["dataset"] == title(name)]
        row = rows.iloc[-1]
        lines.append(
            f"- {title(name)}, {row['smallest class']} to {row['largest class']} test images of a class: {row['case']} "
            f"{_written(row, '', 'points')}, equal classes {row['equal classes']:.0f}."
        )
    return "\n".join(lines)
