"""Tian et al. 2021, section 6.2: adjusting the background.

The claims need along `colouring` drawings on the colour of their class next to the control; along `treatment` the images as they
are, with a white background, and with that and the training adjusted; for each image how `white` it is around its object; on the
classes their `background`, and which is the `vulnerable` one.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core.spec import Evaluation
from classwise.papers import variants
from classwise.papers.sections import Derived, Part, Section
from classwise.papers.selection import mark_pair, marked_class
from classwise.papers.terms import claims, least, value
from classwise.papers.tian2021.recipe import TEMPERED, colour_variants, drawings, scenes, trade_offs
from classwise.papers.tian2021.tables import table_3_value, table_4_gain, text_number
from classwise.stats import aggregate, combine, confidence, metrics

NAME = "tian2021/6-2-background"
# The images as they are, and with the background painted by a treatment or by one of two controls.
_REPAINTED = tuple(
    replace(evaluation, transform=transform)
    for transform in ("none", "white-background", "flat-background", "half-white-background")
    for evaluation in TEMPERED
)
# On drawings with 40 steps (A.1): as they are, attacked, and with the shape of one class on the colour of another.
_PGD_40 = (Evaluation(), Evaluation(attack="pgd-40"))
# 40 steps as published, which reach .4 from the start, and longer ones.
_LONGER = Evaluation(attack="pgd-40@tian2021-mnist").grid(step=(0.01, 0.0125, 0.025))


def _treated(plain: xr.Dataset, adjusted: xr.Dataset) -> xr.Dataset:
    """Return outcomes along `treatment`, with how white each image is around: NaN where nothing is behind its object."""
    kinds = {"as they are": plain.sel(transform="none"), "white": plain.sel(transform="white-background")}
    kinds["both"] = adjusted.sel(transform="white-background")
    flat = {name: some.drop_vars("transform").squeeze(set(some.dims) & {"betas"}, drop=True) for name, some in kinds.items()}
    combined = combine.combine("treatment", flat)
    if "white" not in plain:
        refused = {"white": "how white images are around is not recorded, and known only where scales compute"}
        return mark_pair(combined).assign_attrs(refused=refused)
    return mark_pair(combined.assign(white=plain.white.reindex(image=combined.image)))


def _trained_on_colours(plain: xr.Dataset, standard: xr.Dataset) -> xr.Dataset:
    neighbours = standard.sel(transform="none", drop=True)
    return combine.combine("colouring", {"neighbours": neighbours, "none": plain.sel(defence=["standard"])})


def _at_published_radius(outcomes: xr.Dataset) -> xr.Dataset:
    # As published: the attack with short steps, the first of `_LONGER`.
    half = outcomes.sel(transform="none", drop=True)
    half = xr.concat([half.isel(attack=[place], step=place, drop=True) for place in (0, 1)], "attack")
    colourings = {str(name).partition("-")[2]: half.sel(dataset=name, drop=True) for name in half.dataset.values}
    attrs = half.attrs | {"dataset": str(half.dataset.values[0])}
    published = combine.combine("colouring", {name: colourings[name] for name in ("neighbours", "apart")}).assign_attrs(attrs)
    return published.assign_coords(background=("predicted", np.arange(published.sizes["predicted"]) // 2))


def _part(title: str, *defences: str, **fields: Any) -> Part:
    return Part(title=title, defences=defences, max_seeds=1, **fields)


SECTION = Section(
    title="Adjusting the background",
    defences=("pgd-at",),
    max_seeds=1,
    evaluations=(Evaluation(), *_LONGER, Evaluation(transform="nearly-grey")),
    run=variants.ONCE,
    variants=colour_variants("neighbours", "apart", eps="0.5"),
    parts={
        "plain": _part("drawings on black", "standard", "pgd-at", evaluations=_PGD_40, variants=drawings),
        "standard": _part(
            "standard training on colours",
            "standard",
            evaluations=(*_PGD_40, Evaluation(transform="swapped-colours")),
            run=variants.ONCE,
            variants=colour_variants("neighbours"),
        ),
        "scenes": _part(
            "uneven backgrounds", "trades", evaluations=_REPAINTED, run={"averages": ()}, variants=scenes, adds=("whiteness",)
        ),
        "adjusted": _part(
            "uneven backgrounds, another trade-off for one class",
            "trades-per-class",
            evaluations=_REPAINTED,
            run=variants.ONCE,
            variants=variants.combine(trade_offs("0.5"), scenes),
        ),
    },
    arrange={
        "plain": Derived(lambda outcomes: outcomes, ("plain",)),
        "standard": Derived(_trained_on_colours, ("plain", "standard")),
        "published": Derived(_at_published_radius, ("",)),
        "treated": Derived(_treated, ("scenes", "adjusted")),
    },
)


def _mates(count: xr.DataArray) -> xr.DataArray:
    other = xr.DataArray(count.background.values, dims="predicted", coords={"predicted": count.predicted.values})
    return (count["background"] == other) & (count["label"] != count["predicted"])


def share_within_pairs(count: xr.DataArray) -> xr.DataArray:
    """Return the share of the mistakes within pairs of classes that have the same background, each class of equal weight."""
    mixed, both = metrics.off_diagonal_confusion(count), ["label", "predicted"]
    return 100 * mixed.where(_mates(count), 0).sum(both) / mixed.sum(both)


def _beyond_control(values: xr.DataArray) -> xr.DataArray:
    return values.isel(colouring=0, drop=True) - values.isel(colouring=1, drop=True)


def follows_background(sums: xr.Dataset) -> xr.DataArray:
    """Return how much more of the mistakes go to classes of the same background than to those where other classes share one."""
    return _beyond_control(share_within_pairs(sums["count"].isel(defence=0, attack=0)))


def all_follow(sums: xr.Dataset) -> xr.DataArray:
    """Return how many more of a hundred images of each class go to that of the same background than to each other class."""
    count = sums["count"].isel(defence=0, attack=0, colouring=0)
    mixed, mates = metrics.off_diagonal_confusion(count), _mates(count)
    return mixed.where(mates).max("predicted") - mixed.where(~mates & (mixed.label != mixed.predicted), -np.inf)


def follows_more_attacked(sums: xr.Dataset) -> xr.DataArray:
    """Return how many more of a hundred images the background draws to its classes under the second attack than the first.

    Compared with the control, in which other classes share a background.
    """
    count = sums["count"].isel(defence=0)
    pulled = metrics.off_diagonal_confusion(count).where(_mates(count), 0).sum("predicted", skipna=False)
    more = _beyond_control(pulled.mean("label", skipna=False))
    return more.isel(attack=1, drop=True) - more.isel(attack=0, drop=True)


def colour_effect(sums: xr.Dataset) -> xr.DataArray:
    """Return by how many points the accuracy of the first colouring exceeds that of the second."""
    return _beyond_control(metrics.overall(sums["count"].isel(defence=0, attack=0)))


def unpainted_accuracy(sums: xr.Dataset) -> xr.DataArray:
    """Return the accuracy of the first defence under the first attack, images as they are."""
    return metrics.overall(sums["count"].isel(defence=0, attack=0, treatment=0, drop=True))


def treatment_gain(sums: xr.Dataset, attack: int = -1, treatment: int = 1, before: int = 0) -> xr.DataArray:
    """Return how many points the most vulnerable class gains by a treatment of its images."""
    rates = metrics.accuracy(sums["count"].isel(defence=0, attack=attack)).isel(label=marked_class(sums, "vulnerable"), drop=True)
    return rates.isel(treatment=treatment, drop=True) - rates.isel(treatment=before, drop=True)


def extra_change_under_attack(sums: xr.Dataset) -> xr.DataArray:
    """Return how many points more the most vulnerable class changes by the treatment under attack, be it up or down."""
    without, under = (abs(treatment_gain(sums, attack=attack)) for attack in (0, 1))
    return under - without


# The sums that `rank_correlation` needs, each of an image.
RANK_SUMS = ("known", "x", "y", "xx", "yy", "xy")


def ranks(value: xr.DataArray, truth: xr.DataArray) -> xr.DataArray:
    """Return the rank of each image among those of its class in the same network, from 0 to 1; NaN where it has no value."""
    from scipy import stats  # slow to import

    wide = value.broadcast_like(truth).transpose(*truth.dims)
    result = xr.full_like(wide, np.nan, dtype=float)
    for label in np.unique(truth.values[truth.values >= 0]):
        in_class = wide.where(truth == label)
        place = in_class.copy(data=stats.rankdata(in_class.values, axis=in_class.get_axis_num("image"), nan_policy="omit"))
        result = result.where(in_class.isnull(), (place - 0.5) / in_class.notnull().sum("image"))
    return result


def rank_products(x: xr.DataArray, y: xr.DataArray, truth: xr.DataArray) -> xr.Dataset:
    """Return the ranks x and y of two values of each image, 0 where it lacks either, and their products; `known`: it has both."""
    known = x.notnull() & y.notnull()
    truth = truth.where(known, -1)
    x, y = (ranks(value, truth).fillna(0) for value in (x, y))
    return xr.Dataset({"known": known.broadcast_like(truth), "x": x, "y": y, "xx": x**2, "yy": y**2, "xy": x * y})


def rank_correlation(sums: xr.Dataset) -> xr.DataArray:
    """Return Spearman's correlation from sums of `rank_products`, whose ranks redrawn images keep."""
    number = sums["known"]
    covariance, *variances = (
        sums[one + other] - sums[one] * sums[other] / number for one, other in (("x", "y"), ("x", "x"), ("y", "y"))
    )
    return covariance / np.sqrt(variances[0] * variances[1])


