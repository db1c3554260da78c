"""Networks and measures of Wei et al. 2023, section 5.3: offsets, uniform settings, and what a calibration gave each class.

Measures take sums over images (`bootstrap.sums`). Points are points of a percentage.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
import xarray as xr

from classwise.papers.claims import MeasurementError
from classwise.papers.draws import reflect_draws
from classwise.papers.wei2023 import sweeps
from classwise.papers.wei2023.methods import OF_IMAGES
from classwise.stats import combine, metrics
from classwise.stats.metrics import Metric

# The name of a member that has no calibration, along lambda1 and lambda2.
WITHOUT = "without"


def _swept(sums: xr.Dataset, along: str, measure: Metric) -> tuple[xr.DataArray, xr.DataArray]:
    """Return a measure of all offsets along a dimension, and of the network without the calibration."""
    values = measure(sums["count"].isel(defence=0, attack=0))
    return values.drop_sel({along: WITHOUT}), values.sel({along: WITHOUT}, drop=True)


def gains_of_offsets(
    sums: xr.Dataset, along: str, measures: Sequence[Metric] = (metrics.worst,), offsets: Sequence[str] = ()
) -> xr.DataArray:
    """Return how much a calibration gains over none, with each offset and by each measure. Along gain; offsets: () for all."""
    gains = [values - without for values, without in (_swept(sums, along, measure) for measure in measures)]
    if offsets:
        if missing := [name for name in offsets if name not in gains[0][along].values]:
            raise MeasurementError(f"these outcomes have no {along} of {' and '.join(missing)}")
        gains = [part.sel({along: list(offsets)}) for part in gains]
    return xr.concat([part.rename({along: "gain"}).drop_vars("gain") for part in gains], "gain")


def gains_of_offset(sums: xr.Dataset, along: str, offset: str) -> xr.DataArray:
    """Return how much one offset gains over each other one, overall and in the worst class."""
    gains = []
    for measure in (metrics.overall, metrics.worst):
        values, _ = _swept(sums, along, measure)
        others = values.drop_sel({along: offset}).rename({along: "gain"}).drop_vars("gain")
        gains.append(values.sel({along: offset}, drop=True) - others)
    return xr.concat(gains, "gain")


# A uniform beta above the mean of those that CCR gives where t is high.
LARGER = 9.0


def pgd_outcomes(outcomes: xr.Dataset) -> xr.Dataset:
    """Return the outcomes of the weights after the last epoch under PGD."""
    part = outcomes.sel(attack=["pgd-20"])
    return part.sel(checkpoint="last", drop=True) if "checkpoint" in part.dims else part


def stack_mean_radii(outcomes: xr.Dataset, swept: xr.Dataset) -> xr.Dataset:
    """Return AT with uniform radii, and AT + CCM, along `setting`: the mean radius as a multiple of the usual one.

    outcomes: of both, with `stats.aggregate.late_settings`. swept: of AT with other radii (section 3.1).
    """
    uniform = sweeps.stack_margins(sweeps.stack_radii(pgd_outcomes(outcomes).sel(defence=["pgd-at"]), swept))
    parts = {margin: uniform.sel(margin=margin, drop=True) for margin in map(str, uniform.margin.values)}
    return _at_setting(parts, outcomes.sel(defence=["at-ccm"]), "radius")


def stack_mean_betas(
    outcomes: xr.Dataset, components: xr.Dataset, swept: xr.Dataset, larger: xr.Dataset | None = None
) -> xr.Dataset:
    """Return TRADES with uniform betas, and TRADES + CCR, along `setting`: the mean beta as a multiple of the usual one.

    swept: of TRADES with other betas (section 3.2). larger: the same with one beyond those of the paper.
    """
    uniform = sweeps.stack_betas(pgd_outcomes(outcomes).sel(defence=["trades"]), swept)
    usual = float(components.uniform_beta.mean())
    parts = {f"{float(beta) / usual:.4g}": uniform.sel(beta=beta, drop=True) for beta in uniform.beta.values}
    if larger is not None:
        parts[f"{LARGER / usual:.4g}"] = larger
    return _at_setting(parts, components.sel(defence=["trades-ccr"]), "beta")


def _at_setting(uniform: Mapping[str, xr.Dataset], calibrated: xr.Dataset, name: str) -> xr.Dataset:
    """Return networks along defence and setting, on the seeds that all of them have; uniform: by the multiple."""
    parts = {(str(part.defence.values[0]), multiple): part for multiple, part in uniform.items()}
    parts[str(calibrated.defence.values[0]), f"{float(calibrated[name].mean()):.4g}"] = pgd_outcomes(calibrated)
    rows = [
        (
            {"defence": defence, "setting": multiple},
            part[list(OF_IMAGES)].isel(defence=0, drop=True).assign_coords(predicted=part.predicted),
        )
        for (defence, multiple), part in combine.shared_seeds(parts).items()
    ]
    return combine.combine_rows(rows).assign_attrs(calibrated.attrs)


def gain_over_uniform(sums: xr.Dataset, measure: Metric = metrics.worst) -> xr.DataArray:
    """Return how much higher a measure is with a calibration than with one setting for all classes that equals its mean.

    Along `setting` each network has the mean over its classes as its name; the first defence has several, which are joined by
    straight lines, the last one, which is calibrated, has one.
    """
    values = measure(sums["count"].isel(attack=0))
    values = values.assign_coords(setting=list(map(number_of, values.setting.values))).sortby("setting")
    uniform, calibrated = (values.isel(defence=place, drop=True).dropna("setting", how="all") for place in (0, -1))
    at, known = calibrated.setting.item(), uniform.setting.values
    if not known.min() <= at <= known.max():
        reach = f"{known.min():g} to {known.max():g}"
        raise MeasurementError(f"the mean setting {at:g} of the classes lies outside the uniform ones ({reach})")
    return calibrated.sel(setting=at, drop=True) - uniform.interp(setting=at).drop_vars("setting")


def number_of(multiple: str) -> float:
    """Return a multiple as it is written along `setting`, "3/2" or "1.31", as a number."""
    return float(Fraction(multiple))


def image_settings(outcomes: xr.Dataset, name: str) -> xr.DataArray:
    """Return for each image the radius or beta of its class late in the training, as a multiple of the uniform one."""
    label = outcomes.truth.max([dim for dim in outcomes.truth.dims if dim != "image"])
    return outcomes[name].drop_vars("predicted").isel(predicted=label.clip(0))


def _extreme(setting: xr.DataArray, marks: xr.DataArray, group: str) -> xr.DataArray:
    """Return the highest setting of the hard classes, the lowest of the easy ones; setting, marks: along label."""
    of_group = setting.where(marks)
    return of_group.max("label") if group == "hard" else of_group.min("label")


def late_setting(sums: xr.Dataset, setting: str, group: str) -> xr.DataArray:
    """Return the largest late setting of a hard class, or the smallest of an easy class, as a multiple of the usual one."""
    part = sums.isel(defence=0, attack=0)
    return _extreme(part[setting].sum("predicted") / metrics.images(part["count"]), sums[group], group)


def setting_draws(outcomes: xr.Dataset, draws: int, seed: int, *, setting: str, group: str) -> np.ndarray:
    """Return draws of the true extreme setting of the hard (the largest) or of the easy classes (the smallest).

    Nothing in it depends on test images: the training images of each class are redrawn, whose accuracy the setting follows.
    outcomes: of one defence, with the variables of `stats.aggregate.late_settings`.
    """
    rng, part = np.random.default_rng(seed), outcomes.isel(defence=0, drop=True).transpose(..., "seed", "predicted")
    values, rate = part[setting].values, part["trained"].values
    spread = np.sqrt(rate * (1 - rate) / part["sample"].values.clip(1))
    noisy = values + spread * rng.standard_normal((draws, *values.shape))
    label = {"label": part.predicted.values}
    marks = xr.DataArray(part[group].values, label, ("label",))
    effect = float(_extreme(xr.DataArray(values.mean(0), label, ("label",)), marks, group))
    return reflect_draws(effect, _extreme(xr.DataArray(noisy.mean(1), label, ("draw", "label")), marks, group).values)
