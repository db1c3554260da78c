"""What one network of Entropy 2022 gains over another: on our images, and in the printed tables.

Points are points of a percentage. Measures take sums over images (`bootstrap.sums`) and name networks as the outcomes do.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.papers.entropy2022.tables import TABLES
from classwise.stats import aggregate, bootstrap, metrics
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


def printed(name: str, attack: str, measure: str = "overall") -> float:
    """Return what Tables 2 to 4, or Table 1, print of a network, in percent; KeyError where they do not have it."""
    tables = (4,) if measure == "worst" else (2, 3)
    if name == _SMOOTHED_TRADES and measure == "overall":
        return printed_smoothing("trades-smoothed", attack)
    known = next((table for table in map(TABLES.load, tables) if name in table.defence.values), None)
    if known is None:
        raise KeyError(name)
    return float(known[measure].sel(defence=name, attack=attack))


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


def printed_smoothing(name: str, attack: str, measure: str = "overall") -> float:
    """Return what Table 1 prints of a network by its defence, in percent; KeyError where it does not have it."""
    table, training = TABLES.load(1), {smoothed: plain for plain, smoothed in _SMOOTHED.items()}.get(name, name)
    if measure != "overall" or training not in table.defence.values:
        raise KeyError(name)
    return float(table["overall" if training == name else "smoothed"].sel(defence=training, attack=attack))


# The row of Table 4 of which Table 1 has the accuracy over all images.
_SMOOTHED_TRADES = "trades-smoothed (λ=6)"
# By the training without label smoothing: the defence with it.
_SMOOTHED = {"standard": "standard-smoothed", "pgd-at": "label-smoothing", "trades": "trades-smoothed"}
_WORDS = {"overall": "all images", "worst": "worst class"}
OURS, THEIRS = "ours", "the paper, on CIFAR-10"


def compared(
    outcomes: xr.Dataset,
    pairs: Mapping[str, Pair],
    attack: str,
    lookup: Callable[[str, str, str], float] = printed,
    measures: Sequence[str] = tuple(MEASURES),
) -> pd.DataFrame:
    """Return gains with 95 % intervals, a row each: ours on the same images, and the printed ones.

    Columns: comparison, panel (the measure, and clean or robust), measure, attack ("clean", "robust"), source, value, low, high.
    attack: of ours, which stands for AutoAttack. The intervals of the printed ones are those of `standard_error`; pairs of which
    either source lacks a network are left out of it. NotRecorded where all of ours lack one.
    """
    recorded = set(map(str, outcomes.defence.values))
    kept = {name: pair for name, pair in pairs.items() if recorded.issuperset(pair)}
    if not kept:
        raise NotRecorded("no two networks that are compared are recorded")
    rows = []
    for measure in measures:
        ours = paired(outcomes.sel(attack=["clean", attack]), kept, MEASURES[measure])
        for images, our_attack, their_attack in (("clean", "clean", "clean"), ("robust", attack, "autoattack")):
            known = {"measure": measure, "attack": images, "panel": f"{_WORDS[measure]}, {images}"}
            for name in pairs:
                if name in kept:
                    ends = ours.sel(comparison=name, attack=our_attack)
                    rows.append({"comparison": name, "source": OURS, **known, **_ends(ends)})
                theirs = _printed_gain(pairs[name], their_attack, measure, lookup)
                if theirs:
                    rows.append({"comparison": name, "source": THEIRS, **known, **theirs})
    return pd.DataFrame(rows)


def _ends(bounds: xr.DataArray) -> dict[str, float]:
    return {name: float(bounds.sel(bound=name)) for name in ("value", "low", "high")}


def _printed_gain(pair: Pair, attack: str, measure: str, lookup: Callable[[str, str, str], float]) -> dict[str, float]:
    """Return value, low and high of a printed gain; {} where a network is not printed."""
    try:
        better, worse = (lookup(name, attack, measure) for name in pair)
    except KeyError:
        return {}
    reach = REACH * standard_error(better, worse, IMAGES[measure])
    return {"value": better - worse, "low": better - worse - reach, "high": better - worse + reach}


def paired(outcomes: xr.Dataset, pairs: Mapping[str, Pair], measure: Metric = metrics.overall, draws: int = 2000) -> xr.DataArray:
    """Return low, value and high of gains on the same images (95 %), along `comparison`, the keys of `pairs`, and attack."""

    def differences(count: xr.DataArray) -> xr.DataArray:
        values = measure(count)
        each = [values.sel(defence=better, drop=True) - values.sel(defence=worse, drop=True) for better, worse in pairs.values()]
        return xr.concat(each, pd.Index(list(pairs), name="comparison"))

    return bootstrap.paired(outcomes, differences, draws=draws, span=(-100, 100))


def fall(outcomes: xr.Dataset, weak: str, strong: str, draws: int = 2000) -> xr.DataArray:
    """Return low, value and high of how many points of accuracy each network loses from the weak to the strong attack."""

    def differences(count: xr.DataArray) -> xr.DataArray:
        values = metrics.overall(count)
        return values.sel(attack=weak, drop=True) - values.sel(attack=strong, drop=True)

    both = aggregate.common(outcomes.sel(attack=[weak, strong]))
    return bootstrap.paired(both, differences, draws=draws, span=(-100, 100))


def falls(outcomes: xr.Dataset, strong: str, weak: str = "pgd-20") -> pd.DataFrame:
    """Return `fall` of each network, ours and that of the paper from PGD-20 to AutoAttack, as rows of `compared`."""
    if strong == weak:
        raise NotRecorded(f"results under a stronger attack than {weak} are not recorded")
    ours, rows = fall(outcomes, weak, strong), []
    known = {"panel": "PGD-20 less AutoAttack"}
    for name in map(str, ours.defence.values):
        rows.append({"comparison": name, "source": OURS, **known, **_ends(ours.sel(defence=name))})
        try:
            both = printed(name, weak), printed(name, "autoattack")
        except KeyError:
            continue
        reach = REACH * standard_error(*both, IMAGES["overall"])
        value = both[0] - both[1]
        rows.append({"comparison": name, "source": THEIRS, **known, "value": value, "low": value - reach, "high": value + reach})
    return pd.DataFrame(rows)


def both_tables(outcomes: xr.Dataset, attack: str, names: Sequence[str], measure: str = "overall") -> pd.DataFrame:
    """Return accuracies of networks in percent, ours and theirs, a row each; "" where one is missing.

    attack: of ours, which stands for AutoAttack.
    """
    count = aggregate.counts(outcomes).sum("seed")
    ours, attacks = MEASURES[measure](count), {one: one for one in outcomes.attack.values.tolist() if one != attack}
    columns: dict[str, list[str]] = {}
    for our_attack, their_attack in (attacks | {attack: "autoattack"}).items():
        columns[f"{our_attack}, ours"] = [_cell(ours, name, our_attack) for name in names]
        columns[f"{their_attack}, theirs"] = [_printed_cell(name, their_attack, measure) for name in names]
    return pd.DataFrame(columns, index=pd.Index(names, name="network"))


def _rate(values: xr.DataArray, name: str, attack: str) -> float:
    return float(values.sel(defence=name, attack=attack)) if name in values.defence else np.nan


def _written(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.1f}"


def _cell(values: xr.DataArray, name: str, attack: str) -> str:
    return _written(_rate(values, name, attack))


def _printed_cell(name: str, attack: str, measure: str) -> str:
    try:
        return f"{printed(name, attack, measure):.1f}"
    except KeyError:
        return ""