def _ranked(outcomes: xr.Dataset, name: str) -> xr.DataArray:
    return rank_products(confidence.true_confidence(outcomes), outcomes["white"], outcomes.truth)[name]


def confidence_by_whiteness(sums: xr.Dataset) -> xr.DataArray:
    """Return the rank correlation, in the most vulnerable class, of the confidence under attack with the whiteness around."""
    first = {name: 0 for name in ("defence", "attack", "treatment") if name in sums.dims}
    return rank_correlation(sums.isel(first, drop=True).isel(label=marked_class(sums, "vulnerable"), drop=True).sum("predicted"))


_TEMPERED = "temperature-pgd-20|pgd-20"
_PGD = "pgd-40|pgd-20"
_IN_TABLE_3 = partial(table_3_value, value(metrics.overall, "trades", "temperature-pgd-20"), ("trades",))


def _gain(first: str, second: str, attack: str = "temperature-pgd-20") -> Callable[[], float]:
    return partial(table_4_gain, attack, first, second)


_WHITE = "as they are", "white"
CLAIMS = claims(
    NAME,
    {
        "mnist-above-95": {
            "measure": value(metrics.overall, "pgd-at", _PGD),
            "reported": partial(text_number, "overall", "mnist"),
            "reported_on": "mnist",
        },
        "cifar10-50-to-60": {"measure": unpainted_accuracy, "attacks": (_TEMPERED,), "reported": _IN_TABLE_3},
        "standard-does-not-care": {"measure": colour_effect, "defences": ("standard",), "attacks": ("clean",)},
        "follows-background": {"measure": follows_background, "defences": ("pgd-at",), "attacks": (_PGD,)},
        "all-follow": {"measure": least(all_follow), "defences": ("pgd-at",), "attacks": (_PGD,)},
        "more-than-natural": {"measure": follows_more_attacked, "defences": ("pgd-at",), "attacks": ("clean", _PGD)},
        "white-helps": {"measure": treatment_gain, "reported": _gain(*_WHITE)},
        "natural-insensitive": {"measure": treatment_gain, "attacks": ("clean",), "reported": _gain(*_WHITE, "clean")},
        "mostly-attacked": {
            "measure": extra_change_under_attack,
            "reported": lambda: abs(_gain(*_WHITE)()) - abs(_gain(*_WHITE, "clean")()),
        },
        "both-help": {"measure": partial(treatment_gain, treatment=2), "reported": _gain("as they are", "white and adjusted")},
        "both-help-more": {
            "measure": partial(treatment_gain, treatment=2, before=1),
            "reported": _gain("white", "white and adjusted"),
        },
        "white-is-sure": {
            "measure": confidence_by_whiteness,
            "attacks": (_TEMPERED,),
            "values": {name: partial(_ranked, name=name) for name in RANK_SUMS},
        },
    },
    attacks=("clean", _TEMPERED),
)


