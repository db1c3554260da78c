"""The claims of Tian et al. 2021, sections 4.1 and 4.2, in the order of the paper; those of 4.3, 5 and 6 stand beside.

Ranges are the widest that the words allow: "larger" is more than 0, "almost 0" less than 1, "roughly" a correlation
above .5. Where a sentence names classes of CIFAR-10 but means a kind of class (the most vulnerable one), the measure finds that
class on the images at hand.
"""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from classwise.papers import published
from classwise.papers.claims import ClaimMeasure

HE = "pgd-he|trades-he"


def from_table_1(measure: ClaimMeasure, attacks: Sequence[str] = ()) -> float:
    """Return a measure of the paper's Table 1, of all attacks or of some in order."""
    rates = published.load("tian2021", 1).accuracy
    return of_rates(measure, rates.sel(attack=list(attacks)) if attacks else rates)


def of_rates(measure: ClaimMeasure, rates: xr.DataArray) -> float:
    """Return a measure of published rates."""
    return float(measure(xr.Dataset({"count": published.counts(rates)})))


BOTH_ATTACKS = ("pgd-20", "temperature-pgd-20")


def from_table_3(measure: ClaimMeasure, defences: tuple[str, ...] = ()) -> float:
    """Return a measure of the paper's Table 3 beside the PGD of its Table 1, at the best temperature of each defence."""
    hot, plain = published.load("tian2021", 3).accuracy, published.load("tian2021", 1).accuracy.sel(attack="pgd-20", drop=True)
    best = hot.isel(inverse=hot.mean("label", skipna=False).fillna(np.inf).argmin("inverse")).drop_vars("inverse")
    rates = xr.concat([plain, best], "attack").assign_coords(attack=list(BOTH_ATTACKS))
    return of_rates(measure, rates.sel(defence=list(defences)) if defences else rates)


def from_table_4(attack: str, first: str, second: str) -> float:
    """Return how many points cats gain from one line of the paper's Table 4 to another, of 1,000 images."""
    right = published.load("tian2021", 4)["count"].sel(attack=attack, predicted="cat")
    return float(right.sel(treatment=second) - right.sel(treatment=first)) / 10


def change_in_table_4(attack: str) -> float:
    return abs(from_table_4(attack, "as they are", "white"))
