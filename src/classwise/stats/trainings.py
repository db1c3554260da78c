"""How much a measure varies between trainings that differ in their seed alone.

The bootstrap over images says how sure a number is for the networks at hand. Trained once more, networks differ: the deviations
here are those of the seeds of a comparison itself, and those that its networks would have if they varied as the trainings of a
base do. They are `Deviations` of a measure: rows whose squares sum to its variance.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

# Takes sums over images (`bootstrap.sums`) or statistics of features, along `draw` or not, and gives numbers along other
# dimensions.
Measure = Callable[[xr.Dataset], xr.DataArray]

# Dimensions along which one network is evaluated in several ways, and those of its images: all others name networks. `run` names
# the trainings as `seed` does, where their sums are kept apart.
EVALUATIONS = ("attack", "inverse", "eval_eps", "form", "readout")
_OF_IMAGES = ("draw", "image", "seed", "block", "half", "label", "other", "predicted", "feature", "quantity")
OF_ONE_NETWORK = frozenset((*EVALUATIONS, *_OF_IMAGES, "step", "epoch", "run"))
# The attack whose deviations stand for those of an attack by which the base was not evaluated.
_REFERENCE = "pgd-20"
# Statistics of features that a training changes in proportion.
_OF_FEATURES = ("variance", "trace", "gram", "error")


@dataclass(frozen=True)
class Deviations:
    """Deviations of a measure between trainings: rows (n, parts) whose squares sum to its variance, and degrees of freedom."""

    rows: np.ndarray
    freedom: int

    def __add__(self, other: "Deviations") -> "Deviations":
        """Return both pooled: the mean of their variances, weighted by their degrees of freedom."""
        freedom = self.freedom + other.freedom
        parts = [some.rows * np.sqrt(some.freedom / max(freedom, 1)) for some in (self, other) if some.freedom]
        return Deviations(np.concatenate(parts) if parts else self.rows[:0], freedom)

    def subtract(self, variance: np.ndarray) -> "Deviations":
        """Return them with a variance (parts,) taken off, that of the images that each training has of its own."""
        total = np.where(self.variance > 0, self.variance, 1)
        return Deviations(self.rows * np.sqrt(np.clip(1 - np.nan_to_num(variance) / total, 0, 1)), self.freedom)

    @property
    def variance(self) -> np.ndarray:
        """The variance of each part."""
        total: np.ndarray = (self.rows**2).sum(0)
        return total

    def draw(self, draws: int, seed: int) -> np.ndarray:
        """Return draws (draws, parts) of what a training changes, of Student's t with these degrees of freedom."""
        rng = np.random.default_rng([seed, draws])
        normal = rng.standard_normal((draws, len(self.rows))) @ self.rows
        scaled: np.ndarray = normal / np.sqrt(rng.chisquare(max(self.freedom, 1), (draws, 1)) / max(self.freedom, 1))
        return scaled


def seed_deviations(values: np.ndarray) -> Deviations:
    """Return the deviations of a mean over seeds from the values (seeds, parts) of each; none of a single seed."""
    values = values[np.isfinite(values).all(1)]
    number = len(values)
    rows = (values - values.mean(0)) / np.sqrt(number * (number - 1)) if number > 1 else values[:0]
    return Deviations(rows, max(number - 1, 0))


def base_deviations(measure: Measure, totals: xr.Dataset, base: xr.Dataset, seeds: xr.DataArray) -> Deviations:
    """Return the deviations of a measure if each of its networks varied between trainings as those of the base do.

    Each network in turn is moved as each training of the base lies from the mean of its defence, and the measure taken again.
    None where the base cannot show them: of what changes from epoch to epoch, and where a part of the measure takes a network
    under two evaluations that the base does not tell apart, whose difference a common move would not change.

    Parameters
    ----------
    totals
        sums over images (count, label x predicted), or statistics of features.
    base
        the same of the base, along defence, training and attack. Accuracies are moved in units of the spread sqrt(p (1 - p)) of
        the predictions of a class, statistics of features in proportion.
    seeds
        of how many trainings each network is the mean, along the dimensions that name networks.
    """
    values = [str(name) for name in totals if totals[name].dims == totals["count"].dims and name != "count"]
    moves, freedom = _moves(base, values)
    networks = [place for place in np.ndindex(seeds.shape) if seeds.values[place] > 0]
    none = Deviations(np.zeros((0, 1)), 0)
    if not networks or freedom < 1 or "epoch" in totals["count"].dims:
        return none
    factor = np.zeros((len(networks), *seeds.shape))
    for row, place in enumerate(networks):
        factor[(row, *place)] = 1 / np.sqrt(seeds.values[place])
    share = xr.DataArray(factor, {dim: seeds[dim] for dim in seeds.dims if dim in seeds.coords}, ("network of base", *seeds.dims))
    value, moved, known = measure(totals), dict[str, list[np.ndarray]](), {str(name) for name in base.attack.values}
    cells = {dim: totals[dim].values for dim in EVALUATIONS if dim in totals["count"].dims}
    for place in np.ndindex(*map(len, cells.values())):
        here = {dim: names[at] for (dim, names), at in zip(cells.items(), place, strict=True)}
        attack = str(here.get("attack", np.atleast_1d(totals.attack.values)[0]))
        attack = attack if attack in known else _REFERENCE
        one = [xr.DataArray((names == here[dim]).astype(float), {dim: names}, (dim,)) for dim, names in cells.items()]
        mask = math.prod(one, start=xr.DataArray(1.0))
        step = (share * moves.sel(attack=attack, drop=True)).stack(draw=("network of base", "row"), create_index=False)
        step = step.drop_vars("draw", errors="ignore")
        changed = measure(_moved(totals, step, mask, first=not any(place)).transpose("draw", ...)).transpose("draw", ...) - value
        moved.setdefault(attack, []).append(changed.values.reshape(len(changed), -1) / np.sqrt(freedom))
    # Moves that a base makes in common cancel in a difference, and say nothing of it.
    cancelled = [
        np.linalg.norm(sum(some), axis=0) < 0.5 * sum(np.linalg.norm(change, axis=0) for change in some) - 1e-4
        for some in moved.values()
    ]
    rows = sum(change for some in moved.values() for change in some)
    if np.any(cancelled) or not np.isfinite(rows).all():
        return none
    return Deviations(np.asarray(rows), freedom)


