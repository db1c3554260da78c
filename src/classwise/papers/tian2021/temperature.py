"""Measures of the claims of Tian et al. 2021, section 5: the attacks are pgd-20 and temperature-pgd-20.

The latter is along `inverse`, where there is such a dimension; `variance` is the variance of confidence of each image.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.papers.measures import lost_more, mean_over
from classwise.papers.tian2021.tables import animals
from classwise.stats import aggregate, metrics, pooling
from classwise.stats.combine import inverse_name, network_name
from classwise.stats.confidence import confidence_variance
from classwise.stats.metrics import Metric as CountMeasure

# The values of 1 / T in Table 3.
INVERSE = (2, 5, 10, 50)


def _both_attacks(sums: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the counts under plain PGD and under the inverse temperature that leaves each defence the least."""
    plain, hot = sums["count"].isel(attack=0), sums["count"].isel(attack=1)
    if "inverse" not in hot.dims:
        return plain, hot
    left = metrics.overall(hot)
    return plain.sum("inverse"), hot.isel(inverse=left.fillna(np.inf).argmin("inverse"))


def least_grown_by_temperature(sums: xr.Dataset, measure: CountMeasure) -> xr.DataArray:
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


def cvc_bounds(outcomes: xr.Dataset, level: float = 0.95) -> xr.DataArray:
    """Return low, value and high of the class-wise variance of confidence, all seeds together, along a new dimension `bound`.

    The mean of `confidence_variance` over the images of each class with its normal interval, which seeds that differ or share
    images widen (`pooling.design_effect`). Tian 2021, Definition 5.1, with the mean confidence of an image taken over the
    classes (the paper's text divides by N).
    """
    from scipy import stats  # slow to import

    spread, numbers = confidence_variance(outcomes), np.arange(outcomes.sizes["predicted"])
    of_class = xr.DataArray(numbers, dims="label", coords={"label": outcomes.predicted.values})
    in_class = spread.where(outcomes.truth == of_class)
    over = [dim for dim in ("seed", "image") if dim in in_class.dims]
    error = in_class.std(over, ddof=1) * np.sqrt(pooling.design_effect_of(spread, outcomes) / in_class.count(over))
    mean, reach = in_class.mean(over), stats.norm.ppf(0.5 + level / 2) * error
    parts = [(mean - reach).clip(0), mean, mean + reach]
    bounds: xr.DataArray = xr.concat(parts, "bound").assign_coords(bound=["low", "value", "high"])
    return bounds.rename("cvc")


# The readout of HE whose outputs are its cosines, without their scale.
COSINES = "cosines"


def tempered(outcomes: xr.Dataset, grid: Sequence[int] = ()) -> xr.Dataset:
    """Return outcomes under pgd-20 and temperature-pgd-20 with the dimensions defence, seed, form, inverse, image and predicted.

    PGD is at inverse "1", in each form: its direction is that of Temperature-PGD at T = 1. A defence that was also evaluated with
    its cosines is one more along `defence`, named by `combine.network_name`. form: "stable" and "published", where both were
    evaluated. grid: values of 1 / T that are compared; a network without all of them is left out, and NotRecorded is raised where
    none is left or the attack is missing.
    """
    kinds = [str(name).partition("@")[0] for name in outcomes.attack.values]
    if "temperature-pgd-20" not in kinds or "inverse" not in outcomes.dims:
        raise NotRecorded("results under temperature-pgd-20 at several temperatures are not recorded")
    plain, hot = (outcomes.isel(attack=kinds.index(name), drop=True) for name in ("pgd-20", "temperature-pgd-20"))
    heats = [value for value in outcomes.inverse.values if value != ""]
    forms = [str(value) for value in outcomes.form.values if value != ""]
    first = plain.sel(inverse="", form="", drop=True)
    parts = [first.expand_dims(form=forms), *(hot.sel(inverse=value, form=forms, drop=True) for value in heats)]
    combined = xr.concat(parts, xr.DataArray([inverse_name(""), *map(inverse_name, heats)], dims="inverse", name="inverse"))
    return _of_grid(_cosines_apart(combined), grid)


