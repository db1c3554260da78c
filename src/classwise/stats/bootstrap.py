"""The bootstrap over images and seeds, which intervals and the verdicts on claims are based on.

A draw gives each image of each seed a weight, the same for all runs and attacks that are compared, so comparisons are paired.
"""

import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from classwise.stats import aggregate
from classwise.stats.combine import concat_named
from classwise.stats.intervals import interval_bounds, wilson_of
from classwise.stats.metrics import OF_RATES, Metric, accuracy, overall, reciprocity, symmetry, symmetry_of
from classwise.stats.pooling import design_effect, pool, seeds_share_images

_AT_ONCE = 20_000_000  # weights that are drawn at a time: 80 MB
_CHANGED = ("truth", "prediction", "misclassified")


def resample(
    count: xr.DataArray,
    over: Sequence[str] = (),
    draws: int = 2000,
    seed: int = 0,
    *,
    shared_images: bool = False,
    pseudo_counts: bool = False,
) -> xr.DataArray:
    """Return counts of resampled images along a new dimension `draw`.

    The images of each class are drawn with replacement: for counts, a multinomial draw from each row. The draws of a setting
    depend on its counts and the seed only, not on the other settings.

    Parameters
    ----------
    over
        dimensions (such as "seed") whose members are first drawn with replacement and then summed: images are drawn cluster by
        cluster, one cluster fewer than present, each scaled up; see `weights`.
    shared_images
        the members of `over` were evaluated on the same images. Counts do not hold which image is which, so the draw assumes that
        all members made the same predictions: it has as many images as one member, which is conservative.
    pseudo_counts
        draw as if one more image of each class had been predicted correctly and one wrongly (Laplace's rule of succession), so
        that a class that is always right, or never, varies too.
    """
    rest = [dim for dim in count.dims if dim not in (*over, "label", "predicted")]
    ordered = count.transpose(*rest, *over, "label", "predicted")
    values = ordered.values.reshape(*[count.sizes[dim] for dim in rest], -1, *ordered.shape[-2:])
    same = (count.label == count.predicted).transpose("label", "predicted").values
    # One correct prediction for each class, and one wrong one spread over the other classes.
    pseudo = pseudo_counts * np.where(same, 1.0, 1.0 / max((~same).sum(1).max(), 1))
    drawn, scale = np.empty((draws, *values.shape[:-3], *values.shape[-2:]), dtype=np.int64), np.ones(values.shape[:-3])
    size = max(1, _AT_ONCE // (10 * max(values.shape[-3] - 1, 1) * math.prod(values.shape[-2:])))
    for place in np.ndindex(values.shape[:-3]):
        setting = values[place][values[place].any((1, 2)) | ~values[place].any()]  # a cluster without images is not drawn
        rng = np.random.default_rng([seed, zlib.crc32(setting.astype(float).tobytes())])
        chosen = rng.integers(len(setting), size=(draws, max(len(setting) - 1, 1)))
        scale[place] = 1 if shared_images else len(setting) / chosen.shape[1]
        for first in range(0, draws, size):
            part = setting[chosen[first : first + size]]
            part = part.mean(1, keepdims=True) if shared_images else part
            drawn[(slice(first, first + size), *place)] = _redrawn(part, pseudo, rng).sum(1)
    coords = {dim: count[dim] for dim in (*rest, "label", "predicted") if dim in count.coords}
    scaled = drawn if (scale == 1).all() else drawn * scale[..., None, None]
    return xr.DataArray(scaled, dims=("draw", *rest, "label", "predicted"), coords=coords, name="count")


def _redrawn(values: np.ndarray, pseudo: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return multinomial draws from each row plus `pseudo`, as many as the row sums to, rounded."""
    total = values.sum(-1, keepdims=True)
    padded = values + pseudo * (total > 0)
    chance = np.divide(padded, padded.sum(-1, keepdims=True), out=np.full(values.shape, 1 / values.shape[-1]), where=total > 0)
    return rng.multinomial(np.rint(total[..., 0]).astype(np.int64), chance)


def evaluated_mask(outcomes: xr.Dataset) -> xr.DataArray:
    """Return which images any run of each seed was evaluated on: dimensions seed, image."""
    present = outcomes.truth >= 0
    by_any: xr.DataArray = present.any([dim for dim in present.dims if dim not in ("seed", "image")])
    return by_any.transpose("seed", "image")


def weights(outcomes: xr.Dataset, draws: int, seed: int = 0, *, redraw_seeds: bool = True) -> np.ndarray:
    """Return how often each image of each seed is drawn, shape (n, draws) for the n true entries of `evaluated_mask`, row by row.

    Seeds are drawn with replacement, and so are the images of each class: within their seed if the seeds test on different images
    (folds), else once for all seeds (Owen 2007, the pigeonhole bootstrap). One seed fewer than present is drawn, each scaled up:
    drawing all would show only (seeds - 1) / seeds of the variance between them (Rao and Wu 1988). The spread is too wide if
    seeds hardly differ. Without `redraw_seeds` each draw has all seeds once: what varies is then due to images alone.
    """
    present = evaluated_mask(outcomes).values
    truth = outcomes.truth.max([dim for dim in outcomes.truth.dims if dim != "image"]).values.astype(np.int64)
    # A draw of a seed without any image would have none.
    drawn = _weights(present[present.any(1)].tobytes(), truth.tobytes(), draws, seed, redraw_seeds)
    drawn.setflags(write=False)
    return drawn


@lru_cache(maxsize=4)  # pages and claims resample the same images again and again
def _weights(present_bytes: bytes, truth_bytes: bytes, draws: int, seed: int, redraw_seeds: bool) -> np.ndarray:
    truth = np.frombuffer(truth_bytes, dtype=np.int64)
    rng, present = np.random.default_rng(seed), np.frombuffer(present_bytes, dtype=bool).reshape(-1, len(truth))
    seeds, count = len(present), present.sum()
    fewer = max(seeds - 1, 1) if redraw_seeds else seeds
    times, scale = np.ones((seeds, draws), dtype=int), seeds / fewer
    if redraw_seeds:
        times = rng.multinomial(fewer, np.full(seeds, 1 / seeds), size=draws).T
    row, column = np.nonzero(present)
    weight = np.empty((count, draws), dtype=np.float32)
    if (present.sum(0) > 1).any():
        chosen = np.zeros((present.shape[1], draws), dtype=np.float32)
        for label in np.unique(truth[present.any(0)]):
            _draw(chosen, np.flatnonzero((truth == label) & present.any(0)), np.ones(draws, dtype=int), rng)
        np.take(chosen, column, axis=0, out=weight)
        if redraw_seeds:
            weight *= (times * scale).astype(np.float32)[row]
        return weight
    for place in range(seeds):
        for label in np.unique(truth[present[place]]):
            _draw(weight, np.flatnonzero((row == place) & (truth[column] == label)), times[place], rng)
    return weight * np.float32(scale)


def _draw(weight: np.ndarray, members: np.ndarray, times: np.ndarray, rng: np.random.Generator) -> None:
    """Write into `weight` how often each member is drawn with replacement, in `times` as many draws as members."""
    size = len(members)
    weight[members] = rng.multinomial(times * size, np.full(size, 1 / size)).T


def sums(outcomes: xr.Dataset, values: Mapping[str, xr.DataArray], weight: np.ndarray | None = None) -> xr.Dataset:
    """Return count(..., label, predicted) and the sum of each of `values` in the same cells, with `draw` first if weighted.

    count: of the images of `label` predicted as `predicted`. Missing images (truth -1) do not count.
    """
    present, like = evaluated_mask(outcomes).values, outcomes.truth.transpose(..., "seed", "image")
    settings, classes = like.dims[:-2], outcomes.sizes["predicted"]

    def flat(array: xr.DataArray) -> np.ndarray:
        """Return an array as (settings, images that any run was evaluated on)."""
        return array.broadcast_like(like).transpose(*like.dims).values[..., present].reshape(-1, present.sum())

    truth = flat(outcomes.truth)
    cells = np.where(truth >= 0, truth.astype(int) * classes + flat(outcomes.prediction), -1)
    ones = np.ones((cells.shape[1], 1), dtype=np.float32) if weight is None else weight
    totals = {"count": _summed(cells, None, classes, ones)}
    totals |= {name: _summed(cells, flat(value), classes, ones) for name, value in values.items()}
    # Coordinates of classes stand along `label`, too.
    along_classes = {str(name): ("label", some.values) for name, some in outcomes.coords.items() if some.dims == ("predicted",)}
    coords = {dim: outcomes[dim] for dim in settings if dim in outcomes.coords} | along_classes
    coords |= {"label": ("label", outcomes.predicted.values), "predicted": ("predicted", outcomes.predicted.values)}
    dims = ("draw", *settings, "label", "predicted")
    data = {name: (dims, array.reshape(-1, *like.shape[:-2], classes, classes)) for name, array in totals.items()}
    drawn = xr.Dataset(data, coords)
    return drawn.isel(draw=0) if weight is None else drawn


def _summed(cells: np.ndarray, value: np.ndarray | None, classes: int, weight: np.ndarray) -> np.ndarray:
    """Return weighted sums in cells as (draws, settings, classes * classes)."""
    from scipy import sparse  # slow to import

    total = np.zeros((weight.shape[1], len(cells), classes * classes), dtype=np.float32 if value is None else np.float64)
    for setting, cell in enumerate(cells):
        place = np.flatnonzero(cell >= 0)
        data = np.ones(len(place), dtype=np.float32) if value is None else value[setting][place].astype(np.float64)
        table = sparse.csr_array((data, (cell[place], place)), shape=(classes * classes, cells.shape[1]))
        total[:, setting] = (table @ weight).T
    return total


def bootstrap_sums(
    outcomes: xr.Dataset, values: Mapping[str, xr.DataArray], draws: int, seed: int = 0, *, redraw_seeds: bool = True
) -> Iterator[xr.Dataset]:
    """Yield the sums of resampled images (`weights`), some draws at a time."""
    size = max(1, min(draws, _AT_ONCE // max(1, int(evaluated_mask(outcomes).sum()))))
    for part, first in enumerate(range(0, draws, size)):
        weight = weights(outcomes, min(size, draws - first), seed + part, redraw_seeds=redraw_seeds)
        yield sums(outcomes, values, weight)


def add_pseudo_counts(outcomes: xr.Dataset, seed: int = 0, *, every_mistake: bool = False) -> xr.Dataset:
    """Return outcomes with two more images of each class for each setting, one predicted correctly there and one wrongly.

    This is Laplace's rule of succession: what never varies among the given images varies too. Everything else is copied from a
    random image of the class. The wrong class is drawn; with `every_mistake`, one image is added for each.
    """
    rng, count, classes = np.random.default_rng(seed), outcomes.sizes["image"], outcomes.sizes["predicted"]
    present = outcomes.truth >= 0
    rest = [dim for dim in present.dims if dim not in ("seed", "image")]
    truth = outcomes.truth.max([dim for dim in present.dims if dim != "image"]).values
    in_setting = present.any("seed").transpose(*rest, "image").values
    # Offset of the prediction from the true class, 0 if correct; -1 is replaced by a random offset below.
    offsets = range(classes) if every_mistake else (0, -1)
    places: list[int] = []
    changes: list[tuple[tuple[int, ...], int]] = []
    for label, setting in product(np.unique(truth[truth >= 0]), np.ndindex(in_setting.shape[:-1])):
        members = np.flatnonzero((truth == label) & in_setting[setting])
        for off in offsets if len(members) else ():
            changes.append((setting, off))
            places.append(int(rng.choice(members)))
    padded = outcomes.isel(image=[*range(count), *places]).assign_coords(image=np.arange(count + len(places)))
    # Halves of the images (`aggregate.split_halves`) differ in truth alone.
    padded_to = {name: padded[name].broadcast_like(padded.truth) for name in _CHANGED}
    padded = padded.assign({name: array.transpose(*rest, "seed", "image").copy() for name, array in padded_to.items()})
    wrong = rng.integers(1, max(classes, 2), size=len(places))
    for image, ((setting, off), random_off) in enumerate(zip(changes, wrong, strict=True), count):
        place = (*setting, slice(None), image)
        true = padded.truth.values[place]
        padded.prediction.values[place] = np.where(true < 0, -1, (true + (random_off if off < 0 else off)) % classes)
        padded.misclassified.values[place] = (true >= 0) & (off != 0)
    return padded.assign({name: padded[name].transpose(*outcomes.truth.dims) for name in _CHANGED})


# The ranges of measures, to which their intervals are clipped.
_RANGES: dict[str, tuple[float, float]] = dict.fromkeys(("overall", "worst", "worst_k", "mcd", "gini"), (0, 100))
_RANGES |= {"cv": (0, 2500), "cv_unbiased": (0, 2500), "explained": (-np.inf, 100), "symmetry": (-1, 1)}


def bootstrap(
    data: xr.DataArray | xr.Dataset,
    measure: Metric,
    over: Sequence[str] = (),
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
    *,
    shared_images: bool = False,
) -> xr.DataArray:
    """Return low, value and high of a measure along a new dimension `bound`, from a bootstrap over the images of each class.

    The interval is the basic (reverse percentile) one: a percentile interval would add the bias that sampling gives the worst
    class and the spread a second time (Davison and Hinkley 1997, 5.2). For a proportion Wilson's interval is used as well: alone
    for "overall" of a single cluster; over several clusters, and for the worst class, the wider end of the two. If all draws are
    equal, since every class is always right or never, the interval is that with pseudo-counts (`resample`). That of "symmetry" is
    of such draws (`symmetry_draws`) with its seeds, and contains the value.

    Parameters
    ----------
    data
        outcomes, whose seeds are pooled: seeds are drawn as clusters, and an image that several seeds were evaluated on is
        drawn for all of them at once. Or counts.
    over
        for counts, the dimensions such as "seed" that are pooled and resampled as clusters.
    shared_images
        for counts, whether the members of `over` share their images (`resample`).
    """
    single = all(data.sizes.get(dim, 1) == 1 for dim in (["seed"] if isinstance(data, xr.Dataset) else over))
    estimate = reciprocity if measure is symmetry else measure
    total, drawn = _redrawn_measure(data, estimate, over, draws, seed, shared_images=shared_images)
    value = measure(total)
    bottom, top = _RANGES.get(str(value.name), (-np.inf, np.inf))
    analytic = wilson_of(measure, total, level)
    ends: xr.DataArray | None
    if measure is symmetry:
        truth = _true_symmetry(total, drawn, seed)
        ends = _ends(truth.fillna(0), level).where(truth.notnull().all("draw"))
    else:
        ends = None if measure is overall and single else _basic(total, measure, drawn, level, seed)
    both = xr.concat([interval for interval in (ends, analytic) if interval is not None], "of")
    low = both.sel(bound="low", drop=True).min("of").fillna(bottom)
    high = both.sel(bound="high", drop=True).max("of").fillna(top)
    # The correction of the bias may leave the value outside the interval.
    return interval_bounds(low.clip(bottom, top), value, high.clip(bottom, top)).rename(value.name)


def _redrawn_measure(
    data: xr.DataArray | xr.Dataset,
    measure: Metric,
    over: Sequence[str],
    draws: int,
    seed: int,
    *,
    shared_images: bool = False,
    redraw_seeds: bool = True,
) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the pooled counts of `data`, and a measure of redrawn ones along `draw`."""
    if isinstance(data, xr.Dataset) and seeds_share_images(data):
        effect = design_effect(data)
        parts = (measure(part["count"] / effect) for part in bootstrap_sums(data, {}, draws, seed, redraw_seeds=redraw_seeds))
        return pool(data), xr.concat(list(parts), "draw")
    if isinstance(data, xr.Dataset):
        data, over = aggregate.counts(data), ["seed"] if "seed" in data.dims else []
    total = data.mean(list(over)) if shared_images else data.sum(list(over))
    over, data = (over, data) if redraw_seeds else ((), total)
    return total, measure(resample(data, over, draws, seed, shared_images=shared_images and redraw_seeds))


def _basic(total: xr.DataArray, measure: Metric, drawn: xr.DataArray, level: float, seed: int) -> xr.DataArray:
    """Return the ends of the basic interval of a measure of counts from its draws; with pseudo-counts if the draws are equal."""
    value = measure(total)
    # The quantity that the measure estimates from resampled counts, whose true rates are the observed ones.
    aim = OF_RATES[measure](total) if measure in OF_RATES else value
    ends = _ends(value + aim - drawn, level)
    constant = (drawn == drawn.isel(draw=0)).all("draw") & value.notnull()
    if not bool(constant.any()):
        return ends
    padded = _ends(measure(resample(total, (), drawn.sizes["draw"], seed, pseudo_counts=True)), level)
    wider = xr.concat([xr.ufuncs.minimum(padded.isel(bound=0), value), xr.ufuncs.maximum(padded.isel(bound=1), value)], "bound")
    return ends.where(~constant, wider)


def _ends(truth: xr.DataArray, level: float) -> xr.DataArray:
    """Return the interval that holds a share `level` of draws of a true value, along a new dimension `bound`; NaN without any."""
    known = truth.notnull().any("draw")
    ends = truth.where(known, 0).quantile([(1 - level) / 2, (1 + level) / 2], dim="draw").drop_vars("quantile")
    return ends.rename(quantile="bound").assign_coords(bound=["low", "high"]).where(known)


def symmetry_draws(data: xr.DataArray | xr.Dataset, over: Sequence[str] = (), draws: int = 2000, seed: int = 0) -> xr.DataArray:
    """Return draws of the true `metrics.symmetry` of the rates behind outcomes or counts, along a new dimension `draw`.

    Sampling lowers a correlation, and near 0 it is skewed, so the draws are reflected on the scale of `metrics.reciprocity`, on
    which it is corrected and varies alike everywhere. NaN where the rates vary no more than by sampling. data, over: as for
    `bootstrap`; images alone are redrawn, no seeds.
    """
    return _true_symmetry(*_redrawn_measure(data, reciprocity, over, draws, seed, redraw_seeds=False), seed)


def _true_symmetry(total: xr.DataArray, drawn: xr.DataArray, seed: int) -> xr.DataArray:
    """Return draws of the true symmetry of a table from its `reciprocity` in redrawn ones."""
    value = reciprocity(total)
    # Redrawing adds noise to the squares once more, and drawing seeds adds more than is corrected: only the spread around the
    # middle of the draws counts, in proportion to the value.
    drawn = drawn.fillna(0)
    middle = drawn.median("draw")
    truth = (value * (2 - drawn / middle.where(middle > 0))).clip(min=0)
    if bool((middle == 0).any()):
        # Almost no pair of classes is confused both ways, so the draws hardly vary: as if there were one more mistake a class.
        padded = reciprocity(resample(total, (), drawn.sizes["draw"], seed, pseudo_counts=True)).fillna(0)
        truth = truth.where(middle > 0, padded.transpose(*truth.dims))
    return symmetry_of(truth, total)


def paired_bounds(
    outcomes: xr.Dataset,
    measure: Callable[[Any], xr.DataArray],
    level: float = 0.95,
    draws: int = 2000,
    *,
    span: tuple[float, float] = (-np.inf, np.inf),
    values: Mapping[str, xr.DataArray] | None = None,
) -> xr.DataArray:
    """Return low, value and high of a measure that compares settings, along a new dimension `bound`.

    measure: of the counts of all settings, or with `values` of their `sums`; it may reduce their dimensions. span: its range. The
    interval is the basic one of a bootstrap whose settings share redrawn images, wide enough to contain the value; NaN where no
    draw has a value.
    """
    measured = measure if values is not None else lambda total: measure(total["count"])
    drawn = xr.concat([measured(part) for part in bootstrap_sums(outcomes, values or {}, draws)], "draw")
    value = measured(sums(outcomes, values or {}))
    ends = _ends(drawn, level)
    low, high = (2 * value - ends.sel(bound=end, drop=True) for end in ("high", "low"))
    return interval_bounds(low.clip(*span), value, high.clip(*span))


def gains(
    outcomes: xr.Dataset, bases: Mapping[str, str], measure: Metric, level: float = 0.95, draws: int = 2000
) -> xr.DataArray:
    """Return the gains of defences (the keys) over their bases along defence, as `differences` along comparison."""
    result = differences(outcomes, {name: (name, base) for name, base in bases.items()}, measure, level, draws)
    return result.rename(comparison="defence").rename("gain")


def differences(
    outcomes: xr.Dataset, pairs: Mapping[str, tuple[str, str]], measure: Metric, level: float = 0.95, draws: int = 2000
) -> xr.DataArray:
    """Return low, value and high of a measure of one defence less that of another, along comparison (the keys) and `bound`.

    Each pair is compared on the images and with the seeds that both have (`paired_bounds`).
    """

    def compared(pair: tuple[str, str]) -> xr.DataArray:
        def difference(count: xr.DataArray) -> xr.DataArray:
            values = measure(count)
            return values.sel(defence=pair[0], drop=True) - values.sel(defence=pair[1], drop=True)

        both = aggregate.common_images(outcomes.sel(defence=list(dict.fromkeys(pair))), "defence")
        return paired_bounds(both, difference, level, draws, span=(-100, 100))

    return concat_named("comparison", pairs, compared)


def worst_share(count: xr.DataArray, draws: int = 2000, seed: int = 0) -> xr.DataArray:
    """Return in what share of the draws each class is the least accurate, in percent, along label.

    count: (label, predicted). Classes that tie share a draw. With pseudo-counts: a class that is never right varies, too.
    """
    rates = accuracy(resample(count, (), draws, seed, pseudo_counts=True))
    lowest = rates == rates.min("label")
    return (100 * lowest / lowest.sum("label")).mean("draw").rename("worst_share")
