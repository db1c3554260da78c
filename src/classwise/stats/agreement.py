"""Do two networks find the same classes hard? Correlations of class profiles, one half of the images against the other.

The profile of a network is its accuracy of each class, in percent. All networks are evaluated on the same images, and an odd
image is odd for all of them: profiles of the same images correlate even where the classes do not differ. So the profile of one
network is that of one half of the images, and that of the other network of the other half. Few images lower a correlation;
`corrected_agreement` divides by the reliability of the two profiles (Spearman 1904).
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.stats import aggregate
from classwise.stats.intervals import interval_ends
from classwise.stats.metrics import accuracy

# Takes profiles (..., half, label) and gives one number or several for each draw.
Measure = Callable[[xr.DataArray], xr.DataArray]
# A correlation is not corrected by a reliability below this one, which would multiply it, and its noise, without limit.
_LEAST = 0.05
_HALVES = ("first", "second")


def profiles(outcomes: xr.Dataset, along: str = "setting") -> xr.DataArray:
    """Return the accuracy of each class in each half of the images, in percent: dimensions `along`, half and label.

    outcomes: of one attack and defence, along `along`, image and possibly seed, which is pooled, and half
    (`aggregate.split_halves`). Only `aggregate.common_images` count. NaN for a class without images.
    """
    return _profiles(outcomes, along, lambda columns, fold: columns.sum(0))


def sum_profiles(sums: xr.Dataset, along: str = "defence") -> xr.DataArray:
    """Return profiles of sums over the images of each half (`bootstrap.sums`), of the first attack and defence.

    along: of these two the one that they are along.
    """
    return accuracy(sums["count"].isel({dim: 0 for dim in ("defence", "attack") if dim != along}, drop=True))


def drawn_profiles(outcomes: xr.Dataset, along: str = "setting", draws: int = 1000, seed: int = 0) -> xr.DataArray:
    """Return `profiles` of redrawn images along a new first dimension `draw`.

    The images of each class and half are drawn with replacement, those of each fold by themselves, once for all networks and
    seeds. Networks are not redrawn, so the draws say nothing of other trainings, and a single seed suffices.
    """
    rng = np.random.default_rng(seed)

    def redrawn(columns: np.ndarray, fold: np.ndarray) -> np.ndarray:
        sums = np.zeros((draws, columns.shape[1]))
        for one in np.unique(fold):
            # Images that all networks treat alike are one kind.
            kinds, number = np.unique(columns[fold == one], axis=0, return_counts=True)
            sums += rng.multinomial(number.sum(), number / number.sum(), size=draws) @ kinds
        return sums

    return _profiles(outcomes, along, redrawn, "draw")


def _profiles(
    outcomes: xr.Dataset, along: str, sums: Callable[[np.ndarray, np.ndarray], np.ndarray], *first: str
) -> xr.DataArray:
    """Return profiles, with the dimensions `first` of the sums.

    sums: takes how often each network is right and was evaluated, over the seeds, (image, 2 x network), and the folds (image,) of
    the images of a half and class, and returns such numbers over the images, (..., 2 x network).
    """
    if "half" in outcomes.dims:
        outcomes = outcomes.assign(truth=outcomes.truth.max("half")).drop_dims("half")
    single = [dim for dim in outcomes.truth.dims if dim not in (along, "seed", "image")]
    outcomes = outcomes.isel(dict.fromkeys(single, 0), drop=True)
    outcomes = outcomes if "seed" in outcomes.dims else outcomes.expand_dims(seed=[0])
    outcomes = aggregate.common_images(outcomes, along, same_seeds=False)
    present = outcomes.truth >= 0
    right = present & (outcomes.prediction == outcomes.truth)
    counted = [some.sum("seed").transpose("image", along) for some in (right, present)]
    columns = np.concatenate(counted, axis=1).astype(np.float32)
    # The seeds whose fold has the image: images of different folds are not exchangeable.
    fold = np.unique(present.any(along).transpose("image", "seed"), axis=0, return_inverse=True)[1].reshape(-1)
    truth = outcomes.truth.max([along, "seed"]).values
    second = (aggregate.split_halves(outcomes).truth.sel(half="second") >= 0).any([along, "seed"]).values
    members = [[(truth == label) & (second == half) for label in range(outcomes.sizes["predicted"])] for half in (0, 1)]
    cells = np.array([[sums(columns[some], fold[some]) for some in of_half] for of_half in members])
    correct, total = np.split(np.moveaxis(cells, (0, 1), (-2, -1)), 2, axis=-3)
    values = np.divide(100 * correct, total, out=np.full(total.shape, np.nan), where=total > 0)
    along_classes = {name: some for name, some in outcomes.coords.items() if some.dims == ("predicted",)}
    labels = {"label" if name == "predicted" else name: ("label", some.values) for name, some in along_classes.items()}
    coords = {along: outcomes[along].values, "half": list(_HALVES), **labels}
    return xr.DataArray(values, coords, (*first, along, "half", "label"), name="profile")


def kendall_w(rates: xr.DataArray, along: str = "network", draws: int = 9999, seed: int = 0) -> tuple[float, float]:
    """Return Kendall's W of the orders of the classes along `along`, 1 where all are alike, and its p-value.

    rates: along `along` and label; ties share their mean rank. p is one-sided, by permutations of the classes of each network.
    """
    from scipy import stats  # slow to import

    ranks = stats.rankdata(rates.transpose(along, "label").values, axis=1)
    orders = np.random.default_rng(seed).permuted(np.tile(ranks, (draws, 1, 1)), axis=2)
    values = np.stack([ranks, *orders]).sum(1).var(1) / (len(ranks) * ranks.var(1).sum())
    return float(values[0]), float((values >= values[0] - 1e-9).mean())


def cross_half(profiles: xr.DataArray, along: str = "setting") -> xr.DataArray:
    """Return the correlation of the profile of each member of `along` in one half with that of each other one in the other half.

    The mean of both directions, dimensions `along` and other; on the diagonal it is the split-half reliability of a profile. NaN
    where a profile does not vary, or a class has no images.
    """
    return _both_ways(_correlation, profiles, along).rename("cross_half")


def _both_ways(measure: Callable[..., xr.DataArray], profiles: xr.DataArray, along: str) -> xr.DataArray:
    """Return the mean of a measure of the first half of each profile with the second of each other one, and the reverse."""
    first, second = _halves(profiles)
    forth, back = (measure(one, two.rename({along: "other"})) for one, two in ((first, second), (second, first)))
    return (forth + back) / 2


def _halves(profiles: xr.DataArray) -> tuple[xr.DataArray, ...]:
    return tuple(profiles.sel(half=half, drop=True) for half in _HALVES)


def rank_correlation(one: xr.DataArray, two: xr.DataArray, over: str = "label") -> xr.DataArray:
    """Return Spearman's correlation of two quantities over the members of a dimension, along all others."""
    from scipy import stats  # slow to import

    how: dict[str, Any] = {"input_core_dims": [[over]], "output_core_dims": [[over]], "kwargs": {"axis": -1}}
    first, second = (xr.apply_ufunc(stats.rankdata, some, **how) for some in (one, two))
    correlation: xr.DataArray = xr.corr(first, second, over)
    return correlation


