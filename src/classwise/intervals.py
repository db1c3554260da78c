"""How sure a measure is: intervals of class accuracies and of measures over classes, and tests."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from classwise.metrics import (
    Measure,
    accuracy,
    confusion,
    correct,
    cv,
    cv_unbiased,
    groups,
    images,
    misclassified,
    overall,
    symmetry,
    within,
    worst,
)
from classwise.resampling import deal, resample

# Where a measure cannot lie outside, its interval does not either.
_RANGES = {
    "overall": (0, 100),
    "worst": (0, 100),
    "worst_k": (0, 100),
    "mcd": (0, 100),
    "cv": (0, 2500),
    "symmetry": (-1, 1),
}


def wilson(count: xr.DataArray, level: float = 0.95, *, together: bool = False) -> xr.DataArray:
    """Return the Wilson interval of each class's accuracy, in percent, along a new dimension `bound` ("low", "high").

    `together` makes the intervals hold for all classes at once with the stated level (Bonferroni). Wilson 1927.
    """
    right, total = correct(count), images(count)
    return _bounds(right, total, 1 - (1 - level) / (count.sizes["label"] if together else 1))


def _bounds(right: xr.DataArray, total: xr.DataArray, level: float) -> xr.DataArray:
    ends = [right.copy(data=end) for end in proportion(right.values, total.values, level)]
    return xr.concat(ends, dim="bound").assign_coords(bound=["low", "high"]).where(total > 0).rename("interval")


def proportion(right: ArrayLike, total: ArrayLike, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of Wilson's interval of `right` among `total`, in percent: 0 and 100 where there is nothing to count."""
    low, high = proportion_confint(np.asarray(right), np.maximum(total, 1), alpha=1 - level, method="wilson")
    there = np.asarray(total) > 0
    # All right is up to 100 and none down to 0, whatever the rounding.
    low = np.where(there & (np.asarray(right) > 0), 100 * np.asarray(low), 0.0)
    return low, np.where(there & (np.asarray(right) < total), 100 * np.asarray(high), 100.0)


def shares(count: Mapping[str, xr.DataArray], along: str) -> pd.DataFrame:
    """Return the share of images answered rightly in several groups of classes, for each member of `along`: a row for each.

    `count` by what the images are of; the columns are "images of", share, low and high (Wilson, 95 %) in percent, and images.
    """
    rows = []
    for group, counted in count.items():
        for name in counted[along].values:
            one = counted.sel({along: name})
            right, total = int(correct(one).sum()), int(images(one).sum())
            share = 100 * right / total if total else float("nan")
            rows.append((str(name), group, share, *map(float, proportion(right, total)), total))
    columns = [along, "images of", "share", "low", "high", "images"]
    return pd.DataFrame(rows, columns=columns).set_index(along)


def totals(count: Mapping[str, xr.DataArray], name: str) -> pd.DataFrame:
    """Return the share of all images answered rightly with its interval, a row for each entry, as `shares` has them."""
    parts = [shares({"all": one.expand_dims({name: [title]})}, name) for title, one in count.items()]
    return pd.concat(parts).drop(columns="images of")


def vulnerable(count: xr.DataArray, level: float = 0.95) -> xr.DataArray:
    """Return which classes are surely less robust than the network is overall (Tian 2021, Definition 3.3).

    Surely: the whole Wilson interval of the class, at the `level` for all classes together, lies below the overall accuracy.
    """
    return (wilson(count, level, together=True).sel(bound="high", drop=True) < overall(count)).rename("vulnerable")


def standing(count: xr.DataArray, level: float = 0.95) -> xr.DataArray:
    """Return how each class stands to the network: 1 surely robust, -1 surely vulnerable, 0 not to be told (Tian 2021, 3.3).

    Surely: the whole Wilson interval of the class, at the `level` for all classes together, lies above, or below, the overall
    accuracy; NaN for a class without images.
    """
    bounds, total = wilson(count, level, together=True), overall(count)
    above, below = bounds.sel(bound="low", drop=True) > total, bounds.sel(bound="high", drop=True) < total
    return (above.astype(float) - below.astype(float)).where(images(count) > 0).rename("standing")


