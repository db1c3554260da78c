"""Draws of the true value of the measure of a claim, of images and of trainings."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from classwise.core.errors import NotAtScale, NotRecorded
from classwise.papers.claims import Claim
from classwise.stats import features, pooling, trainings
from classwise.stats.bootstrap import add_pseudo_counts, bootstrap_sums, sums

# Sums over images are of single precision: a draw so close to a bound of a claim in points equals it, else it would be counted on
# either side at random.
ROUNDING = 1e-4
# Where a smaller share of the draws than this lies on one side of the effect, they show a bias and no interval.
_LOPSIDED = 0.05
# Fisher's z of a correlation of 1 is infinite.
_NEARLY = 1 - 1e-6


@dataclass(frozen=True)
class Draws:
    """Draws of the true value of a measure, NaN for those without a number, and how they are continued beyond the last ones.

    freedom: the degrees of freedom of the tails (Student's t); trainings: those of the variance between trainings, 0 where there
    is nothing to estimate it from.
    """

    values: np.ndarray
    freedom: float = np.inf
    trainings: int = 0


def true_values(quantity: "Quantity", base: xr.Dataset | None, draws: int, seed: int) -> Draws:
    """Return draws of the true value of what a claim measures.

    base: outcomes of trainings that show how networks vary with the seed (`trainings.base_deviations`), with the seeds of the
    outcomes themselves. These are not redrawn: the variance between trainings is added to that between images. What is due to an
    image in one training alone is part of both, where seeds share their images: the draws are then rather too wide.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        scaled = quantity.redraw(draws, seed)
        spread = np.ma.masked_invalid(scaled).var(0).filled(np.nan)
        between = quantity.training_deviations(base, spread)
        variance = between.variance if between.freedom else np.zeros(scaled.shape[1])
        # Satterthwaite 1946.
        freedom = between.freedom * (spread + variance) ** 2 / variance**2
    if quantity.folds:  # what images of their own show of seeds is the variance of both
        freedom = np.full(len(spread), float(between.freedom))
    truth = quantity.from_scale(scaled + between.draw(draws, seed))
    extreme = quantity.extreme is not None
    truth = extreme_draws(quantity.effects, truth, quantity.group, largest=quantity.largest) if extreme else truth[:, 0]
    known = freedom[np.isfinite(freedom)] if between.freedom else np.zeros(0)
    return Draws(truth, float(known.min(initial=np.inf)), between.freedom)


def stack_trainings(outcomes: xr.Dataset, claim: Claim) -> xr.Dataset:
    """Return what the measure of a claim takes, of each training: sums or blocks along training in place of seed."""
    apart = outcomes.rename(seed="training").expand_dims(seed=[0])
    if claim.of == "features":
        return features.statistics(features.select_sums(apart))
    return sums(apart, {name: value(apart) for name, value in claim.values.items()})


# Most claims are about predictions or features alone.
_TOTALS: dict[str, tuple[xr.Dataset, xr.Dataset]] = {}


def totals_of_base(base: xr.Dataset, claim: Claim) -> xr.Dataset:
    """Return what the measure of a claim takes of each training of a base; KeyError or so where the base lacks it."""
    if claim.values:
        return stack_trainings(base, claim)
    if claim.of not in _TOTALS or _TOTALS[claim.of][0] is not base:
        totals = stack_trainings(base, claim)
        _TOTALS[claim.of] = base, totals.isel(seed=0, drop=True) if "seed" in totals.dims else totals
    return _TOTALS[claim.of][1]


class Quantity:
    """What a claim measures on outcomes: one number, or the parts that its measure is an extreme of.

    folds: whether seeds have images of their own. effects: the numbers. group: of each part of an extreme, its place along
    `Term.outer`.
    """

    def __init__(self, claim: Claim, part: xr.Dataset) -> None:
        self.claim, self.part = claim, part
        self.extreme = getattr(claim.measure, "each", None)
        self.largest = bool(getattr(claim.measure, "largest", False))
        outer = getattr(claim.measure, "outer", "")
        self.folds = part.sizes["seed"] > 1 and not pooling.seeds_share_images(part)
        self.values = {name: value(part) for name, value in claim.values.items()}
        if claim.of == "features":
            self.blocks = features.select_sums(part)
            self.totals = features.statistics(self.blocks)
        else:
            self.each = stack_trainings(part, claim)
            self.totals = self.each.sum("training")
        self.effect = check_number(claim, claim.measure(self.totals))
        measured = (self.extreme or claim.measure)(self.totals)
        measured = measured.transpose(outer, ...) if outer else measured
        self.dims = measured.dims
        self.known = np.isfinite(measured.values.reshape(-1))  # a class is not compared with itself
        self.effects = measured.values.reshape(-1).astype(float)[self.known]
        groups = np.arange(measured.sizes[outer]) if outer else np.zeros(1, dtype=int)
        self.group = np.repeat(groups, measured.size // len(groups))[self.known]

    def measure(self, totals: xr.Dataset) -> xr.DataArray:
        """Return the numbers of sums or statistics, along `draw` if these are, and part."""
        measured = (self.extreme or self.claim.measure)(totals)
        first = [dim for dim in measured.dims if dim == "draw"]
        values = measured.transpose(*first, *self.dims).values
        values = values.reshape(*values.shape[: len(first)], -1)[..., self.known].astype(float)
        return xr.DataArray(values, dims=(*first, "part"))

    def training_deviations(self, base: xr.Dataset | None, of_images: np.ndarray) -> trainings.Deviations:
        """Return the deviations between trainings, of the seeds and as those of a base.

        of_images: the variance of each number by its images, which is taken off what seeds show that have images of their own.
        """
        claim, part = self.claim, self.part
        present = part.truth >= 0
        of_networks = [dim for dim in present.dims if dim not in trainings.OF_ONE_NETWORK and dim in self.totals.dims]
        seen = present.any([dim for dim in present.dims if dim not in (*of_networks, "seed")])
        seeds = np.flatnonzero((seen | ~seen.any("seed")).all(of_networks) & seen.any(of_networks))
        of_seeds = [self._of_seed(int(one)) for one in seeds] if len(seeds) > 1 else []
        result = trainings.seed_deviations(np.reshape(of_seeds, (len(of_seeds), len(self.effects))))
        if self.folds:
            result = result.subtract(of_images)
        if base is None or list(base.predicted.values) != list(part.predicted.values):
            return result
        try:
            known = totals_of_base(base, claim)
        except (KeyError, AttributeError, ValueError):  # it lacks what the claim is about
            return result
        number = seen.sum("seed")
        of_base = trainings.base_deviations(self._scaled, self.totals, known, number)
        if of_base.freedom and claim.of == "outcomes" and not claim.values and not pooling.seeds_share_images(base):
            alone = trainings.base_deviations(self._scaled, self.totals, trainings.images_alone(known), number)
            of_base = of_base.subtract(alone.variance)
        both = result + of_base
        # The trainings of the base count once.
        same = of_base.freedom and set(map(str, np.atleast_1d(part.defence.values))) <= set(map(str, base.defence.values))
        return replace(both, freedom=max(result.freedom, of_base.freedom)) if same else both

    def to_scale(self, values: Any) -> Any:
        """Return numbers on the scale on which trainings add to them: logarithms of ratios, Fisher's z of correlations."""
        if self.claim.unit == "correlation":
            return np.arctanh(np.clip(values, -_NEARLY, _NEARLY))
        return np.log(values) if self.claim.log else values

    def from_scale(self, values: np.ndarray) -> np.ndarray:
        """Return numbers of `to_scale` as they are."""
        return np.tanh(values) if self.claim.unit == "correlation" else np.exp(values) if self.claim.log else values

    def _scaled(self, totals: xr.Dataset) -> xr.DataArray:
        measured: xr.DataArray = self.measure(totals)
        return measured.copy(data=self.to_scale(measured.values))

    def _of_seed(self, seed: int) -> np.ndarray:
        try:
            if self.claim.of == "features":
                return self._scaled(features.statistics(self.blocks.isel(seed=[seed]))).values
            return self._scaled(self.each.isel(training=seed, drop=True)).values
        except NotRecorded:
            return np.full(len(self.effects), np.nan)

    def redraw(self, draws: int, seed: int) -> np.ndarray:
        """Return draws (draws, parts) of the true numbers, `to_scale`, of the images alone, NaN for those without one.

        Those of a number that no draw changes are redrawn with pseudo-counts and not reflected: what is always correct would be
        more than that. A measure of one kind of mistake may not vary until there is a pseudo-count of each kind.
        """
        claim = self.claim
        if claim.truth:
            return np.asarray(self.to_scale(claim.truth(self.part, draws, seed)[:, None]))
        if claim.of == "features" and not features.can_resample(self.part):
            return np.full((draws, len(self.effects)), np.nan)
        drawn = self._redrawn(self.part, draws, seed)
        truth = np.column_stack([reflect_draws(*both) for both in zip(self.to_scale(self.effects), drawn.T, strict=True)])
        tolerance = ROUNDING if claim.unit == "points" else 1e-9
        fixed = np.array([_constant(column, tolerance) for column in drawn.T])
        for every_mistake in (False, True) if claim.of == "outcomes" else ():
            if fixed.any():
                again = self._redrawn(add_pseudo_counts(self.part, seed, every_mistake=every_mistake), draws, seed)
                truth = np.where(fixed, np.where(np.isfinite(again), again, np.nan), truth)
                fixed &= [_constant(column, tolerance) for column in again.T]
        return np.where(fixed, np.nan, truth)

    def _redrawn(self, part: xr.Dataset, draws: int, seed: int) -> np.ndarray:
        if self.claim.of == "features":
            return self._scaled(features.resample(self.blocks, draws, seed, redraw_seeds=False)).values
        values = self.values if part is self.part else {name: value(part) for name, value in self.claim.values.items()}
        chunks = bootstrap_sums(part, values, draws, seed, redraw_seeds=False)
        return np.concatenate([self._scaled(chunk).values for chunk in chunks])


def check_number(claim: Claim, value: xr.DataArray) -> float:
    """Return the number that a measure gives of outcomes; NotAtScale where it gives several, or none."""
    if value.ndim:
        kept = f"its measure keeps the dimensions {', '.join(map(str, value.dims))}"
        raise NotAtScale(f"claim {claim.name!r}: {kept}, expected one number")
    if not np.isfinite(float(value)) or (claim.log and float(value) <= 0):
        why = "some class has no images, or a ratio no base"
        raise NotAtScale(f"claim {claim.name!r} has no value on these outcomes: {why}")
    return float(value)


def _constant(redrawn: np.ndarray, tolerance: float) -> bool:
    finite = redrawn[np.isfinite(redrawn)]
    return not len(finite) or bool(np.ptp(finite) <= tolerance * max(1.0, abs(float(finite[0]))))


def reflect_draws(effect: float, redrawn: np.ndarray) -> np.ndarray:
    """Return the draws of the true value behind the basic bootstrap interval; NaN for those without a number.

    Each draw is reflected at the effect, which corrects what sampling adds to a gap instead of adding it twice (Davison and
    Hinkley 1997, 5.2). Where nearly all draws lie on one side of the effect, the bootstrap shows a bias and no interval, and
    every other draw is not reflected.
    """
    valid = np.isfinite(redrawn)
    kept = np.where(valid, redrawn, effect)
    truth = 2 * effect - kept
    lopsided = min(np.mean(kept <= effect), np.mean(kept >= effect)) < _LOPSIDED
    truth = np.where(np.arange(len(kept)) % 2, kept, truth) if lopsided else truth
    return np.where(valid, truth, np.nan)


def extreme_draws(effects: np.ndarray, truth: np.ndarray, group: np.ndarray, *, largest: bool = False) -> np.ndarray:
    """Return draws of the true least of several numbers (`largest`: the largest), or of the largest least of groups of them.

    They are in rising order. A number is below the truth at a level: of the least, the least of the ends of all (an
    intersection-union test, Berger 1982); of the largest, at the level over the number of groups (Bonferroni). A number is above
    it: of the least, the least of ends that hold for all at once (max-t, Dunnett 1955); of the largest, the largest end.

    effects: (parts,). truth: draws of their true values (draws, parts). group: of each part.
    """
    sign, number = -1.0 if largest else 1.0, len(truth)
    kept = sign * truth[np.isfinite(truth).all(1)]
    if not len(kept):
        return np.full(number, np.nan)
    effects, spread = sign * effects, kept.std(0)
    away = (kept - effects) / np.where(spread > 0, spread, 1)
    groups = [group == one for one in np.unique(group)]
    rank = np.arange(len(kept))
    each = np.sort(kept, axis=0)[rank // len(groups)]
    lower = np.max([each[:, some].min(1) for some in groups], axis=0)
    upper = np.max([(effects[some] + spread[some] * np.sort(away[:, some].max(1))[:, None]).min(1) for some in groups], axis=0)
    result = np.where(rank < len(kept) // 2, lower, upper)
    return sign * np.concatenate([result, np.full(number - len(kept), np.nan)])
