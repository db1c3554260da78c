"""Similarity and variance of the features of classes, with intervals from resampled blocks of images.

Entropy 2022, section 1.1: the similarity of a class is the largest cosine between its mean features and those of another class,
its variance that of its features. Sampling lengthens a mean by its variance over the number of images, which lowers cosines;
`similarity` can correct this.
"""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.core.results import MISSING
from classwise.stats.intervals import interval_bounds

# The sums of a block of images, of schema "features 2".
SUMS = ("total", "square", "images")
# Takes what `statistics` returns.
Measure = Callable[[xr.Dataset], xr.DataArray]
# Number of values held at a time: 80 MB.
_AT_ONCE = 20_000_000


def blocks_of(truth: np.ndarray, index: np.ndarray, count: int) -> np.ndarray:
    """Return the block of each image, from 0 to count - 1: the images of each class are dealt in the order of their index."""
    place = pd.Series(index).groupby(truth).rank("first").to_numpy(dtype=np.int64) - 1
    return np.asarray(place % count)


def block_count(truth: np.ndarray) -> int:
    """Return the number of blocks: 20, or a quarter of the images of the smallest class where that is less; at least 1."""
    smallest = int(np.unique(truth, return_counts=True)[1].min())
    return max(1, min(20, smallest // 4))


def add_blocks(outcomes: xr.Dataset, features: xr.Dataset) -> xr.Dataset:
    """Return outcomes with the sums of the features of some of their settings, and `block_of` (seed, image).

    outcomes, features: of the same runs, along the same dimensions; without the settings (attacks) that have no features, the
    sums have none: NaN, and 0 images. block_of: the block of each image, -1 where no run was evaluated on it.
    """
    both = outcomes, features[list(SUMS)]
    outcomes, sums = (some if "seed" in some.dims else some.expand_dims(seed=[0]) for some in both)
    sums = sums.reindex({dim: outcomes[dim] for dim in sums.images.dims if dim in outcomes.dims}, fill_value=MISSING)
    number = (sums.images > 0).sum("block").max([dim for dim in sums.images.dims if dim not in ("seed", "block")])
    return outcomes.assign({**sums.data_vars, "block_of": assign_blocks(outcomes, number.clip(min=1))})


def assign_blocks(outcomes: xr.Dataset, count: xr.DataArray | int) -> xr.DataArray:
    """Return the block of each image of outcomes, along seed and image; -1 where no run was evaluated on it.

    count: the number of blocks, of each seed or of all.
    """
    truth = outcomes.truth.max([dim for dim in outcomes.truth.dims if dim not in ("seed", "image")]).transpose("seed", "image")
    block_of, index = np.full(truth.shape, -1, dtype=np.int16), outcomes.image.values
    for row, labels, blocks in zip(block_of, truth.values, np.broadcast_to(count, len(truth)), strict=True):
        here = labels >= 0
        row[here] = blocks_of(labels[here], index[here], int(blocks))
    result: xr.DataArray = truth.copy(data=block_of).rename("block_of")
    return result


def block_sums(values: xr.DataArray, truth: xr.DataArray, block_of: xr.DataArray, labels: np.ndarray, count: int) -> xr.Dataset:
    """Return the sums (SUMS) of values of each class by block, as if these were features.

    values: along image and feature. truth: the class of each image, along image and other dimensions, below 0 of those that do
    not count. block_of: as of `assign_blocks`, of so many blocks. labels: the names of the classes.
    """
    rest = [str(dim) for dim in truth.dims if dim != "image"]
    aligned = xr.broadcast(truth, block_of, values, exclude=["feature"])
    truth, block_of, values = (some.transpose(*rest, "image", ...) for some in aligned)
    here = truth.values >= 0
    kept, cell = values.values[here], (*np.nonzero(here)[:-1], block_of.values[here], truth.values[here])
    shape = (*here.shape[:-1], count, len(labels))
    sums = {"total": np.zeros((*shape, values.sizes["feature"])), "square": np.zeros(shape), "images": np.zeros(shape)}
    for name, added in {"total": kept, "square": (kept**2).sum(1), "images": 1}.items():
        np.add.at(sums[name], cell, added)
    dims, known = (*rest, "block", "label", "feature"), {dim: truth[dim] for dim in rest}
    coords = {**known, "block": range(count), "label": labels, "feature": range(values.sizes["feature"])}
    return xr.Dataset({name: (dims[: array.ndim], array) for name, array in sums.items()}, coords)


# Larger images count as means over squares, so many along each side.
_SQUARES = 8


def add_pixels(outcomes: xr.Dataset, images: xr.Dataset) -> xr.Dataset:
    """Return outcomes of `add_blocks` with the sums of pixels in the same blocks, as if these were features.

    images: the pixels (image, channel, row, column) of all their images. pixel_total (seed, block, label, feature) and
    pixel_square (seed, block, label) are added; images of 16 pixels and more along a side are first averaged over squares.
    """
    pixels = images.pixels.reindex(image=outcomes.image)
    side = {dim: max(1, pixels.sizes[dim] // _SQUARES) for dim in ("row", "column")}
    values = pixels.coarsen(side, boundary="trim").mean().stack(feature=("channel", "row", "column"), create_index=False)
    truth = outcomes.truth.max([dim for dim in outcomes.truth.dims if dim not in ("seed", "image")])
    here = truth.where(outcomes.block_of >= 0, -1)
    sums = block_sums(values, here, outcomes.block_of, outcomes.predicted.values, outcomes.sizes["block"])
    added = sums[["total", "square"]].rename(total="pixel_total", square="pixel_square")
    # Networks and images differ in the number of features.
    return xr.merge([outcomes, added], join="outer", compat="override", combine_attrs="override", fill_value=MISSING)


def complete_seeds(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes of the seeds of which all runs have features; NotRecorded if there is none."""
    if "images" in outcomes:
        present = (outcomes.images > 0).any([dim for dim in outcomes.images.dims if dim not in ("defence", "seed")])
        complete = present.all([dim for dim in present.dims if dim != "seed"])
        if bool(complete.any()):
            return outcomes.isel(seed=np.flatnonzero(complete))
    raise NotRecorded("no seed has the features of all runs", "with features")


def select_sums(outcomes: xr.Dataset) -> xr.Dataset:
    """Return the sums of features that outcomes hold (`add_blocks`), with count(..., block, label, predicted) of their images.

    NotRecorded if they hold none. The attribute `shared_images` says whether the seeds were evaluated on the same images ("yes"
    or "").
    """
    if "total" not in outcomes:
        raise NotRecorded("no features of these runs are recorded")
    rest = [dim for dim in outcomes.truth.dims if dim not in ("seed", "image")]
    block_of = outcomes.block_of.max([dim for dim in outcomes.block_of.dims if dim not in ("seed", "image")])
    truth, prediction = (outcomes[name].transpose(*rest, "seed", "image").values for name in ("truth", "prediction"))
    present, classes, size = truth >= 0, outcomes.sizes["predicted"], outcomes.sizes["block"]
    block = np.broadcast_to(block_of.transpose("seed", "image").values, truth.shape)
    count = np.zeros((*truth.shape[:-1], size, classes, classes), dtype=int)
    np.add.at(count, (*np.nonzero(present)[:-1], block[present], truth[present], prediction[present]), 1)
    names = outcomes.predicted.values
    result = outcomes[list(SUMS)].reindex(label=names, fill_value=MISSING)
    # Networks may have further outcomes along dimensions in which the features do not differ.
    further = {dim: outcomes[dim].values for dim in rest if dim in outcomes.coords} | {"predicted": names}
    result = result.assign(count=((*rest, "seed", "block", "label", "predicted"), count)).assign_coords(further)
    shared = outcomes.sizes["seed"] > 1 and bool((present.any(tuple(range(len(rest)))).sum(0) > 1).any())
    return result.assign_attrs(outcomes.attrs, shared_images="yes" if shared else "")


def statistics(data: xr.Dataset) -> xr.Dataset:
    """Return the statistics of the features of each class from their sums by block; all other dimensions are kept.

    Parameters
    ----------
    data
        as `runs.features` or `select_sums` returns it.

    Returns
    -------
    xarray.Dataset
        mean (label, feature); variance (label), unbiased, the mean over the features; trace (label), their sum; images (label);
        gram (label, other), the products of the means of two classes; error (label), the squared distance of the mean from the
        true one that sampling is expected to cause; and, where `data` has it, count (label, predicted).
    """
    images = data.images.sum("block")
    mean = data.total.fillna(0).sum("block") / images.where(images > 0)
    gram = mean.dot(mean.rename(label="other"), dim="feature").where(mean.isel(feature=0, drop=True).notnull())
    gram = gram.where(images.rename(label="other") > 0)
    square = data.square.fillna(0).sum("block")
    result = _statistics(gram, square, images, data.sizes["feature"], noise=1).assign(mean=mean)
    return result.assign(count=data["count"].sum("block")) if "count" in data else result


def _statistics(gram: xr.DataArray, square: xr.DataArray, images: xr.DataArray, features: int, noise: int) -> xr.Dataset:
    """Return statistics; noise: how often the means have been sampled, 2 of drawn blocks."""
    total = images.where(images > noise)
    trace = (square / total - _squared_length(gram)) / (1 - noise / total)
    error = noise * trace / total
    return xr.Dataset({"variance": trace / features, "trace": trace, "images": images, "gram": gram, "error": error})


def _squared_length(gram: xr.DataArray) -> xr.DataArray:
    same = gram.label == gram.other
    return gram.where(same).max("other")


# Most claims of a section, and charts of its page, take the same draws.
_DRAWN: dict[tuple[str, int, int, bool], xr.Dataset] = {}


def resample(data: xr.Dataset, draws: int, seed: int = 0, *, redraw_seeds: bool = True) -> xr.Dataset:
    """Return the statistics of resampled blocks, along a new first dimension `draw`, without `mean`.

    Seeds are drawn with replacement, and so are the blocks of each class: within their seed where the seeds have different
    images, else once for all seeds. One seed and one block fewer than present are drawn (Rao and Wu 1988). `seed` numbers those
    that were drawn. The error of a mean is twice that of `statistics`, for it is sampled twice. draws: their number. seed: of the
    random numbers. Without `redraw_seeds` each draw has all seeds.
    """
    from dask.base import tokenize  # slow to import

    key = tokenize(data), draws, seed, redraw_seeds
    if key not in _DRAWN:
        last = {"total": ["feature"], "square": [], "images": []} | ({"count": ["predicted"]} if "count" in data else {})
        sums = {name: data[name].transpose("seed", "label", "block", ..., *dims).fillna(0) for name, dims in last.items()}
        size = max(1, _AT_ONCE // sum(array.isel(block=0).size for array in sums.values()))
        rng, shared = np.random.default_rng(seed), bool(data.attrs.get("shared_images"))
        chosen = np.tile(np.arange(data.sizes["seed"]), (draws, 1))
        if redraw_seeds:
            chosen = rng.integers(data.sizes["seed"], size=(draws, max(data.sizes["seed"] - 1, 1)))
        parts = [_redrawn(sums, chosen[first : first + size], rng, shared=shared) for first in range(0, draws, size)]
        if len(_DRAWN) == 4:
            del _DRAWN[next(iter(_DRAWN))]
        _DRAWN[key] = xr.concat(parts, "draw")
    return _DRAWN[key].copy()


def _redrawn(sums: Mapping[str, xr.DataArray], chosen: np.ndarray, rng: np.random.Generator, *, shared: bool) -> xr.Dataset:
    """Return the statistics of draws from sums (seed, label, block, ...) of blocks; chosen: the seeds of each draw."""
    images = sums["images"]
    present = (images > 0).any(images.dims[3:]).values
    weight = _block_weights(present, chosen, rng, shared=shared)
    drawn = {}
    for name, array in sums.items():
        # Features take half the memory; equal counts of predictions are equal whatever the order in which a processor adds them.
        values = array.values.reshape(*array.shape[:3], -1).astype(np.float64 if name == "count" else np.float32)
        total = np.empty((*chosen.shape, values.shape[1], values.shape[3]), values.dtype)
        for place, label in np.ndindex(values.shape[:2]):
            which = chosen == place
            total[which, label] = weight[which, label].astype(values.dtype) @ values[place, label]
        like = array.isel(seed=0, block=0, drop=True)
        coords = {dim: like[dim] for dim in like.dims if dim in like.coords}
        drawn[name] = xr.DataArray(total.reshape(*chosen.shape, *like.shape), coords, ("draw", "seed", *like.dims))
    data = xr.Dataset(drawn).transpose("draw", ..., "seed", "label", "predicted", "feature", missing_dims="ignore")
    mean = (data.total / data.images.where(data.images > 0)).drop_vars("feature", errors="ignore")
    into, out = [["label", "feature"]], [["label", "other"]]
    gram = xr.apply_ufunc(lambda some: some @ some.swapaxes(-1, -2), mean, input_core_dims=into, output_core_dims=out)
    # With what else these dimensions are called by.
    further = {dim: images[dim] for dim in images.dims[3:] if dim in images.coords}
    gram = gram.assign_coords(further | {"other": data.label.values})
    result = _statistics(gram, data.square, data.images, mean.sizes["feature"], noise=2)
    return result.assign(count=data["count"]) if "count" in data else result


def _block_weights(present: np.ndarray, chosen: np.ndarray, rng: np.random.Generator, *, shared: bool) -> np.ndarray:
    """Return how often each block is drawn: (draws, drawn seeds, label, block), scaled so that all blocks count fully."""
    weight = np.zeros((*chosen.shape, *present.shape[1:]))
    for place, label in np.ndindex(*present.shape[:2]):
        blocks = np.flatnonzero(present[:, label].any(0) if shared else present[place, label])
        if not len(blocks) or (shared and place):
            continue
        draw, slot = np.nonzero(chosen == place)
        fewer, chances = max(len(blocks) - 1, 1), np.full(len(blocks), 1 / len(blocks))
        times = rng.multinomial(fewer, chances, size=len(chosen) if shared else len(draw)) * (len(blocks) / fewer)
        if shared:
            weight[:, :, label, blocks] = times[:, None]
        else:
            weight[draw[:, None], slot[:, None], label, blocks] = times
    return weight


def interval(data: xr.Dataset, measure: Measure, level: float = 0.95, draws: int = 1000, seed: int = 0) -> xr.DataArray:
    """Return low, value and high of a measure of the statistics, along a new dimension `bound`.

    The interval is the basic one of `resample`, wide enough to contain the value; NaN where a class has a single block, or no
    draw a value. data: as of `statistics`.
    """
    value, redrawn = measure(statistics(data)), measure(resample(data, draws, seed))
    # A measure may have no value in any draw: a correlation with what is constant.
    some = redrawn.notnull().any("draw")
    ends_of_draws = redrawn.where(some, 0).quantile([(1 - level) / 2, (1 + level) / 2], "draw")
    high, low = (2 * value - ends_of_draws.isel(quantile=place, drop=True) for place in (0, 1))
    known = some & can_resample(data)
    return interval_bounds(low.where(known), value, high.where(known))


def can_resample(data: xr.Dataset) -> bool:
    """Return whether each class has more than one block, so that resampling shows how its features vary."""
    number = (data.images > 0).sum("block")
    return bool((number.where(number > 0) != 1).all())


def similarity(statistics: xr.Dataset, *, centred: bool = False, debiased: bool = False) -> xr.DataArray:
    """Return the cosines between the mean features of classes, dimensions label and other (Entropy 2022, section 1.1).

    centred: of the means less the mean of all classes, which an offset that they share does not change. debiased: with the
    squared lengths less what sampling adds to them; it may be above 1, and is NaN where nothing is left.
    """
    gram = statistics.gram
    if debiased:
        gram = gram - statistics.error.where(gram.label == gram.other, 0)
    if centred:
        gram = gram - gram.mean("other") - gram.mean("label") + gram.mean(["label", "other"])
    square = _squared_length(gram)
    length = square.where(square > 0) ** 0.5
    cosine: xr.DataArray = gram / length / length.rename(label="other")
    return cosine.rename("similarity")


def nearest(similarity: xr.DataArray) -> xr.DataArray:
    """Return the largest cosine of each class with another one."""
    return similarity.where(similarity.label != similarity.other).max("other").rename("similarity")


def relative_variance(statistics: xr.Dataset) -> xr.DataArray:
    """Return the variance of each class, summed over the features, over the squared length of its true mean: free of scale."""
    square = _squared_length(statistics.gram) - statistics.error
    relative: xr.DataArray = statistics.trace / square.where(square > 0)
    return relative.rename("relative variance")
