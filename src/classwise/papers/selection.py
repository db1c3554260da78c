"""Classes selected on other images than those that judge them: the validation images of trainings of PGD-AT."""

import xarray as xr

from classwise.papers.scales import selection_seeds
from classwise.stats import metrics


def by_robustness(history: xr.Dataset, dataset: str) -> tuple[str, ...]:
    """Return the classes from the least to the most robust one on the validation images.

    After the last epoch, under the attack that measures them; the images of `scales.selection_seeds` are pooled, of all seeds
    where none of these is present. history: of `runs.history`, of one defence.
    """
    count = history["count"].isel(epoch=-1).sel(split="valid")
    seeds = [seed for seed in count.seed.values if seed in selection_seeds(dataset)] or list(count.seed.values)
    probe = next(name for name in count.attack.values if name != "clean")
    over = [dim for dim in count.dims if dim not in ("label", "predicted", "attack")]
    rates = metrics.accuracy(count.sel(attack=probe, seed=seeds).sum(over)).to_series().sort_values(kind="stable")
    return tuple(map(str, rates.index))
