"""Networks that are attacked in one class alone, next to one of standard training: what they predict, and features in a plane.

Entropy 2022, section 2.1. Outcomes are along `attacked`, the class that a network was attacked in, "" for standard training.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core.errors import UserError
from classwise.core.spec import Spec
from classwise.papers.selection import SAFEST, VULNERABLE_PAIRS
from classwise.stats import aggregate, combine, features, intervals, metrics, pooling

GROUPS = ("hardest", "easiest")
# CIFAR-10 as in the paper. Those of digits are the first and the last of `selection.by_robustness`, on other images than those
# that they are judged on.
CLASSES: dict[str, tuple[str, str]] = {name: (VULNERABLE_PAIRS[name][0], easiest) for name, easiest in SAFEST.items()}


def shown_classes(names: Sequence[str]) -> dict[str, str]:
    """Return the "hardest" and the "easiest" one of the classes of a dataset; UserError if they are not known."""
    for both in CLASSES.values():
        if set(both) <= set(names):
            return dict(zip(GROUPS, both, strict=True))
    raise UserError(f"the hardest and the easiest of these classes are not known: {', '.join(names)}")


def named(alone: xr.Dataset) -> xr.Dataset:
    """Return outcomes along `attacked`, the name of the class, in place of its number."""
    names = [str(alone.predicted.values[number]) for number in alone.option_label.values]
    return alone.assign_coords(option_label=names).rename(option_label="attacked")


def by_attacked(plain: xr.Dataset, alone: xr.Dataset) -> xr.Dataset:
    """Return outcomes along `attacked`: of networks that were each attacked in one class, and "" of standard training."""
    several = named(alone)
    parts = {str(name): several.sel(attacked=name, drop=True) for name in several.attacked.values} | {"": plain}
    return combine.combine("attacked", combine.shared_seeds(parts)).assign_attrs(plain.attrs)


# The kinds of images along `shown`.
CLEAN, TRAINING, TRANSFERRED = "clean test images", "attacked training images", "attacked on standard training"


def by_images(alone: xr.Dataset, other: xr.Dataset, kind: str) -> xr.Dataset:
    """Return outcomes along `shown`: clean test images, and those of a part as this kind."""
    if kind == TRAINING:
        # They are other images, although each split counts them from 0.
        other = other.assign_coords(image=other.image + int(alone.image.max()) + 1)
    parts = {CLEAN: alone.sel(attack=["clean"]), kind: other.isel(attack=[0])}
    alike = {name: named(part.assign_coords(attack=["any"])) for name, part in parts.items()}
    return combine.combine("shown", combine.shared_seeds(alike)).assign_attrs(alone.attrs)


def attacked_names(data: xr.DataArray | xr.Dataset) -> list[str]:
    """Return the classes that some network was attacked in, without "" for standard training."""
    return [str(name) for name in data.attacked.values if name]


def of_attacked_class(values: xr.DataArray) -> xr.DataArray:
    """Return values of classes (attacked, label) in the network attacked in each: along `attacked` alone."""
    names = attacked_names(values)
    place = xr.DataArray(names, dims="attacked", coords={"attacked": names})
    return values.sel(attacked=names).sel(label=place).drop_vars("label")


def predictions(outcomes: xr.Dataset) -> xr.DataArray:
    """Return count(attacked, images_are, label, predicted) of outcomes of `by_attacked`, without standard training."""
    count = aggregate.counts(outcomes).sum("seed").isel(defence=0, drop=True).sel(attacked=attacked_names(outcomes))
    return aggregate.clean_and_attacked(count)


# What `attacked_class_shares` returns.
OF_CLASS, OF_OTHERS = "images of the class, %", "images of other classes, %"


def attacked_class_shares(outcomes: xr.Dataset, transferred: xr.Dataset, training: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return how often images are predicted as the class that a network was attacked in, with Wilson's 95 % intervals.

    By title, along `attacked`, `of` (the kind of images) and bound ("low", "value", "high"): of images of that class, and of all
    others. outcomes: of `by_attacked`; transferred, training: of the parts of these names.
    """
    attack = str(outcomes.attack.values[-1])
    kinds = {
        "clean": outcomes.sel(attacked=attacked_names(outcomes), attack="clean", drop=True),
        attack: outcomes.sel(attacked=attacked_names(outcomes), attack=attack, drop=True),
        f"transferred {attack}": named(transferred).isel(attack=0, drop=True),
        f"training images, {attack}": named(training).isel(attack=0, drop=True),
    }
    several = [pooling.pooled(part).isel(defence=0, drop=True) for part in kinds.values()]
    count = xr.concat(several, pd.Index(list(kinds), name="of"), coords="minimal", compat="override")
    names = attacked_names(count)
    place = xr.DataArray(names, dims="attacked", coords={"attacked": names})
    hits = count.sel(attacked=names).sel(predicted=place).drop_vars("predicted")
    total = metrics.images(count)
    same = count.label == place
    parts = {OF_CLASS: same, OF_OTHERS: ~same}
    return {title: _with_bounds(hits.where(some).sum("label"), total.where(some).sum("label")) for title, some in parts.items()}