def _correlation(one: xr.DataArray, two: xr.DataArray) -> xr.DataArray:
    off = [_off(some) for some in (one, two)]
    lengths = [(some**2).sum("label", skipna=False) for some in off]
    both = (lengths[0] * lengths[1]) ** 0.5
    correlation: xr.DataArray = (off[0] * off[1]).sum("label", skipna=False) / both.where(both > 1e-9)
    return correlation


def _off(profile: xr.DataArray) -> xr.DataArray:
    return profile - profile.mean("label", skipna=False)


def reliability(profiles: xr.DataArray, along: str = "setting") -> xr.DataArray:
    """Return the correlation of the two halves of each profile, along `along`: what chance leaves of a perfect agreement."""
    return _correlation(*_halves(profiles)).rename("reliability")


def covariance(profiles: xr.DataArray, along: str = "setting") -> xr.DataArray:
    """Return the covariance of each two profiles, of opposite halves and the mean of both directions: `along` and other.

    In points squared. Unlike a correlation it is neither raised nor lowered by the number of images.
    """
    return _both_ways(operator.mul, _off(profiles), along).mean("label", skipna=False).rename("covariance")


def corrected_agreement(profiles: xr.DataArray, along: str = "setting") -> xr.DataArray:
    """Return `cross_half` over the root of both reliabilities, at most 1 and at least -1: what many images would show.

    NaN where a reliability is below _LEAST: the classes of such a network hardly differ by more than chance.
    """
    shared, variance = covariance(profiles, along), _variance(profiles)
    root = variance.where(reliability(profiles, along) > _LEAST) ** 0.5
    return (shared / (root * root.rename({along: "other"}))).clip(-1, 1).rename("corrected")


