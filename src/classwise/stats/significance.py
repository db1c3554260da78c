"""Significance tests: permutation tests of patterns in the confusion matrix, and paired tests of networks and attacks."""

import numpy as np
import pandas as pd
import xarray as xr

from classwise.stats.metrics import groups, off_diagonal_confusion, share_in_groups


def p_text(p: float) -> str:
    """Return a p-value as it is written: "0.012", "< .001", "unknown" for NaN."""
    return "unknown" if np.isnan(p) else "< .001" if p < 0.001 else f"{p:.3f}"


def p_value(p: float, symbol: str = "p") -> str:
    """Return a p-value with its symbol: "p = 0.012", "p < .001", "p unknown" for NaN."""
    return f"{symbol} {'= ' if p >= 0.001 else ''}{p_text(p)}"


def permute_mistakes(count: xr.DataArray, draws: int, seed: int) -> xr.DataArray:
    """Return counts in which, in each draw, what a class is mistaken for is in another order; the first draw has its own.

    Each class keeps the numbers of its mistakes. Draws are along `draw`; all networks and attacks have the same orders.
    """
    size, rng = count.sizes["label"], np.random.default_rng(seed)
    off, orders = ~np.eye(size, dtype=bool), np.tile(np.arange(size), (1 + draws, size, 1))
    orders[1:, off] = rng.permuted(orders[1:, off].reshape(draws, size, size - 1), axis=2).reshape(draws, -1)
    where = xr.DataArray(orders, dims=("draw", "label", "predicted"))
    return count.drop_vars("predicted").isel(predicted=where).assign_coords(predicted=count.predicted)


def symmetry_tests(count: xr.DataArray) -> tuple[float, float]:
    """Return p of equal numbers of mistakes in both directions (Bowker 1948), and p of quasi-symmetry (Caussinus 1965).

    Quasi-symmetry lets classes be predicted more often than they occur; what is left is affinity. `count` has only the
    dimensions label and predicted; of several seeds, `pooling.pool`. NaN without mistakes.
    """
    import statsmodels.api as sm  # slow to import
    from scipy.stats import chi2

    table = count.transpose("label", "predicted").values.astype(float)
    size = len(table)
    pairs = [(i, j) for i in range(size) for j in range(i) if table[i, j] + table[j, i] > 0]
    if not pairs:
        return float("nan"), float("nan")
    differ = sum((table[i, j] - table[j, i]) ** 2 / (table[i, j] + table[j, i]) for i, j in pairs)
    cells = [cell for i, j in pairs for cell in ((i, j), (j, i))]
    of_pair = np.repeat(np.eye(len(pairs)), 2, axis=0)
    of_column = np.array([np.eye(size)[j][1:] for _, j in cells])
    fit = sm.GLM([table[cell] for cell in cells], np.hstack([of_pair, of_column]), family=sm.families.Poisson()).fit()
    freedom = len(pairs) - np.linalg.matrix_rank(of_column[0::2] - of_column[1::2])
    quasi = float(chi2.sf(fit.pearson_chi2, freedom)) if freedom > 0 else float("nan")
    return float(chi2.sf(differ, len(pairs))), quasi


def groups_test(count: xr.DataArray, draws: int = 200, seed: int = 0) -> tuple[float, float, float]:
    """Return the share of the mistakes within the groups of classes, the share expected by chance, and the p-value.

    Groups are chosen to contain many mistakes, and do so for any matrix. Under the null hypothesis the mistakes of each class are
    therefore permuted and the groups computed again. NaN if a class has no images, or there are no mistakes.
    """
    observed = float(share_in_groups(count, groups(count)))
    if np.isnan(observed) or np.isnan(off_diagonal_confusion(count)).any():
        return float("nan"), float("nan"), float("nan")
    permuted = permute_mistakes(count, draws, seed).transpose("draw", ...)[1:]
    null = np.array([float(share_in_groups(matrix, groups(matrix))) for matrix in permuted])
    return observed, float(null.mean()), float((1 + (null >= observed - 1e-9).sum()) / (1 + draws))


def mantel_test(cosine: xr.DataArray, count: xr.DataArray, draws: int = 2000, seed: int = 0) -> tuple[float, float]:
    """Return the rank correlation of the similarity of two classes with their confusion, and its p-value.

    Over the pairs of classes: the cosine of `features.similarity` against the mistakes in both directions. The p-value is from
    random permutations of the classes of one matrix (Mantel 1967), since pairs that share a class are not independent. NaN for
    fewer than four classes or no mistakes.
    """
    from scipy import stats  # slow to import

    mixed = off_diagonal_confusion(count).transpose("label", "predicted").fillna(0).values
    near = cosine.sel(label=count.label, other=count.predicted.values).transpose("label", "other").values
    upper = np.triu_indices(len(mixed), 1)
    if len(mixed) < 4 or not mixed.any():
        return float("nan"), float("nan")
    # Rounded, since the last digits of equal numbers depend on the processor.
    ranks, flips = stats.rankdata(near[upper].round(9)), (mixed + mixed.T).round(9)
    rng, observed = np.random.default_rng(seed), float(np.corrcoef(ranks, stats.rankdata(flips[upper]))[0, 1])
    orders = [rng.permutation(len(mixed)) for _ in range(draws)]
    null = np.array([np.corrcoef(ranks, stats.rankdata(flips[np.ix_(order, order)][upper]))[0, 1] for order in orders])
    return observed, float((1 + (null >= observed - 1e-12).sum()) / (1 + draws))


