"""Similarity and variance of networks with label smoothing or maximum entropy, and of TRADES over lambda, with intervals."""

from collections.abc import Mapping

import pandas as pd
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.core.markup import decimal
from classwise.papers.entropy2022 import section_3_2_2a as section
from classwise.papers.entropy2022 import similarity as likeness
from classwise.stats import aggregate, features, metrics
from classwise.stats.confidence import entropy

DRAWS = 500
# Those of `similarity.FORMS` that are ratios of two networks, in a table of differences.
_RATIOS = ("variance", "relative variance")


def profiles(outcomes: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return by the name of a training similarity and variance with their intervals, along measure, training, label and bound.

    Of a training lines that are not recorded are left out, and those without any; NotRecorded where all are.
    """
    result = {}
    for name, lines in section.SMOOTHED.items():
        known = {line: network for line, network in lines.items() if network in outcomes.defence.values}
        if len(known) > 1 and "total" in outcomes:
            bounds = features.interval(section.blocks(outcomes, *known.values()), likeness.profile, draws=DRAWS)
            result[name] = bounds.assign_coords(defence=list(known)).rename(defence="training")
    if not result:
        raise NotRecorded("no features of label smoothing or maximum entropy are recorded")
    return result


def forms(outcomes: xr.Dataset, pairs: Mapping[str, tuple[str, str]]) -> pd.DataFrame:
    """Return by how much two networks differ in the forms of `similarity.FORMS`, with 95 % intervals, in words.

    pairs: by the title of a line, a network and the one that it is compared with; a pair that is not recorded is left out.
    Cosines are compared by their difference, variances by their ratio.
    """
    rows = {}
    for title, (network, base) in pairs.items():
        if {network, base} <= set(map(str, outcomes.defence.values)):
            bounds = features.interval(section.blocks(outcomes, network, base), _compared_forms, draws=DRAWS)
            rows[title] = {str(name): _bracketed(bounds.sel(form=name)) for name in bounds.form.values}
    if not rows:
        raise NotRecorded("no features of two networks that are compared are recorded")
    return pd.DataFrame.from_dict(rows, orient="index").rename(columns={name: f"{name}, ratio" for name in _RATIOS})


def _compared_forms(statistics: xr.Dataset) -> xr.DataArray:
    """Return the forms of the first network less those of the second, or over them."""
    first, second = (likeness.forms(statistics).isel(defence=place, drop=True) for place in (0, 1))
    ratio: xr.DataArray = first / second
    return ratio.where(first.form.isin(_RATIOS), first - second)


def _bracketed(bounds: xr.DataArray) -> str:
    low, value, high = (decimal(float(bounds.sel(bound=name)), 3) for name in ("low", "value", "high"))
    return f"{value} [{low}, {high}]"


def swept(outcomes: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the mean similarity and variance of TRADES along `lambda`, and those of PGD-AT and of ME-TRADES along network.

    With intervals; all are of the seeds that every one of them has. NotRecorded where TRADES has fewer than two values of lambda.
    """
    known = {value: name for value, name in section.LAMBDAS.items() if name in outcomes.defence.values}
    others = {name: title for name, title in _OTHERS.items() if name in outcomes.defence.values}
    if len(known) < 2:
        raise NotRecorded("TRADES is not recorded with several values of lambda")
    bounds = features.interval(section.blocks(outcomes, *known.values(), *others), _means, draws=DRAWS)
    of_lambda = bounds.sel(defence=list(known.values())).assign_coords(defence=[float(value) for value in known])
    of_others = bounds.sel(defence=list(others)).assign_coords(defence=list(others.values()))
    return of_lambda.rename(defence="lambda"), of_others.rename(defence="network")


_OTHERS = {section.AT: "PGD-AT", section.EQUAL[0]: "ME-TRADES, λ = 15"}


def _means(statistics: xr.Dataset) -> xr.DataArray:
    return likeness.profile(statistics).mean("label", skipna=False)


def by_class(outcomes: xr.Dataset) -> xr.DataArray:
    """Return similarity, variance, accuracy and entropy of each class of TRADES, along quantity, label and `lambda`.

    Accuracies in percent; the entropy of clean images in nats. NotRecorded without any lambda.
    """
    known = {value: name for value, name in section.LAMBDAS.items() if name in outcomes.defence.values}
    part = section.of_all(outcomes, *known.values())
    statistics = features.statistics(features.by_block(part))
    rates = metrics.accuracy(aggregate.counts(part).sum("seed"))
    label = xr.DataArray(range(part.sizes["predicted"]), dims="label", coords={"label": part.predicted.values})
    clean = part.sel(attack="clean")
    nats = entropy(clean).where(clean.truth == label).mean(["seed", "image"])
    parts = {"similarity": likeness.similarity(statistics), "variance": likeness.variance(statistics)}
    parts |= {"clean": rates.sel(attack="clean"), "robust": rates.isel(attack=-1), "entropy": nats}
    plain = [value.drop_vars("attack", errors="ignore") for value in parts.values()]
    joined = xr.concat(plain, "quantity", coords="minimal", compat="override").assign_coords(quantity=list(parts))
    return joined.assign_coords(defence=[float(value) for value in known]).rename(defence="lambda")


def most_similar(values: xr.DataArray) -> str:
    """Return the class that is the most similar to another one with the usual lambda; values: of `by_class`."""
    usual = values.sel(quantity="similarity").sel({"lambda": 6.0}, method="nearest")
    return str(usual.idxmax("label").item())


COMPARED = ("similarity", "variance", "relative variance")


def both(statistics: xr.Dataset) -> xr.DataArray:
    """Return the difference of the mean similarities of two networks and the ratios of their mean variances, along measure.

    The measures are those of COMPARED.
    """
    values = (likeness.similarity(statistics), likeness.variance(statistics), likeness.relative_variance(statistics))
    means = xr.concat([value.mean("label", skipna=False) for value in values], "measure", coords="minimal", compat="override")
    means = means.assign_coords(measure=list(COMPARED))
    first, second = (means.isel(defence=place, drop=True) for place in (0, 1))
    ratio: xr.DataArray = first / second
    return ratio.where(first.measure != "similarity", first - second)
