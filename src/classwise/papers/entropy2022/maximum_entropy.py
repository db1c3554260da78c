"""Entropy 2022, section 3.2.1: the entropy of predictions in nats, which TRADES maximises with one of its terms.

Outcomes are of networks along `defence`, under "clean" and one attack, with the logits of each image.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from classwise.papers.joined import Row, joined
from classwise.papers.sections import CLEAN_AND_PGD, Arranged, Section
from classwise.papers.terms import claims, least
from classwise.papers.variants import Variants
from classwise.stats import bootstrap, confidence, metrics
from classwise.stats.aggregate import measured_epochs
from classwise.stats.combine import combine_rows

NAME = "entropy2022/3-2-1-maximum-entropy"
# TRADES at a lower learning rate, and the same without the gradient through the clean side of its divergence, and so without
# that of the entropy.
SLOWER, DETACHED = "trades, lower rate", "trades, lower rate, detached"
_IMAGES = ["clean", "attacked"]


def slower(*options: Mapping[str, Any]) -> Variants:
    """Return variants of a training at a third of its learning rate, one for each mapping of options.

    At the rate of scale quick TRADES without the gradient through the clean side of its divergence ends with one and the same
    prediction for all images.
    """
    return lambda scale, plain: tuple({"options": some, "lr": round(plain.lr / 3, 6), "averages": ()} for some in options)


_TWINS = Row("slower", SLOWER, by="defence"), Row("detached", DETACHED, by="defence")
_ROWS = Row("", by="defence"), Row("smoothed", by="defence"), *_TWINS


def _networks(plain: xr.Dataset, *parts: xr.Dataset | None) -> xr.Dataset:
    """Return outcomes of all networks that are recorded along defence, each with the seeds that it has."""
    given = zip(_ROWS, (plain, *parts), strict=True)
    members = [member for row, part in given if part is not None for member in row.members(part)]
    return combine_rows([({"defence": name}, one) for name, one in members]).assign_attrs(plain.attrs)


_TWIN: dict[str, Any] = {"defences": ("trades",), "evaluations": CLEAN_AND_PGD, "max_seeds": 1}

SECTION = Section(
    title="The entropy of predictions",
    defences=("pgd-at", "trades"),
    evaluations=CLEAN_AND_PGD,
    parts={
        "smoothed": Section(
            title="label smoothing and maximum entropy",
            defences=("label-smoothing", "me-at", "me-trades"),
            evaluations=CLEAN_AND_PGD,
            max_seeds=1,
        ),
        "slower": Section(title="TRADES at a lower rate", variants=slower({}), **_TWIN),
        "detached": Section(title="its detached twin", variants=slower({"detached": True}), **_TWIN),
    },
    arrange={
        "networks": Arranged(_networks, ("",), ("smoothed", "slower", "detached")),
        "twins": joined("defence", *_TWINS),
    },
)


def mean_entropy(sums: xr.Dataset) -> xr.DataArray:
    """Return the mean entropy of the predictions of each network."""
    both = ["label", "predicted"]
    mean: xr.DataArray = sums["entropy"].sum(both) / sums["count"].sum(both)
    return mean


def difference(sums: xr.Dataset) -> xr.DataArray:
    """Return by how much the mean entropy of the second defence exceeds that of the first, under each attack."""
    mean = mean_entropy(sums)
    return mean.isel(defence=1, drop=True) - mean.isel(defence=0, drop=True)


def more_entropy(sums: xr.Dataset) -> xr.DataArray:
    """Return by how much the mean entropy of the second defence exceeds that of the first, under the attack."""
    return difference(sums).isel(attack=0)


def limit(classes: int) -> float:
    """Return the largest entropy of a prediction: ln of the number of classes."""
    return float(np.log(classes))


def share_of_limit(sums: xr.Dataset) -> xr.DataArray:
    """Return the mean entropy over its limit, ln of the number of classes, of clean and of attacked images."""
    return mean_entropy(sums).isel(defence=0) / limit(sums.sizes["predicted"])


_NETWORKS: dict[str, Any] = {"measure": more_entropy, "defences": SECTION.defences}

CLAIMS = claims(
    NAME,
    {
        "trades-more-entropy-clean": _NETWORKS,
        "trades-more-entropy-attacked": {**_NETWORKS, "attacks": ("pgd-20",)},
        "entropy-far-from-limit": {
            "measure": least(share_of_limit, largest=True),
            "defences": ("trades",),
            "attacks": ("clean", "pgd-20"),
        },
        "entropy-by-its-gradient": {"measure": more_entropy, "defences": (DETACHED, SLOWER)},
    },
    attacks=("clean",),
    values={"entropy": confidence.entropy},
)

# By the title of a comparison: a network, and the one that it is compared with.
PAIRS: Mapping[str, tuple[str, str]] = {
    "TRADES less PGD-AT": ("trades", "pgd-at"),
    "label smoothing less PGD-AT": ("label-smoothing", "pgd-at"),
    "ME-AT less PGD-AT": ("me-at", "pgd-at"),
    "ME-TRADES less TRADES": ("me-trades", "trades"),
    "TRADES less its twin": (SLOWER, DETACHED),
}


def of_all(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes of the seeds and images that all networks were evaluated on; other images have truth -1."""
    present = (outcomes.truth >= 0).all("defence")
    kept = present.any(["attack", "image"])
    return outcomes.assign(truth=outcomes.truth.where(present, -1)).sel(seed=kept)


