"""The entropy of predictions (Entropy 2022, section 3.2.1), in nats.

Outcomes are of networks along `defence`, under "clean" and one attack, with the logits of each image.
"""

from collections.abc import Callable

import numpy as np
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.stats import metrics
from classwise.stats.aggregate import measured_epochs
from classwise.stats.bootstrap import bootstrap_sums, sums
from classwise.stats.combine import combine_rows
from classwise.stats.confidence import entropy, log_confidence

# TRADES at a lower learning rate, and the same without the gradient through the clean side of its divergence, and so without
# that of the entropy.
SLOWER, DETACHED = "trades, lower rate", "trades, lower rate, detached"
_IMAGES = ("clean", "attacked")
# Takes sums over images, with those of `entropy`.
Measure = Callable[[xr.Dataset], xr.DataArray]


def networks(
    plain: xr.Dataset,
    smoothed: xr.Dataset | None = None,
    slower: xr.Dataset | None = None,
    detached: xr.Dataset | None = None,
) -> xr.Dataset:
    """Return outcomes or histories of all networks along defence, those of the two twins by the names SLOWER and DETACHED."""
    named = {SLOWER: slower, DETACHED: detached}
    rows = [row for part in (plain, smoothed) if part is not None for row in _rows(part)]
    rows += [({"defence": name}, part.isel(defence=0, drop=True)) for name, part in named.items() if part is not None]
    return combine_rows(rows).assign_attrs(plain.attrs)


def twins(slower: xr.Dataset, detached: xr.Dataset) -> xr.Dataset:
    """Return outcomes or histories of the two twins, as `networks` does."""
    return networks(slower.isel(defence=[]), slower=slower, detached=detached).assign_attrs(slower.attrs)


def _rows(data: xr.Dataset) -> list[tuple[dict[str, str], xr.Dataset]]:
    return [({"defence": str(name)}, data.sel(defence=name, drop=True)) for name in data.defence.values]


def limit(classes: int) -> float:
    """Return the largest entropy of a prediction: ln of the number of classes."""
    return float(np.log(classes))


def mean_entropy(totals: xr.Dataset) -> xr.DataArray:
    """Return the mean entropy of the predictions of each network."""
    both = ["label", "predicted"]
    mean: xr.DataArray = totals["entropy"].sum(both) / totals["count"].sum(both)
    return mean


def by_class(totals: xr.Dataset) -> xr.DataArray:
    """Return the mean entropy for each class, along `images_are` of those that are right and of those that are wrong."""
    same = totals["count"].label == totals["count"].predicted
    parts = [
        totals["entropy"].where(kept, 0).sum("predicted") / totals["count"].where(kept, 0).sum("predicted")
        for kept in (same, ~same)
    ]
    return xr.concat(parts, "images_are").assign_coords(images_are=["right", "wrong"])


def bounds(outcomes: xr.Dataset, measure: Measure, draws: int = 1000) -> xr.DataArray:
    """Return low, value and high of a measure of sums over images and of their `entropy`, along a new dimension `bound`.

    The interval is the basic one of a bootstrap over images and seeds, in which all networks have the same redrawn images.
    """
    values = {"entropy": entropy(outcomes)}
    value = measure(sums(outcomes, values))
    drawn = xr.concat([measure(part) for part in bootstrap_sums(outcomes, values, draws)], "draw")
    known = drawn.notnull().any("draw")
    quantiles = (drawn.where(known, 0).quantile(share, "draw").drop_vars("quantile") for share in (0.025, 0.975))
    high, low = (2 * value - quantile.where(known) for quantile in quantiles)
    ends = [xr.ufuncs.minimum(low, value), value, xr.ufuncs.maximum(high, value)]
    interval: xr.DataArray = xr.concat(ends, "bound").assign_coords(bound=["low", "value", "high"])
    return interval.rename("entropy")