def _of_grid(tempered: xr.Dataset, grid: Sequence[int]) -> xr.Dataset:
    """Return the networks that were evaluated in the first form at all inverse temperatures of a grid."""
    wanted, present = list(map(inverse_name, grid)), tempered.truth.isel(form=0) >= 0
    complete = present.any(["seed", "image"]).reindex(inverse=wanted, fill_value=False).all("inverse")
    if not bool(complete.any()):
        raise NotRecorded(f"results of no network under temperature-pgd-20 at 1/T = {', '.join(wanted)} are recorded")
    return tempered.isel(defence=complete.transpose("defence").values)


def _cosines_apart(combined: xr.Dataset) -> xr.Dataset:
    """Return outcomes along readout with the networks evaluated with their cosines as further ones along defence."""
    if "readout" not in combined.dims:
        return combined
    read = {str(name): combined.sel(readout=name, drop=True) for name in combined.readout.values}
    present = (read[COSINES].truth >= 0).any([dim for dim in read[COSINES].truth.dims if dim != "defence"])
    other = read[COSINES].isel(defence=present.values)
    other = other.assign_coords(defence=[network_name(str(name), COSINES) for name in other.defence.values])
    return xr.concat([read["logits"], other], "defence")


def smoothness(bounds: xr.DataArray, count: xr.DataArray) -> pd.DataFrame:
    """Return of each network the mean class-wise variance of confidence and its correlation with the accuracy of the classes."""
    spread = bounds.sel(bound="value", drop=True)
    related = xr.corr(spread, metrics.accuracy(count), dim="label")
    table = pd.DataFrame({"mean CVC": spread.mean("label").to_series(), "correlation with accuracy": related.to_series()})
    return table.map("{:.2g}".format)


def readings(tempered: xr.Dataset) -> pd.DataFrame:
    """Return the accuracy at each temperature of networks with and without their scale; no rows where there are none.

    tempered: of `tempered`, one form. The last column: on how many images the network without its scale predicts another class
    than the scaled one under plain PGD. Where 1 / T is the scale, the two attacks are the same.
    """
    rows, names = {}, [str(name) for name in tempered.defence.values]
    for name in names:
        other = network_name(name, COSINES)
        if other not in names:
            continue
        both = {word: tempered.sel(defence=which, drop=True) for word, which in (("scaled", name), ("cosines", other))}
        left = {word: metrics.overall(aggregate.counts(outputs).sum("seed")) for word, outputs in both.items()}
        plain = both["scaled"].sel(inverse="1", drop=True)
        differ = ((both["cosines"].answer != plain.answer) & (plain.truth >= 0)).sum(["seed", "image"])
        for heat in map(str, tempered.inverse.values):
            rows[name, heat] = {f"{word}, %": f"{float(rate.sel(inverse=heat)):.1f}" for word, rate in left.items()}
            rows[name, heat]["cosines otherwise than PGD on scaled, images"] = f"{int(differ.sel(inverse=heat))}"
    return pd.DataFrame(rows).T.rename_axis(["network", "1 / T"]) if rows else pd.DataFrame()


def changes_at_best(count: xr.DataArray) -> xr.DataArray:
    """Return by how many points the accuracy of each class changes from PGD to the temperature that breaks the most images.

    count: of `tempered`, one form, seeds pooled. The dimension network names the temperature, too: "trades, 1/T = 5".
    """
    rates, left = metrics.accuracy(count), metrics.overall(count)
    hot = [name for name in count.inverse.values if name != "1"]
    best = left.sel(inverse=hot).idxmin("inverse").to_series()
    plain = rates.sel(inverse="1", drop=True)
    parts = [(rates.sel(inverse=heat, drop=True) - plain).sel(defence=name, drop=True) for name, heat in best.items()]
    names = [f"{name}, 1/T = {inverse}" for name, inverse in best.items()]
    return xr.concat(parts, xr.DataArray(names, dims="network", name="network"))


def as_published(count: xr.DataArray) -> xr.DataArray:
    """Return counts with the cosines of HE, by its losses the readout of the paper, under the name of its tables."""
    names = [str(name) for name in count.defence.values]
    scaled = {name.partition(",")[0] for name in names if name.endswith(f", {COSINES}")}
    kept = count.sel(defence=[name for name in names if name not in scaled])
    return kept.assign_coords(defence=[str(name).partition(",")[0] for name in kept.defence.values])
