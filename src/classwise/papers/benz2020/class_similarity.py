"""Benz et al. 2020, section 3.2: similar classes, their mean logits, and the mistakes between them.

The claims need standard and adversarial training, clean and under attack, with sums by block of what their similarity is measured
on, along `source`: of validation images. Those of one fold are test images of another, so the cosines of each seed are compared
with the mistakes of that seed alone, whose test images they are not; the correlations are averaged over the seeds.
"""

from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from classwise.core.spec import Evaluation
from classwise.papers import measures
from classwise.papers.sections import Derived, Part, Section
from classwise.papers.terms import claims, least, value
from classwise.stats import combine, features, metrics
from classwise.stats.agreement import rank_correlation

NAME = "benz2020/3-2-class-similarity"
DEFENCES = ("standard", "pgd-at")
ROBUST = "pgd-at"
# Of what the similarity of classes is measured, along `source`.
LOGITS, CORRECT, FEATURES = "mean logits", "mean logits of correct images", "penultimate features"


# What may tell which classes are mistaken for one another: cosines of a source of a network, centred or not.
PREDICTORS: dict[str, tuple[str, str, bool]] = {
    "mean logits": (LOGITS, ROBUST, False),
    "mean logits, centred": (LOGITS, ROBUST, True),
    "mean logits of correct images, centred": (CORRECT, ROBUST, True),
    "penultimate features, centred": (FEATURES, ROBUST, True),
    "mean logits in standard training, centred": (LOGITS, "standard", True),
}
AS_PRINTED, CENTRED, _, _, OF_STANDARD = PREDICTORS


def arrange_sources(plain: xr.Dataset, validation: xr.Dataset | None) -> xr.Dataset:
    """Return outcomes with the sums by block of logits and features of validation images, along `source`.

    validation: of the same runs without an attack; it has features where they are recorded. Of the seeds that both have. None:
    without results, and there are no sums.
    """
    if validation is None:
        return plain
    seeds, names = ([one for one in plain[dim].values if one in validation[dim].values] for dim in ("seed", "defence"))
    plain, clean = (some.sel(seed=seeds, defence=names) for some in (plain, validation.isel(attack=0, drop=True)))
    truth = clean.truth.max(["defence", "seed"]).values
    size = clean.sizes.get("block") or features.block_count(truth[truth >= 0])
    of_correct = clean.truth.where(clean.truth == clean.prediction, -1)
    logits, kept = clean.logits.rename(predicted="feature"), (features.assign_blocks(clean, size), plain.predicted.values, size)
    parts = {LOGITS: features.block_sums(logits, clean.truth, *kept), CORRECT: features.block_sums(logits, of_correct, *kept)}
    if "total" in clean:
        parts[FEATURES] = clean[list(features.SUMS)].reindex(label=plain.predicted.values)
    joined = xr.concat([part.fillna(0) for part in parts.values()], "source", join="outer", fill_value=0)
    return plain.assign(
        dict(joined.assign_coords(source=list(parts)).data_vars) | {"block_of": features.assign_blocks(plain, size)}
    )


SECTION = Section(
    title="Similar classes",
    defences=DEFENCES,
    parts={
        "validation": Part(
            title="validation images",
            defences=DEFENCES,
            evaluations=(Evaluation(attack="clean", split="valid"),),
            features=("clean",),
        )
    },
    arrange={"": Derived(arrange_sources, ("",), optional=("validation",))},
)


def cosines(statistics: xr.Dataset, predictor: str = AS_PRINTED) -> xr.DataArray:
    """Return the cosine of each two classes by a predictor: seed, label and other."""
    source, network, centred = PREDICTORS[predictor]
    return features.similarity(statistics.sel(source=source, defence=network, drop=True), centred=centred)


def attacked_counts(statistics: xr.Dataset) -> xr.DataArray:
    """Return the counts of PGD-AT under attack, along seed."""
    return statistics["count"].sel(defence=ROBUST, drop=True).isel(attack=-1, drop=True)


def mistakes(count: xr.DataArray) -> xr.DataArray:
    """Return how often two classes are mistaken for one another, the two directions added, in percent: label and other."""
    mixed = metrics.off_diagonal_confusion(count)
    back = mixed.rename(label="predicted", predicted="label").assign_coords(label=mixed.label, predicted=mixed.predicted)
    both: xr.DataArray = (mixed + back).rename(predicted="other")
    return both.assign_coords(other=both.label.values)


def pairs(matrix: xr.DataArray) -> xr.DataArray:
    """Return what a symmetric matrix, along label and other, says of each two classes, along `pair` ("cat and dog")."""
    places = np.triu_indices(matrix.sizes["label"], 1)
    first, second = (xr.DataArray(place, dims="pair") for place in places)
    names = [" and ".join(str(matrix.label.values[place]) for place in both) for both in zip(*places, strict=True)]
    return matrix.isel(label=first, other=second).drop_vars(["label", "other"]).assign_coords(pair=names)


def alike_and_mistaken(statistics: xr.Dataset, predictor: str = AS_PRINTED) -> xr.DataArray:
    """Return the rank correlation, over pairs of classes, between their cosine and how often PGD-AT mistakes them under attack.

    The mean over the seeds: in each, cosines are of validation images that are not its test images.
    """
    # Rounded, since the last digits of equal cosines depend on the processor.
    near, mixed = (pairs(some).round(9) for some in (cosines(statistics, predictor), mistakes(attacked_counts(statistics))))
    return rank_correlation(near, mixed, "pair").mean("seed", skipna=False).rename("correlation")


def predictor_correlations(statistics: xr.Dataset) -> xr.DataArray:
    """Return `alike_and_mistaken` of each of PREDICTORS, along predictor."""
    return combine.concat_named("predictor", {name: alike_and_mistaken(statistics, name) for name in PREDICTORS})


def mean_cosine(statistics: xr.Dataset, predictor: str = AS_PRINTED) -> xr.DataArray:
    """Return the mean cosine of each class with all others: seed and label."""
    near = cosines(statistics, predictor)
    return near.where(near.label != near.other).mean("other")


def similarity_of_robust_classes(statistics: xr.Dataset, predictor: str = AS_PRINTED) -> xr.DataArray:
    """Return the correlation, over classes, between the mean cosine with all others and the accuracy of PGD-AT under attack.

    The mean over the seeds, as of `alike_and_mistaken`.
    """
    each = xr.corr(mean_cosine(statistics, predictor), metrics.accuracy(attacked_counts(statistics)), "label")
    return each.mean("seed", skipna=False)


_FEATURES: dict[str, Any] = {"of": "features", "defences": DEFENCES, "permuted": "count"}
CLAIMS = claims(
    NAME,
    {
        "most-are-correct": least(value(metrics.accuracy, ROBUST)),
        "within-superclasses": measures.superclass_excess,
        "vice-versa": {**measures.SYMMETRY, "measure": value(metrics.symmetry, ROBUST, "pgd-20")},
        "similar-logits-are-mistaken": {"measure": alike_and_mistaken, **_FEATURES},
        "centred-logits-are-mistaken": {"measure": partial(alike_and_mistaken, predictor=CENTRED), **_FEATURES},
        "standard-logits-are-mistaken": {"measure": partial(alike_and_mistaken, predictor=OF_STANDARD), **_FEATURES},
        "similar-to-many-is-vulnerable": {"measure": similarity_of_robust_classes, **_FEATURES},
    },
    defences=(ROBUST,),
    attacks=("pgd-20",),
)
