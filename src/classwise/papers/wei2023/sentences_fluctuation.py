"""The findings of the page on fluctuation, each in a sentence with its number and its 95 % interval."""

import xarray as xr

from classwise.core.markup import counted
from classwise.papers.findings import interval, sample
from classwise.papers.wei2023 import fluctuation
from classwise.papers.wei2023.fluctuation import ON_TEST
from classwise.stats import bootstrap, metrics


def worst_class(outcomes: xr.Dataset, draws: int = 1000) -> str:
    """Return by how much the worst class changes from epoch to epoch, compared with all images and with a class.

    outcomes: of `fluctuation.by_epoch`.
    """

    def beyond(count: xr.DataArray) -> xr.DataArray:
        sums = count.to_dataset(name="count")
        return xr.concat([fluctuation.worst_beyond_overall(sums), fluctuation.worst_beyond_a_class(sums)], "of")

    all_images, a_class = bootstrap.paired(outcomes, beyond, draws=draws).transpose("of", "bound")
    sums = bootstrap.sums(outcomes, {})
    worst, overall = (float(fluctuation.mean_change(sums, measure)) for measure in (metrics.worst, metrics.overall))
    side, of_a_class = _side(all_images), _side(a_class)
    start = f"The worst class changes {side} than all images together"
    start = start if side else "It is open whether the worst class changes more than all images together"
    compared = f"{of_a_class} than" if of_a_class else "neither significantly more nor less than"
    return (
        f"**{start}: from one epoch to the next, its robust accuracy changes by {worst:.1f} points on average, the overall one "
        f"by {overall:.1f}; the difference is {interval(all_images, 'points', 1)}.** A class changes by "
        f"{float(fluctuation.change_of_a_class(sums)):.1f} points on average, and the worst class {compared} that: the "
        f"difference is {interval(a_class, 'points', 1)}. {sample(outcomes)}"
    )


def _side(bounds: xr.DataArray) -> str:
    """Return whether an interval lies above 0 ("more"), below it ("less") or neither ("")."""
    low, high = (float(bounds.sel(bound=end)) for end in ("low", "high"))
    return "more" if low > 0 else "less" if high < 0 else ""


def selection_on_test(outcomes: xr.Dataset, draws: int = 1000) -> str:
    """Return how much higher the worst class is if its epoch is selected on the test images, by the sum as the paper does.

    outcomes: of `fluctuation.choices`.
    """

    def optimism(count: xr.DataArray) -> xr.DataArray:
        return fluctuation.between_choices(count.to_dataset(name="count"), metrics.worst, "sum", f"sum{ON_TEST}")

    bounds = bootstrap.paired(outcomes, optimism, draws=draws)
    return (
        f"**Selected on the test images, as by the code of the paper**, the epoch best by the sum has a worst class that is "
        f"{interval(bounds, 'points', 1)} more robust than if it is selected on validation images."
    )


def gate(history: xr.Dataset) -> str:
    """Return how many epochs FAWA rejected in each run, and when the last one was: history of one defence."""
    taken = history.taken.isel(defence=0).sel(average="fawa")
    tried = fluctuation.validated(history).epoch
    parts = []
    for seed in history.seed.values:
        rejected = tried[~taken.sel(seed=seed, epoch=tried).values].values
        last = f", the last one epoch {rejected[-1]}" if len(rejected) else ""
        parts.append(f"{len(rejected)} of {counted(len(tried), 'epoch')} (seed {seed}{last})")
    return f"**Epochs that FAWA rejected**: {'; '.join(parts)}."
