"""What one network of Entropy 2022 gains over another: on our images, and in the printed tables.

Points are points of a percentage. Measures take sums over images (`bootstrap.sums`) and name networks as the outcomes do.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr

from classwise.papers.entropy2022.tables import TABLES
from classwise.stats import bootstrap, metrics
from classwise.stats.metrics import Metric

MEASURES: Mapping[str, Metric] = {"overall": metrics.overall, "worst": metrics.worst}
# A network and what it is compared with.
Pair = tuple[str, str]
# The test images behind a printed number: CIFAR-10 has 1,000 of each class.
IMAGES = {"overall": 10_000, "worst": 1000}
# How many standard errors a 95 % interval reaches to either side.
REACH = 1.96


def gains(sums: xr.Dataset, pairs: Sequence[Pair], measures: Sequence[Metric] = (metrics.overall,)) -> xr.DataArray:
    """Return how much higher each measure is for the first network of each pair than for the second, under each attack.

    Along `gain`: all combinations.
    """
    values = [measure(sums["count"]) for measure in measures]
    each = [one.sel(defence=better, drop=True) - one.sel(defence=worse, drop=True) for one in values for better, worse in pairs]
    together = xr.concat(each, "part").stack(gain=("part", "attack"), create_index=False)
    return together.drop_vars(["part", "attack"], errors="ignore")


def least_gain(sums: xr.Dataset, pairs: Sequence[Pair], measures: Sequence[Metric] = (metrics.overall,)) -> xr.DataArray:
    """Return the least gain of the first network over the second: over pairs, measures and attacks."""
    return gains(sums, pairs, measures).min("gain", skipna=False)


def printed(name: str, attack: str, measure: str = "overall") -> float:
    """Return what Tables 2 to 4 print of a network, in percent."""
    tables = (4,) if measure == "worst" else (2, 3)
    found = next(table for table in map(TABLES.load, tables) if name in table.defence.values)
    return float(found[measure].sel(defence=name, attack=attack))


def printed_gain(pairs: Sequence[Pair], attacks: Sequence[str], measures: Sequence[str] = ("overall",)) -> float:
    """Return the least printed gain: over pairs, measures and attacks."""
    return min(
        printed(better, attack, measure) - printed(worse, attack, measure)
        for better, worse in pairs
        for attack in attacks
        for measure in measures
    )


def standard_error(first: float, second: float, images: int) -> float:
    """Return the standard error, in points, of the difference of two accuracies in percent, each of so many images.

    The paper compares networks on the same images but does not print which ones each classifies correctly: taken as independent,
    this is an upper bound where both tend to be right on the same images.
    """
    shares = np.array([first, second]) / 100
    return 100 * float(np.sqrt((shares * (1 - shares)).sum() / images))


def paired(outcomes: xr.Dataset, pairs: Mapping[str, Pair], measure: Metric = metrics.overall, draws: int = 2000) -> xr.DataArray:
    """Return low, value and high of gains along `comparison` (the keys of `pairs`) and attack: 95 % intervals on the same images.

    Pairs of which a network is not among the outcomes are left out.
    """
    known = set(map(str, outcomes.defence.values))
    kept = {name: pair for name, pair in pairs.items() if known.issuperset(pair)}

    def differences(count: xr.DataArray) -> xr.DataArray:
        values = measure(count)
        each = [values.sel(defence=better, drop=True) - values.sel(defence=worse, drop=True) for better, worse in kept.values()]
        return xr.concat(each, pd.Index(list(kept), name="comparison"))

    return bootstrap.paired(outcomes, differences, draws=draws, span=(-100, 100))
