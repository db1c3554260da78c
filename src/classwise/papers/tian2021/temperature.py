"""Tian et al. 2021, section 5: improving the attack with Temperature-PGD.

Claims take pgd-20 and temperature-pgd-20, the latter along `inverse`, where there is such a dimension; `variance` is the variance
of confidence of each image. The page has PGD at inverse "1", and HE with its cosines as one more network.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.core.spec import Evaluation
from classwise.papers.claims import ClaimMeasure
from classwise.papers.measures import extra_drop_of_vulnerable
from classwise.papers.sections import Section
from classwise.papers.terms import claims, least
from classwise.papers.tian2021.recipe import COMPARED, FOUR, HE
from classwise.papers.tian2021.tables import BOTH_ATTACKS, animals, table_3_value
from classwise.stats import combine, confidence, metrics

NAME = "tian2021/5-temperature-pgd"
# The values of 1 / T in Table 3, and the readout of HE whose outputs are its cosines, without their scale.
INVERSE, COSINES = (2, 5, 10, 50), "cosines"
# Table 3: the full grid, in exact and in single precision; and the same with the cosines of HE as outputs.
_GRID = Evaluation(attack="temperature-pgd-20").grid(inverse=INVERSE, form=("stable", "published"))
_OF_COSINES = tuple(replace(evaluation, readout=COSINES) for evaluation in (Evaluation(attack="pgd-20"), *_GRID))
SECTION = Section(
    title="Improving the attack: Temperature-PGD",
    defences=COMPARED,
    max_seeds=3,
    extra_evaluations={**dict.fromkeys(COMPARED, _GRID), "pgd-he": (*_GRID, *_OF_COSINES)},
    gallery=True,
    traces=True,
)


def _both_attacks(sums: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the counts under plain PGD and under the inverse temperature that leaves each defence the least."""
    plain, hot = sums["count"].isel(attack=0), sums["count"].isel(attack=1)
    if "inverse" not in hot.dims:
        return plain, hot
    left = metrics.overall(hot)
    return plain.sum("inverse"), hot.isel(inverse=left.fillna(np.inf).argmin("inverse"))


def grown_by_temperature(sums: xr.Dataset, measure: metrics.Metric) -> xr.DataArray:
    """Return by how much a measure grows from PGD to Temperature-PGD, of each defence."""
    plain, hot = _both_attacks(sums)
    return measure(hot) - measure(plain)


def temperature_drop(sums: xr.Dataset, name: str = "") -> xr.DataArray:
    """Return how many more images, of a class or of all, Temperature-PGD breaks than PGD, of each defence."""
    measure = (lambda count: metrics.accuracy(count).sel(label=name, drop=True)) if name else metrics.overall
    return -grown_by_temperature(sums, measure)


def extra_temperature_drop(sums: xr.Dataset) -> xr.DataArray:
    """Return how much more the vulnerable classes lose to Temperature-PGD than the robust ones, the mean over the defences."""
    return extra_drop_of_vulnerable(*_both_attacks(sums)).mean("defence", skipna=False)


def more_lost_to_temperature(sums: xr.Dataset) -> xr.DataArray:
    """Return how many more points the second defence loses to Temperature-PGD than the first."""
    return -grown_by_temperature(sums, metrics.overall).diff("defence").isel(defence=0, drop=True)


def _every_heat(sums: xr.DataArray) -> xr.DataArray:
    return sums.sum("inverse") if "inverse" in sums.dims else sums


def _cvc(sums: xr.Dataset) -> xr.DataArray:
    """Return the class-wise variance of confidence under the first attack."""
    part = sums.isel(attack=0)
    images = _every_heat(metrics.images(part["count"]))
    return _every_heat(part["variance"].sum("predicted")) / images.where(images > 0)


def smooth_where_weak(sums: xr.Dataset) -> xr.DataArray:
    """Return the correlation over classes of the variance of confidence with robust accuracy, the mean over the defences.

    The variance is that under the first attack, the accuracy that under the last.
    """
    rates = metrics.accuracy(_every_heat(sums["count"].isel(attack=-1)))
    return xr.corr(_cvc(sums), rates, dim="label").mean("defence", skipna=False)


def smoothness_of_animals(sums: xr.Dataset) -> xr.DataArray:
    """Return the variance of confidence of the animals over that of the vehicles, of each defence."""
    spread = _cvc(sums)
    animal = animals(spread.label)
    return spread.where(animal).mean("label") / spread.where(~animal).mean("label")


def smoothness(sums: xr.Dataset, names: Sequence[str]) -> xr.DataArray:
    """Return the variance of confidence of each other class over that of each of the named ones, of each defence."""
    spread = _cvc(sums)
    others = [name for name in map(str, spread.label.values) if name not in names]
    return spread.sel(label=others) / spread.sel(label=list(names)).rename(label="named")


