"""What the page on pairs of classes shows of `section_2_2.arranged`: similarities, errors, correlations and their controls."""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
import xarray as xr

from classwise.core.errors import NotRecorded
from classwise.core.markup import decimal
from classwise.papers.entropy2022 import section_2_2
from classwise.papers.entropy2022.section_2_2 import CONSTANT, FEATURES, PIXELS, ROBUST, STANDARD
from classwise.stats import features, metrics
from classwise.stats.intervals import proportion
from classwise.stats.significance import p_text, permutation_p

# What errors under each attack are called.
KINDS: Mapping[str, str] = {"clean": "without an attack", "pgd-20": "under PGD"}
_DRAWS = 400

Predictor = Callable[[xr.Dataset], xr.DataArray]
SIMILARITY, IMAGES = "cosine of mean features, standard training", "cosine of mean images"
# By how much the correlation with the first exceeds that with the second.
MORE = "difference of the two"
# What is correlated with the errors of pairs, along partner.
PREDICTORS: Mapping[str, Predictor] = {
    SIMILARITY: lambda some: section_2_2.alike(some, FEATURES),
    IMAGES: lambda some: section_2_2.alike(some, PIXELS),
    "confusion of the two by standard training, attacked": lambda some: section_2_2.confused(some, STANDARD),
    "confusion of the two by pgd-at on all classes, attacked": lambda some: section_2_2.confused(some, ROBUST),
}


def similarities(data: xr.Dataset) -> xr.DataArray:
    """Return low, value and high of the cosine with each partner, along source, partner and bound; data: of `by_block`."""

    def measure(some: xr.Dataset) -> xr.DataArray:
        sources = [str(name) for name in data.source.values]
        each = [section_2_2.alike(some, name) for name in sources]
        return xr.concat(each, pd.Index(sources, name="source"))

    return features.interval(data, measure, draws=_DRAWS)


def order(data: xr.Dataset) -> list[str]:
    """Return the partners from the least to the most similar one in the standard network."""
    value = section_2_2.alike(features.statistics(data))
    return [str(name) for name in value.sortby(value).partner.values]


def error_table(parts: Mapping[str, xr.Dataset]) -> pd.DataFrame:
    """Return the error of each pair, of the victim and of the partner, with Wilson's 95 % intervals, in percent.

    parts: by the training of the pairs. Columns: defence, attack, partner, images of ("both", "victim", "partner"), value, low,
    high, images, networks: the number of seeds, lost: of how many the network gives one answer to more than `CONSTANT` percent of
    the images without an attack, constant: whether there is any.
    """
    rows = []
    for defence, data in parts.items():
        statistics = features.statistics(data)
        each_seed, victim = statistics["count"].isel(defence=0, drop=True), section_2_2.victim(statistics)
        count = each_seed.sum("seed")
        for partner in section_2_2.partners(data):
            of_pair = count.sel(partner=partner)
            answers = each_seed.sel(partner=partner, attack="clean").sum("label")
            networks = int((answers.sum("predicted") > 0).sum())
            lost = int((100 * answers.max("predicted") > CONSTANT * answers.sum("predicted")).sum())
            for attack in map(str, count.attack.values):
                for who, labels in (("both", [victim, partner]), ("victim", [victim]), ("partner", [partner])):
                    part = of_pair.sel(attack=attack, label=labels)
                    images, right = int(part.sum()), float(metrics.correct(part).sum())
                    low, high = proportion(images - right, images)
                    row: dict[str, object] = {"defence": defence, "attack": attack, "partner": partner, "images of": who}
                    row |= {"networks": networks, "lost": lost, "constant": lost > 0}
                    rows.append(
                        row | {"value": 100 * (1 - right / images), "low": float(low), "high": float(high), "images": images}
                    )
    return pd.DataFrame(rows)


def correlated(data: xr.Dataset) -> xr.DataArray:
    """Return low, value and high of the correlation of each of `PREDICTORS` with the errors of pairs under each attack.

    Along predictor, attack and bound, and as predictor `MORE` by how much that of features exceeds that of images. data: of
    `blocks`.
    """
    known = {name: how for name, how in PREDICTORS.items() if name != IMAGES or PIXELS in data.source.values}

    def measure(some: xr.Dataset) -> xr.DataArray:
        values = {name: how(some) for name, how in known.items()}
        kinds = []
        for attack in KINDS:
            error = section_2_2.errors(some, attack)
            each = {name: xr.corr(value, error, "partner") for name, value in values.items()}
            each |= {MORE: each[SIMILARITY] - each[IMAGES]} if IMAGES in each else {}
            kinds.append(xr.concat(list(each.values()), pd.Index(list(each), name="predictor")))
        return xr.concat(kinds, pd.Index(list(KINDS), name="attack"))

    bounds = features.interval(data, measure, draws=_DRAWS)
    return bounds.where(bounds.predictor == MORE, bounds.clip(-1, 1))


def correlations(parts: Mapping[str, xr.Dataset], bounds: Mapping[str, xr.DataArray], errors: pd.DataFrame) -> pd.DataFrame:
    """Return how errors of pairs correlate with similarity: with intervals by images, and a permutation test.

    A line for each training and attack; without the pairs that gave a constant answer in a further column. bounds: of
    `correlated`, errors: of `error_table`, of the same parts.
    """
    rows = {}
    for defence, data in parts.items():
        statistics = features.statistics(data)
        constant = set(errors[(errors["defence"] == defence) & errors["constant"]]["partner"])
        for attack, words in KINDS.items():
            similar, error = section_2_2.alike(statistics), section_2_2.errors(statistics, attack)
            kept = [name for name in map(str, error.partner.values) if name not in constant]
            without = float(xr.corr(similar.sel(partner=kept), error.sel(partner=kept), "partner")) if len(kept) > 2 else np.nan
            rows[f"{defence}, {words}"] = {
                "correlation": _bracketed(bounds[defence].sel(predictor=SIMILARITY, attack=attack)),
                "p of a random order": p_text(permutation_p(similar, error, "partner")),
                "without constant answers": _number(without) if constant else "the same",
            }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("error of the pair")


def _number(value: float) -> str:
    return decimal(value, 2) if np.isfinite(value) else "unknown"


def _bracketed(bounds: xr.DataArray) -> str:
    low, value, high = (_number(float(bounds.sel(bound=name))) for name in ("low", "value", "high"))
    return value if value == "unknown" else f"{value} [{low}, {high}]"


def controls(bounds: Mapping[str, xr.DataArray], attack: str = "pgd-20") -> pd.DataFrame:
    """Return the correlation of each of `PREDICTORS` with errors under an attack; a column for each training of `correlated`."""
    columns = {
        f"pairs by {defence}": {
            str(name): _bracketed(some.sel(predictor=name, attack=attack)) for name in some.predictor.values if name != MORE
        }
        for defence, some in bounds.items()
    }
    return pd.DataFrame(columns).rename_axis("correlated with the errors of pairs")


def blocks(inputs: Mapping[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    """Return the sums by block (`features.by_block`) of each training of pairs that has features; NotRecorded if none has.

    inputs: of `runs.claim_inputs`.
    """
    parts = {
        name: features.by_block(data) for name, data in inputs.items() if "total" in data and len(section_2_2.partners(data)) > 1
    }
    if ROBUST not in parts:
        raise NotRecorded("two pairs by pgd-at and the features of the standard network are not recorded")
    return parts


def victim(data: xr.Dataset) -> str:
    """Return the class that all pairs have; data: of `blocks`."""
    return section_2_2.victim(features.statistics(data))
