"""How sure a measure is: intervals of class accuracies and of measures over classes, and tests."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from classwise.errors import UserError
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
    alpha = (1 - level) / (count.sizes["label"] if together else 1)
    right, total = correct(count), images(count)
    low, high = proportion_confint(right.values, np.maximum(total.values, 1), alpha=alpha, method="wilson")
    both = xr.concat([right.copy(data=100 * np.asarray(low)), right.copy(data=100 * np.asarray(high))], dim="bound")
    return both.assign_coords(bound=["low", "high"]).where(total > 0).rename("interval")


def shares(count: Mapping[str, xr.DataArray], along: str) -> pd.DataFrame:
    """Return the share of images answered rightly in several groups of classes, for each member of `along`: a row for each.

    `count` by what the images are of; the columns are "images of", share, low and high (Wilson, 95 %) in percent, and images.
    """
    rows = []
    for group, counted in count.items():
        for name in counted[along].values:
            one = counted.sel({along: name})
            right, total = int(correct(one).sum()), int(images(one).sum())
            low, high = proportion_confint(right, max(total, 1), method="wilson")
            share = 100 * right / total if total else float("nan")
            rows.append((str(name), group, share, 100 * low, 100 * high, total))
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


def resample(count: xr.DataArray, over: Sequence[str] = (), draws: int = 2000, seed: int = 0) -> xr.DataArray:
    """Return counts of resampled images along a new dimension `draw`.

    The images of each class are drawn with replacement, as many as there are: for counts, a multinomial draw from each row.
    `over` names dimensions (such as "seed") whose members are first drawn with replacement and then summed: images clustered
    in them are drawn cluster by cluster.
    """
    rng = np.random.default_rng(seed)
    for dim in over:
        if dim not in count.dims:
            raise UserError(f"cannot resample over {dim!r}: the counts have the dimensions {', '.join(map(str, count.dims))}")
    rest = [dim for dim in count.dims if dim not in (*over, "label", "predicted")]
    ordered = count.transpose(*rest, *over, "label", "predicted")
    values = ordered.values.reshape(*[count.sizes[dim] for dim in rest], -1, *ordered.shape[-2:]).astype(np.int64)
    clusters = values.shape[-3]
    chosen = rng.integers(clusters, size=(draws, clusters)) if clusters > 1 else np.zeros((draws, 1), dtype=int)
    total = values.sum(-1)
    full = total[..., None] > 0
    chance = np.divide(values, total[..., None], out=np.full(values.shape, 1 / values.shape[-1]), where=full)
    drawn = np.empty((draws, *values.shape[:-3], *values.shape[-2:]), dtype=np.int64)
    for draw, members in enumerate(chosen):
        drawn[draw] = rng.multinomial(total[..., members, :], chance[..., members, :, :]).sum(-3)
    coords = {dim: count[dim] for dim in (*rest, "label", "predicted") if dim in count.coords}
    return xr.DataArray(drawn, dims=("draw", *rest, "label", "predicted"), coords=coords, name="count")


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
    """
    pooled = count.sum(list(over))
    value = measure(pooled)
    # What the estimator aims at in the world of the bootstrap: the resampled counts come from the observed rates.
    aim = cv(pooled) if measure is cv_unbiased else value
    drawn = measure(resample(count, over, draws, seed))
    tail = (1 - level) / 2
    off = (drawn - aim).quantile([tail, 1 - tail], dim="draw").drop_vars("quantile")
    low, high = value - off.isel(quantile=1), value - off.isel(quantile=0)
    if measure is worst:
        # A class that is never (or always) right does not vary when it is resampled; its Wilson interval does.
        bounds = wilson(pooled, level).isel(label=accuracy(pooled).fillna(0).argmin("label")).drop_vars("label")
        low = xr.ufuncs.minimum(low, bounds.sel(bound="low", drop=True))
        high = xr.ufuncs.maximum(high, bounds.sel(bound="high", drop=True))
    bottom, top = _RANGES.get(str(value.name), (-np.inf, np.inf))
    parts = [low.clip(bottom, top), value, high.clip(bottom, top)]
    return xr.concat(parts, dim="bound").assign_coords(bound=["low", "value", "high"]).rename(value.name)


def deal(count: xr.DataArray, draws: int, seed: int) -> xr.DataArray:
    """Return misclassified confusions whose rows are shuffled off the diagonal, along a new dimension `draw`.

    Each class keeps how often it is mistaken and how unequally; only the partners are made random.
    """
    mixed = misclassified(count).transpose("label", "predicted")
    size, rng = mixed.sizes["label"], np.random.default_rng(seed)
    off = ~np.eye(size, dtype=bool)
    rows = mixed.values[off].reshape(size, size - 1)
    dealt = np.zeros((draws, size, size))
    dealt[:, off] = rng.permuted(np.broadcast_to(rows, (draws, size, size - 1)), axis=2).reshape(draws, -1)
    return xr.DataArray(dealt, dims=("draw", "label", "predicted"), coords=mixed.coords)


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