def smoothness_of(sums: xr.Dataset, defence: int) -> xr.DataArray:
    """Return the mean variance of confidence of a defence over that of each of the others."""
    spread = _cvc(sums).mean("label", skipna=False)
    others = np.delete(np.arange(spread.sizes["defence"]), defence)
    return spread.isel(defence=defence, drop=True) / spread.isel(defence=others)


# The best temperature is that of the whole grid.
_HEATS = {"inverse": tuple(map(str, INVERSE))}


def _heated(measure: ClaimMeasure, *defences: str) -> dict[str, Any]:
    defences = defences or FOUR
    theirs = partial(table_3_value, measure, defences)
    return {"measure": measure, "defences": defences, "attacks": BOTH_ATTACKS, "grid": _HEATS, "values": {}, "reported": theirs}


_SMOOTHEST = least(partial(smoothness_of, defence=-1), largest=True)
_SMOOTH: dict[str, Any] = {"measure": smooth_where_weak, "permuted": "count"}
CLAIMS = claims(
    NAME,
    {
        "smooth-where-weak": _SMOOTH,
        "smooth-where-weak-clean": {**_SMOOTH, "attacks": ("clean", "pgd-20"), "readout": "logits"},
        "animals-smoother": least(smoothness_of_animals, largest=True),
        "deer-and-cat-smoothest": least(partial(smoothness, names=("deer", "cat"))),
        "deer-smoothest": least(partial(smoothness, names=("deer",))),
        "he-smoothest": _SMOOTHEST,
        "he-smoothest-scaled": {"measure": _SMOOTHEST, "readout": "logits"},
        "breaks-more": _heated(least(temperature_drop)),
        "larger-cv": _heated(least(partial(grown_by_temperature, measure=metrics.cv))),
        "larger-mcd": _heated(least(partial(grown_by_temperature, measure=metrics.mcd))),
        "hits-vulnerable": _heated(extra_temperature_drop),
        "he-loses-most": _heated(more_lost_to_temperature, "pgd-at", HE),
        "plain-hardly-loses": _heated(least(temperature_drop), "pgd-at"),
        "plain-steepest": least(partial(smoothness_of, defence=0)),
        "he-loses": _heated(least(temperature_drop), HE),
        "he-loses-cat": _heated(least(partial(temperature_drop, name="cat")), HE),
        "he-loses-deer": _heated(least(partial(temperature_drop, name="deer")), HE),
        "he-loses-the-vulnerable": _heated(extra_temperature_drop, HE),
    },
    defences=FOUR,
    attacks=("pgd-20",),
    values={"variance": confidence.confidence_variance},
)


def stack_temperatures(outcomes: xr.Dataset, grid: Sequence[int] = INVERSE) -> xr.Dataset:
    """Return outcomes under pgd-20 and temperature-pgd-20 with the dimensions defence, seed, form, inverse, image and predicted.

    PGD is at inverse "1", in each form: its direction is that of Temperature-PGD at T = 1. A defence that was also evaluated with
    its cosines is one more along `defence`, named by `combine.network_name`. form: "stable" and "published". grid: the values of
    1 / T; a network without all of them is left out. NotRecorded without Temperature-PGD.
    """
    if "inverse" not in outcomes.dims:
        raise NotRecorded("results under Temperature-PGD are not recorded")
    attacks = [str(name).partition("@")[0] for name in outcomes.attack.values]
    named = outcomes.assign_coords(attack=attacks, inverse=list(map(combine.inverse_name, outcomes["inverse"].values)))
    plain, hot = (named.sel(attack=name, drop=True) for name in BOTH_ATTACKS)
    forms = ["stable", "published"]
    first = plain.sel(inverse=["1"], form="", drop=True).expand_dims(form=forms)
    combined = xr.concat([first, hot.sel(inverse=list(map(combine.inverse_name, grid)), form=forms)], "inverse")
    combined = _cosines_apart(combined) if "readout" in combined.dims else combined
    complete = (combined.truth.isel(form=0) >= 0).any(["seed", "image"]).all("inverse")
    return combined.isel(defence=complete.values)


def cosines_of_he(tempered: xr.Dataset) -> dict[str, Any]:
    """Return the 1/T (`heat`) at which attacking the cosines of PGD-HE differs from PGD on the fewest images, `number` of `all`.

    tempered: of `stack_temperatures`, in one form; without that network the result is empty.
    """
    if "pgd-he" not in tempered.defence:
        return {}
    scaled, bare = (tempered.sel(defence=name) for name in ("pgd-he", combine.network_name("pgd-he", COSINES)))
    asked = scaled.truth.sel(inverse="1") >= 0
    differ = (asked & (bare.prediction != scaled.prediction.sel(inverse="1"))).sum(["seed", "image"])
    return {"heat": differ.idxmin("inverse"), "number": differ.min(), "all": asked.sum()}


def _cosines_apart(combined: xr.Dataset) -> xr.Dataset:
    scaled, bare = (combined.sel(readout=name, drop=True) for name in ("logits", COSINES))
    bare = bare.assign_coords(defence=[combine.network_name(str(name), COSINES) for name in bare.defence.values])
    return xr.concat([scaled, bare], "defence")
