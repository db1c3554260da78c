"""Claims that each of several quantities lies beyond a bound: their measure is the least of the quantities, or the largest."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import xarray as xr

from classwise.papers.claims import ClaimMeasure, Value
from classwise.papers.judging import reflect_draws
from classwise.stats import features
from classwise.stats.bootstrap import add_pseudo_counts, bootstrap_sums, sums

_NO_VALUES: Mapping[str, Value] = MappingProxyType({})


@dataclass(frozen=True)
class Taken:
    """What the quantities are computed from: `Claim.of`, and of outcomes the `Claim.values`."""

    of: str = "outcomes"
    values: Mapping[str, Value] = field(default_factory=dict)

    def totals(self, outcomes: xr.Dataset) -> xr.Dataset:
        """Return what a measure takes, of all images."""
        return features.statistics(features.by_block(outcomes)) if self.of == "features" else sums(outcomes, self._of(outcomes))

    def redrawn(self, outcomes: xr.Dataset, draws: int, seed: int) -> Iterable[xr.Dataset]:
        """Yield the same of redrawn images or blocks, some draws at a time."""
        if self.of == "features":
            return [features.drawn(features.by_block(outcomes), draws, seed)]
        return bootstrap_sums(outcomes, self._of(outcomes), draws, seed)

    def _of(self, outcomes: xr.Dataset) -> dict[str, xr.DataArray]:
        return {name: value(outcomes) for name, value in self.values.items()}


def extreme(parts: ClaimMeasure, *, largest: bool = False, of: str = "outcomes", values: Mapping[str, Value] = _NO_VALUES) -> Any:
    """Return the draws (`Claim.truth`) of the least, or the largest, of what `parts` returns along one dimension.

    of, values: what `parts` takes, as of the claim.
    """
    return partial(extreme_draws, parts=parts, largest=largest, taken=Taken(of, values))


def extreme_draws(
    outcomes: xr.Dataset, draws: int, seed: int, *, parts: ClaimMeasure, largest: bool = False, taken: Taken = Taken()
) -> np.ndarray:
    """Return draws of the true least of several quantities.

    All lie above a bound just where each does (intersection-union test, Berger 1982), so the lower half of the draws are, rank by
    rank, the least of those of single quantities. Draws reflected at the least itself would correct a bias that is small where
    one quantity is the least by far: with three, such a claim would hold at the level .05 in up to a seventh of the cases in
    which it is false. The least of many uncertain quantities is low by chance, so the upper half does not lie below the reflected
    draws of the least.
    """
    sign = -1.0 if largest else 1.0
    effects = sign * np.atleast_1d(parts(taken.totals(outcomes)).values)
    redrawn = sign * _redrawn(parts, taken.redrawn(outcomes, draws, seed))
    fixed = np.ptp(redrawn, axis=0) <= _ROUNDING
    if taken.of == "features" and fixed.any():
        return np.full(draws, np.nan)
    if fixed.any():
        padded = sign * _redrawn(parts, taken.redrawn(add_pseudo_counts(outcomes, seed), draws, seed))
        redrawn = np.where(fixed, padded, redrawn)
    kept = redrawn[np.isfinite(redrawn).all(1)]
    if not len(kept):
        return np.full(draws, np.nan)
    each = np.stack([_ranked(value, some) for value, some in zip(effects, kept.T, strict=True)])
    together = _ranked(float(effects.min()), kept.min(1))
    least = each.min(0)
    upper = np.arange(len(least)) >= len(least) // 2
    truth = np.where(upper, np.maximum(least, together), least)
    return sign * np.concatenate([truth, np.full(len(redrawn) - len(kept), np.nan)])


# Sums are of single precision: the same number may differ by so much, in points.
_ROUNDING = 1e-4


def _redrawn(parts: ClaimMeasure, drawn: Iterable[xr.Dataset]) -> np.ndarray:
    """Return the quantities of redrawn images or blocks, shape (draws, quantities)."""
    chunks = [parts(chunk).transpose("draw", ...).values for chunk in drawn]
    redrawn: np.ndarray = np.concatenate([chunk.reshape(len(chunk), -1) for chunk in chunks]).astype(float)
    return redrawn


def _ranked(effect: float, redrawn: np.ndarray) -> np.ndarray:
    """Return reflected draws in rising order, as many as were redrawn, also where `reflect_draws` adds the draws themselves."""
    truth = np.sort(reflect_draws(effect, redrawn))
    return truth if len(truth) == len(redrawn) else truth[::2]
