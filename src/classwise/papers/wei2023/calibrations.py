"""Measures of Wei et al. 2023, section 5.3: gains of components, offsets compared, and what a calibration gave each class.

They take sums over images (`bootstrap.sums`). Points are points of a percentage.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np
import xarray as xr

from classwise.papers.claims import ClaimMeasure, MeasurementError
from classwise.papers.judging import reflect_draws
from classwise.stats import metrics
from classwise.stats.metrics import Metric

# The name of a member that has no calibration, along lambda1 and lambda2.
WITHOUT = "without"
METHODS = ("AT", "TRADES", "FAT")


def with_component(method: str, component: str) -> str:
    """Return the name of a method with a component, "AT + CCM"; without one, the method itself."""
    return " + ".join(filter(None, (method, component)))


def gains_of_methods(
    sums: xr.Dataset, component: str, over: str = "", methods: Sequence[str] = METHODS, measure: Metric = metrics.overall
) -> xr.DataArray:
    """Return how much higher a measure is with one component than without it, or than with another, along method.

    Along defence the names are those of the tables; of methods without both rows nothing counts. Under the first attack.
    """
    count = sums["count"].isel(attack=0)
    names, gains = set(map(str, count.defence.values)), []
    for pair in ([with_component(method, part) for part in (component, over)] for method in methods):
        if names.issuperset(pair):
            with_it, without = (measure(count.sel(defence=name, drop=True)) for name in pair)
            gains.append(with_it - without)
    if not gains:
        raise MeasurementError(f"these outcomes have no method with {component} and with {over or 'nothing'} in its place")
    return xr.concat(gains, "method")


def _swept(sums: xr.Dataset, along: str, measure: Metric) -> tuple[xr.DataArray, xr.DataArray]:
    """Return a measure of all offsets along a dimension, and of the network without the calibration."""
    values = measure(sums["count"].isel(defence=0, attack=0))
    return values.drop_sel({along: WITHOUT}), values.sel({along: WITHOUT}, drop=True)


def gains_of_offsets(
    sums: xr.Dataset, along: str, measures: Sequence[Metric] = (metrics.worst,), offsets: Sequence[str] = ()
) -> xr.DataArray:
    """Return how much a calibration gains over none with each offset, by each measure, along gain; offsets: () for all."""
    gains = [values - without for values, without in (_swept(sums, along, measure) for measure in measures)]
    if offsets:
        if missing := [name for name in offsets if name not in gains[0][along].values]:
            raise MeasurementError(f"these outcomes have no {along} of {' and '.join(missing)}")
        gains = [part.sel({along: list(offsets)}) for part in gains]
    return xr.concat([part.rename({along: "gain"}).drop_vars("gain") for part in gains], "gain")


def gains_of_offset(sums: xr.Dataset, along: str, offset: str) -> xr.DataArray:
    """Return how much one offset gains over each other one, overall and in the worst class, along gain."""
    gains = []
    for measure in (metrics.overall, metrics.worst):
        values, _ = _swept(sums, along, measure)
        if offset not in values[along].values or values.sizes[along] < 2:
            raise MeasurementError(f"these outcomes have no offset {offset} with others")
        others = values.drop_sel({along: offset}).rename({along: "gain"}).drop_vars("gain")
        gains.append(values.sel({along: offset}, drop=True) - others)
    return xr.concat(gains, "gain")


def over_uniform(sums: xr.Dataset, measure: Metric = metrics.worst) -> xr.DataArray:
    """Return how much higher a measure of the last defence is than that of the first at the same mean setting of the classes.

    Along `setting` each network has the mean over its classes as its name; the first defence has several, which are joined by
    straight lines, the last one has one.
    """
    values = measure(sums["count"].isel(attack=0))
    uniform, calibrated = (values.isel(defence=place, drop=True) for place in (0, -1))
    known, mean = (part.setting.values[_evaluated(part)] for part in (uniform, calibrated))
    places = {number_of(name): name for name in sorted(map(str, known), key=number_of)}
    at = [number_of(name) for name in map(str, mean)]
    if len(at) != 1 or not places or not min(places) <= at[0] <= max(places):
        reach = f"{min(places):g} to {max(places):g}" if places else "none"
        raise MeasurementError(f"the mean setting {', '.join(mean)} of the classes lies outside the uniform ones ({reach})")
    low, high = max(place for place in places if place <= at[0]), min(place for place in places if place >= at[0])
    share = (at[0] - low) / (high - low) if high > low else 0.0
    ends = (uniform.sel(setting=places[place], drop=True) for place in (low, high))
    line = sum(weight * end for weight, end in zip((1 - share, share), ends, strict=True))
    return calibrated.sel(setting=mean[0], drop=True) - line


def number_of(multiple: str) -> float:
    """Return a multiple as it is written along `setting`, "3/2" or "1.31", as a number."""
    return float(Fraction(multiple))


def _evaluated(values: xr.DataArray) -> np.ndarray:
    """Return at which members of `setting` there is a value."""
    present: np.ndarray = values.notnull().any([dim for dim in values.dims if dim != "setting"]).values
    return present


def _of_images(outcomes: xr.Dataset, name: str) -> xr.DataArray:
    """Return for each image what a variable along predicted is of its class."""
    label = outcomes.truth.max([dim for dim in outcomes.truth.dims if dim != "image"])
    per_image: xr.DataArray = outcomes[name].drop_vars("predicted").isel(predicted=label.clip(0))
    return per_image


def radius_of_images(outcomes: xr.Dataset) -> xr.DataArray:
    """Return for each image the radius of its class late in the training, as a multiple of the uniform one."""
    return _of_images(outcomes, "radius")


def beta_of_images(outcomes: xr.Dataset) -> xr.DataArray:
    """Return for each image the trade-off of its class late in the training, as a multiple of the uniform one."""
    return _of_images(outcomes, "beta")


def extreme(setting: xr.DataArray, group: xr.DataArray, *, highest: bool) -> xr.DataArray:
    """Return the highest or the lowest setting of the classes of a group; along label."""
    of_group = setting.where(group)
    return of_group.max("label") if highest else of_group.min("label")


def hardest_setting(sums: xr.Dataset, setting: str) -> xr.DataArray:
    """Return the largest setting of a hard class late in the training, as a multiple of the uniform one."""
    return extreme(_mean_of_classes(sums, setting), sums["hard"], highest=True)


def easiest_setting(sums: xr.Dataset, setting: str) -> xr.DataArray:
    """Return the smallest setting of an easy class late in the training, as a multiple of the uniform one."""
    return extreme(_mean_of_classes(sums, setting), sums["easy"], highest=False)


def _mean_of_classes(sums: xr.Dataset, setting: str) -> xr.DataArray:
    total = sums[setting].isel(defence=0, attack=0).sum("predicted")
    return total / metrics.images(sums["count"].isel(defence=0, attack=0))


def setting_draws(outcomes: xr.Dataset, draws: int, seed: int, *, setting: str, group: str) -> np.ndarray:
    """Return draws of the true extreme setting of the hard (the largest) or of the easy classes (the smallest).

    Nothing in it depends on test images: trainings are redrawn, and in each of them the training images of each class, whose
    accuracy the setting follows. outcomes: of one defence, with the variables of `stats.calibrations.late_settings`.
    """
    rng, part = np.random.default_rng(seed), outcomes.isel(defence=0, drop=True).transpose(..., "seed", "predicted")
    values, rate = part[setting].values, part["trained"].values
    spread = np.sqrt(rate * (1 - rate) / part["sample"].values.clip(1))
    trainings = rng.integers(0, len(values), (draws, len(values)))
    noisy = values[trainings] + spread[trainings] * rng.standard_normal((draws, *values.shape))
    label = {"label": part.predicted.values}
    redrawn = xr.DataArray(noisy.mean(1), label, ("draw", "label"))
    marked = xr.DataArray(part[group].values, label, ("label",))
    effect = float(extreme(xr.DataArray(values.mean(0), label, ("label",)), marked, highest=group == "hard"))
    return reflect_draws(effect, extreme(redrawn, marked, highest=group == "hard").values)


def of_group(setting: str, group: str) -> tuple[ClaimMeasure, partial[np.ndarray]]:
    """Return the measure of a claim about the settings of hard or easy classes, and the draws of its true value."""
    measure = hardest_setting if group == "hard" else easiest_setting
    return partial(measure, setting=setting), partial(setting_draws, setting=setting, group=group)