def _with_bounds(right: xr.DataArray, total: xr.DataArray) -> xr.DataArray:
    ends = intervals.wilson_bounds(right, total, 0.95)
    value = (100 * right / total.where(total > 0)).expand_dims(bound=["value"])
    return xr.concat([ends, value], "bound").sel(bound=["low", "value", "high"])


def accuracies(outcomes: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the accuracy of each class by training and images, along `of`, and its Wilson interval (bound).

    Each class in the network that is attacked in it alone, clean and attacked, and clean in standard training. outcomes: of
    `by_attacked`.
    """
    count = pooling.pooled(outcomes).isel(defence=0, drop=True)
    names, attack = attacked_names(count), str(outcomes.attack.values[-1])
    clean = count.sel(attack="clean", drop=True)
    plain = clean.sel(attacked="", drop=True).sel(label=names)
    kinds = {"standard training, clean": (metrics.accuracy(plain), intervals.wilson(plain))}
    for title, some in (("attacked alone, clean", clean), (f"attacked alone, {attack}", count.sel(attack=attack, drop=True))):
        both = metrics.accuracy(some), intervals.wilson(some)
        rate, ends = (of_attacked_class(one).rename(attacked="label") for one in both)
        kinds[title] = rate, ends
    index = pd.Index(list(kinds), name="of")
    rates, ends = (
        xr.concat(list(some), index, coords="minimal", compat="override") for some in zip(*kinds.values(), strict=True)
    )
    return rates, ends


def similarities(statistics: xr.Dataset) -> xr.DataArray:
    """Return the largest cosine of each class, on clean images, along `of`: in its network and in standard training.

    The mean over the seeds.
    """
    clean = statistics.sel(attack="clean", drop=True).isel(defence=0, drop=True)
    nearest = features.nearest(features.similarity(clean)).mean("seed")
    names = attacked_names(nearest)
    parts = [nearest.sel(attacked="", drop=True).sel(label=names), of_attacked_class(nearest).rename(attacked="label")]
    return xr.concat(parts, pd.Index(["standard training", "attacked alone"], name="of"), coords="minimal", compat="override")


def similarity_bounds(outcomes: xr.Dataset) -> xr.DataArray:
    """Return `similarities` along bound ("low", "value", "high"); outcomes: of `by_attacked`, with features."""
    return features.interval(features.by_block(outcomes), similarities)


def even_cosine(classes: int) -> float:
    """Return the cosine between two neighbours of so many directions that are spread evenly in a plane."""
    return float(np.cos(2 * np.pi / classes))


def places(by_run: Mapping[Spec, Sequence[xr.Dataset]], most: int = 100) -> pd.DataFrame:
    """Return the features of images in the plane, a row for each: attacked (class), kind, label, answer, x, y.

    by_run: by a run, its features (`runs.features`) of clean images, and of attacked ones, of which only those of the class that
    it was attacked in are kept. At most so many images of each class. Lengths are shares of the largest but 2 % of a network.
    """
    parts = []
    for spec, (clean, moved) in by_run.items():
        names = [str(name) for name in clean.label.values]
        label = names[int(str(spec.options["label"]))]
        length = float(np.quantile(np.hypot(*clean.place.values.T), 0.98))
        for kind, data in (("clean", clean), ("attacked", moved)):
            table = pd.DataFrame(data.place.values / length, columns=["x", "y"])
            table = table.assign(label=np.array(names)[data.truth.values], answer=np.array(names)[data.answer.values])
            table = table[table["label"] == label] if kind == "attacked" else table
            parts.append(table.groupby("label").head(most).assign(attacked=label, kind=kind))
    return pd.concat(parts, ignore_index=True)


def directions(by_run: Mapping[Spec, Sequence[xr.Dataset]]) -> pd.DataFrame:
    """Return the direction of the mean of each class on clean images, of length 1: attacked, label, x, y."""
    parts = []
    for spec, (clean, _) in by_run.items():
        mean = clean.total.sum("block") / clean.images.sum("block")
        unit = mean / np.hypot(*mean.transpose("feature", "label").values).clip(1e-12)[:, None]
        names = [str(name) for name in clean.label.values]
        table = pd.DataFrame(unit.transpose("label", "feature").values, columns=["x", "y"])
        parts.append(table.assign(label=names, attacked=names[int(str(spec.options["label"]))]))
    return pd.concat(parts, ignore_index=True)
