"""Counts as chance might have made them: of other images of the same kind, of mistakes that go anywhere."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from classwise.errors import UserError
from classwise.metrics import misclassified


def resample(
    count: xr.DataArray, over: Sequence[str] = (), draws: int = 2000, seed: int = 0, *, loose: bool = False
) -> xr.DataArray:
    """Return counts of resampled images along a new dimension `draw`.

    The images of each class are drawn with replacement, as many as there are: for counts, a multinomial draw from each row.
    `over` names dimensions (such as "seed") whose members are first drawn with replacement and then summed: images clustered
    in them are drawn cluster by cluster. `loose` draws as if one more image of each class had been answered right and one wrong
    (Laplace's rule of succession), so that a class which is always right, or never, varies too.
    """
    rng = np.random.default_rng(seed)
    for dim in over:
        if dim not in count.dims:
            raise UserError(f"cannot resample over {dim!r}: the counts have the dimensions {', '.join(map(str, count.dims))}")
    rest = [dim for dim in count.dims if dim not in (*over, "label", "predicted")]
    ordered = count.transpose(*rest, *over, "label", "predicted")
    values = ordered.values.reshape(*[count.sizes[dim] for dim in rest], -1, *ordered.shape[-2:]).astype(np.int64)
    clusters = values.shape[-3]
    chosen = rng.integers(clusters, size=(draws, clusters)) if clusters > 1 else np.zeros((draws, 1), dtype=int)
    total = values.sum(-1)
    full = total[..., None] > 0
    seen = values + _one_more(ordered) * full if loose else values
    chance = np.divide(seen, seen.sum(-1, keepdims=True), out=np.full(values.shape, 1 / values.shape[-1]), where=full)
    drawn = np.empty((draws, *values.shape[:-3], *values.shape[-2:]), dtype=np.int64)
    for draw, members in enumerate(chosen):
        drawn[draw] = rng.multinomial(total[..., members, :], chance[..., members, :, :]).sum(-3)
    coords = {dim: count[dim] for dim in (*rest, "label", "predicted") if dim in count.coords}
    return xr.DataArray(drawn, dims=("draw", *rest, "label", "predicted"), coords=coords, name="count")


def _one_more(count: xr.DataArray) -> np.ndarray:
    """Return one right answer for each class, and one wrong one that is shared by the other classes."""
    same = (count.label == count.predicted).transpose("label", "predicted").values
    shared: np.ndarray = np.where(same, 1.0, 1.0 / max((~same).sum(1, keepdims=True).max(), 1))
    return shared


def deal(count: xr.DataArray, draws: int, seed: int) -> xr.DataArray:
    """Return misclassified confusions whose rows are shuffled off the diagonal, along a new dimension `draw`.

    Each class keeps how often it is mistaken and how unequally; only the partners are made random.
    """
    mixed = misclassified(count).transpose("label", "predicted")
    size, rng = mixed.sizes["label"], np.random.default_rng(seed)
    off = ~np.eye(size, dtype=bool)
    rows = mixed.values[off].reshape(size, size - 1)
    dealt = np.zeros((draws, size, size))
    dealt[:, off] = rng.permuted(np.broadcast_to(rows, (draws, size, size - 1)), axis=2).reshape(draws, -1)
    return xr.DataArray(dealt, dims=("draw", "label", "predicted"), coords=mixed.coords)
