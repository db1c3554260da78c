"""Tables and sentences of attacks beside defences: ours beside the papers', who loses what, how alike the settings are."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

from classwise import answers, chance, metrics, published, superclasses

Labelled = TypeVar("Labelled", xr.DataArray, xr.Dataset)
_SIGNS = {"robust": 1, "vulnerable": -1, "not to be told": 0}


def stacked(parts: Mapping[str, Labelled], dim: str) -> Labelled:
    """Return arrays, or outcomes, of the same kind along a new dimension, by their names."""
    names = xr.DataArray(list(parts), dims=dim, name=dim)
    found: Labelled = xr.concat(list(parts.values()), names, coords="minimal", compat="override")
    return found


def lines(tables: Mapping[str, pd.DataFrame], name: str) -> pd.DataFrame:
    """Return tables one below the other, with what each is of in a first column of the index."""
    return pd.concat(dict(tables), names=[name])


def sure(standing: xr.DataArray) -> pd.DataFrame:
    """Return in how many settings each class is surely robust, surely vulnerable or neither (`intervals.standing`)."""
    settings = [dim for dim in standing.dims if dim != "label"]
    found = {word: (standing == sign).sum(settings).to_series() for word, sign in _SIGNS.items()}
    return pd.DataFrame(found).rename_axis("class").T


def alike(rates: xr.DataArray) -> str:
    """Return in a sentence which classes are the best and the worst in how many settings, and how alike the settings are.

    rates: of classes, along label and further dimensions. Alike: the correlation over classes of each two settings.
    """
    settings = [dim for dim in rates.dims if dim != "label"]
    flat = rates.stack(setting=settings).transpose("label", "setting")
    often = [pd.Series(one.values).value_counts() for one in (flat.idxmax("label"), flat.idxmin("label"))]
    told = [", ".join(f"class {name} in {number}" for name, number in one.items()) for one in often]
    pairs = np.corrcoef(flat.values.T)[np.triu_indices(flat.sizes["setting"], 1)] if flat.sizes["setting"] > 1 else []
    two = f"{np.mean(pairs):.2f} on average, at least {np.min(pairs):.2f}" if len(pairs) else "one setting only"
    best = f"**Of {flat.sizes['setting']} settings**, the best class is {told[0]}; the worst is {told[1]}."
    return f"{best} **Correlation over the classes** of two settings: {two}."


def steps(outcomes: xr.Dataset, pairs: Sequence[tuple[str, str]]) -> dict[str, xr.DataArray]:
    """Return by "weaker to stronger" the counts of pairs of attacks, seeds pooled, on the images that both were asked about."""
    parts = {f"{weak} to {strong}": outcomes.sel(attack=[weak, strong]) for weak, strong in pairs}
    return {name: metrics.counts(answers.common(part)).sum("seed") for name, part in parts.items()}


def lost(counts: Mapping[str, xr.DataArray]) -> xr.DataArray:
    """Return by how many points each class changes along each of `steps`: dimensions step and those of the counts."""
    rates = {name: metrics.accuracy(count) for name, count in counts.items()}
    return stacked({name: one.isel(attack=1, drop=True) - one.isel(attack=0, drop=True) for name, one in rates.items()}, "step")


def who_loses(counts: Mapping[str, xr.DataArray]) -> pd.DataFrame:
    """Return how many points vulnerable and robust classes lose from a weaker to a stronger attack, the mean over the defences.

    counts: by a name, counts of two attacks along attack, the weaker first; Definition 3.3 is applied to the weaker.
    """
    rows = {}
    for name, count in counts.items():
        weak, strong = (count.isel(attack=place, drop=True) for place in (0, 1))
        lost, robust = metrics.accuracy(weak) - metrics.accuracy(strong), metrics.robust_classes(weak)
        kinds = {"vulnerable classes lose": lost.where(~robust), "robust classes lose": lost.where(robust)}
        rows[name] = {kind: f"{float(one.mean('label').mean()):.1f}" for kind, one in kinds.items()}
    return pd.DataFrame(rows).T


def smoothness(bounds: xr.DataArray, count: xr.DataArray) -> pd.DataFrame:
    """Return of each network the mean class-wise variance of confidence and its correlation with the accuracy of the classes."""
    spread = bounds.sel(bound="value", drop=True)
    related = xr.corr(spread, metrics.accuracy(count), dim="label")
    table = pd.DataFrame({"mean CVC": spread.mean("label").to_series(), "correlation with accuracy": related.to_series()})
    return table.map("{:.2g}".format)


def readings(tempered: xr.Dataset) -> pd.DataFrame:
    """Return what each temperature leaves of networks that are read with and without their scale; no rows where there are none.

    tempered: of `answers.tempered`, one form. The last column: on how many images the network without its scale answers
    otherwise than the scaled one does under plain PGD. Where 1 / T is the scale, the two attacks are the same.
    """
    rows, there = {}, [str(name) for name in tempered.defence.values]
    for name in there:
        other = answers.network(name, answers.COSINES)
        if other not in there:
            continue
        both = {word: tempered.sel(defence=which, drop=True) for word, which in (("scaled", name), ("cosines", other))}
        left = {word: metrics.overall(metrics.counts(one).sum("seed")) for word, one in both.items()}
        plain = both["scaled"].sel(inverse="1", drop=True)
        differ = ((both["cosines"].answer != plain.answer) & (plain.truth >= 0)).sum(["seed", "image"])
        for heat in (str(one) for one in tempered.inverse.values):
            rows[name, heat] = {f"{word}, %": f"{float(one.sel(inverse=heat)):.1f}" for word, one in left.items()}
            rows[name, heat]["cosines otherwise than PGD on scaled, images"] = f"{int(differ.sel(inverse=heat))}"
    return pd.DataFrame(rows).T.rename_axis(["network", "1 / T"]) if rows else pd.DataFrame()


def superclassed(dataset: str, counts: Mapping[str, xr.DataArray]) -> pd.DataFrame:
    """Return how many of the mistakes stay within superclasses, against chance, in percent: a row for each of `counts`.

    counts: of networks on a dataset that has superclasses. Below them what can be told from the paper's own Table 4 (TRADES on
    1,000 cats, plain and attacked): there chance is that a mistake falls on any other class alike (an exact binomial test).
    """
    rows: dict[str, tuple[float, float, float]] = {}
    if dataset in superclasses.SUPERCLASSES:
        for name, count in counts.items():
            labels = list(map(str, count.label.values))
            group = count.label.copy(data=superclasses.numbers(labels))
            rows[f"{dataset}, {name}"] = chance.within_test(count, group)
    lines = published.load("tian2021", 4)["count"].sel(treatment="as they are", drop=True)
    kinds = superclasses.superclasses("cifar10")
    for attack in map(str, lines.attack.values):
        others = lines.sel(attack=attack, predicted=[name for name in kinds if name != "cat"])
        near = [kinds[str(name)] == kinds["cat"] for name in others.predicted.values]
        inside, whole = int(others.values[near].sum()), int(others.sum())
        p = stats.binomtest(inside, whole, float(np.mean(near)), alternative="greater").pvalue
        rows[f"theirs: cats of cifar10, {attack}"] = (100 * inside / whole, 100 * float(np.mean(near)), float(p))
    table = pd.DataFrame(rows, index=["within, % of the mistakes", "by chance, %", "p"]).T
    told = table.iloc[:, :2].map("{:.0f}".format)
    return told.assign(p=["< .001" if value < 0.001 else f"{value:.3f}" for value in table["p"]])


def as_published(count: xr.DataArray) -> xr.DataArray:
    """Return counts in which HE is read as the paper reads it, from its cosines, under the name that its tables have for it."""
    names = [str(name) for name in count.defence.values]
    scaled = {name.partition(",")[0] for name in names if name.endswith(f", {answers.COSINES}")}
    kept = count.sel(defence=[name for name in names if name not in scaled])
    return kept.assign_coords(defence=[str(name).partition(",")[0] for name in kept.defence.values])


def beside(count: xr.DataArray, table: xr.Dataset, over: Sequence[str] = ("defence", "attack")) -> pd.DataFrame:
    """Return ours and theirs: all images, the worst and the best class, CV and MCD, a line for each setting of theirs.

    count: ours, with the dimensions `over`. table: theirs, of `published.load`. Settings that we lack have no numbers of ours;
    where our classes are those of their dataset, each class follows.
    """
    mine, rates = metrics.accuracy(count), table.accuracy
    pairs: dict[str, tuple[Any, Any]] = {
        "all": (metrics.overall(count), table.overall),
        "worst": (mine.min("label"), rates.min("label")),
        "best": (mine.max("label"), rates.max("label")),
        "CV": (metrics.cv(count), table.cv),
        "MCD": (metrics.mcd(count), table.mcd),
    }
    if list(map(str, mine.label.values)) == list(map(str, rates.label.values)):
        pairs |= {str(name): (mine.sel(label=name), rates.sel(label=name)) for name in rates.label.values}
    columns = {f"{name}, {who}": one for name, both in pairs.items() for who, one in zip(("ours", "theirs"), both, strict=True)}
    flat = {key: one.drop_vars("label", errors="ignore").to_series().reorder_levels([*over]) for key, one in columns.items()}
    order = table.overall.transpose(*over).to_series().dropna().index
    return pd.DataFrame(flat).reindex(order).map(lambda value: "" if pd.isna(value) else f"{value:.1f}")
