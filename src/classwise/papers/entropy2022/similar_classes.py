"""Entropy 2022, section 2.2: binary adversarial training of one class with each other one, and how similar the two are.

Along `partner` are the networks of the victim with another class, by the name of that class, and two networks of all classes,
"standard" and "pgd-at"; along `source` the features of the standard network, "features", and the pixels of the same images,
"pixels". Each claim names the training of its pairs as its Dataset, "pgd-at" or "trades".
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from classwise.core.datasets import class_names
from classwise.core.errors import NotRecorded
from classwise.core.spec import Spec
from classwise.papers.entropy2022.tables import TABLES
from classwise.papers.sections import Derived, Member, Part, Section, join_parts
from classwise.papers.selection import vulnerable_pair
from classwise.papers.terms import claims
from classwise.papers.variants import ONCE, Variant
from classwise.stats import combine, features, intervals
from classwise.stats.metrics import accuracy, images

NAME = "entropy2022/2-2-similar-classes"
STANDARD, ROBUST = "standard", "pgd-at"  # the networks of all classes along `partner`
FEATURES, PIXELS = "features", "pixels"  # of what the similarity is, along `source`
# A pair has fewer images than all classes together: smaller batches, so that it takes as many updates as it needs to converge. At
# the rate of scale quick, which is for batches of twice the size, pairs that could be distinguished end at one constant answer.
_QUICK: dict[str, Any] = {"batch": 32, "lr": 0.1, "epochs": 30}
CONSTANT = 90  # a network that gives one answer more often than this, in percent, was not trained successfully


def pairs(scale: str, plain: Spec) -> Sequence[Variant]:
    """Return variants that train the victim with each other class: the class cat in the paper, else the most vulnerable one."""
    names, victim = class_names(plain.dataset), vulnerable_pair(plain.dataset)[0]
    smaller = _QUICK if scale == "quick" else {} if scale == "paper" else {"batch": 32}
    both = [tuple(name for name in names if name in (victim, other)) for other in names if other != victim]
    return tuple({"classes": some, **smaller, **ONCE} for some in both)


def _pairs(title: str, defence: str) -> Part:
    return Part(title=title, defences=(defence,), max_seeds=1, variants=pairs)


def _other(pair: xr.Dataset) -> str:
    names = pair.predicted.values[np.unique(pair.truth.values[pair.truth.values >= 0])]
    return next(str(name) for name in names if name != vulnerable_pair(pair.attrs["dataset"])[0])


def _with_sums(outcomes: xr.Dataset, members: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Return outcomes with the sums of features and pixels of the standard network along `source`, where it has any."""
    kept = outcomes.drop_vars([name for name in outcomes if name not in ("truth", "prediction", "misclassified")])
    if "total" not in members[STANDARD]:
        return kept
    clean = members[STANDARD].sel(attack="clean", drop=True).assign_coords(defence=outcomes.defence.values)
    clean = clean.reindex(image=outcomes.image, fill_value={"block_of": -1})
    sources = {FEATURES: clean[list(features.SUMS)]}
    if "pixel_total" in clean:
        sources[PIXELS] = sources[FEATURES].assign(total=clean.pixel_total, square=clean.pixel_square)
    sums = xr.concat(sources.values(), "source", data_vars="all", coords="minimal", compat="override")
    return kept.assign({**sums.assign_coords(source=list(sources)), "block_of": clean.block_of})


def _arranged(defence: str) -> Derived:
    rows = Member("", STANDARD), Member("all classes", ROBUST), Member(defence, _other, by="classes")
    return join_parts("partner", *rows, like=defence, then=_with_sums)


SECTION = Section(
    title="Similar classes",
    defences=("standard",),
    max_seeds=2,
    features=("clean",),
    adds=("pixels",),
    parts={
        "all classes": Part(title="all classes", defences=("pgd-at",), max_seeds=2),
        "pgd-at": _pairs("pairs of classes", "pgd-at"),
        "trades": _pairs("pairs of classes, by TRADES", "trades"),
    },
    arrange={name: _arranged(name) for name in ("pgd-at", "trades")},
)


