"""Sums over images of outcomes, and over images drawn anew: the bootstrap that claims are judged by.

A draw gives each image of each seed a weight, the same for all runs and attacks that are compared: so they are paired.
"""

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import xarray as xr

from classwise.core.errors import UserError
from classwise.stats import aggregate
from classwise.stats.intervals import wilson, wilson_bounds
from classwise.stats.metrics import Metric, accuracy, correct, cv, cv_unbiased, images, overall, worst
from classwise.stats.pooling import design_effect, pooled, seeds_share_images

# So many weights are held at a time: 80 MB.
_AT_ONCE = 20_000_000


def resample(
    count: xr.DataArray,
    over: Sequence[str] = (),
    draws: int = 2000,
    seed: int = 0,
    *,
    alike: bool = False,
    loose: bool = False,
) -> xr.DataArray:
    """Return counts of resampled images along a new dimension `draw`.

    The images of each class are drawn with replacement, as many as there are: for counts, a multinomial draw from each row.
    `over` names dimensions (such as "seed") whose members are first drawn with replacement and then summed: images clustered
    in them are drawn cluster by cluster, one fewer than there are, each standing for so much more; `weights` says why. alike:
    the members were asked about the same images, of which counts do not tell who answered what; as if all had answered them
    alike, so many images are drawn as one of them was asked, which is cautious. What is drawn follows from the counts of a
    setting and the seed: it does not hang on what stands beside it.
    `loose` draws as if one more image of each class had been answered right and one wrong (Laplace's rule of succession), so
    that a class which is always right, or never, varies too.
    """
    for dim in over:
        if dim not in count.dims:
            raise UserError(f"cannot resample over {dim!r}: the counts have the dimensions {', '.join(map(str, count.dims))}")
    rest = [dim for dim in count.dims if dim not in (*over, "label", "predicted")]
    ordered = count.transpose(*rest, *over, "label", "predicted")
    values = ordered.values.reshape(*[count.sizes[dim] for dim in rest], -1, *ordered.shape[-2:])
    more = _one_more(ordered) if loose else np.zeros(ordered.shape[-2:])
    clusters, classes = values.shape[-3], values.shape[-2:]
    fewer = max(clusters - 1, 1)
    drawn = np.empty((draws, *values.shape[:-3], *classes), dtype=np.int64)
    size = max(1, _AT_ONCE // (10 * fewer * math.prod(classes)))
    for place in np.ndindex(values.shape[:-3]):
        own = values[place]
        rng = np.random.default_rng([seed, zlib.crc32(own.astype(float).tobytes())])
        chosen = rng.integers(clusters, size=(draws, fewer))
        for first in range(0, draws, size):
            some = own[chosen[first : first + size]]
            some = some.mean(1, keepdims=True) if alike else some
            drawn[(slice(first, first + size), *place)] = _redrawn(some, more, rng).sum(1)
    coords = {dim: count[dim] for dim in (*rest, "label", "predicted") if dim in count.coords}
    whole = drawn if alike or clusters == fewer else drawn * (clusters / fewer)
    return xr.DataArray(whole, dims=("draw", *rest, "label", "predicted"), coords=coords, name="count")


def _redrawn(values: np.ndarray, more: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return as many draws from each row, with `more` in it, as it sums to, rounded."""
    total = values.sum(-1, keepdims=True)
    seen = values + more * (total > 0)
    chance = np.divide(seen, seen.sum(-1, keepdims=True), out=np.full(values.shape, 1 / values.shape[-1]), where=total > 0)
    return rng.multinomial(np.rint(total[..., 0]).astype(np.int64), chance)


def _one_more(count: xr.DataArray) -> np.ndarray:
    """Return one right answer for each class, and one wrong one that is shared by the other classes."""
    same = (count.label == count.predicted).transpose("label", "predicted").values
    shared: np.ndarray = np.where(same, 1.0, 1.0 / max((~same).sum(1, keepdims=True).max(), 1))
    return shared


def evaluated(outcomes: xr.Dataset) -> xr.DataArray:
    """Return which images of which seed any of the runs was asked about: dimensions seed, image."""
    there = outcomes.truth >= 0
    found: xr.DataArray = there.any([dim for dim in there.dims if dim not in ("seed", "image")])
    return found.transpose("seed", "image")


def weights(outcomes: xr.Dataset, draws: int, seed: int = 0) -> np.ndarray:
    """Return how often each image of each seed is drawn, (places, draws): places are the true entries of `asked`, row by row.

    Seeds are drawn with replacement, and so are the images of each class, as many as there are. Where the seeds test on images of
    their own (folds), images are drawn within their seed; where they share them, the same draw of images serves all seeds, for
    what is odd about an image is so in each of them (Owen 2007, the pigeonhole bootstrap). Of several seeds one fewer is drawn,
    each standing for so much more: drawing all would show only (seeds - 1) / seeds of the variance between them (Rao and Wu
    1988). Seeds and images both being drawn, the spread is too wide where seeds hardly differ; what two or three seeds cannot
    tell is how far from all others they both happen to lie on one side.
    """
    rng, there = np.random.default_rng(seed), evaluated(outcomes).values
    seeds, count = len(there), there.sum()
    truth = outcomes.truth.max([dim for dim in outcomes.truth.dims if dim != "image"]).values
    fewer = max(seeds - 1, 1)
    often, stands_for = rng.multinomial(fewer, np.full(seeds, 1 / seeds), size=draws).T, seeds / fewer
    row, column = np.nonzero(there)
    weight = np.empty((count, draws), dtype=np.float32)
    if (there.sum(0) > 1).any():
        chosen = np.zeros((there.shape[1], draws), dtype=np.float32)
        for label in np.unique(truth[there.any(0)]):
            _draw(chosen, np.flatnonzero((truth == label) & there.any(0)), np.ones(draws, dtype=int), rng)
        weight[:] = chosen[column] * often[row]
        return weight * np.float32(stands_for)
    for place in range(seeds):
        for label in np.unique(truth[there[place]]):
            _draw(weight, np.flatnonzero((row == place) & (truth[column] == label)), often[place], rng)
    return weight * np.float32(stands_for)


def _draw(weight: np.ndarray, members: np.ndarray, times: np.ndarray, rng: np.random.Generator) -> None:
    """Draw the members with replacement, `times` as many as they are, and note how often each was."""
    size = len(members)
    weight[members] = rng.multinomial(times * size, np.full(size, 1 / size)).T


def sums(outcomes: xr.Dataset, values: Mapping[str, xr.DataArray], weight: np.ndarray | None = None) -> xr.Dataset:
    """Return count(..., label, predicted) and the sum of each of `values` in the same cells, with `draw` first if weighted.

    count: of the images of `label` answered as `predicted`. Images that are not there (truth -1) do not count.
    """
    there = evaluated(outcomes).values
    rest = [dim for dim in outcomes.truth.dims if dim not in ("seed", "image")]
    classes = outcomes.sizes["predicted"]
    flat = {name: _flat(outcomes[name], outcomes, rest)[..., there] for name in ("truth", "answer")}
    cells = np.where(flat["truth"] >= 0, flat["truth"].astype(int) * classes + flat["answer"], -1)
    ones = np.ones((there.sum(), 1), dtype=np.float32) if weight is None else weight
    found = {"count": _summed(cells, None, classes, ones)}
    for name, value in values.items():
        found[name] = _summed(cells, _flat(value, outcomes, rest)[..., there], classes, ones)
    shape = [outcomes.sizes[dim] for dim in rest]
    coords = {**{dim: outcomes[dim] for dim in rest if dim in outcomes.coords}, **_labels(outcomes)}
    dims = ("draw", *rest, "label", "predicted")
    data = {name: (dims, array.reshape(-1, *shape, classes, classes)) for name, array in found.items()}
    whole = xr.Dataset(data, coords)
    return whole.isel(draw=0) if weight is None else whole


def _flat(array: xr.DataArray, outcomes: xr.Dataset, rest: list[str]) -> np.ndarray:
    """Return an array as (settings, seed, image)."""
    like = outcomes.truth.transpose(*rest, "seed", "image")
    values = array.broadcast_like(like).transpose(*rest, "seed", "image").values
    return values.reshape(-1, *values.shape[-2:])


def _labels(outcomes: xr.Dataset) -> dict[str, tuple[str, np.ndarray]]:
    """Return the coordinates of classes, those along `predicted` also along `label`."""
    own = [name for name, array in outcomes.coords.items() if array.dims == ("predicted",) and name != "predicted"]
    names = outcomes.predicted.values
    coords = {"predicted": ("predicted", names), "label": ("label", names)}
    return coords | {str(name): ("label", outcomes[name].values) for name in own}


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


def bootstrap_sums(outcomes: xr.Dataset, values: Mapping[str, xr.DataArray], draws: int, seed: int = 0) -> Iterator[xr.Dataset]:
    """Yield the sums of drawn images, some draws at a time."""
    size = max(1, min(draws, _AT_ONCE // max(1, int(evaluated(outcomes).sum()))))
    for part, first in enumerate(range(0, draws, size)):
        yield sums(outcomes, values, weights(outcomes, min(size, draws - first), seed + part))


def add_pseudo_counts(outcomes: xr.Dataset, seed: int = 0, *, each: bool = False) -> xr.Dataset:
    """Return outcomes with two more images of each class for each setting: copies but in that one setting, right and wrong in it.

    As if one more image of each class had been answered right and one wrong there (Laplace's rule of succession), so that what
    never varies among the images at hand varies too; whatever else is known of an image is that of the one it was copied from.
    What a wrong one is taken for is drawn; with `each`, there is one for each other class, so that no mistake is left out.
    """
    rng, count, classes = np.random.default_rng(seed), outcomes.sizes["image"], outcomes.sizes["predicted"]
    there = outcomes.truth >= 0
    rest = [dim for dim in there.dims if dim not in ("seed", "image")]
    truth = outcomes.truth.max([dim for dim in there.dims if dim != "image"]).values
    settings = [*np.ndindex(*(outcomes.sizes[dim] for dim in rest))]
    asked_in = there.any("seed").transpose(*rest, "image").values
    places: list[int] = []
    changes: list[tuple[int, tuple[int, ...], int]] = []
    for label in np.unique(truth[truth >= 0]):
        for setting in settings:
            members = np.flatnonzero((truth == label) & asked_in[setting])
            # How far on from the true class the answer is, 0 where it is right; what -1 stands for is drawn below.
            for off in (range(classes) if each else (0, -1)) if len(members) else ():
                changes.append((count + len(places), setting, off))
                places.append(int(rng.choice(members)))
    whole = outcomes.isel(image=[*range(count), *places]).assign_coords(image=np.arange(count + len(places)))
    whole = whole.assign({name: whole[name].transpose(*rest, "seed", "image").copy() for name in ("truth", "answer", "flipped")})
    wrong = rng.integers(1, max(classes, 2), size=len(places))
    for (image, setting, off), some in zip(changes, wrong, strict=True):
        place = (*setting, slice(None), image)
        true = whole.truth.values[place]
        whole.answer.values[place] = np.where(true < 0, -1, (true + (some if off < 0 else off)) % classes)
        whole.flipped.values[place] = (true >= 0) & (off != 0)
    return whole.assign({name: whole[name].transpose(*outcomes[name].dims) for name in ("truth", "answer", "flipped")})


# Where a measure cannot lie outside, its interval does not either.
_RANGES = {
    "overall": (0, 100),
    "worst": (0, 100),
    "worst_k": (0, 100),
    "mcd": (0, 100),
    "cv": (0, 2500),
    "symmetry": (-1, 1),
}


def bootstrap(
    data: xr.DataArray | xr.Dataset,
    measure: Metric,
    over: Sequence[str] = (),
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
    *,
    alike: bool = False,
) -> xr.DataArray:
    """Return low, value and high of a measure along a new dimension `bound`, from a bootstrap over the images of each class.

    data: outcomes, whose seeds are pooled: images are drawn, and seeds as clusters, and an image that several seeds were asked
    about is drawn for all of them at once. Or counts; then `over` are the dimensions such as "seed" that are pooled and
    resampled as clusters, and `alike` says that their members share their images (`resample`). The basic (reverse percentile)
    interval is taken: the smallest class and the spread of classes are biased by sampling, and a percentile interval would add
    that bias a second time (Davison and Hinkley 1997, 5.2). Where the seeds do not differ, resampling both seeds and images is
    cautious: the interval is wider than it need be.

    A proportion has Wilson's interval: "overall" of a single cluster that one alone; over several clusters, and for the worst
    class, the wider end of either. Where no draw differs from any other, since every class is always right or never, the interval
    reaches as far as the measure would if one more image of each class had been answered right and one wrong.
    """
    if isinstance(data, xr.Dataset) and not seeds_share_images(data):
        seeds = ["seed"] if "seed" in data.dims else []
        return bootstrap(aggregate.counts(data), measure, seeds, level, draws, seed)
    single = not isinstance(data, xr.Dataset) and all(data.sizes[dim] == 1 for dim in over if dim in data.dims)
    if isinstance(data, xr.Dataset):
        whole, effect = pooled(data), design_effect(data)
        parts = (measure(some["count"] / effect) for some in bootstrap_sums(data, {}, draws, seed))
        drawn = xr.concat(list(parts), "draw")
    else:
        whole = data.mean(list(over)) if alike else data.sum(list(over))
        drawn = measure(resample(data, over, draws, seed, alike=alike))
    value = measure(whole)
    bottom, top = _RANGES.get(str(value.name), (-np.inf, np.inf))
    sure = _sure(measure, whole, level)
    ends = None if measure is overall and single else _basic(whole, measure, drawn, level, seed)
    low, high = (_wider(name, ends, sure) for name in ("low", "high"))
    # What sampling adds, taken off, may leave the value itself outside.
    bounds = [xr.ufuncs.minimum(low.clip(bottom, top), value), value, xr.ufuncs.maximum(high.clip(bottom, top), value)]
    found: xr.DataArray = xr.concat(bounds, dim="bound").assign_coords(bound=["low", "value", "high"])
    return found.rename(value.name)


def _basic(whole: xr.DataArray, measure: Metric, drawn: xr.DataArray, level: float, seed: int) -> xr.DataArray:
    """Return the ends of the basic interval of a measure of counts from its draws, of a looser one where nothing varies."""
    value = measure(whole)
    # What the estimator aims at in the world of the bootstrap: the resampled counts come from the observed rates.
    aim = cv(whole) if measure is cv_unbiased else value
    tails = [(1 - level) / 2, (1 + level) / 2]
    ends = (value - (drawn - aim).quantile(tails[::-1], dim="draw")).drop_vars("quantile").rename(quantile="bound")
    ends = ends.assign_coords(bound=["low", "high"])
    still = (drawn == drawn.isel(draw=0)).all("draw")
    if not bool(still.any()):
        return ends
    loose = measure(resample(whole, (), drawn.sizes["draw"], seed, loose=True)).quantile(tails, dim="draw")
    loose = loose.drop_vars("quantile").rename(quantile="bound").assign_coords(bound=["low", "high"])
    reached = xr.concat([xr.ufuncs.minimum(loose.isel(bound=0), value), xr.ufuncs.maximum(loose.isel(bound=1), value)], "bound")
    return ends.where(~still, reached)


def _sure(measure: Metric, whole: xr.DataArray, level: float) -> xr.DataArray | None:
    """Return Wilson's interval where a measure is a proportion: of all images, or of those of the worst class."""
    if measure is overall:
        return wilson_bounds(correct(whole).sum("label"), images(whole).sum("label"), level)
    if measure is worst:
        return wilson(whole, level).isel(label=accuracy(whole).fillna(0).argmin("label")).drop_vars("label")
    return None


def _wider(name: str, *ends: xr.DataArray | None) -> xr.DataArray:
    """Return the lowest "low", or the highest "high", of intervals."""
    there = xr.concat([one.sel(bound=name, drop=True) for one in ends if one is not None], "of")
    return there.min("of") if name == "low" else there.max("of")