def of_all(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes of the seeds and images that all networks were evaluated on; other images have truth -1."""
    present = (outcomes.truth >= 0).all("defence")
    kept = present.any(["attack", "image"])
    return outcomes.assign(truth=outcomes.truth.where(present, -1)).sel(seed=kept)


def right_in_all(outcomes: xr.Dataset) -> xr.Dataset:
    """Return outcomes of the images that all networks classify correctly, under each attack alone; others have truth -1."""
    right = (~outcomes.flipped & (outcomes.truth >= 0)).all("defence")
    return outcomes.assign(truth=outcomes.truth.where(right, -1))


def divergence_terms(outcomes: xr.Dataset) -> xr.Dataset:
    """Return the terms of KL(p || p') for each image, p of the clean image and p' of its attacked form.

    divergence: sum of p (log p - log p'). negative_entropy: -H(p), that is the sum of p log p. cross_entropy: -sum of p log p'.
    The first is the sum of the other two. NaN for images that were not evaluated under both.
    """
    logs = log_confidence(outcomes.assign(logits=outcomes.logits.astype("f8")))
    present = (outcomes.truth >= 0).all("attack")
    clean, attacked = logs.sel(attack="clean", drop=True), logs.drop_sel(attack="clean").isel(attack=0, drop=True)
    share = xr.ufuncs.exp(clean)
    terms = {"divergence": share * (clean - attacked), "negative_entropy": share * clean, "cross_entropy": -share * attacked}
    return xr.Dataset({name: term.sum("predicted").where(present) for name, term in terms.items()})


def residual(terms: xr.Dataset) -> float:
    """Return by how much the terms of any image miss their sum at most."""
    return float(abs(terms.divergence - terms.negative_entropy - terms.cross_entropy).max())


def course(history: xr.Dataset, outcomes: xr.Dataset) -> xr.DataArray:
    """Return the mean entropy of test images along defence, seed, images_are and epoch.

    history: of the networks, whose inner attack differs from that which measures. Of trainings that did not record it, the last
    epoch alone, from their outcomes.
    """
    count = measured_epochs(history["count"].sel(split="test", drop=True))
    recorded = history.get("uncertainty", history["count"].where(False))
    if not bool(recorded.notnull().any([dim for dim in recorded.dims if dim != "defence"]).all()):
        return last_epoch(outcomes.sel(defence=history.defence), int(history.epoch[-1]))
    nats = history.uncertainty.sel(split="test", epoch=count.epoch, drop=True)
    total, images = nats * metrics.images(count), metrics.images(count).where(nats.notnull())
    parts = [
        (total.sel(attack=names).sum(["attack", "label"]) / images.sel(attack=names).sum(["attack", "label"]))
        for names in (["clean"], [name for name in count.attack.values if name != "clean"])
    ]
    result: xr.DataArray = xr.concat(parts, "images_are").assign_coords(images_are=list(_IMAGES))
    return result


def last_epoch(outcomes: xr.Dataset, epoch: int) -> xr.DataArray:
    """Return the mean entropy of outcomes along defence, seed and images_are, and an epoch of that number."""
    present = outcomes.truth >= 0
    mean = entropy(outcomes).where(present).mean("image").rename(attack="images_are")
    return mean.assign_coords(images_are=list(_IMAGES)).expand_dims(epoch=[epoch])


def bins(outcomes: xr.Dataset, number: int = 24) -> xr.DataArray:
    """Return how many images have which entropy: dimensions defence, attack, label, images_are (right, wrong) and bin.

    The coordinate of bin is its lower end in nats; the last ends at ln of the number of classes. Seeds are added up.
    """
    classes = outcomes.sizes["predicted"]
    edges = np.linspace(0, limit(classes), number + 1)
    ordered = outcomes.transpose("defence", "attack", "seed", "image", "predicted")
    truth, wrong = ordered.truth.values, ordered.flipped.values
    nats = entropy(ordered).transpose("defence", "attack", "seed", "image").values
    shape = (*truth.shape[:2], classes, 2, number)
    count = np.zeros(shape, dtype=int)
    place = np.nonzero(truth >= 0)
    cell = np.clip(np.digitize(nats[place], edges) - 1, 0, number - 1)
    np.add.at(count, (place[0], place[1], truth[place], wrong[place].astype(int), cell), 1)
    coords = {"defence": outcomes.defence, "attack": list(_IMAGES), "label": outcomes.predicted.values}
    coords |= {"images_are": ["right", "wrong"], "bin": edges[:-1]}
    return xr.DataArray(count, coords, ("defence", "attack", "label", "images_are", "bin"), name="count")


def check(outcomes: xr.Dataset, *names: str) -> None:
    """Raise NotRecorded where a network is not among the outcomes."""
    missing = [name for name in names if name not in outcomes.defence.values]
    if missing:
        raise NotRecorded(f"results of {', '.join(missing)} are not recorded")
