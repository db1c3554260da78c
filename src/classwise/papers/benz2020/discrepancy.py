"""How unequal classes are: the gap that equal classes would have by chance, and networks at the same accuracy."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core import datasets
from classwise.core.identity import radius_value
from classwise.stats import bootstrap, metrics, pooling


@dataclass(frozen=True)
class Crossing:
    """Between which two radii, along eval_eps, an accuracy falls to a target: the first of them, and how far towards the second.

    share is NaN where the accuracy begins below the target or does not fall to it.
    """

    place: xr.DataArray
    share: xr.DataArray

    def of(self, values: xr.DataArray) -> xr.DataArray:
        """Return values along eval_eps at the crossing, interpolated."""
        places = (self.place, self.place + 1)
        first, second = (values.isel(eval_eps=place).drop_vars("eval_eps", errors="ignore") for place in places)
        return first + self.share * (second - first)


def crossing(count: xr.DataArray, target: xr.DataArray) -> Crossing:
    """Return where the overall accuracy of counts falls to a target in percent; radii along eval_eps ascend."""
    rates, size = metrics.overall(count), count.sizes["eval_eps"]
    last = (rates >= target).cumprod("eval_eps").sum("eval_eps").astype(int) - 1
    start = Crossing(last.clip(0, size - 2), xr.zeros_like(last, dtype=float))
    before, after = start.of(rates), Crossing(start.place + 1, start.share).of(rates.pad(eval_eps=(0, 1), mode="edge"))
    share = (before - target) / (before - after).where(before > after)
    return Crossing(start.place, share.where((last >= 0) & (last < size - 1)))


def at_accuracy(count: xr.DataArray, target: xr.DataArray) -> xr.DataArray:
    """Return counts at the radius at which their overall accuracy is the target, in percent; NaN where it is so at none."""
    return crossing(count, target).of(count).rename("count")


def radius_at(count: xr.DataArray, target: xr.DataArray) -> xr.DataArray:
    """Return that radius; NaN where there is none."""
    radii = count.eval_eps.copy(data=[radius_value(str(value)) for value in count.eval_eps.values])
    return crossing(count, target).of(radii)


def explained_at_equal_accuracy(outcomes: xr.Dataset, network: str = "standard", other: str = "pgd-at") -> float:
    """Return the share that the class explains (`metrics.explained`) in a network that is as inaccurate as another one.

    outcomes: under one attack along eval_eps, at whose largest radius the other one is taken. NaN where a network is missing, or
    is as inaccurate at none of the radii.
    """
    if not {network, other} <= set(outcomes.defence.values):
        return float("nan")
    count = bootstrap.sums(_seeded(outcomes), {})["count"].isel(attack=0, drop=True)
    target = metrics.overall(count.sel(defence=other, drop=True).isel(eval_eps=-1, drop=True))
    return float(metrics.explained(at_accuracy(count.sel(defence=network, drop=True), target)))


def gap_by_chance(count: xr.DataArray, draws: int = 2000, seed: int = 0) -> xr.DataArray:
    """Return the gap (MCD) that classes of equal accuracy have by chance: its mean and 95 % range, along `bound`, in points.

    count: pooled. Each class has as many images as it has there, and the mean accuracy of the classes.
    """
    rng, total = np.random.default_rng(seed), metrics.images(count)
    chance = (metrics.accuracy(count).mean("label", skipna=False) / 100).clip(0, 1).fillna(0)
    number = total.round().astype(int)
    both = xr.broadcast(number, chance)
    drawn = rng.binomial(both[0].values, both[1].values, size=(draws, *both[0].shape))
    rates = xr.DataArray(100 * drawn / np.maximum(both[0].values, 1), dims=("draw", *both[0].dims), coords=both[0].coords)
    gaps = rates.max("label") - rates.min("label")
    ends = gaps.quantile([0.025, 0.975], "draw").drop_vars("quantile")
    parts = [ends.isel(quantile=0), gaps.mean("draw"), ends.isel(quantile=1)]
    result: xr.DataArray = xr.concat(parts, "bound").assign_coords(bound=["low", "value", "high"])
    return result.where((total > 0).all("label")).rename("by_chance")


_EQUAL = {"low": "equal classes, low", "value": "equal classes", "high": "equal classes, high"}


def table(outcomes: Mapping[str, xr.Dataset]) -> pd.DataFrame:
    """Return the discrepancy of datasets, a row for each dataset, network and attack.

    Columns: dataset, defence, attack, case (the last two in words); accuracy (of all images, in percent); value, low, high (the
    gap between best and worst class, in points); equal classes, with low and high (`gap_by_chance`); explained, with low and high
    (`metrics.explained`, in percent); smallest class and largest class (their numbers of images).
    """
    return pd.concat([_rows(some).assign(dataset=datasets.title(name)) for name, some in outcomes.items()], ignore_index=True)


def _rows(outcomes: xr.Dataset) -> pd.DataFrame:
    pooled, keys = pooling.pooled(outcomes), ["defence", "attack"]
    result = _wide(bootstrap.bootstrap(outcomes, metrics.mcd))
    chance = _wide(gap_by_chance(pooled)).rename(columns=_EQUAL)
    share = _wide(bootstrap.bootstrap(outcomes, metrics.explained))
    share = share.rename(columns={"low": "explained, low", "value": "explained", "high": "explained, high"})
    accuracy = metrics.overall(pooled).rename("accuracy").to_dataframe()["accuracy"].reset_index()
    sizes = metrics.images(bootstrap.sums(_seeded(outcomes), {})["count"])
    result = result.merge(chance, on=keys).merge(share, on=keys, how="left").merge(accuracy, on=keys)
    order = [(str(name), str(attack)) for name in outcomes.defence.values for attack in outcomes.attack.values]
    result = result.set_index(keys).reindex([pair for pair in order if pair in set(result.set_index(keys).index)]).reset_index()
    smallest, largest = int(sizes.min(["defence", "attack"]).min()), int(sizes.max(["defence", "attack"]).max())
    return result.assign(
        case=result["defence"] + ", " + result["attack"], **{"smallest class": smallest, "largest class": largest}
    )


def _wide(bounds: xr.DataArray) -> pd.DataFrame:
    """Return bounds as rows with a column for each end, without those that are unknown."""
    return bounds.to_dataset("bound").reset_coords(drop=True).to_dataframe().dropna().reset_index()


def _seeded(outcomes: xr.Dataset) -> xr.Dataset:
    return outcomes if "seed" in outcomes.dims else outcomes.expand_dims(seed=[0])


def mean_taken_off(count: xr.DataArray) -> xr.DataArray:
    """Return by how many points the accuracy of each class differs from the mean over the classes (right of Figures 1 and 2)."""
    rates = metrics.accuracy(count)
    return (rates - rates.mean("label", skipna=False)).rename("off")