def group_accuracies(count: xr.DataArray) -> xr.DataArray:
    """Return the accuracy of the most vulnerable class and that of all other images, in percent, along `images_of`."""
    victim = str(count.label.values[marked_class(count, "vulnerable")])
    parts = {victim: count.sel(label=[victim]), "other classes": count.drop_sel(label=victim)}
    return combine.concat_named("images_of", parts, metrics.overall)


def table_4(treated: xr.Dataset, label: str) -> pd.DataFrame:
    """Return the predictions for the images of a class, a line for each attack and treatment (Tian 2021, Table 4).

    Numbers of images, with their change from the first treatment: "56 (+3)". treated: along attack and treatment.
    """
    count = aggregate.counts(treated).sum(["defence", "seed"]).sel(label=label, drop=True)
    each = (one.stack(line=("attack", "treatment")).transpose("line", ...) for one in (count, count - count.isel(treatment=0)))
    table, change = (one.to_pandas() for one in each)
    text = table.map("{:.0f}".format)
    treated_lines = text.index.get_level_values("treatment") != count.treatment.values[0]
    text[treated_lines] += change[treated_lines].map(" ({:+.0f})".format)
    return pd.DataFrame(text.set_axis([", ".join(line) for line in text.index])).rename_axis(columns="predicted class")