def images_alone(base: xr.Dataset, number: int = 60, seed: int = 0) -> xr.Dataset:
    """Return counts as of so many trainings that differ by the images alone that each is evaluated on."""
    count = base["count"].astype(float).transpose(..., "predicted")
    share = count.mean("training") / count.mean("training").sum("predicted")
    total = count.sum("predicted").isel(training=np.arange(number) % count.sizes["training"])
    total, share = xr.broadcast(total, share.fillna(0), exclude=["predicted"])
    drawn = np.random.default_rng(seed).multinomial(total.values.astype(int), share.values)
    return xr.Dataset({"count": (share.dims, drawn)}, base.drop_dims("training").coords)


def _moves(base: xr.Dataset, values: Sequence[str]) -> tuple[xr.Dataset, int]:
    """Return how far each training of the base lies from the mean of its defence, along row, and the degrees of freedom.

    values: the sums of quantities of images, which are moved in proportion.
    """
    total = base["count"].sum("predicted")
    rate = base["count"] / total.where(total > 0)
    middle = rate.mean("training")
    spread = (middle * (1 - middle)) ** 0.5
    moves = xr.Dataset({"count": rate / spread.where(spread > 0)})
    complete = (total.sum("label") > 0).all("attack")
    positive = {name: base[name].sum("predicted") / total for name in values} if values else {}
    if "gram" in base:
        positive |= {name: base[name] for name in _OF_FEATURES}
        complete &= (base.images.sum("label") > 0).any("attack")
    moves = moves.assign({name: np.log(some.where(some > 0)) for name, some in positive.items()})
    away = (moves.where(complete) - moves.where(complete).mean("training")).fillna(0)
    rows = away.stack(row=("defence", "training"), create_index=False)
    return rows.drop_vars(["row", "defence", "training"], errors="ignore"), int((complete.sum("training") - 1).clip(min=0).sum())


def _moved(totals: xr.Dataset, step: xr.Dataset, mask: xr.DataArray, *, first: bool) -> xr.Dataset:
    """Return sums, and statistics of features, after a step of their networks under one evaluation.

    mask: 1 for this evaluation, else 0. first: whether it is the first one, with which features move that have no attack.
    """
    count = totals["count"]
    images = count.sum("predicted")
    rate = count / images.where(images > 0)
    moved = (rate + np.sqrt(rate * (1 - rate)) * step["count"] * mask).clip(0)
    moved = (images * moved / moved.sum("predicted")).fillna(0).transpose("draw", *count.dims)
    # What an image is worth on average in a cell stays.
    ratio = moved / count.where(count > 0)
    further = {}
    for name in (str(name) for name in totals if name in step and name not in ("count", *_OF_FEATURES)):
        further[name] = (totals[name] * ratio * np.exp(step[name] * mask)).where(count > 0, totals[name])
    if "gram" in totals:
        away = step[list(_OF_FEATURES)] * (mask if set(mask.dims) <= set(totals.gram.dims) else float(first))
        # Features of a network along none of these dimensions, on whose own the others are compared, stay.
        if set(away.gram.dims) - {"draw"} <= set(totals.gram.dims):
            further |= {name: totals[name] * np.exp(away[name]) for name in _OF_FEATURES}
    return totals.drop_vars("mean", errors="ignore").assign({**further, "count": moved})
