"""What section 1.1 of Entropy 2022 finds on our images, in sentences: similarity, variance, and the drop of clean accuracy."""

import numpy as np
import xarray as xr

from classwise.core.markup import decimal, escaped
from classwise.papers.entropy2022 import section_1
from classwise.papers.entropy2022 import similarity as likeness
from classwise.papers.findings import interval, sample
from classwise.stats import bootstrap, features, metrics, significance

_DIGITS = 3


def _known(bounds: xr.DataArray) -> bool:
    return bool(np.isfinite(bounds).all())


def _written(bounds: xr.DataArray, digits: int, unit: str = "") -> str:
    """Return a number with its interval, or that it has none."""
    if _known(bounds):
        return interval(bounds, unit, digits)
    return f"{decimal(float(bounds.sel(bound='value')), digits)}{' ' * bool(unit)}{unit} (no interval: one block of images)"


def headline(blocks: xr.Dataset, outcomes: xr.Dataset) -> str:
    """Return by how much similarity and variance of adversarial trainings differ from those of standard training.

    blocks: as `runs.features` returns it, of the same networks as the outcomes.
    """

    def compared(statistics: xr.Dataset) -> xr.DataArray:
        gain = section_1.similarity_gains(statistics)
        ratio = section_1.variance_ratios(statistics)
        relative = section_1.variance_ratios(statistics, relative=True)
        names = ["similarity", "variance", "relative variance"]
        return xr.concat([gain, ratio, relative], "measure", coords="minimal", compat="override").assign_coords(measure=names)

    bounds = features.interval(blocks, compared)
    lines = []
    for name in map(str, bounds.defence.values):
        gain, ratio, relative = (bounds.sel(defence=name, measure=some, drop=True) for some in bounds.measure.values)
        lines.append(
            f"the mean similarity of {name} {_verb(gain)} by {_written(gain, _DIGITS)}; its variance is "
            f"{_written(ratio, 2, 'times')} as large, and relative to the squared length of the mean "
            f"{_written(relative, 2, 'times')} as large."
        )
    first, *rest = (f"{line[:1].upper()}{line[1:]}" for line in lines)
    return f"**Compared with standard training, {first[:1].lower()}{first[1:]}** {' '.join(rest)} {sample(outcomes)}"


def _verb(bounds: xr.DataArray) -> str:
    """Return the verb of a difference, which is a rise only where its whole interval is above 0."""
    return "rises" if float(bounds.sel(bound="low")) > 0 else "differs"


def drop(outcomes: xr.Dataset) -> str:
    """Return by how much clean accuracy drops from standard training, and the share of the two least robust classes in it.

    outcomes: of standard and other networks, clean and under attack last.
    """
    parts = []
    for name in map(str, outcomes.defence.values[outcomes.defence.values != "standard"]):
        pair = outcomes.sel(defence=["standard", name])
        lost = bootstrap.paired(pair, _overall_drop, span=(-100, 100))
        text = f"{name} loses {interval(lost, 'points', 1)} of clean accuracy"
        if float(lost.sel(bound="low")) <= 0:
            parts.append(f"{text}: there is no certain drop to share")
            continue
        classes, share = two_least_robust(pair, name), bootstrap.paired(pair, _share(name))
        even = 200 / outcomes.sizes["predicted"]
        parts.append(f"{text}; classes {classes} account for {interval(share, '%')} of it, two average classes for {even:.0f} %")
    return f"**Compared with standard training**, {'; '.join(parts)}."


def _overall_drop(count: xr.DataArray) -> xr.DataArray:
    rates = metrics.overall(count.sel(attack="clean"))
    return rates.isel(defence=0) - rates.isel(defence=1)


def _share(name: str) -> metrics.Metric:
    return lambda count: section_1.share_of_two(count.to_dataset(name="count"), name)


def two_least_robust(outcomes: xr.Dataset, defence: str) -> str:
    """Return the names of the two classes of a defence with the lowest accuracy under the last attack."""
    count = bootstrap.sums(outcomes, {})["count"].isel(attack=-1).sel(defence=defence)
    order = metrics.accuracy(count).to_series().sort_values(kind="stable").index
    return " and ".join(escaped(str(name)) for name in order[:2])


def equal_accuracy(joined: xr.Dataset) -> str:
    """Return how the similarity of adversarial trainings compares with that of the standard training nearest in accuracy.

    joined: of `section_1.with_shorter`, with features.
    """
    blocks = features.by_block(joined)
    bounds = features.interval(blocks, section_1.gains_at_equal_accuracy)
    statistics = features.statistics(blocks).isel(defence=0, drop=True)
    accuracy = likeness.clean_accuracy(statistics)
    parts = []
    for name in map(str, bounds.trained.values):
        near = accuracy.network[section_1.nearest_in_accuracy(accuracy, name)]
        who = str(near.values[0])
        rates = f"{float(accuracy.sel(network=name)):.1f} and {float(accuracy.sel(network=who)):.1f} % of clean images"
        gain = _written(bounds.sel(trained=name, drop=True), _DIGITS)
        full = ", the full training" if who == "standard" else ""
        parts.append(f"{name} against {who}{full} ({rates}): {gain}")
    return f"**Similarity above that of the standard training nearest in clean accuracy**: {'; '.join(parts)}."


def mistaken(blocks: xr.Dataset) -> str:
    """Return the rank correlation of cosine and confusion over the pairs of classes, for each network, with its p-value."""
    statistics = features.statistics(blocks)
    cosine = features.similarity(likeness.of_clean(statistics)).mean("seed")
    count = statistics["count"].isel(attack=-1, drop=True).sum("seed")
    parts = []
    for name in map(str, cosine.defence.values):
        rank, p = significance.mantel_test(cosine.sel(defence=name), count.sel(defence=name))
        near = cosine.sel(defence=name).where(cosine.label != cosine.other)
        first, second = _closest(near)
        parts.append(f"{name}: {rank:.2f} ({significance.p_value(p)}); its most similar classes are {first} and {second}")
    return f"**Rank correlation of cosine and mistakes over all pairs of classes**: {'. '.join(parts)}."


def _closest(near: xr.DataArray) -> tuple[str, str]:
    """Return the names of the two classes with the largest cosine."""
    place = near.transpose("label", "other").fillna(-np.inf).values
    first, second = np.unravel_index(int(place.argmax()), place.shape)
    return escaped(str(near.label.values[first])), escaped(str(near.other.values[second]))