def right_in_all(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes of the images that all networks classify correctly, under each attack alone; others have truth -1."""
    right = (~outcomes.flipped & (outcomes.truth >= 0)).all("defence")
    return outcomes.assign(truth=outcomes.truth.where(right, -1))


def if_both_right(outcomes: xr.Dataset, pairs: Mapping[str, tuple[str, str]]) -> xr.DataArray:
    """Return the difference of the mean entropy of two networks on images that both classify correctly.

    Along comparison (of PAIRS), attack and bound.
    """
    parts = [right_in_all(of_all(outcomes.sel(defence=[base, network]))) for network, base in pairs.values()]
    bounds = [bootstrap.paired(part, difference, draws=1000, values={"entropy": confidence.entropy(part)}) for part in parts]
    return xr.concat(bounds, pd.Index(list(pairs), name="comparison"))


def by_class(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the mean entropy of each class with its interval, along `images_are` of right images and of wrong ones."""

    def means(sums: xr.Dataset) -> xr.DataArray:
        right = sums["count"].label == sums["count"].predicted
        kept = [sums[["entropy", "count"]].where(some, 0).sum("predicted") for some in (right, ~right)]
        index = pd.Index(["right", "wrong"], name="images_are")
        return xr.concat([some["entropy"] / some["count"] for some in kept], index)

    return bootstrap.paired(outcomes, means, draws=1000, values={"entropy": confidence.entropy(outcomes)})


def divergence_terms(outcomes: xr.Dataset) -> xr.Dataset:
    """Return the terms of KL(p || p') for each image, p of the clean image and p' of its attacked form.

    cross-entropy: -sum of p log p'. entropy: that of p. divergence: the first less the second, sum of p (log p - log p'). NaN
    for images that were not evaluated under both.
    """
    logs = confidence.log_confidence(outcomes.assign(logits=outcomes.logits.astype("f8")))
    clean, attacked = (logs.isel(attack=place, drop=True) for place in (0, -1))
    share = xr.ufuncs.exp(clean)
    terms = {"cross-entropy": -share * attacked, "entropy": -share * clean, "divergence": share * (clean - attacked)}
    present = (outcomes.truth >= 0).all("attack")
    return xr.Dataset({name: term.sum("predicted").where(present) for name, term in terms.items()})


def mean_terms(outcomes: xr.Dataset) -> xr.DataArray:
    """Return the means of `divergence_terms` over the images that all networks have, along term, defence and bound."""
    part = of_all(outcomes)
    terms = divergence_terms(part)

    def means(sums: xr.Dataset) -> xr.DataArray:
        mean = sums[list(terms)].sum(["label", "predicted"]) / sums["count"].sum(["label", "predicted"])
        return mean.to_dataarray("term")

    images = part.isel(attack=[-1]).assign(truth=part.truth.isel(attack=[-1]).where((part.truth >= 0).all("attack"), -1))
    values = {str(name): value for name, value in terms.items()}
    return bootstrap.paired(images, means, draws=1000, values=values).isel(attack=0, drop=True)


def course(history: xr.Dataset, outcomes: xr.Dataset) -> xr.DataArray:
    """Return the mean entropy of test images along defence, seed, images_are and epoch.

    history: of the networks, whose inner attack differs from that which measures. Of trainings that did not record it, the last
    epoch alone, from their outcomes.
    """
    count = measured_epochs(history["count"].sel(split="test", drop=True))
    recorded = history.get("uncertainty", history["count"].where(False))
    if not bool(recorded.notnull().any([dim for dim in recorded.dims if dim != "defence"]).all()):
        part = outcomes.sel(defence=history.defence)
        mean = confidence.entropy(part).mean("image").rename(attack="images_are")
        return mean.assign_coords(images_are=_IMAGES).expand_dims(epoch=[int(history.epoch[-1])])
    nats = history.uncertainty.sel(split="test", epoch=count.epoch, drop=True)
    total, images = nats * metrics.images(count), metrics.images(count).where(nats.notnull())
    of_clean = [some.sel(attack=count.attack == "clean").sum(["attack", "label"]) for some in (total, images)]
    of_attacked = [some.sel(attack=count.attack != "clean").sum(["attack", "label"]) for some in (total, images)]
    means = [one / number for one, number in (of_clean, of_attacked)]
    return xr.concat(means, pd.Index(_IMAGES, name="images_are"))


def bins(outcomes: xr.Dataset, number: int = 24) -> xr.DataArray:
    """Return how many images have which entropy: dimensions defence, attack, label, images_are (right, wrong) and bin.

    The coordinate of bin is its lower end in nats; the last ends at ln of the number of classes. Seeds are added up.
    """
    classes = outcomes.sizes["predicted"]
    edges = np.linspace(0, limit(classes), number + 1)
    ordered = outcomes.transpose("defence", "attack", "seed", "image", "predicted")
    truth, wrong = ordered.truth.values, ordered.flipped.values
    nats = confidence.entropy(ordered).transpose("defence", "attack", "seed", "image").values
    count = np.zeros((*truth.shape[:2], classes, 2, number), dtype=int)
    place = np.nonzero(truth >= 0)
    cell = np.clip(np.digitize(nats[place], edges) - 1, 0, number - 1)
    np.add.at(count, (place[0], place[1], truth[place], wrong[place].astype(int), cell), 1)
    coords = {"defence": outcomes.defence, "attack": _IMAGES, "label": outcomes.predicted.values}
    coords |= {"images_are": ["right", "wrong"], "bin": edges[:-1]}
    return xr.DataArray(count, coords, ("defence", "attack", "label", "images_are", "bin"), name="count")
