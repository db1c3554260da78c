"""Do two networks find the same classes hard? Correlations of class profiles, one half of the images against the other.

The profile of a network is its accuracy of each class, in percent. All networks are evaluated on the same images, and an odd
image is odd for all of them: profiles of the same images correlate even where the classes do not differ. So the profile of one
network is that of one half of the images, and that of the other network of the other half. Few images lower a correlation;
`corrected` divides by the reliability of the two profiles (Spearman 1904).
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import xarray as xr

from classwise.papers.judging import interval_ends
from classwise.stats import aggregate

# Takes profiles (..., half, label) and gives one number or several for each draw.
Measure = Callable[[xr.DataArray], xr.DataArray]
# Number of weights held at a time: 80 MB.
_AT_ONCE = 20_000_000
_HALVES = ("first", "second")


def profiles(outcomes: xr.Dataset, along: str = "setting") -> xr.DataArray:
    """Return the accuracy of each class in each half of the images, in percent: dimensions `along`, half and label.

    outcomes: of one attack and defence, along `along`, image and possibly seed, which is pooled. Of images that only some of the
    networks of a seed were evaluated on, none counts. NaN for a class without images.
    """
    return _Halves(outcomes, along).profiles()


def drawn_profiles(outcomes: xr.Dataset, along: str = "setting", draws: int = 1000, seed: int = 0) -> xr.DataArray:
    """Return `profiles` of redrawn images along a new first dimension `draw`.

    The images of each class and half are drawn with replacement, those of each fold by themselves, once for all networks and
    seeds. Networks are not redrawn, so the draws say nothing of other trainings, and a single seed suffices.
    """
    return xr.concat([*_Halves(outcomes, along).drawn(draws, seed)], "draw")


class _Halves:
    """Right and evaluated predictions of each image, summed over the seeds, and the images that are drawn together."""

    def __init__(self, outcomes: xr.Dataset, along: str) -> None:
        single = [dim for dim in outcomes.truth.dims if dim not in (along, "seed", "image")]
        seeded = outcomes.isel(dict.fromkeys(single, 0), drop=True)
        seeded = seeded if "seed" in seeded.dims else seeded.expand_dims(seed=[0])
        present = seeded.truth >= 0
        kept = (present | ~present.any("image")).all(along)
        seeded = seeded.assign(truth=seeded.truth.where(kept, -1))
        present = (seeded.truth >= 0).transpose(along, "seed", "image")
        self.along, self.names, self.labels = along, seeded[along].values, seeded.predicted.values
        self.total = present.sum("seed").values.astype(np.float32)
        self.right = (present & (seeded.answer == seeded.truth)).sum("seed").transpose(along, "image").values.astype(np.float32)
        self.truth = seeded.truth.max([along, "seed"]).values
        second = aggregate.halved(seeded).truth.sel(half="second") >= 0
        self.half = second.any([along, "seed"]).values.astype(int)
        # The seeds whose fold has the image: images of different folds are not exchangeable.
        folds = present.any(along).transpose("image", "seed").values
        self.fold = np.unique(folds, axis=0, return_inverse=True)[1].reshape(-1)

    def _cells(self) -> Iterator[tuple[int, int, np.ndarray]]:
        for half in range(len(_HALVES)):
            for label in range(len(self.labels)):
                yield half, label, np.flatnonzero((self.truth == label) & (self.half == half))

    def _array(self, values: np.ndarray, *first: str) -> xr.DataArray:
        coords = {self.along: self.names, "half": list(_HALVES), "label": self.labels}
        return xr.DataArray(values, dims=(*first, self.along, "half", "label"), coords=coords, name="profile")

    def profiles(self) -> xr.DataArray:
        values = np.full((len(self.names), len(_HALVES), len(self.labels)), np.nan)
        for half, label, members in self._cells():
            values[:, half, label] = _share(self.right[:, members].sum(1), self.total[:, members].sum(1))
        return self._array(values)

    def drawn(self, draws: int, seed: int) -> Iterator[xr.DataArray]:
        rng = np.random.default_rng(seed)
        most = max(1, _AT_ONCE // max(1, len(self.truth)))
        for first in range(0, draws, most):
            number = min(most, draws - first)
            values = np.full((number, len(self.names), len(_HALVES), len(self.labels)), np.nan)
            for half, label, members in self._cells():
                weight = self._weights(members, number, rng)
                sums = [(some[:, members] @ weight).T for some in (self.right, self.total)]
                values[:, :, half, label] = _share(*sums)
            yield self._array(values, "draw")

    def _weights(self, members: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
        """Return how often each of some images is drawn: (image, draw)."""
        weight = np.zeros((len(members), draws), dtype=np.float32)
        for fold in np.unique(self.fold[members]):
            here = np.flatnonzero(self.fold[members] == fold)
            weight[here] = rng.multinomial(len(here), np.full(len(here), 1 / len(here)), size=draws).T
        return weight


def _share(right: np.ndarray, total: np.ndarray) -> np.ndarray:
    return np.divide(100 * right, total, out=np.full(total.shape, np.nan), where=total > 0)


def cross_half(profiles: xr.DataArray, along: str = "setting") -> xr.DataArray:
    """Return the correlation of the profile of each member of `along` in one half with that of each other one in the other half.

    The mean of both directions, dimensions `along` and other; on the diagonal it is the split-half reliability of a profile. NaN
    where a profile does not vary, or a class has no images.
    """
    first, second = (profiles.sel(half=half, drop=True) for half in _HALVES)
    forth, back = (_correlation(one, two.rename({along: "other"})) for one, two in ((first, second), (second, first)))
    return ((forth + back) / 2).rename("cross_half")


def _correlation(one: xr.DataArray, two: xr.DataArray) -> xr.DataArray:
    off = [some - some.mean("label", skipna=False) for some in (one, two)]
    lengths = [(some**2).sum("label", skipna=False) for some in off]
    both = (lengths[0] * lengths[1]) ** 0.5
    correlation: xr.DataArray = (off[0] * off[1]).sum("label", skipna=False) / both.where(both > 1e-9)
    return correlation


def reliability(profiles: xr.DataArray, along: str = "setting") -> xr.DataArray:
    """Return the correlation of the two halves of each profile, along `along`: what chance leaves of a perfect agreement."""
    first, second = (profiles.sel(half=half, drop=True) for half in _HALVES)
    return _correlation(first, second).rename("reliability")


def corrected(profiles: xr.DataArray, along: str = "setting") -> xr.DataArray:
    """Return `cross_half` over the root of both reliabilities, at most 1 and at least -1: what many images would show.

    NaN where a reliability is not above 0: such a profile does not differ from one of equal classes by more than chance.
    """
    sure = reliability(profiles, along)
    root = sure.where(sure > 0) ** 0.5
    shown = (cross_half(profiles, along) / (root * root.rename({along: "other"}))).clip(-1, 1)
    return shown.rename("corrected")


def deficit(profiles: xr.DataArray, along: str = "setting") -> xr.DataArray:
    """Return by how many points the weakest class of each member of `along` is below the mean of all classes in each other one.

    The class is chosen on one half of the images and judged on the other, the mean of both directions: 0 by chance, dimensions
    `along` (which chooses) and other (which is judged).
    """
    first, second = (profiles.sel(half=half, drop=True) for half in _HALVES)
    return ((_below(first, second, along) + _below(second, first, along)) / 2).rename("deficit")


def _below(chooser: xr.DataArray, judged: xr.DataArray, along: str) -> xr.DataArray:
    weakest = chooser.fillna(np.inf).argmin("label")
    off = (judged.mean("label", skipna=False) - judged).rename({along: "other"})
    return off.isel(label=weakest).drop_vars("label")


def interval(
    outcomes: xr.Dataset, measure: Measure, along: str = "setting", level: float = 0.95, draws: int = 1000, seed: int = 0
) -> xr.DataArray:
    """Return low, value and high of a measure of `profiles`, along a new dimension `bound`.

    The interval is that of `drawn_profiles`: the halves are redrawn independently, so their covariance keeps its mean. Draws
    without a value count against both ends, which are infinite where there are too many of them.
    """
    value, drawn = measure(profiles(outcomes, along)), measure(drawn_profiles(outcomes, along, draws, seed))
    return bounds_of(value, drawn, level)


def bounds_of(value: xr.DataArray, drawn: xr.DataArray, level: float = 0.95) -> xr.DataArray:
    """Return low, value and high of draws of a measure along a new dimension `bound`; the interval contains the value."""
    last = drawn.transpose("draw", *value.dims)
    flat = last.values.reshape(last.sizes["draw"], -1).astype(float)
    ends = np.array([interval_ends(column, (1 - level) / 2) for column in flat.T]).reshape(*value.shape, 2)
    low, high = (value.copy(data=ends[..., place]) for place in (0, 1))
    some = [xr.ufuncs.minimum(low, value.fillna(np.inf)), value, xr.ufuncs.maximum(high, value.fillna(-np.inf))]
    return xr.concat(some, "bound").assign_coords(bound=["low", "value", "high"])


def permutation_p(
    profiles: xr.DataArray, base: str, others: Sequence[str], along: str = "setting", draws: int = 2000, seed: int = 0
) -> float:
    """Return the chance that random classes agree as much with `base` as those of the others: the one-sided p-value.

    The measure is the mean `cross_half` of the others with `base`, whose classes are permuted, both halves alike. It tests whether
    ten classes could agree by chance, where an interval of redrawn images takes the classes as given.
    """
    rng, size = np.random.default_rng(seed), profiles.sizes["label"]
    orders = np.stack([np.arange(size), *(rng.permutation(size) for _ in range(draws))])
    kept = profiles.sel({along: list(others)}).transpose(along, "half", "label")
    shuffled = profiles.sel({along: base}, drop=True).transpose("half", "label").values[:, orders]
    permuted = xr.DataArray(shuffled, dims=("half", "draw", "label"), coords={"half": profiles.half, "label": profiles.label})
    first, second = (kept.sel(half=half, drop=True) for half in _HALVES)
    means = [
        _correlation(one, permuted.sel(half=half, drop=True)).mean(along)
        for one, half in ((first, _HALVES[1]), (second, _HALVES[0]))
    ]
    chances = ((means[0] + means[1]) / 2).values
    return float((1 + (chances[1:] >= chances[0] - 1e-12).sum()) / (1 + draws))
