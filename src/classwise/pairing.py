"""Networks and attacks compared on the same images: do they break different numbers of them?"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import xarray as xr


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
    return signs(found.values.astype(int))


def signs(differences: np.ndarray) -> float:
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