def bootstrap(
    count: xr.DataArray,
    measure: Measure,
    over: Sequence[str] = (),
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> xr.DataArray:
    """Return low, value and high of a measure along a new dimension `bound`, from a bootstrap over the images of each class.

    `over`: dimensions such as "seed" that are pooled, and resampled as clusters when they have more than one member. The
    basic (reverse percentile) interval is taken: the smallest class and the spread of classes are biased by sampling, and a
    percentile interval would add that bias a second time (Davison and Hinkley 1997, 5.2). Where the seeds do not differ,
    resampling both seeds and images is cautious: the interval is wider than it need be.

    A proportion has Wilson's interval: "overall" of a single cluster that one alone; over several clusters, and for the worst
    class, the wider end of either. Where no draw differs from any other, since every class is always right or never, the interval
    reaches as far as the measure would if one more image of each class had been answered right and one wrong.
    """
    pooled = count.sum(list(over))
    value = measure(pooled)
    bottom, top = _RANGES.get(str(value.name), (-np.inf, np.inf))
    one = all(count.sizes[dim] == 1 for dim in over if dim in count.dims)
    ends = None if measure is overall and one else _basic(count, measure, value, over, level, draws, seed)
    sure = _sure(measure, pooled, level)
    low, high = (_wider(name, ends, sure) for name in ("low", "high"))
    parts = [low.clip(bottom, top), value, high.clip(bottom, top)]
    return xr.concat(parts, dim="bound").assign_coords(bound=["low", "value", "high"]).rename(value.name)


def _basic(
    count: xr.DataArray, measure: Measure, value: xr.DataArray, over: Sequence[str], level: float, draws: int, seed: int
) -> xr.DataArray:
    """Return the ends of the basic interval, of a looser one where nothing varies."""
    # What the estimator aims at in the world of the bootstrap: the resampled counts come from the observed rates.
    aim = cv(count.sum(list(over))) if measure is cv_unbiased else value
    drawn, tails = measure(resample(count, over, draws, seed)), [(1 - level) / 2, (1 + level) / 2]
    ends = (value - (drawn - aim).quantile(tails[::-1], dim="draw")).drop_vars("quantile").rename(quantile="bound")
    ends = ends.assign_coords(bound=["low", "high"])
    still = (drawn == drawn.isel(draw=0)).all("draw")
    if not bool(still.any()):
        return ends
    loose = measure(resample(count, over, draws, seed, loose=True)).quantile(tails, dim="draw").drop_vars("quantile")
    loose = loose.rename(quantile="bound").assign_coords(bound=["low", "high"])
    reached = xr.concat([xr.ufuncs.minimum(loose.isel(bound=0), value), xr.ufuncs.maximum(loose.isel(bound=1), value)], "bound")
    return ends.where(~still, reached)


def _sure(measure: Measure, pooled: xr.DataArray, level: float) -> xr.DataArray | None:
    """Return Wilson's interval where a measure is a proportion: of all images, or of those of the worst class."""
    if measure is overall:
        return _bounds(correct(pooled).sum("label"), images(pooled).sum("label"), level)
    if measure is worst:
        return wilson(pooled, level).isel(label=accuracy(pooled).fillna(0).argmin("label")).drop_vars("label")
    return None


def _wider(name: str, *ends: xr.DataArray | None) -> xr.DataArray:
    """Return the lowest "low", or the highest "high", of intervals."""
    there = xr.concat([one.sel(bound=name, drop=True) for one in ends if one is not None], "of")
    return there.min("of") if name == "low" else there.max("of")


def symmetry_test(count: xr.DataArray, draws: int = 2000, seed: int = 0) -> float:
    """Return the chance that a matrix without any symmetry looks as symmetrical as this one: a permutation p-value.

    `count` has just the dimensions label and predicted; the mistakes are dealt out anew as `deal` does. NaN where the symmetry
    cannot be measured: no mistakes, or a class without images.
    """
    seen = float(symmetry(count))
    if np.isnan(seen) or np.isnan(misclassified(count)).any():
        return float("nan")
    dealt = deal(count, draws, seed)
    off = ~np.eye(count.sizes["label"], dtype=bool)
    flat, mirrored = dealt.values[:, off], dealt.values.transpose(0, 2, 1)[:, off]
    found = np.array([np.corrcoef(one, other)[0, 1] for one, other in zip(flat, mirrored, strict=True)])
    return float((1 + (~(found < seen - 1e-12)).sum()) / (1 + draws))


def groups_test(count: xr.DataArray, draws: int = 200, seed: int = 0) -> tuple[float, float, float]:
    """Return what share of the mistakes stays within the groups, what share does by chance, and the p-value against chance.

    Groups are found so as to hold many mistakes, and hold many of any matrix: chance means that the mistakes of each class are
    dealt out anew and the groups are found anew (a permutation test). NaN where a class has no images or none is mistaken.
    """
    seen = float(within(count, groups(count)))
    if np.isnan(seen) or np.isnan(misclassified(count)).any():
        return float("nan"), float("nan"), float("nan")
    right = confusion(count).where(count.label == count.predicted, 0)
    found = np.array([float(within(one, groups(one))) for one in deal(count, draws, seed) + right])
    return seen, float(found.mean()), float((1 + (found >= seen - 1e-9).sum()) / (1 + draws))


def alike_and_mistaken(cosine: xr.DataArray, count: xr.DataArray, draws: int = 2000, seed: int = 0) -> tuple[float, float]:
    """Return whether classes that lie close together are mistaken for one another more: a rank correlation and its p-value.

    Over the pairs of classes: the cosine of `metrics.similarity` against the mistakes in both directions. The p-value comes from
    renaming the classes of one matrix at random (Mantel 1967), since pairs that share a class are not independent. NaN where
    there are fewer than four classes or no mistakes.
    """
    mixed = misclassified(count).transpose("label", "predicted").fillna(0).values
    near = cosine.sel(label=count.label, other=count.predicted.values).transpose("label", "other").values
    upper = np.triu_indices(len(mixed), 1)
    if len(mixed) < 4 or not mixed.any():
        return float("nan"), float("nan")
    ranks, flips = stats.rankdata(near[upper]), mixed + mixed.T
    rng, seen = np.random.default_rng(seed), float(np.corrcoef(ranks, stats.rankdata(flips[upper]))[0, 1])
    orders = [rng.permutation(len(mixed)) for _ in range(draws)]
    found = np.array([np.corrcoef(ranks, stats.rankdata(flips[np.ix_(one, one)][upper]))[0, 1] for one in orders])
    return seen, float((1 + (found >= seen - 1e-12).sum()) / (1 + draws))


def within_test(count: xr.DataArray, group: xr.DataArray, draws: int = 2000, seed: int = 0) -> tuple[float, float, float]:
    """Return what share of the mistakes stays within given groups, in percent, what share does by chance, and the p-value.

    `group` (label) numbers the group of each class and was not found on these counts; chance deals the mistakes of each class out
    anew as `deal` does. NaN where a class has no images or none is mistaken.
    """
    seen = float(within(count, group))
    if np.isnan(seen) or np.isnan(misclassified(count)).any():
        return float("nan"), float("nan"), float("nan")
    same = group.values[:, None] == group.values[None, :]
    dealt = deal(count, draws, seed).values
    found = 100 * dealt[:, same].sum(1) / dealt.sum((1, 2))
    return seen, float(found.mean()), float((1 + (found >= seen - 1e-9).sum()) / (1 + draws))


def within_table(count: Mapping[str, xr.DataArray], group: xr.DataArray) -> pd.DataFrame:
    """Return `within_test` for several counts, a row for each: within and by chance, % of the mistakes, and p."""
    rows = [within_test(one, group) for one in count.values()]
    table = pd.DataFrame(rows, columns=["within the pairs, %", "by chance, %", "p"], index=pd.Index(list(count), name="network"))
    return table.round({"within the pairs, %": 1, "by chance, %": 1, "p": 4})


def rank_correlation(one: xr.DataArray, other: xr.DataArray, draws: int = 2000, seed: int = 0) -> tuple[float, float, float]:
    """Return Spearman's rank correlation of two values of the same images with the ends of its 95 % bootstrap interval.

    Both have just the dimension image; images that only one of them has, and NaN, are left out. NaN for fewer than three.
    """
    first, second = xr.align(one, other)
    there = (first.notnull() & second.notnull()).values
    pairs = np.column_stack([first.values[there], second.values[there]])
    if len(pairs) < 3 or (pairs == pairs[0]).all(0).any():
        return float("nan"), float("nan"), float("nan")
    rng = np.random.default_rng(seed)
    some = rng.integers(len(pairs), size=(draws, len(pairs)))
    ranks = stats.rankdata(pairs[some], axis=1)
    ranks = ranks - ranks.mean(1, keepdims=True)
    with np.errstate(invalid="ignore"):
        drawn = (ranks[..., 0] * ranks[..., 1]).sum(1) / np.sqrt((ranks**2).sum(1).prod(1))
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return float(stats.spearmanr(pairs[:, 0], pairs[:, 1]).statistic), float(low), float(high)


def mcnemar(one: xr.Dataset, other: xr.Dataset) -> float:
    """Return the exact McNemar p-value: whether two attacks or models flip different numbers of the same images.

    Both outcomes have just the dimensions image and predicted; images that only one of them has are left out.
    """
    first, second = xr.align(one.flipped.where(one.truth >= 0, drop=True), other.flipped.where(other.truth >= 0, drop=True))
    only_first = int(((first == 1) & (second == 0)).sum())
    only_second = int(((first == 0) & (second == 1)).sum())
    if only_first + only_second == 0:
        return 1.0
    return float(stats.binomtest(only_first, only_first + only_second).pvalue)


def paired(outcomes: xr.Dataset, first: str | Mapping[str, str], along: str = "defence") -> pd.DataFrame:
    """Return how members of `along` do against the `first` on the same images, a row for each.

    `first` is what all others are compared with, or maps each of some to its own. points: how many points more of the images it
    answers right. p: of McNemar's test over the images of all seeds, with Holm's correction for the number of rows; it speaks of
    these trainings, not of what another seed would give.
    """
    there = [str(name) for name in outcomes[along].values]
    against = {name: first for name in there if name != first} if isinstance(first, str) else first
    rows = []
    for name, base in against.items():
        one, other = (outcomes.sel({along: which}, drop=True) for which in (base, name))
        common = (one.truth >= 0) & (other.truth >= 0)
        more = (one.flipped & common).sum() - (other.flipped & common).sum()
        rows.append((float(100 * more / common.sum()), mcnemar(other, one)))
    table = pd.DataFrame(rows, columns=["points", "p"], index=pd.Index(list(against), name=along))
    if not isinstance(first, str):
        table.insert(0, "against", list(against.values()))
    return table.assign(p=multipletests(table["p"], method="holm")[1]) if against else table
