"""Is a pattern of mistakes more than chance? Permutation tests of confusions: symmetry, groups, likeness."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import xarray as xr

from classwise.stats.metrics import confusion, groups, off_diagonal_confusion, symmetry, within


def permute_mistakes(count: xr.DataArray, draws: int, seed: int) -> xr.DataArray:
    """Return misclassified confusions whose rows are shuffled off the diagonal, along a new dimension `draw`.

    Each class keeps how often it is mistaken and how unequally; only the partners are made random.
    """
    mixed = off_diagonal_confusion(count).transpose("label", "predicted")
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
    if np.isnan(seen) or np.isnan(off_diagonal_confusion(count)).any():
        return float("nan")
    dealt = permute_mistakes(count, draws, seed)
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
    if np.isnan(seen) or np.isnan(off_diagonal_confusion(count)).any():
        return float("nan"), float("nan"), float("nan")
    right = confusion(count).where(count.label == count.predicted, 0)
    found = np.array([float(within(one, groups(one))) for one in permute_mistakes(count, draws, seed) + right])
    return seen, float(found.mean()), float((1 + (found >= seen - 1e-9).sum()) / (1 + draws))


def mantel_test(cosine: xr.DataArray, count: xr.DataArray, draws: int = 2000, seed: int = 0) -> tuple[float, float]:
    """Return whether classes that lie close together are mistaken for one another more: a rank correlation and its p-value.

    Over the pairs of classes: the cosine of `metrics.similarity` against the mistakes in both directions. The p-value comes from
    renaming the classes of one matrix at random (Mantel 1967), since pairs that share a class are not independent. NaN where
    there are fewer than four classes or no mistakes.
    """
    from scipy import stats  # slow to import

    mixed = off_diagonal_confusion(count).transpose("label", "predicted").fillna(0).values
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
    if np.isnan(seen) or np.isnan(off_diagonal_confusion(count)).any():
        return float("nan"), float("nan"), float("nan")
    same = group.values[:, None] == group.values[None, :]
    dealt = permute_mistakes(count, draws, seed).values
    found = 100 * dealt[:, same].sum(1) / dealt.sum((1, 2))
    return seen, float(found.mean()), float((1 + (found >= seen - 1e-9).sum()) / (1 + draws))


def within_table(count: Mapping[str, xr.DataArray], group: xr.DataArray) -> pd.DataFrame:
    """Return `within_test` for several counts, a row for each: within and by chance, % of the mistakes, and p."""
    rows = [within_test(one, group) for one in count.values()]
    table = pd.DataFrame(rows, columns=["within the pairs, %", "by chance, %", "p"], index=pd.Index(list(count), name="network"))
    return table.round({"within the pairs, %": 1, "by chance, %": 1, "p": 4})


def mcnemar(one: xr.Dataset, other: xr.Dataset) -> float:
    """Return the exact p-value of whether two attacks or models flip different numbers of the same images.

    Outcomes have the dimension image and perhaps seed; images that only one of them has are left out. The unit is the image:
    were the two alike, what differs between them on an image could as well have been the other way round, for all seeds that
    were asked about it together. The sum over images is therefore compared with that under all choices of their signs; where each
    image was put to one seed, that is McNemar's test.
    """
    first, second = xr.align(one, other)
    both = (first.truth >= 0) & (second.truth >= 0)
    apart = (first.flipped.astype(int) - second.flipped.astype(int)).where(both, 0)
    found = apart.sum([dim for dim in apart.dims if dim != "image"])
    return sign_flip_test(found.values.astype(int))


def sign_flip_test(differences: np.ndarray) -> float:
    """Return the exact two-sided p-value of a sum of whole numbers, were each as likely to have the other sign (Fisher 1935)."""
    from scipy import stats  # slow to import

    sizes, often = np.unique(np.abs(differences[differences != 0]), return_counts=True)
    # How likely each sum is, from that of the images which differ by 1, by 2, ...
    chance = np.ones(1)
    for size, number in zip(sizes, often, strict=True):
        steps = np.zeros(2 * number * size + 1)
        steps[:: 2 * size] = stats.binom.pmf(np.arange(number + 1), number, 0.5)
        chance = np.convolve(chance, steps)
    reach = len(chance) // 2
    far = np.abs(np.arange(-reach, reach + 1)) >= abs(int(differences.sum()))
    return float(min(chance[far].sum(), 1.0))


def paired(outcomes: xr.Dataset, first: str | Mapping[str, str], along: str = "defence") -> pd.DataFrame:
    """Return how members of `along` do against the `first` on the same images, a row for each.

    `first` is what all others are compared with, or maps each of some to its own. points: how many points more of the images it
    answers right. p: of `mcnemar`, with Holm's correction for the number of rows; it speaks of these trainings, not of what
    another seed would give.
    """
    from statsmodels.stats.multitest import multipletests  # slow to import

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
