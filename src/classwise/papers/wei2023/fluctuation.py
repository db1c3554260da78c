"""How robust accuracy changes from epoch to epoch (Wei et al. 2023, sections 3.3 and 4.3).

Outcomes have here the dimension `run`, a member for each seed, in which only images of this seed are present: a bootstrap draws
seeds, but the counts of two trainings are never added up, which would cancel some of their changes. Measures are means over the
runs, in points.
"""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import xarray as xr

from classwise.stats import aggregate, bootstrap, metrics
from classwise.stats.metrics import Metric

# The last twelve epochs in their order, by the names of their checkpoints.
LAST12 = (*(f"last-{back}" for back in range(11, 0, -1)), "last")
# What is evaluated of each epoch, by the start of the names of its checkpoints.
WEIGHTS = {"plain": "last", "ema": "ema", "fawa": "fawa"}
_KEPT = ["truth", "answer", "flipped"]
_SETTING = {"defence": 0, "attack": 0}


def _average_plus_worst(count: xr.DataArray) -> xr.DataArray:
    return metrics.overall(count) + metrics.worst(count)


# The measures that select an epoch.
CRITERIA: Mapping[str, Metric] = {"average": metrics.overall, "worst": metrics.worst, "sum": _average_plus_worst}


def checkpoints(*weights: str) -> list[str]:
    """Return the checkpoints of the last twelve epochs of each of WEIGHTS."""
    return [name.replace("last", WEIGHTS[kind]) for kind in weights for name in LAST12]


