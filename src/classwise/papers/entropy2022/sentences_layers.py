"""The findings of the page on batch-instance norm, with 95 % intervals."""

import pandas as pd
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.core.markup import counted, decimal
from classwise.papers.entropy2022.section_a_3 import NAMES
from classwise.papers.findings import interval, sample
from classwise.stats import bootstrap, metrics
from classwise.stats.metrics import Metric

_BATCH, _BOTH = NAMES.values()


def changes(outcomes: xr.Dataset, metric: Metric = metrics.overall) -> xr.DataArray:
    """Return low, value and high of what batch-instance norm adds to a metric, along attack; outcomes: of `section_a_3.by_layer`.

    NotRecorded without both networks.
    """
    if not {_BATCH, _BOTH} <= set(outcomes.norm.values):
        raise NotRecorded("results of both normalisations are not recorded")

    def change(count: xr.DataArray) -> xr.DataArray:
        values = metric(count)
        return values.sel(norm=_BOTH, drop=True) - values.sel(norm=_BATCH, drop=True)

    return bootstrap.paired(outcomes, change, span=(-100, 100))


def headline(outcomes: xr.Dataset) -> str:
    """Return what batch-instance norm changes without an attack and under the last one, on our images."""
    bounds, attack = changes(outcomes), str(outcomes.attack.values[-1])
    clean, robust = (bounds.sel(attack=name) for name in ("clean", attack))
    start = "Whether batch-instance norm changes the accuracy of ME-TRADES without more images is open"
    ends = [(float(some.sel(bound="low")), float(some.sel(bound="high"))) for some in (clean, robust)]
    if any(low > 0 or high < 0 for low, high in ends):
        words = ["raises" if low > 0 else "lowers" if high < 0 else "" for low, high in ends]
        kinds = [f"{word} {kind} accuracy" for word, kind in zip(words, ("clean", "robust"), strict=True) if word]
        rest = [
            f"its effect on {kind} accuracy is open" for word, kind in zip(words, ("clean", "robust"), strict=True) if not word
        ]
        start = f"Batch-instance norm {' and '.join(kinds)} of ME-TRADES without more images{'; ' if rest else ''}{''.join(rest)}"
    points = [interval(some, "points", 1) for some in (clean, robust)]
    return (
        f"**{start}: it changes clean accuracy by {points[0]}, and accuracy under {attack} by {points[1]}.** "
        f"{sample(outcomes.rename(norm='defence'))}"
    )


def gates(values: xr.DataArray) -> str:
    """Return how much instance norm the network chose (`runs.gates`)."""
    flat = values.values[values.notnull().values]
    layers = ", ".join(
        f"{decimal(float(mean), 2)} in layer {layer}" for layer, mean in values.mean("channel").to_series().items()
    )
    below = int((flat < 1).sum())
    mean = decimal(float(flat.mean()), 2)
    return (
        f"**Of {counted(len(flat), 'channel')}, {below} mix in some instance norm; the mean gate is {mean}.** "
        f"By layer: {layers}. The lowest gate is {decimal(float(flat.min()), 2)}."
    )


def table(outcomes: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return by title the metrics of both networks with intervals, along norm and attack."""
    names = {"overall": "all images, %", "worst": "worst class, %"}
    rows = outcomes.rename(norm="defence")
    return {
        title: bootstrap.bootstrap(rows, metrics.METRICS[name]).rename(defence="norm").assign_coords(norm=outcomes.norm.values)
        for name, title in names.items()
    }


def per_class(outcomes: xr.Dataset, attack: str) -> pd.DataFrame:
    """Return how many points each class gains under an attack, with intervals of single comparisons."""
    bounds = changes(outcomes.sel(attack=[attack]), metrics.accuracy).isel(attack=0, drop=True)
    ends = {end: bounds.sel(bound=end).to_series() for end in ("value", "low", "high")}
    rows = {
        label: " ".join(
            (decimal(ends["value"][label], 1), f"[{decimal(ends['low'][label], 1)}, {decimal(ends['high'][label], 1)}]")
        )
        for label in ends["value"].index
    }
    return pd.DataFrame({"points gained": rows}).rename_axis("class").T