def partners(data: xr.Dataset) -> list[str]:
    """Return the partners of the victim, in the order of the classes."""
    return [str(name) for name in data.partner.values if name not in (STANDARD, ROBUST)]


def victim(statistics: xr.Dataset) -> str:
    """Return the class that all pairs have; NotRecorded where there are less than two pairs."""
    names = partners(statistics)
    if len(names) < 2:
        raise NotRecorded(f"two pairs of classes are needed at least, and these outcomes have {len(names)}")
    count = statistics["count"].sel(partner=names).drop_sel(label=names)
    seen = (count.sum([dim for dim in count.dims if dim not in ("label", "partner")]) > 0).all("partner")
    return str(seen.idxmax("label").item())


def _check_all(statistics: xr.Dataset) -> None:
    number, all_others = len(partners(statistics)), statistics.sizes["label"] - 1
    if number < all_others:
        raise NotRecorded(f"of the {all_others} pairs of classes of the claim, these outcomes have {number}")


def _count(sums: xr.Dataset) -> xr.DataArray:
    count = sums["count"].isel(defence=0, drop=True, missing_dims="ignore")
    return count.sum("seed") if "seed" in count.dims else count


def alike(statistics: xr.Dataset, source: str = FEATURES) -> xr.DataArray:
    """Return the cosine between the mean of the victim and that of each partner, along partner; the mean over seeds."""
    if source not in statistics.source.values:
        raise NotRecorded(f"{source} of these images are not recorded")
    some = statistics.isel(defence=0, drop=True, missing_dims="ignore")
    row = features.similarity(some.sel(source=source, drop=True)).sel(label=victim(statistics), drop=True)
    return row.rename(other="partner").sel(partner=partners(statistics)).mean("seed")


def errors(sums: xr.Dataset, attack: str) -> xr.DataArray:
    """Return the error of the network of each pair under an attack, in percent, along partner; the mean over the two classes."""
    return 100 - accuracy(_count(sums).sel(partner=partners(sums), attack=attack, drop=True)).mean("label")


def confusion_rate(statistics: xr.Dataset, network: str, attack: str = "pgd-20") -> xr.DataArray:
    """Return how often a network of all classes takes the victim and each partner for one another, in percent of both."""
    count, name = _count(statistics).sel(partner=network, attack=attack, drop=True), victim(statistics)
    mixed, number = count + count.rename(label="predicted", predicted="label"), images(count)
    of_victim = mixed.sel(label=name, drop=True).rename(predicted="partner")
    both = number.sel(label=name, drop=True) + number.rename(label="partner")
    return (100 * of_victim / both).sel(partner=partners(statistics))


def correlation(statistics: xr.Dataset, attack: str, source: str = FEATURES) -> xr.DataArray:
    """Return the correlation over partners of the similarity to the victim and the error of the pair under an attack."""
    _check_all(statistics)
    return xr.corr(alike(statistics, source), errors(statistics, attack), "partner")


def similarity_effect(statistics: xr.Dataset, attack: str) -> xr.DataArray:
    """Return how much larger the error of the pair is with the most similar partner than with the least similar one."""
    _check_all(statistics)
    similar, error = alike(statistics).fillna(0), errors(statistics, attack)
    most, least = (error.sel(partner=name, drop=True) for name in (similar.idxmax("partner"), similar.idxmin("partner")))
    return most - least


def more_than_pixels(statistics: xr.Dataset, attack: str) -> xr.DataArray:
    """Return how much higher the correlation of errors is with the cosine of mean features than with that of mean images."""
    return correlation(statistics, attack) - correlation(statistics, attack, PIXELS)


def error_with(sums: xr.Dataset, partner: str, attack: str) -> xr.DataArray:
    """Return the error of the pair of the victim and one partner under an attack, in percent."""
    if partner not in partners(sums):
        raise NotRecorded(f"these outcomes have no pair with {partner}")
    return errors(sums, attack).sel(partner=partner, drop=True)


