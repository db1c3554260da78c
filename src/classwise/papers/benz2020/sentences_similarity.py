"""The findings of the page on similar classes and the mistakes between them, with 95 % intervals."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core import datasets
from classwise.core.markup import decimal, escaped
from classwise.papers.benz2020 import section_3_2_similarity as similar
from classwise.papers.benz2020.section_3_2_similarity import AS_PRINTED, CENTRED, ROBUST
from classwise.papers.findings import interval, p_value, sample
from classwise.stats import features, metrics, pooling, significance

# Both the images and the classes must show that a correlation is not chance.
_LEVEL = 0.05


def correlations(blocks: xr.Dataset) -> xr.DataArray:
    """Return the rank correlation of cosines and mistakes of pairs, along predictor and bound; blocks: `features.by_block`."""
    names = similar.available(blocks)
    bounds = [features.interval(blocks, partial(similar.alike_and_mistaken, predictor=name)) for name in names]
    joined = xr.concat(bounds, "predictor", coords="minimal", compat="override").assign_coords(predictor=names)
    return joined.clip(-1, 1)


def mantel(blocks: xr.Dataset) -> dict[str, float]:
    """Return the p-value of each of these correlations when the classes are permuted (Mantel 1967)."""
    statistics = features.statistics(blocks)
    return {name: similar.similar_p(statistics, name) for name in similar.available(blocks)}


def correlation_table(bounds: xr.DataArray, p: Mapping[str, float]) -> pd.DataFrame:
    """Return a line for each predictor with its correlation, interval and p-value."""
    rows = bounds.transpose("predictor", "bound").to_pandas()
    ends = {name: rows[name].map(lambda value: decimal(value, 2)) for name in ("value", "low", "high")}
    words = ends["value"] + " [" + ends["low"] + ", " + ends["high"] + "]"
    shown = words.where(rows["low"].notna(), ends["value"])
    chances = {name: significance.p_text(value) for name, value in p.items()}
    return pd.DataFrame({"rank correlation": shown, "p": pd.Series(chances)}).rename_axis("cosine of")


def headline(bounds: xr.DataArray, p: Mapping[str, float], outcomes: xr.Dataset) -> str:
    """Return whether classes with similar mean logits are mistaken for one another, as printed and without their offset."""
    if AS_PRINTED not in bounds.predictor.values:
        return f"No mean logits of {ROBUST} on validation images are recorded at this scale."
    plain, centred = (bounds.sel(predictor=name, drop=True) for name in (AS_PRINTED, CENTRED))
    low, high = (float(plain.sel(bound=name)) for name in ("low", "high"))
    start = "Whether classes with similar mean logits are mistaken for one another is open"
    if low > 0 and p[AS_PRINTED] < _LEVEL:
        start = "Classes with similar mean logits are mistaken for one another"
    elif high < 0:
        start = "Classes with similar mean logits are less often mistaken for one another than others"
    attack = str(outcomes.attack.values[-1])
    return (
        f"**{start}: over all pairs of classes, the cosine of their mean logits on validation images has a rank correlation of "
        f"{_written(plain)} with the mistakes of {ROBUST} between them under {attack} on test images; {p_value(p[AS_PRINTED])} "
        f"against permuted classes.** Less the mean of all classes it is {_written(centred)}, {p_value(p[CENTRED])}. "
        f"{sample(outcomes)}"
    )


def _written(bounds: xr.DataArray) -> str:
    if bool(np.isfinite(bounds).all()):
        return interval(bounds, "", 2)
    return f"{decimal(float(bounds.sel(bound='value')), 2)} (no interval: one block of images)"


def mostly_correct(outcomes: xr.Dataset) -> str:
    """Return the weakest class of adversarial training, clean and attacked, and what it is mistaken for most."""
    parts = []
    for attack in map(str, outcomes.attack.values):
        count = pooling.pooled(outcomes.sel(attack=attack, defence=[ROBUST])).isel(defence=0, drop=True)
        rates = metrics.accuracy(count)
        name = str(rates.fillna(np.inf).idxmin("label").item())
        row = metrics.off_diagonal_confusion(count).sel(label=name)
        most = f"most often mistaken for class {escaped(str(row.idxmax('predicted').item()))} ({float(row.max()):.0f} %)"
        parts.append(
            f"under {attack}, class {escaped(name)}: {float(rates.min()):.0f} % correct, {most}".replace("under clean", "clean")
        )
    return f"**Weakest class of {ROBUST}**, {'; '.join(parts)}."


def lonely(blocks: xr.Dataset) -> str:
    """Return the correlation of the mean cosine of a class with its accuracy under attack, over the classes.

    Its sign is said to be known only where both the interval, of redrawn images, and the p-value, of permuted classes, agree.
    """
    bounds = features.interval(blocks, similar.lonely_is_robust).clip(-1, 1)
    low, high = (float(bounds.sel(bound=name)) for name in ("low", "high"))
    p, size = similar.lonely_p(features.statistics(blocks)), blocks.sizes["label"]
    start = f"Whether those of these {size} classes that are similar to all others are less robust is open"
    if p < _LEVEL and (high < 0 or low > 0):
        start = f"Of these {size} classes, those similar to all others are {'less' if high < 0 else 'more'} robust"
    return f"**{start}**: the correlation over the classes is {_written(bounds)}, {p_value(p)} against permuted classes."


def groups(chosen: xr.DataArray, judged: xr.DataArray, network: str) -> str:
    """Return whether mistakes stay within the groups of classes that the mistakes of other images and another network form.

    chosen: counts of validation images, of `network`. judged: counts of attacked test images of adversarial training.
    """
    group = metrics.groups(chosen)
    wrong = int(chosen.sum() - metrics.correct(chosen).sum())
    if not wrong:
        return f"{network} makes no mistake on validation images, so they form no groups."
    members = [", ".join(map(escaped, map(str, some.label.values))) for _, some in group.groupby(group)]
    return (
        f"**Groups of classes** that {wrong} mistakes of {network} on validation images form: {' | '.join(members)}. "
        f"{_within(judged, group)}"
    )


def superclasses(judged: xr.DataArray, dataset: str) -> str:
    """Return whether mistakes stay within the superclasses of a dataset, if it has any."""
    if dataset not in datasets.with_superclasses():
        return f"**Superclasses.** The classes of {escaped(datasets.title(dataset))} form none, so this test needs photographs."
    group = judged.label.copy(data=datasets.superclass_numbers(list(map(str, judged.label.values))))
    return f"**Superclasses of {escaped(datasets.title(dataset))}.** {_within(judged, group)}"


def _within(count: xr.DataArray, group: xr.DataArray) -> str:
    share, by_chance, p = significance.within_test(count, group)
    if np.isnan(share):
        return "Mistakes of the attacked network cannot be divided: a class has no images, or there are no mistakes."
    return (
        f"Of the mistakes of {ROBUST} under attack on test images, {share:.0f} % lie within them, {by_chance:.0f} % by chance "
        f"({p_value(p)})."
    )
