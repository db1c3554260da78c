"""What sections 3.1 and 3.2.2 of Entropy 2022 find on our images, in sentences, next to what the paper prints."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.core.markup import counted, decimal
from classwise.papers.entropy2022 import gains
from classwise.papers.entropy2022 import trade_off as section_3_2_2b
from classwise.papers.entropy2022.gains import OURS, THEIRS
from classwise.papers.entropy2022.networks import NETWORKS
from classwise.papers.findings import sample
from classwise.stats import bootstrap, metrics

_DRAWS = 1000


def _one(row: pd.Series) -> str:
    value, low, high = (decimal(row[name], 1) for name in ("value", "low", "high"))
    return f"{value} points (95 % interval {low} to {high})"


def _row(rows: pd.DataFrame, comparison: str, attack: str, measure: str = "overall", source: str = OURS) -> pd.Series | None:
    """Return a row of `gains.compared`; None where it is not recorded or not printed."""
    known = {"comparison": comparison, "attack": attack, "measure": measure, "source": source}
    some = rows[np.logical_and.reduce([rows[name] == value for name, value in known.items()])]
    return some.iloc[0] if len(some) else None


def resolution(rows: pd.DataFrame) -> str:
    """Return how many of the printed differences are larger than the test images of the paper can tell, and of ours."""
    lines = []
    for source, whose in ((THEIRS, "printed"), (OURS, "of ours")):
        # A printed 0 % has no error, and is no difference.
        some = rows[(rows["source"] == source) & (rows["high"] > rows["low"])]
        if len(some):
            reach = (some["high"] - some["low"]) / 2
            sure = int(((some["low"] > 0) | (some["high"] < 0)).sum())
            sizes = some["value"].abs()
            lines.append(
                f"{sure} of {len(some)} differences {whose} have an interval without zero, each by itself: all of them are "
                f"{sizes.min():.2f} to {sizes.max():.2f} points, and the intervals reach {reach.min():.2f} to {reach.max():.2f} "
                "points to either side"
            )
    return f"**{'.** '.join(lines[:1])}**. {' '.join(line[:1].upper() + line[1:] + '.' for line in lines[1:])}" if lines else ""


def reliance(rows: pd.DataFrame, pairs: Sequence[gains.Pair]) -> str:
    """Return how the gap between PGD-20 and the strong attack changes from one network to another, ours and theirs.

    rows: of `gains.falls`. pairs: the network, and what it is compared with.
    """
    lines = []
    for network, base in pairs:
        parts = []
        for source, whose in ((OURS, "here"), (THEIRS, "in the paper")):
            table = rows[rows["source"] == source].set_index("comparison")["value"]
            if {network, base} <= set(table.index):
                parts.append(f"from {table[base]:.1f} to {table[network]:.1f} points {whose}")
        if parts:
            lines.append(f"{base} to {network}: {' and '.join(parts)}")
    return f"**PGD-20 less the strong attack**: {'; '.join(lines)}." if lines else ""


def trade_off(rows: pd.DataFrame, outcomes: xr.Dataset) -> str:
    """Return what maximum entropy adds to TRADES at an equal lambda, and in the comparison of the paper; or NotRecorded."""
    parts = []
    for name, words in (
        (EQUAL, "At an equal λ of 15, maximum entropy changes"),
        (AS_PAPER, "Against TRADES with λ = 6 it changes"),
    ):
        clean, robust = (_row(rows, name, attack) for attack in ("clean", "robust"))
        if clean is not None and robust is not None:
            parts.append(f"{words} the clean accuracy of TRADES by {_one(clean)} and its robust accuracy by {_one(robust)}.")
    if not parts:
        raise NotRecorded("TRADES and ME-TRADES with the λ that are compared are not recorded")
    return f"**{parts[0]}** {' '.join(parts[1:])} {sample(outcomes)}"


EQUAL, AS_PAPER = "ME-TRADES 15 over TRADES 15", "ME-TRADES 15 over TRADES 6"
# What the page compares: first the network that should be better.
COMPARISONS: Mapping[str, gains.Pair] = {
    EQUAL: ("me-trades (β=1, λ=15)", "trades (λ=15)"),
    AS_PAPER: ("me-trades (β=1, λ=15)", "trades (λ=6)"),
    "ME-TRADES 27 over TRADES 6": ("me-trades (β=1, λ=27)", "trades (λ=6)"),
    "TRADES with LS over TRADES 6": ("trades-smoothed (λ=6)", "trades (λ=6)"),
    "ME-AT 0.5 over PGD-AT": ("me-at (β=0.5)", "pgd-at"),
    "ME-AT 1 over PGD-AT": ("me-at (β=1)", "pgd-at"),
    "PGD-AT with LS over PGD-AT": ("label-smoothing", "pgd-at"),
}

# Between which networks the page compares PGD-20 and the strong attack.
RELIANCE = (("me-at (β=0.5)", "pgd-at"), ("me-at (β=1)", "pgd-at"), ("me-trades (β=1, λ=15)", "trades (λ=15)"))


def selection(history: xr.Dataset, dataset: str) -> str:
    """Return which lambda the validation images select for either method, and which networks the claim compares."""
    rule = section_3_2_2b.selected(history)
    # Of methods that are recorded.
    compared = section_3_2_2b.selected_for(dataset)
    used = tuple(name for name in compared if NETWORKS[name].defence in {NETWORKS[one].defence for one in rule})
    same = (
        "those that the claim compares" if set(rule) == set(used) else f"not those that the claim compares: {' and '.join(used)}"
    )
    return f"**On the validation images** the most robust networks are {' and '.join(rule)}, {same}."


def all_four(rows: pd.DataFrame) -> str:
    """Return for which comparisons all four differences lie above zero: average and worst class, clean and robust."""
    lines = []
    for source, whose in ((OURS, "here"), (THEIRS, "in the paper")):
        some = rows[rows["source"] == source]
        complete = some.groupby("comparison").filter(lambda each: len(each) == 4)
        if len(complete):
            least = complete.groupby("comparison", sort=False)["value"].min()
            better = [str(name) for name in least.index[least > 0]]
            certain = complete.groupby("comparison")["low"].min()
            words = f"{len(better)} of {counted(len(least), 'comparison')}" + (f" ({', '.join(better)})" if better else "")
            lines.append(f"{whose} {words}; with intervals that exclude zero, {int((certain > 0).sum())}")
    return f"**All four rise**: {'; '.join(lines)}." if lines else ""


def bias_of_the_worst(outcomes: xr.Dataset, attack: str) -> str:
    """Return by how much the least of the accuracies of the classes is too low by chance, in the mean over networks.

    By the bootstrap: the worst class of redrawn images less that of the images themselves.
    """
    part = outcomes.sel(attack=[attack])
    value = metrics.worst(bootstrap.sums(part, {})["count"])
    parts = [metrics.worst(some["count"]) for some in bootstrap.bootstrap_sums(part, {}, _DRAWS)]
    bias = (xr.concat(parts, "draw").mean("draw") - value).isel(attack=0)
    images = int(metrics.images(bootstrap.sums(part, {})["count"]).min())
    theirs = gains.printed("pgd-at", "autoattack", "worst") / 100
    error = 100 * np.sqrt(theirs * (1 - theirs) / gains.IMAGES["worst"])
    return (
        f"**The worst of the classes is too low by about {abs(float(bias.mean())):.1f} points** under {attack}, in the mean over "
        f"networks ({float(-bias.max()):.1f} to {float(-bias.min()):.1f}): of classes that are nearly as weak, chance decides "
        f"which one is the least. The smallest class has {images} images; the paper's 1,000 give the worst class of PGD-AT, "
        f"{100 * theirs:.1f} %, a standard error of {error:.1f} points."
    )


def chosen_epochs(history: xr.Dataset, least: int = 5) -> str:
    """Return how much more robust the best measured epoch on test images is than the last one, for each network.

    Of networks that were measured at `least` epochs or more.
    """
    count = history["count"].sel(split="test").drop_sel(attack="clean").sum(["attack", "seed"])
    rates = metrics.overall(count)
    lines = []
    for name in map(str, rates.defence.values):
        some = rates.sel(defence=name).dropna("epoch")
        if some.sizes["epoch"] >= least:
            best = int(some.epoch[int(some.argmax("epoch"))])
            lines.append(f"{name} {float(some.max() - some.isel(epoch=-1)):.1f} (epoch {best} of {int(some.epoch[-1])})")
    return (
        f"**Best epoch less the last one, in points**: {'; '.join(lines)}." if lines else "No course over the epochs is recorded."
    )