def corrected_mean(profiles: xr.DataArray, base: str, others: Sequence[str], along: str = "setting") -> xr.DataArray:
    """Return `corrected_agreement` of a base with several others, on average over them, so that all count alike.

    Where that of any is NaN, it is their mean covariance with the base over the root of the mean variances: each counts by the
    spread of its classes, and one without any spread does not decide.
    """
    every = corrected_agreement(profiles.sel({along: [base, *others]}), along)
    each = every.sel(other=base, drop=True).isel({along: slice(1, None)})
    shared = covariance(profiles, along).sel(other=base, drop=True).sel({along: list(others)}).mean(along)
    spread, sure = (
        [some.sel({along: base}, drop=True), some.sel({along: list(others)}).mean(along)]
        for some in (_variance(profiles), reliability(profiles, along))
    )
    squared = spread[0] * spread[1]
    known = (sure[0] > _LEAST) & (sure[1] > _LEAST) & (squared > 0)
    together = (shared / squared.where(known) ** 0.5).clip(-1, 1)
    return each.mean(along, skipna=False).fillna(together).rename("corrected")


def _variance(profiles: xr.DataArray) -> xr.DataArray:
    """Return the covariance of the two halves of each profile: the variance over the classes without that of sampling."""
    first, second = _halves(_off(profiles))
    return (first * second).mean("label", skipna=False)


@dataclass(frozen=True)
class Sampled:
    """Profiles (`profiles`), and those of redrawn images (`drawn_profiles`), which give the interval of every measure of them."""

    value: xr.DataArray
    drawn: xr.DataArray

    def bounds(self, measure: Measure, level: float = 0.95) -> xr.DataArray:
        """Return low, value and high of a measure of profiles, along a new dimension `bound`; the interval contains the value.

        The halves are redrawn independently, so their covariance keeps its mean. Draws without a value count against both ends,
        which are infinite where there are too many of them.
        """
        value = measure(self.value)
        flat = measure(self.drawn).transpose("draw", *value.dims).values.reshape(self.drawn.sizes["draw"], -1).astype(float)
        ends = np.array([interval_ends(column, (1 - level) / 2) for column in flat.T]).reshape(*value.shape, 2)
        low, high = (value.copy(data=ends[..., place]) for place in (0, 1))
        some = [xr.ufuncs.minimum(low, value.fillna(np.inf)), value, xr.ufuncs.maximum(high, value.fillna(-np.inf))]
        joined: xr.DataArray = xr.concat(some, "bound").assign_coords(bound=["low", "value", "high"])
        return joined


def sample_profiles(outcomes: xr.Dataset, along: str = "setting", draws: int = 1000, seed: int = 0) -> Sampled:
    """Return the profiles of outcomes with draws of them."""
    return Sampled(profiles(outcomes, along), drawn_profiles(outcomes, along, draws, seed))


def interval(outcomes: xr.Dataset, measure: Measure, along: str = "setting", draws: int = 1000) -> xr.DataArray:
    """Return `Sampled.bounds` of a single measure of outcomes."""
    return sample_profiles(outcomes, along, draws).bounds(measure)


# The two values that a page shows of each agreement.
MEASURED, CORRECTED = "as measured", "corrected for few images"


def base_agreement(sampled: Sampled, base: str) -> xr.DataArray:
    """Return the agreement of each other setting with a base, along `measure` (MEASURED, CORRECTED), setting and bound.

    A corrected value is NaN where its interval is unbounded: a network whose classes hardly differ agrees with none. NotRecorded
    without any other setting.
    """
    if sampled.value.sizes["setting"] < 2:
        raise NotRecorded(f"no setting that could be compared with {base} is recorded")
    measures = {MEASURED: cross_half, CORRECTED: corrected_agreement}
    bounds = [sampled.bounds(measure).sel(other=base, drop=True) for measure in measures.values()]
    joined = xr.concat(bounds, "measure", coords="minimal", compat="override").assign_coords(measure=list(measures))
    return joined.where((abs(joined) < np.inf).all("bound")).clip(-1, 1).drop_sel(setting=base).rename("agreement")
