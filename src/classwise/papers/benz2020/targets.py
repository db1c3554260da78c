"""Similarity of the classes by their mean logits, and how many images an attacker moves into the critical class (section 3.3)."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.papers.benz2020 import critical
from classwise.papers.benz2020.section_3_3_targets import PUSHED, TARGETED, by_name, part_name, similar_pairs
from classwise.papers.sections import Request
from classwise.stats import bootstrap, combine, confidence, intervals, pooling

_DRAWS = 1000
# How images are attacked towards the critical class, as charts name it.
TOWARDS = "towards the class"


def cosines(validation: xr.Dataset, *, centred: bool = True) -> xr.DataArray:
    """Return the cosine of the mean logits of each two classes along defence, label and other; seeds pooled.

    validation: of `section_3_3_targets.validation`. centred: less the mean over the classes.
    """
    totals = bootstrap.sums(validation, {"logit": validation["logit"]}).isel(attack=0, drop=True)
    return confidence.cosines(confidence.mean_logits(totals, centred=centred))


def similarity(validation: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return the mean similarity of two classes (`similar_pairs`), by a title, along defence and bound (95 %)."""
    return {
        "mean logits less their mean": _similarity(validation, centred=True),
        "mean logits as they are": _similarity(validation, centred=False),
    }


def _similarity(validation: xr.Dataset, *, centred: bool) -> xr.DataArray:
    values = {"logit": validation["logit"]}
    value = similar_pairs(bootstrap.sums(validation, values), centred=centred)
    parts = [similar_pairs(part, centred=centred) for part in bootstrap.bootstrap_sums(validation, values, _DRAWS)]
    drawn = xr.concat(parts, "draw")
    high, low = (2 * value - drawn.quantile(share, "draw").drop_vars("quantile") for share in (0.025, 0.975))
    ends = [xr.ufuncs.minimum(low.clip(0, 1), value), value, xr.ufuncs.maximum(high.clip(0, 1), value)]
    bounds: xr.DataArray = xr.concat(ends, "bound").assign_coords(bound=["low", "value", "high"])
    return bounds


def pushed(parts: Mapping[str, Request], load: Callable[[Request], xr.Dataset]) -> xr.Dataset:
    """Return outcomes of TARGETED attacked towards the critical class, along defence; load: `runs.outcomes`.

    NotRecorded where none is.
    """
    requests = {name: parts[part_name(name, PUSHED)] for name in TARGETED if part_name(name, PUSHED) in parts}
    known = {name: load(request) for name, request in requests.items() if request.specs}
    if not known:
        raise NotRecorded("no attack towards the critical class is recorded")
    first, *others = known
    return by_name(tuple(known), known[first].assign_coords(defence=[first]), *(known[name] for name in others))


def named_critical(outcomes: xr.Dataset, towards: xr.Dataset) -> xr.DataArray:
    """Return how many images of other classes are predicted as the critical one, in percent, along defence, attack and bound.

    Of the trainings and seeds that both Datasets have; with Wilson's intervals (95 %). outcomes: under the attacks of the page.
    towards: of `pushed`.
    """
    known = [name for name in TARGETED if name in towards.defence.values and name in outcomes.defence.values]
    both = {"": critical.compared(outcomes, known), TOWARDS: critical.compared(towards, known)}
    shares = [_share(part) for part in combine.shared_seeds(both).values()]
    return xr.concat([shares[0], shares[1].assign_coords(attack=[TOWARDS])], "attack")


def _share(outcomes: xr.Dataset) -> xr.DataArray:
    name = critical.name_of(outcomes)
    count = pooling.pooled(outcomes).drop_vars("critical", errors="ignore")
    others = count.isel(label=np.flatnonzero(count.label.values != name))
    hits, total = others.sel(predicted=name, drop=True).sum("label"), others.sum(["label", "predicted"])
    value = (100 * hits / total.where(total > 0)).expand_dims(bound=["value"])
    return xr.concat([intervals.wilson_bounds(hits, total, 0.95), value], "bound").sel(bound=["low", "value", "high"])


def recorded(outcomes: xr.Dataset, names: Sequence[str]) -> list[str]:
    """Return those of the trainings that have results."""
    return [name for name in names if name in outcomes.defence.values]