def permute_classes(sums: xr.Dataset, what: str, draws: int = 1000, seed: int = 0) -> xr.Dataset:
    """Return sums in which what classes are compared by has them in another order in each draw; the first draw has their own.

    what: "count", the confusion matrices, compared with features or other values of images; "mistakes", what each class is
    mistaken for (`permute_mistakes`); a dimension of classes, along which the counts are put in another order; another dimension,
    of which one member is compared with the others, the first or "attack=pgd-20", or each with all others, "each defence". Draws
    are along `draw`; all seeds have the same orders.
    """
    if what == "mistakes":
        return sums.assign(count=permute_mistakes(sums["count"], draws, seed))
    each, (what, _, member) = what.startswith("each "), what.removeprefix("each ").partition("=")
    apart = {what: sums.sizes[what]} if each else {}
    classes = not member and what in sums.dims and set(map(str, sums.label.values)) & set(map(str, sums[what].values))
    dims, names = ((what,), sums[what].values) if classes else (("label", "predicted"), sums.label.values)
    free, rng = np.flatnonzero(np.isin(names, sums.label.values)), np.random.default_rng(seed)
    orders = np.tile(np.arange(len(names)), (1 + draws, *apart.values(), 1))
    orders[1:, ..., free] = free[rng.permuted(np.tile(np.arange(len(free)), (draws, *apart.values(), 1)), axis=-1)]

    def shuffled(some: xr.DataArray) -> xr.DataArray:
        where = {dim: xr.DataArray(orders, dims=("draw", *apart, dim)) for dim in dims if dim in some.dims}
        return some.drop_vars(where).isel(where).assign_coords({dim: sums[dim] for dim in where})

    if classes or each or what == "count":
        # Each class has the rates of another one, of as many images as it has: other values are divided by their number.
        count, number = shuffled(sums["count"]), sums["count"].sum("predicted")
        images = shuffled(number)
        return sums.assign(count=count if classes else count * (number / images).where(images > 0, 0))
    chosen = sums[what].astype(str) == (member or str(sums[what].values[0]))
    one, rest = sums.isel({what: chosen}), sums.isel({what: ~chosen})
    moved = one.map(lambda some: shuffled(some) if what in some.dims else some)
    both = [moved, rest.expand_dims(draw=1 + draws)]
    return xr.concat(both, what, data_vars="minimal", coords="minimal", compat="override").sel({what: sums[what]})


def permutation_p(values: xr.DataArray) -> float:
    """Return the two-sided p-value of the first of draws of a correlation, of which the others have permuted classes.

    NaN where it is not known.
    """
    first, *others = values.transpose("draw").values
    tails = [1 + (sign * np.array(others) >= sign * first - 1e-9).sum() for sign in (1, -1)]
    return min(1.0, 2 * float(min(tails)) / len(values)) if np.isfinite(first) else float("nan")


def mcnemar(one: xr.Dataset, other: xr.Dataset) -> float:
    """Return the exact p-value of the difference between two attacks or models in the number of misclassified images.

    Outcomes have the dimension image and possibly seed; images that only one of them has are left out. Under the null hypothesis
    the sign of the difference on an image is arbitrary, jointly for all its seeds; with one seed this is McNemar's test.
    """
    first, second = xr.align(one, other)
    both = (first.truth >= 0) & (second.truth >= 0)
    difference = (first.misclassified.astype(int) - second.misclassified.astype(int)).where(both, 0)
    differences = difference.sum([dim for dim in difference.dims if dim != "image"])
    return sign_flip_test(differences.values.astype(int))


def sign_flip_test(differences: np.ndarray) -> float:
    """Return the exact two-sided p-value of a sum of integers with arbitrary signs under the null hypothesis (Fisher 1935)."""
    from scipy import stats  # slow to import

    sizes, repeats = np.unique(np.abs(differences[differences != 0]), return_counts=True)
    # The distribution of the sum, convolved over the images that differ by 1, by 2, ...
    chance = np.ones(1)
    for size, number in zip(sizes, repeats, strict=True):
        steps = np.zeros(2 * number * size + 1)
        steps[:: 2 * size] = stats.binom.pmf(np.arange(number + 1), number, 0.5)
        chance = np.convolve(chance, steps)
    reach = len(chance) // 2
    far = np.abs(np.arange(-reach, reach + 1)) >= abs(int(differences.sum()))
    return float(min(chance[far].sum(), 1.0))


def holm(p: np.ndarray, size: int = 0) -> np.ndarray:
    """Return p-values (n,) with Holm's correction for n tests, or as those of a larger family of `size`."""
    # Not by statsmodels, with which the tests compare it: it collects garbage each time, a quarter of a second.
    number = len(p)
    order = np.argsort(p)
    corrected = np.empty(number)
    corrected[order] = np.maximum.accumulate(p[order] * (max(size, number) - np.arange(number))).clip(max=1)
    return corrected


def paired_tests(outcomes: xr.Dataset, base: str) -> pd.DataFrame:
    """Return the comparison of each other defence with a base on the same images, one row each.

    points: difference in accuracy in points. p: of `mcnemar`, with Holm's correction for the number of rows; it concerns these
    trained networks, not other seeds.
    """
    names, rows = [str(name) for name in outcomes.defence.values if name != base], []
    for name in names:
        baseline, other = (outcomes.sel(defence=member, drop=True) for member in (base, name))
        common = (baseline.truth >= 0) & (other.truth >= 0)
        more = (baseline.misclassified & common).sum() - (other.misclassified & common).sum()
        rows.append((float(100 * more / common.sum()), mcnemar(other, baseline)))
    table = pd.DataFrame(rows, columns=["points", "p"], index=pd.Index(names, name="defence"))
    return table.assign(p=holm(table["p"].to_numpy())) if names else table
