"""What one network of Entropy 2022 gains over another: on our images, and in the printed tables. All is in percent or points."""

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.papers.entropy2022.tables import TABLES
from classwise.stats import aggregate, bootstrap, combine, intervals, metrics

MEASURES: Mapping[str, metrics.Metric] = {"overall": metrics.overall, "worst": metrics.worst}
# A network and what it is compared with.
Pair = tuple[str, str]
# By the training without label smoothing: the defence with it.
SMOOTHED = {"standard": "standard-smoothed", "pgd-at": "label-smoothing", "trades": "trades-smoothed"}
OURS, THEIRS = "ours", "the paper, on CIFAR-10"
_WORDS = {"overall": "all images", "worst": "worst class"}
# The test images behind a printed number: CIFAR-10 has 1,000 of each class.
_IMAGES = {"overall": 10_000, "worst": 1000}
# How many standard errors a 95 % interval reaches to either side.
_REACH = 1.96


@cache
def published_accuracies() -> xr.Dataset:
    """Return the accuracies of Tables 1 to 5, overall and in the worst class, along defence and attack; NaN where none is.

    Table 1 calls TRADES with label smoothing by its defence, Table 4 by its lambda: it has both names.
    """
    first, *others, last = (TABLES.load(number) for number in (1, 2, 3, 5, 4))
    smoothed = first.smoothed.sel(defence=list(SMOOTHED)).assign_coords(defence=list(SMOOTHED.values()))
    of_trades = smoothed.sel(defence=["trades-smoothed"]).assign_coords(defence=["trades-smoothed (λ=6)"])
    rows = [*(table.overall for table in others), first.overall, smoothed, of_trades]
    overall = xr.concat(rows, "defence", join="outer").drop_duplicates("defence")
    return xr.Dataset({"overall": overall, "worst": last.worst}).sel(attack=["clean", "pgd-20", "margin-20", "autoattack"])


def _sides(values: xr.DataArray, pairs: Mapping[str, Pair]) -> tuple[xr.DataArray, xr.DataArray]:
    sides = (values.reindex(defence=list(side)).rename(defence="comparison") for side in zip(*pairs.values(), strict=True))
    first, second = (side.assign_coords(comparison=list(pairs)) for side in sides)
    return first, second


def printed_gain(pairs: Sequence[Pair], attacks: Sequence[str], measures: Sequence[str] = ("overall",)) -> float:
    """Return the least printed gain: over pairs, measures and attacks."""
    values = published_accuracies()[list(measures)].sel(attack=list(attacks)).to_dataarray()
    first, second = _sides(values, {str(place): pair for place, pair in enumerate(pairs)})
    return float((first - second).min(skipna=False))


def _with_error(first: xr.DataArray, second: xr.DataArray, images: int) -> xr.DataArray:
    """Return the difference of two printed accuracies, of so many images each, with a 95 % interval.

    The paper compares networks on the same images but does not print which ones each classifies correctly: taken as independent,
    the interval is too wide where both tend to be right on the same images.
    """
    value = first - second
    reach = _REACH * np.sqrt((first * (100 - first) + second * (100 - second)) / images)
    return intervals.interval_bounds(value - reach, value, value + reach)


def known_pairs(outcomes: xr.Dataset, pairs: Mapping[str, Pair]) -> dict[str, Pair]:
    """Return the pairs of which outcomes have both networks; NotRecorded without any."""
    kept = {name: pair for name, pair in pairs.items() if {*outcomes.defence.values}.issuperset(pair)}
    if not kept:
        raise NotRecorded("no two networks that are compared are recorded")
    return kept


def compare_gains(
    outcomes: xr.Dataset, pairs: Mapping[str, Pair], attack: str, measures: Sequence[str] = tuple(MEASURES)
) -> xr.DataArray:
    """Return gains with 95 % intervals along source (OURS, THEIRS), panel (a measure, clean or robust), comparison and bound.

    attack: of ours, which stands for AutoAttack. The intervals of the paper are from its test images alone.
    """
    panels = {}
    for measure in measures:
        under = outcomes.sel(attack=["clean", attack])
        ours = bootstrap.differences(under, known_pairs(under, pairs), MEASURES[measure])
        theirs = _with_error(*_sides(published_accuracies()[measure], pairs), _IMAGES[measure])
        for images, names in (("clean", ("clean", "clean")), ("robust", (attack, "autoattack"))):
            both = (one.sel(attack=name, drop=True) for one, name in zip((ours, theirs), names, strict=True))
            panels[f"{_WORDS[measure]}, {images}"] = combine.concat_named("source", dict(zip((OURS, THEIRS), both, strict=True)))
    return combine.concat_named("panel", panels)


def falls(outcomes: xr.Dataset, strong: str, weak: str = "pgd-20") -> xr.DataArray:
    """Return how many points of accuracy networks lose from the weak to the strong attack, along source, defence and bound.

    Of the paper, from PGD-20 to AutoAttack. NotRecorded where both are the same.
    """
    if strong == weak:
        raise NotRecorded(f"no stronger attack than {weak} is recorded")

    def differences(count: xr.DataArray) -> xr.DataArray:
        values = metrics.overall(count)
        return values.sel(attack=weak, drop=True) - values.sel(attack=strong, drop=True)

    ours = bootstrap.paired_bounds(
        aggregate.common_images(outcomes.sel(attack=[weak, strong]), "attack"), differences, span=(-100, 100)
    )
    first, second = (published_accuracies().overall.sel(attack=name, drop=True) for name in (weak, "autoattack"))
    theirs = _with_error(first, second, _IMAGES["overall"]).reindex(defence=ours.defence)
    return combine.concat_named("source", {OURS: ours, THEIRS: theirs})


def both_tables(outcomes: xr.Dataset, measure: str = "overall") -> pd.DataFrame:
    """Return accuracies of networks in percent, ours and theirs, a row each; "" where one is missing."""
    ours = MEASURES[measure](aggregate.counts(outcomes).sum("seed"))
    both = {"ours": ours, "theirs": published_accuracies()[measure].reindex(defence=ours.defence)}
    parts = [table.transpose("defence", "attack").to_pandas().add_suffix(f", {whose}") for whose, table in both.items()]
    table: pd.DataFrame = pd.concat(parts, axis=1).map("{:.1f}".format).replace("nan", "")
    return table