def lead(sums: xr.Dataset, partner: str, attack: str) -> xr.DataArray:
    """Return by how much the error of the pair with one partner exceeds the largest of all other pairs, in points."""
    _check_all(sums)
    return error_with(sums, partner, attack) - errors(sums, attack).drop_sel(partner=partner).max("partner")


# The printed errors of cats and another class, in percent (Figure 5).
_error = partial(TABLES.number, "text", "error of a pair", defence="pgd-at", label="cat")


def _printed(attack: str) -> float:
    return _error(partner="dog", attack=attack) - _error(partner="automobile", attack=attack)


_KINDS = {"natural": ("clean", "clean"), "robust": ("pgd-20", "pgd-10")}  # our attack and that of the paper
_CORRELATIONS = {
    f"{kind}-errors-{defence}": {"measure": partial(correlation, attack=attack), "defences": (defence,), "permuted": "partner"}
    for defence in ("pgd-at", "trades")
    for kind, (attack, _) in _KINDS.items()
}
_DIFFERENCES = {
    f"most-similar-{kind}": {"measure": partial(similarity_effect, attack=attack), "reported": partial(_printed, theirs)}
    for kind, (attack, theirs) in _KINDS.items()
}

CLAIMS = claims(
    NAME,
    {
        **_CORRELATIONS,
        **_DIFFERENCES,
        "cat-and-dog-fail": {
            "measure": partial(error_with, partner="dog", attack="clean"),
            "reported": partial(_error, partner="dog", attack="clean"),
            "of": "outcomes",
        },
        "cat-and-dog-worst": {
            "measure": partial(lead, partner="dog", attack="pgd-20"),
            "defences": ("trades",),
            "of": "outcomes",
        },
        "more-than-pixels": partial(more_than_pixels, attack="pgd-20"),
    },
    of="features",
    attacks=("clean", "pgd-20"),
    defences=("pgd-at",),
)


def errors_of_both(statistics: xr.Dataset) -> xr.DataArray:
    """Return the error of each pair, its victim and its partner with Wilson's interval: partner, attack, images_of and bound."""
    count, name = _count(statistics).sel(partner=partners(statistics)), victim(statistics)
    count = count.where((count.label == name) | (count.label == count.partner), 0)
    kinds = {"both": count.label != "", "victim": count.label == name, "partner": count.label != name}
    wrong, number = count.where(count.label != count.predicted, 0).sum("predicted"), images(count)
    return combine.concat_named(
        "images_of", kinds, lambda of: intervals.rate_bounds(wrong.where(of, 0).sum("label"), number.where(of, 0).sum("label"))
    )


def constant_answers(statistics: xr.Dataset) -> xr.DataArray:
    """Return which networks give one answer to more than CONSTANT percent of clean images, along seed and partner; NaN: none."""
    count = statistics["count"].isel(defence=0, drop=True).sel(attack="clean", drop=True)
    answers = count.sel(partner=partners(statistics)).sum("label")
    number = answers.sum("predicted")
    return (100 * answers.max("predicted") > CONSTANT * number).where(number > 0)


MEAN_IMAGES = "cosine of mean images"  # unknown of recorded results
PREDICTORS: dict[str, Callable[[xr.Dataset], xr.DataArray]] = {
    "cosine of mean features in standard training": alike,
    MEAN_IMAGES: partial(alike, source=PIXELS),
    "confusion in standard training under attack": partial(confusion_rate, network=STANDARD),
    "confusion in PGD-AT under attack": partial(confusion_rate, network=ROBUST),
}


def predictor_correlations(statistics: xr.Dataset, attack: str = "pgd-20") -> xr.DataArray:
    """Return the correlation of each of PREDICTORS that is known with the errors of pairs under an attack, along predictor."""
    error, pixels = errors(statistics, attack), PIXELS in statistics.source.values
    known = {name: how for name, how in PREDICTORS.items() if pixels or name != MEAN_IMAGES}
    return combine.concat_named("predictor", known, lambda how: xr.corr(how(statistics), error, "partner"))
