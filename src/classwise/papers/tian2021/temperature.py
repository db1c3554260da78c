"""Tian et al. 2021, section 5: improving the attack with Temperature-PGD.

Claims take pgd-20 and temperature-pgd-20, the latter along `inverse`, where there is such a dimension; `variance` is the variance
of confidence of each image. The page has PGD at inverse "1", and HE with its cosines as one more network.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.core.spec import Evaluation
from classwise.papers.claims import ClaimMeasure
from classwise.papers.measures import lost_more, mean_over
from classwise.papers.sections import CLEAN_AND_PGD, Section
from classwise.papers.terms import claims
from classwise.papers.tian2021.networks import COMPARED, FOUR, HE
from classwise.papers.tian2021.tables import BOTH_ATTACKS, animals, from_table_3
from classwise.stats import bootstrap, confidence, metrics
from classwise.stats.combine import inverse_name, network_name

NAME = "tian2021/5-temperature-pgd"
# The values of 1 / T in Table 3, and the readout of HE whose outputs are its cosines, without their scale.
INVERSE, COSINES = (2, 5, 10, 50), "cosines"
# Table 3: the full grid, in exact and in single precision; and the same with the cosines of HE as outputs.
_GRID = Evaluation(attack="temperature-pgd-20").grid(inverse=INVERSE, form=("stable", "published"))
_OF_COSINES = tuple(replace(evaluation, readout=COSINES) for evaluation in (Evaluation(attack="pgd-20"), *_GRID))
SECTION = Section(
    title="Improving the attack: Temperature-PGD",
    defences=COMPARED,
    evaluations=CLEAN_AND_PGD,
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


def least_grown_by_temperature(sums: xr.Dataset, measure: metrics.Metric) -> xr.DataArray:
    """Return by how much a measure grows under Temperature-PGD in the defence in which it grows least."""
    plain, hot = _both_attacks(sums)
    return (measure(hot) - measure(plain)).min("defence", skipna=False)


def _lost(sums: xr.Dataset, name: str = "") -> xr.DataArray:
    """Return how many more images, of a class or of all, Temperature-PGD breaks than PGD in each defence."""
    plain, hot = (some.sel(label=[name]) if name else some for some in _both_attacks(sums))
    return metrics.overall(plain) - metrics.overall(hot)


def least_lost_to_temperature(sums: xr.Dataset, name: str = "") -> xr.DataArray:
    """Return how many more images, of a class or of all, Temperature-PGD breaks than PGD, the least of the defences."""
    return _lost(sums, name).min("defence", skipna=False)


def lost_to_temperature_by_vulnerable(sums: xr.Dataset) -> xr.DataArray:
    """Return how much more the vulnerable classes lose to Temperature-PGD than the robust ones, the mean over the defences."""
    return mean_over(lost_more(*_both_attacks(sums)), "defence")


def more_lost_to_temperature(sums: xr.Dataset) -> xr.DataArray:
    """Return how many more points the second defence loses to Temperature-PGD than the first."""
    lost = _lost(sums)
    return lost.isel(defence=1, drop=True) - lost.isel(defence=0, drop=True)


def _cvc(sums: xr.Dataset) -> xr.DataArray:
    """Return the class-wise variance of confidence under the first attack."""
    part = sums.isel(attack=0)
    spread, images = part["variance"].sum("predicted"), metrics.images(part["count"])
    if "inverse" in spread.dims:
        spread, images = spread.sum("inverse"), images.sum("inverse")
    return spread / images.where(images > 0)


def smooth_where_weak(sums: xr.Dataset) -> xr.DataArray:
    """Return the correlation over classes of the variance of confidence with robust accuracy, the mean over the defences.

    The variance is that under the first attack, the accuracy that under the last.
    """
    count = sums["count"].isel(attack=-1)
    rates = metrics.accuracy(count.sum("inverse") if "inverse" in count.dims else count)
    return mean_over(xr.corr(_cvc(sums), rates, dim="label"), "defence")


def smoother_animals(sums: xr.Dataset) -> xr.DataArray:
    """Return the variance of confidence of the animals over that of the vehicles, in the defence in which it is highest."""
    spread = _cvc(sums)
    animal = animals(spread.label)
    return (spread.where(animal).mean("label") / spread.where(~animal).mean("label")).max("defence", skipna=False)


def smoothest(sums: xr.Dataset, names: Sequence[str]) -> xr.DataArray:
    """Return the least variance of the other classes over the greatest of the named ones, in the defence in which it is least."""
    spread = _cvc(sums)
    named = spread.label.isin(list(names))
    return (spread.where(~named).min("label") / spread.where(named).max("label")).min("defence", skipna=False)


def smoother_than_others(sums: xr.Dataset) -> xr.DataArray:
    """Return the mean variance of confidence of the last defence over the smallest of the others."""
    spread = mean_over(_cvc(sums), "label")
    return spread.isel(defence=-1, drop=True) / spread.isel(defence=slice(-1)).min("defence", skipna=False)


def steeper_than_others(sums: xr.Dataset) -> xr.DataArray:
    """Return the mean variance of confidence of the first defence over the greatest of the others."""
    spread = mean_over(_cvc(sums), "label")
    return spread.isel(defence=0, drop=True) / spread.isel(defence=slice(1, None)).max("defence", skipna=False)


# The best temperature is that of the whole grid.
_HEATS = {"inverse": tuple(map(str, INVERSE))}


def _heated(measure: ClaimMeasure, *defences: str) -> dict[str, Any]:
    """Return fields of a claim on Temperature-PGD, whose measure Table 3 gives, too; of all defences by default."""
    defences = defences or FOUR
    theirs = partial(from_table_3, measure, defences)
    return {"measure": measure, "defences": defences, "attacks": BOTH_ATTACKS, "grid": _HEATS, "values": {}, "reported": theirs}


CLAIMS = claims(
    NAME,
    {
        "smooth-where-weak": smooth_where_weak,
        "smooth-where-weak-clean": {"measure": smooth_where_weak, "attacks": ("clean", "pgd-20"), "readout": "logits"},
        "animals-smoother": smoother_animals,
        "deer-and-cat-smoothest": partial(smoothest, names=("deer", "cat")),
        "deer-smoothest": partial(smoothest, names=("deer",)),
        "he-smoothest": smoother_than_others,
        "he-smoothest-scaled": {"measure": smoother_than_others, "readout": "logits"},
        "breaks-more": _heated(least_lost_to_temperature),
        "larger-cv": _heated(partial(least_grown_by_temperature, measure=metrics.cv)),
        "larger-mcd": _heated(partial(least_grown_by_temperature, measure=metrics.mcd)),
        "hits-vulnerable": _heated(lost_to_temperature_by_vulnerable),
        "he-loses-most": _heated(more_lost_to_temperature, "pgd-at", HE),
        "plain-hardly-loses": _heated(least_lost_to_temperature, "pgd-at"),
        "plain-steepest": steeper_than_others,
        "he-loses": _heated(least_lost_to_temperature, HE),
        "he-loses-cat": _heated(partial(least_lost_to_temperature, name="cat"), HE),
        "he-loses-deer": _heated(partial(least_lost_to_temperature, name="deer"), HE),
        "he-loses-the-vulnerable": _heated(lost_to_temperature_by_vulnerable, HE),
    },
    defences=FOUR,
    attacks=("pgd-20",),
    values={"variance": confidence.confidence_variance},
)


def tempered(outcomes: xr.Dataset, grid: Sequence[int] = INVERSE) -> xr.Dataset:
    """Return outcomes under pgd-20 and temperature-pgd-20 with the dimensions defence, seed, form, inverse, image and predicted.

    PGD is at inverse "1", in each form: its direction is that of Temperature-PGD at T = 1. A defence that was also evaluated with
    its cosines is one more along `defence`, named by `combine.network_name`. form: "stable" and "published". grid: the values of
    1 / T that are compared; a network without all of them is left out, and NotRecorded is raised where none is left.
    """
    named = outcomes.assign_coords(attack=[str(name).partition("@")[0] for name in outcomes.attack.values])
    plain, hot = (named.sel(attack=name, drop=True) for name in BOTH_ATTACKS)
    if "inverse" not in outcomes.dims:
        raise NotRecorded("results under temperature-pgd-20 at several temperatures are not recorded")
    wanted, forms = list(map(inverse_name, grid)), [str(value) for value in outcomes.form.values if value != ""]
    heats = [value for value in outcomes.inverse.values if value != ""]
    first = plain.sel(inverse="", form="", drop=True)
    parts = [first.expand_dims(form=forms), *(hot.sel(inverse=value, form=forms, drop=True) for value in heats)]
    names = [inverse_name(value) for value in ("", *heats)]
    combined = xr.concat(parts, xr.DataArray(names, dims="inverse", name="inverse"))
    combined = _cosines_apart(combined) if "readout" in combined.dims else combined
    complete = (combined.truth.isel(form=0) >= 0).any(["seed", "image"])
    complete = complete.reindex(inverse=wanted, fill_value=False).all("inverse")
    if not bool(complete.any()):
        raise NotRecorded(f"results of no network under temperature-pgd-20 at 1/T = {', '.join(wanted)} are recorded")
    return combined.isel(defence=complete.values)


def _cosines_apart(combined: xr.Dataset) -> xr.Dataset:
    """Return outcomes along readout with the networks evaluated with their cosines as further ones along defence."""
    read = {str(name): combined.sel(readout=name, drop=True) for name in combined.readout.values}
    present = (read[COSINES].truth >= 0).any([dim for dim in read[COSINES].truth.dims if dim != "defence"])
    other = read[COSINES].isel(defence=present.values)
    other = other.assign_coords(defence=[network_name(str(name), COSINES) for name in other.defence.values])
    return xr.concat([read["logits"], other], "defence")


def changes(tempered: xr.Dataset) -> xr.DataArray:
    """Return the change of accuracy from PGD to each temperature, of all images and of the worst class, along `images_of`.

    Bounds in points along defence and inverse. tempered: in one form.
    """

    def change(count: xr.DataArray) -> xr.DataArray:
        rates = [metrics.overall(count), metrics.worst(count)]
        both = xr.concat(rates, pd.Index(["all images", "worst class"], name="images_of"))
        return both.isel(inverse=slice(1, None)) - both.sel(inverse="1", drop=True)

    return bootstrap.paired(tempered, change, span=(-100, 100))


def differing(tempered: xr.Dataset, scaled: str = "pgd-he") -> xr.DataArray:
    """Return on how many images the attack on the cosines of a network ends otherwise than PGD on its scaled logits, by inverse.

    tempered: in one form. Where 1 / T is the scale, the two attacks are the same.
    """
    plain, bare = (tempered.sel(defence=name, drop=True) for name in (scaled, network_name(scaled, COSINES)))
    first = plain.sel(inverse="1", drop=True)
    number: xr.DataArray = ((bare.answer != first.answer) & (first.truth >= 0)).sum(["seed", "image"])
    return number


def changes_at_best(count: xr.DataArray) -> xr.DataArray:
    """Return by how many points the accuracy of each class changes from PGD to the temperature that breaks the most images.

    count: of `tempered`, one form, seeds pooled. The dimension network names the temperature, too: "trades, 1/T = 5".
    """
    rates, left = metrics.accuracy(count), metrics.overall(count)
    best = left.drop_sel(inverse="1").idxmin("inverse").to_series()
    change = rates - rates.sel(inverse="1", drop=True)
    parts = [change.sel(inverse=heat, defence=name, drop=True) for name, heat in best.items()]
    return xr.concat(parts, pd.Index([f"{name}, 1/T = {heat}" for name, heat in best.items()], name="network"))


def as_published(count: xr.DataArray) -> xr.DataArray:
    """Return counts with the cosines of HE, by its losses the readout of the paper, under the name of its tables."""
    names = [str(name) for name in count.defence.values]
    scaled = {name.partition(",")[0] for name in names if name.endswith(f", {COSINES}")}
    kept = count.sel(defence=[name for name in names if name not in scaled])
    return kept.assign_coords(defence=[str(name).partition(",")[0] for name in kept.defence.values])
