"""Entropy 2022, section 2.2: binary adversarial training of one class with each other one, and how similar the two are.

The claims need along `partner` the networks of the victim with another class, by the name of that class, and two networks of all
classes, "standard" and "pgd-at"; and along `source` the features of the standard network, "features", and the pixels of the same
images, "pixels". Each names the training of its pairs as its Dataset, "pgd-at" or "trades".
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from classwise.core.datasets import class_names
from classwise.core.spec import Spec
from classwise.papers import variants
from classwise.papers.claims import ON_CIFAR10, MeasurementError, claims_of
from classwise.papers.entropy2022.tables import pair_error
from classwise.papers.sections import CLEAN_AND_PGD, Arranged, Section
from classwise.papers.selection import vulnerable_pair
from classwise.papers.variants import Variant, Variants
from classwise.stats import combine, features, metrics

NAME = "entropy2022/2-2-similar-classes"
# The networks of all classes along `partner`.
STANDARD, ROBUST = "standard", "pgd-at"
# Of what the similarity is, along `source`.
FEATURES, PIXELS = "features", "pixels"
# A pair has fewer images than all classes together: smaller batches, so that it takes as many updates as it needs to converge. At
# the rate of scale quick, which is for batches of twice the size, pairs that could be distinguished end at one constant answer.
_QUICK: dict[str, Any] = {"batch": 32, "lr": 0.1, "epochs": 30}
_ONCE: dict[str, Any] = {"measure": 100, "averages": ()}
# A network that gives one answer more often than this, in percent, was not trained successfully.
CONSTANT = 90


def victim_of(dataset: str) -> str:
    """Return the class that is trained with each other one: cats in the paper, else the most vulnerable class."""
    return vulnerable_pair(dataset)[0]


def pairs(*partners: str) -> Variants:
    """Return variants that train the victim with one other class, each of `partners`; () for every one."""

    def varied(scale: str, plain: Spec) -> Sequence[Variant]:
        names, victim = class_names(plain.dataset), victim_of(plain.dataset)
        smaller = _QUICK if scale == "quick" else {} if scale == "paper" else {"batch": 32}
        chosen = [name for name in names if name != victim and (not partners or name in partners)]
        return tuple(
            {"classes": tuple(name for name in names if name in (victim, other)), **smaller, **_ONCE} for other in chosen
        )

    return varied


def _pairs(title: str, defence: str, *recorded: str) -> Section:
    return Section(
        title=title,
        defences=(defence,),
        evaluations=CLEAN_AND_PGD,
        max_seeds=1,
        variants=variants.by_scale(pairs(), laptop=pairs(*recorded)),
    )


def by_partner(pairs: xr.Dataset) -> dict[str, xr.Dataset]:
    """Return the outcomes of each network of two classes by the class that is not the victim."""
    victim = victim_of(pairs.attrs["dataset"])
    several = pairs if "classes" in pairs.dims else pairs.expand_dims(classes=["pair"])
    parts = {}
    for place in range(several.sizes["classes"]):
        part = several.isel(classes=place, drop=True)
        names = part.predicted.values[np.unique(part.truth.values[part.truth.values >= 0])]
        (other,) = (str(name) for name in names if str(name) != victim)
        parts[other] = part
    return parts


def arranged(standard: xr.Dataset, robust: xr.Dataset, pairs: xr.Dataset) -> xr.Dataset:
    """Return the networks of pairs and of all classes along `partner`, with the sums of features and pixels along `source`.

    Of the seeds that all of them have. standard: with features of clean images; without them there are no sums.
    """
    parts = combine.shared_seeds({STANDARD: standard, ROBUST: robust} | by_partner(pairs))
    outcomes = [name for name in ("truth", "answer", "flipped") if name in standard]
    kept = {name: part[outcomes].assign_coords(predicted=part.predicted) for name, part in parts.items()}
    joined = combine.combine("partner", kept).assign_coords(defence=pairs.defence.values).assign_attrs(pairs.attrs)
    if "total" not in standard:
        return joined
    clean = parts[STANDARD].sel(attack="clean", drop=True).assign_coords(defence=pairs.defence.values)
    clean = clean.reindex(image=joined.image, fill_value={"block_of": -1})
    sums = {name: [clean[name]] for name in features.SUMS}
    if "pixel_total" in clean:
        for name, of_pixels in (("total", "pixel_total"), ("square", "pixel_square"), ("images", "images")):
            sums[name].append(clean[of_pixels].broadcast_like(clean[name]))
    sources = [FEATURES, PIXELS][: len(sums["total"])]
    together = {name: xr.concat(some, "source").assign_coords(source=sources) for name, some in sums.items()}
    return joined.assign(together | {"block_of": clean.block_of})


_ARRANGED = {name: Arranged(arranged, ("", "all classes", name)) for name in ("pgd-at", "trades")}
SECTION = Section(
    title="Similar classes",
    defences=("standard",),
    evaluations=CLEAN_AND_PGD,
    max_seeds=2,
    features=("clean",),
    pixels=True,
    parts={
        "all classes": Section(title="all classes", defences=("pgd-at",), evaluations=CLEAN_AND_PGD, max_seeds=2),
        "pgd-at": _pairs("pairs of classes", "pgd-at", "automobile", "deer", "dog"),
        "trades": _pairs("pairs of classes, by TRADES", "trades", "dog"),
    },
    arrange=_ARRANGED,
)


def partners(data: xr.Dataset) -> list[str]:
    """Return the partners of the victim, in the order of the classes."""
    return [str(name) for name in data.partner.values if str(name) not in (STANDARD, ROBUST)]


def victim(statistics: xr.Dataset) -> str:
    """Return the class that all pairs have; MeasurementError where there are less than two pairs."""
    names = partners(statistics)
    if len(names) < 2:
        raise MeasurementError(f"these outcomes have {len(names)} pairs of classes, of which two are needed at least")
    left = [str(name) for name in statistics.label.values if str(name) not in names]
    count = statistics["count"].sel(partner=names, label=left)
    (place,) = np.flatnonzero((count.sum([dim for dim in count.dims if dim not in ("label", "partner")]) > 0).all("partner"))
    return left[place]


def _check_all(statistics: xr.Dataset) -> None:
    """Raise MeasurementError unless the victim is paired with each other class."""
    number, all_others = len(partners(statistics)), statistics.sizes["label"] - 1
    if number < all_others:
        raise MeasurementError(f"these outcomes have {number} pairs of classes, and the claim is about all {all_others}")


def _one(statistics: xr.Dataset) -> xr.Dataset:
    return statistics.isel(defence=0, drop=True) if "defence" in statistics.dims else statistics


def alike(statistics: xr.Dataset, source: str = FEATURES) -> xr.DataArray:
    """Return the cosine between the mean of the victim and that of each partner, along partner; the mean over seeds."""
    row = features.similarity(_one(statistics).sel(source=source, drop=True)).sel(label=victim(statistics), drop=True)
    return row.rename(other="partner").sel(partner=partners(statistics)).mean("seed")


def errors(sums: xr.Dataset, attack: str) -> xr.DataArray:
    """Return the error of the network of each pair under an attack, in percent, along partner.

    The mean over the two classes, seeds pooled.
    """
    count = _one(sums)["count"].sel(partner=partners(sums), attack=attack, drop=True)
    return 100 - metrics.accuracy(count.sum("seed") if "seed" in count.dims else count).mean("label")


def confused(statistics: xr.Dataset, network: str, attack: str = "pgd-20") -> xr.DataArray:
    """Return how often a network of all classes takes the victim and each partner for one another, in percent of both."""
    count, name = _one(statistics)["count"].sel(partner=network, attack=attack, drop=True).sum("seed"), victim(statistics)
    images, names = metrics.images(count), partners(statistics)
    forth = count.sel(label=name, drop=True).rename(predicted="partner").sel(partner=names)
    back = count.sel(predicted=name, drop=True).rename(label="partner").sel(partner=names)
    both = images.sel(label=name, drop=True) + images.rename(label="partner").sel(partner=names)
    return 100 * (forth + back) / both


def correlation(statistics: xr.Dataset, attack: str, source: str = FEATURES) -> xr.DataArray:
    """Return the correlation over partners of the similarity to the victim and the error of the pair under an attack."""
    _check_all(statistics)
    return xr.corr(alike(statistics, source), errors(statistics, attack), "partner")


def from_least_to_most(statistics: xr.Dataset, attack: str) -> xr.DataArray:
    """Return how much larger the error of the pair is with the most similar partner than with the least similar one."""
    _check_all(statistics)
    similar, error = alike(statistics), errors(statistics, attack)
    most, least = (place("partner") for place in (similar.fillna(0).argmax, similar.fillna(0).argmin))
    return error.isel(partner=most).drop_vars("partner") - error.isel(partner=least).drop_vars("partner")


def more_than_pixels(statistics: xr.Dataset, attack: str) -> xr.DataArray:
    """Return how much higher the correlation of errors is with the cosine of mean features than with that of mean images."""
    return correlation(statistics, attack) - correlation(statistics, attack, PIXELS)


def error_with(sums: xr.Dataset, partner: str, attack: str) -> xr.DataArray:
    """Return the error of the pair of the victim and one partner under an attack, in percent."""
    error = errors(sums, attack)
    if partner not in error.partner.values:
        raise MeasurementError(f"these outcomes have no pair with {partner}")
    return error.sel(partner=partner, drop=True)


def lead(sums: xr.Dataset, partner: str, attack: str) -> xr.DataArray:
    """Return by how much the error of the pair with one partner exceeds the largest of all other pairs, in points."""
    _check_all(sums)
    largest = errors(sums, attack).drop_sel(partner=partner, errors="ignore").max("partner")
    return error_with(sums, partner, attack) - largest


_claim = claims_of(NAME, of="features", attacks=("clean", "pgd-20"), dims=("partner",))
_of_outcomes = claims_of(NAME, attacks=("clean", "pgd-20"), dims=("partner",), **ON_CIFAR10)
_WORDS = {"clean": "without an attack", "pgd-20": "under PGD"}
_TRAINED = {"pgd-at": "PGD adversarial training", "trades": "TRADES"}
_REPORTED = {"clean": "clean", "pgd-20": "pgd-10"}


def _printed_difference(attack: str) -> float:
    return pair_error("pgd-at", "dog", _REPORTED[attack]) - pair_error("pgd-at", "automobile", _REPORTED[attack])


CLAIMS = (
    *(
        _claim(
            f"{'natural' if attack == 'clean' else 'robust'}-errors-{defence}",
            f"2.2, Figure 5{panel}",
            f"The error {words} of a network of two classes, by {_TRAINED[defence]}, correlates highly with the similarity of "
            "the two in standard training.",
            partial(correlation, attack=attack),
            low=0.5,
            unit="correlation",
            data=defence,
            defences=(defence,),
        )
        for defence, panel in (("pgd-at", "a"), ("trades", "b"))
        for attack, words in _WORDS.items()
    ),
    *(
        _claim(
            f"most-similar-{'natural' if attack == 'clean' else 'robust'}",
            "2.2, Figure 5a",
            f"With the most similar class the error {words} is larger than with the least similar one.",
            partial(from_least_to_most, attack=attack),
            data="pgd-at",
            defences=("pgd-at",),
            reported=partial(_printed_difference, attack),
        )
        for attack, words in _WORDS.items()
    ),
    _of_outcomes(
        "cat-and-dog-fail",
        "2.2, Figure 5a",
        "PGD adversarial training of cats and dogs does not converge: the error without an attack is that of a constant answer.",
        partial(error_with, partner="dog", attack="clean"),
        low=45,
        high=55,
        unit="%",
        data="pgd-at",
        defences=("pgd-at",),
        reported=partial(pair_error, "pgd-at", "dog", "clean"),
    ),
    _of_outcomes(
        "cat-and-dog-worst",
        "2.2, Figure 5b",
        "By TRADES, cats and dogs have the largest error under PGD of all pairs with cats.",
        partial(lead, partner="dog", attack="pgd-20"),
        data="trades",
        defences=("trades",),
    ),
    _claim(
        "more-than-pixels",
        "2.2, a control of ours",
        "The similarity of features in standard training tells more of the errors under PGD than that of mean images.",
        partial(more_than_pixels, attack="pgd-20"),
        unit="difference of correlations",
        data="pgd-at",
        defences=("pgd-at",),
    ),
)