def by_epoch(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes along run, weights and epoch, from 1 for the first of the last twelve, in place of checkpoint.

    Those of WEIGHTS that were not evaluated are left out, and an average that no epoch entered: the plain weights replace it.
    """
    present = set(map(str, outcomes.checkpoint.values))
    kinds = [kind for kind in WEIGHTS if present.issuperset(checkpoints(kind))]
    numbers = np.arange(1, len(LAST12) + 1)
    every = outcomes[_KEPT].rename(checkpoint="epoch")
    parts = {kind: every.sel(epoch=checkpoints(kind)).assign_coords(epoch=numbers) for kind in kinds}
    averaged = [kind for kind in kinds if kind == "plain" or not parts[kind].answer.equals(parts["plain"].answer)]
    joined = xr.concat([parts[kind] for kind in averaged], "weights", coords="minimal", compat="override")
    joined = joined.assign_coords(weights=averaged, predicted=outcomes.predicted)
    return _by_run(joined).assign_attrs(outcomes.attrs)


def _by_run(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes with the dimension run, on which only the images of the seed of the same number are present."""
    seeds = outcomes.seed.values
    same = xr.DataArray(np.eye(len(seeds), dtype=bool), {"run": seeds, "seed": seeds}, ("run", "seed"))
    parts = {name: outcomes[name].where(same, -1) for name in ("truth", "answer")}
    return outcomes.assign(parts | {"flipped": outcomes.flipped & same})


def run_counts(outcomes: xr.Dataset) -> xr.DataArray:
    """Return count(run, ..., label, predicted) of outcomes of one defence under one attack, as `by_epoch` arranges them."""
    return aggregate.counts(outcomes).sum("seed").isel(_SETTING, drop=True)


def chosen_epochs(count: xr.DataArray) -> xr.DataArray:
    """Return the number of the epoch that each of CRITERIA selects by its plain weights: dimensions chosen and run.

    count: of `run_counts`. Of equal epochs it is the last, as in a training that selects.
    """
    plain = count.sel(weights="plain", drop=True).isel(epoch=slice(None, None, -1))
    best = [plain.epoch[measure(plain).argmax("epoch")].drop_vars("epoch") for measure in CRITERIA.values()]
    chosen: xr.DataArray = xr.concat(best, "chosen").assign_coords(chosen=list(CRITERIA))
    return chosen


# Selected on the images that judge the choice, as by the code of the paper.
ON_TEST = ", on test images"


def choices(outcomes: xr.Dataset, valid: xr.Dataset) -> xr.Dataset:
    """Return the outcomes of the epochs that CRITERIA select, along chosen in place of checkpoint, on the test images.

    valid: outcomes of the same runs and epochs on validation images, on which the epoch is selected; with ON_TEST added to the
    name of a criterion, it is selected on the test images themselves.
    """
    test = by_epoch(outcomes)
    epochs = chosen_epochs(run_counts(by_epoch(valid)))
    on_test = chosen_epochs(run_counts(test))
    on_test = on_test.assign_coords(chosen=[f"{name}{ON_TEST}" for name in on_test.chosen.values])
    places = xr.concat([epochs, on_test], "chosen") - 1
    plain = test.sel(weights="plain", drop=True)
    runs = xr.DataArray(np.arange(plain.sizes["run"]), dims="run")
    selected = plain.isel(epoch=places, run=runs).drop_vars("epoch").assign_coords(run=plain.run)
    return selected.transpose("defence", "seed", "attack", "run", "chosen", "image", ...)


def _mean_over_runs(value: xr.DataArray, count: xr.DataArray) -> xr.DataArray:
    """Return the mean over runs, weighted by how many of their images were drawn; NaN where a class of such a run has none."""
    weight = metrics.images(count).sum("label")
    weight = weight.max([dim for dim in weight.dims if dim not in ("run", "draw")])
    return value.where(weight > 0, 0).dot(weight, dim="run") / weight.sum("run")


def _step_sizes(value: xr.DataArray) -> xr.DataArray:
    """Return by how much a value changes from an epoch to the next, up or down: the mean over the epochs."""
    mean: xr.DataArray = abs(value.diff("epoch")).mean("epoch", skipna=False)
    return mean


def _of(sums: xr.Dataset, weights: str) -> xr.DataArray:
    count: xr.DataArray = sums["count"].isel(_SETTING, drop=True).sel(weights=weights, drop=True)
    return count


def mean_change(sums: xr.Dataset, measure: Metric, weights: str = "plain") -> xr.DataArray:
    """Return by how much a measure changes from an epoch to the next, up or down: the mean over epochs and runs."""
    count = _of(sums, weights)
    return _mean_over_runs(_step_sizes(measure(count)), count)


def change_of_a_class(sums: xr.Dataset, weights: str = "plain") -> xr.DataArray:
    """Return by how much the accuracy of a class changes from an epoch to the next: the mean over classes, epochs and runs."""
    count = _of(sums, weights)
    return _mean_over_runs(_step_sizes(metrics.accuracy(count)).mean("label", skipna=False), count)


def variance_ratio(sums: xr.Dataset, weights: str = "plain") -> xr.DataArray:
    """Return the variance of the sum of the changes of all classes over the sum of their variances.

    1 where classes change independently, below 1 where one gains what another loses, above 1 where they change together.
    """
    count = _of(sums, weights)
    steps = metrics.accuracy(count).diff("epoch")
    together, apart = steps.sum("label", skipna=False).var("epoch"), steps.var("epoch").sum("label", skipna=False)
    return _mean_over_runs(together, count) / _mean_over_runs(apart, count)


def worst_beyond_overall(sums: xr.Dataset) -> xr.DataArray:
    """Return how much more the worst class changes from an epoch to the next than the overall accuracy."""
    return mean_change(sums, metrics.worst) - mean_change(sums, metrics.overall)


def worst_beyond_a_class(sums: xr.Dataset) -> xr.DataArray:
    """Return how much more the worst class changes from an epoch to the next than a class does on average."""
    return mean_change(sums, metrics.worst) - change_of_a_class(sums)


def change_of_the_average(sums: xr.Dataset) -> xr.DataArray:
    """Return the mean change of the worst class with FAWA over the one without."""
    return mean_change(sums, metrics.worst, "fawa") / mean_change(sums, metrics.worst)


def gain_of_the_average(sums: xr.Dataset) -> xr.DataArray:
    """Return how much higher the overall accuracy of the last epoch is with FAWA than without."""
    fawa, plain = (_of(sums, kind).isel(epoch=-1, drop=True) for kind in ("fawa", "plain"))
    return _mean_over_runs(metrics.overall(fawa) - metrics.overall(plain), plain)


def between_choices(sums: xr.Dataset, measure: Metric, first: str, second: str) -> xr.DataArray:
    """Return by how much a measure differs between epochs selected by two criteria on validation images: second minus first."""
    count = sums["count"].isel(_SETTING, drop=True)
    before, after = (count.sel(chosen=name, drop=True) for name in (first, second))
    return _mean_over_runs(measure(after) - measure(before), before)


# What `change_bounds` computes of each kind of weights, by titles of columns.
_QUANTITIES: Mapping[str, Callable[[xr.Dataset, str], xr.DataArray]] = {
    "all images": lambda sums, kind: mean_change(sums, metrics.overall, kind),
    "worst class": lambda sums, kind: mean_change(sums, metrics.worst, kind),
    "a class, on average": change_of_a_class,
    "a class / √classes": lambda sums, kind: change_of_a_class(sums, kind) / np.sqrt(sums.sizes["label"]),
    "variance ratio": variance_ratio,
}


def change_bounds(outcomes: xr.Dataset, draws: int = 1000) -> dict[str, xr.DataArray]:
    """Return by its title each measure of the changes between epochs, along weights and bound ("low", "value", "high")."""
    kinds = [str(kind) for kind in outcomes.weights.values]

    def measured(count: xr.DataArray) -> xr.DataArray:
        sums = count.to_dataset(name="count")
        rows = [[of(sums, kind) for kind in kinds] for of in _QUANTITIES.values()]
        along = [xr.concat(row, "weights").assign_coords(weights=kinds) for row in rows]
        joined: xr.DataArray = xr.concat(along, "quantity").assign_coords(quantity=list(_QUANTITIES))
        return joined

    bounds = bootstrap.paired(outcomes, measured, draws=draws, span=(0, np.inf))
    return {name: bounds.sel(quantity=name, drop=True) for name in _QUANTITIES}


def choice_bounds(outcomes: xr.Dataset, draws: int = 1000) -> dict[str, xr.DataArray]:
    """Return overall and worst accuracy of the epochs of `choices`, along chosen and bound ("low", "value", "high")."""

    def measured(count: xr.DataArray, measure: Metric) -> xr.DataArray:
        part = count.isel(_SETTING, drop=True)
        return _mean_over_runs(measure(part), part)

    kinds: dict[str, Metric] = {"all images, %": metrics.overall, "worst class, %": metrics.worst}
    return {
        title: bootstrap.paired(outcomes, partial(measured, measure=of), draws=draws, span=(0, 100))
        for title, of in kinds.items()
    }


# The share of the training from which EMA and FAWA average: epoch 50 of 200.
_AVERAGED_FROM = 0.25


def validated(history: xr.Dataset) -> xr.DataArray:
    """Return counts of the validation images under attack, of the epochs that FAWA judged, along seed and epoch.

    history: of schema "history 1", of one defence.
    """
    count = history["count"].sel(split="valid", drop=True).isel(defence=0, drop=True)
    count = count.sel(epoch=count.epoch >= _AVERAGED_FROM * count.sizes["epoch"])
    return aggregate.measured_epochs(aggregate.clean_and_attacked(count).sel(images_are="attacked", drop=True))
