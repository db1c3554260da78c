"""Benz et al. 2020, section 3.2: similar classes, their mean logits, and the mistakes between them.

The claims need standard and adversarial training, clean and under attack, with sums by block of what their similarity is measured
on, along `source`: of validation images. Those of one fold are test images of another, so the cosines of each seed are compared
with the mistakes of that seed alone, whose test images they are not; the correlations are averaged over the seeds.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from classwise.core.spec import Evaluation
from classwise.papers import extremes, measures
from classwise.papers.claims import ClaimMeasure, MeasurementError
from classwise.papers.sections import CLEAN_AND_PGD, Arranged, Section
from classwise.papers.terms import claims, of
from classwise.stats import aggregate, features, metrics, pooling

NAME = "benz2020/3-2-class-similarity"
DEFENCES = ("standard", "pgd-at")
ROBUST = "pgd-at"
# Of what the similarity of classes is measured, along `source`.
LOGITS, CORRECT, FEATURES = "mean logits", "mean logits of correct images", "penultimate features"


class Predictor(NamedTuple):
    """What may tell which classes are mistaken for one another: cosines of a source of a network, centred or not."""

    source: str
    network: str
    centred: bool


PREDICTORS: dict[str, Predictor] = {
    "mean logits": Predictor(LOGITS, ROBUST, centred=False),
    "mean logits, centred": Predictor(LOGITS, ROBUST, centred=True),
    "mean logits of correct images, centred": Predictor(CORRECT, ROBUST, centred=True),
    "penultimate features, centred": Predictor(FEATURES, ROBUST, centred=True),
    "mean logits in standard training, centred": Predictor(LOGITS, "standard", centred=True),
}
AS_PRINTED, CENTRED, OF_CORRECT, _, OF_STANDARD = PREDICTORS


def _logit_sums(validation: xr.Dataset, block_of: np.ndarray, *, correct: bool) -> dict[str, np.ndarray]:
    """Return sums of logits by block, as those of features: of all images, or of the correctly classified ones."""
    names, size = validation.sizes["predicted"], max(int(block_of.max()) + 1, 1)
    truth, answer = (validation[name].transpose("defence", "seed", "image").values for name in ("truth", "answer"))
    logits = validation.logits.transpose("defence", "seed", "image", "predicted").values
    shape = (*truth.shape[:2], size, names)
    total, square, images = np.zeros((*shape, names)), np.zeros(shape), np.zeros(shape)
    for defence, seed in np.ndindex(truth.shape[:2]):
        here = truth[defence, seed] >= 0
        if correct:
            here &= truth[defence, seed] == answer[defence, seed]
        cell = (defence, seed, block_of[seed, here], truth[defence, seed, here])
        values = logits[defence, seed, here]
        np.add.at(total, cell, values)
        np.add.at(square, cell, (values**2).sum(1))
        np.add.at(images, cell, 1)
    return {"total": total, "square": square, "images": images}


def _blocks(outcomes: xr.Dataset, size: int) -> np.ndarray:
    """Return the block of each image of each seed, -1 where it was not evaluated: (seed, image)."""
    truth = outcomes.truth.max([dim for dim in outcomes.truth.dims if dim not in ("seed", "image")])
    labels = truth.transpose("seed", "image").values
    block_of = np.full(labels.shape, -1, dtype=np.int16)
    for place, row in enumerate(labels):
        here = row >= 0
        block_of[place, here] = features.blocks_of(row[here], outcomes.image.values[here], size)
    return block_of


def arranged(plain: xr.Dataset, validation: xr.Dataset | None) -> xr.Dataset:
    """Return outcomes with the sums by block of logits and features of validation images, along `source`.

    validation: of the same runs without an attack; it has features where they are recorded. Of the seeds that both have. None:
    without results, and there are no sums.
    """
    if validation is None:
        return plain
    seeds = [seed for seed in plain.seed.values if seed in validation.seed.values]
    names = [name for name in plain.defence.values if name in validation.defence.values]
    plain, clean = (some.sel(seed=seeds, defence=names) for some in (plain, validation.isel(attack=0, drop=True)))
    truth = clean.truth.max(["defence", "seed"]).values
    size = clean.sizes.get("block") or features.block_count(truth[truth >= 0])
    block_of = _blocks(clean, size)
    dims = {"total": ("block", "label", "feature"), "square": ("block", "label"), "images": ("block", "label")}
    coords = {"defence": names, "seed": seeds, "block": range(size), "label": plain.predicted.values}
    parts = {}
    for source, correct in ((LOGITS, False), (CORRECT, True)):
        sums = _logit_sums(clean, block_of, correct=correct)
        data = {name: (("defence", "seed", *dims[name]), values) for name, values in sums.items()}
        parts[source] = xr.Dataset(data, coords | {"feature": range(plain.sizes["predicted"])})
    if "total" in clean:
        parts[FEATURES] = clean[list(features.SUMS)].reindex(label=plain.predicted.values)
    joined = xr.concat([part.fillna(0) for part in parts.values()], "source", join="outer", fill_value=0)
    of_test = (("seed", "image"), _blocks(plain, size))
    return plain.assign(dict(joined.assign_coords(source=list(parts)).data_vars) | {"block_of": of_test})


SECTION = Section(
    title="Similar classes",
    defences=DEFENCES,
    evaluations=CLEAN_AND_PGD,
    parts={
        "validation": Section(
            title="validation images",
            defences=DEFENCES,
            evaluations=(Evaluation(attack="clean", split="valid"),),
            features=("clean",),
        )
    },
    arrange={"": Arranged(arranged, ("",), optional=("validation",))},
)


def chosen_and_judged(outcomes: xr.Dataset, validation: xr.Dataset, network: str) -> tuple[xr.DataArray, xr.DataArray]:
    """Return counts of validation images of a network, and those of attacked test images of PGD-AT, which are others.

    Where each seed has a fold as its test images, the validation images are of the first seeds, as many as leave at least as many
    seeds whose test images are none of them.
    """
    held, tested = ({seed: _images(some, seed) for seed in some.seed.values} for some in (validation, outcomes))
    chosen, rest, shared = list[Any](), list(tested), pooling.seeds_share_images(outcomes)
    for seed in held:
        # Numbers of validation images and of test images that all seeds share are those of two files.
        left = [one for one in rest if shared or one == seed or not held[seed] & tested[one]]
        if len(left) > len(chosen):
            chosen, rest = [*chosen, seed], left
    counts = [aggregate.counts(some.sel(seed=seeds)).sum("seed") for some, seeds in ((validation, chosen), (outcomes, rest))]
    places = ((network, 0), (ROBUST, -1))
    known, judged = (some.sel(defence=name, drop=True).isel(attack=at) for some, (name, at) in zip(counts, places, strict=True))
    return known, judged


def _images(outcomes: xr.Dataset, seed: Any) -> set[int]:
    truth = outcomes.truth.sel(seed=seed)
    present = (truth >= 0).any([dim for dim in truth.dims if dim != "image"])
    return {int(number) for number in outcomes.image.values[present.values]}


def available(data: xr.Dataset) -> list[str]:
    """Return the predictors whose network and source the outcomes of `arranged` have."""
    have = set(map(str, data.source.values)), set(map(str, data.defence.values))
    return [name for name, one in PREDICTORS.items() if one.source in have[0] and one.network in have[1]]


def cosines(statistics: xr.Dataset, predictor: str) -> xr.DataArray:
    """Return the cosine of each two classes by a predictor: seed, label and other."""
    one = PREDICTORS[predictor]
    for dim, name in (("source", one.source), ("defence", one.network)):
        if name not in statistics[dim].values:
            raise MeasurementError(f"these outcomes have no {name}", f"with {name}")
    part = statistics.sel(source=one.source, defence=one.network, drop=True)
    return features.similarity(part, centred=one.centred)


def of_networks(statistics: xr.Dataset) -> xr.DataArray:
    """Return the centred cosines of the mean logits of each network, the mean over seeds: defence, label and other."""
    return features.similarity(statistics.sel(source=LOGITS, drop=True), centred=True).mean("seed")


def attacked(statistics: xr.Dataset) -> xr.DataArray:
    """Return the counts of PGD-AT under attack, along seed."""
    return statistics["count"].sel(defence=ROBUST, drop=True).isel(attack=-1, drop=True)


def mistakes(count: xr.DataArray) -> xr.DataArray:
    """Return how often two classes are mistaken for one another, the two directions added, in percent: label and other."""
    mixed = metrics.off_diagonal_confusion(count)
    back = mixed.rename(label="predicted", predicted="label").assign_coords(label=mixed.label, predicted=mixed.predicted)
    both: xr.DataArray = (mixed + back).rename(predicted="other")
    return both.assign_coords(other=both.label.values)


def _over_pairs(values: xr.DataArray) -> np.ndarray:
    size = values.sizes["label"]
    matrix: np.ndarray = values.transpose(..., "seed", "label", "other").values
    return matrix[..., *np.triu_indices(size, 1)]


def alike_and_mistaken(statistics: xr.Dataset, predictor: str = AS_PRINTED) -> xr.DataArray:
    """Return the rank correlation over pairs of classes of their cosine and how often PGD-AT mistakes them under attack.

    The mean over the seeds: in each, cosines are of validation images that are not its test images.
    """
    return rank_correlation(cosines(statistics, predictor), mistakes(attacked(statistics)))


def rank_correlation(near: xr.DataArray, mixed: xr.DataArray) -> xr.DataArray:
    """Return the rank correlation over pairs of classes of two arrays along seed, label and other, the mean over the seeds."""
    from scipy import stats  # slow to import

    like = near.isel(seed=0, label=0, other=0, drop=True)
    pairs = np.broadcast_arrays(_over_pairs(near), _over_pairs(mixed))
    known = np.isfinite(pairs).all((0, -1))
    ranks = [stats.rankdata(np.nan_to_num(some), axis=-1) for some in pairs]
    off = [some - some.mean(-1, keepdims=True) for some in ranks]
    length = np.sqrt((off[0] ** 2).sum(-1) * (off[1] ** 2).sum(-1))
    value = (off[0] * off[1]).sum(-1) / np.where(length > 0, length, np.nan)
    return like.copy(data=np.where(known, value, np.nan).mean(-1)).rename("correlation")


def mean_cosine(statistics: xr.Dataset, predictor: str = AS_PRINTED) -> xr.DataArray:
    """Return the mean cosine of each class with all others: seed and label."""
    near = cosines(statistics, predictor)
    return near.where(near.label != near.other).mean("other")


def lonely_is_robust(statistics: xr.Dataset, predictor: str = AS_PRINTED) -> xr.DataArray:
    """Return the correlation over classes of the mean cosine with all others and the accuracy of PGD-AT under attack.

    The mean over the seeds, as of `alike_and_mistaken`.
    """
    each = xr.corr(mean_cosine(statistics, predictor), metrics.accuracy(attacked(statistics)), "label")
    return each.mean("seed", skipna=False)


def similar_p(statistics: xr.Dataset, predictor: str = AS_PRINTED, draws: int = 2000, seed: int = 0) -> float:
    """Return the p-value of `alike_and_mistaken` against permuted classes, the same in all seeds (Mantel 1967); one-sided."""
    near, mixed = cosines(statistics, predictor), mistakes(attacked(statistics))
    size = near.sizes["label"]
    if size < _FEWEST:
        return np.nan
    orders = _orders(size, draws, seed)
    matrix = near.transpose("seed", "label", "other")
    permuted = np.moveaxis(matrix.values[:, orders[:, :, None], orders[:, None, :]], 1, 0)
    chances = rank_correlation(matrix.expand_dims(draw=len(orders)).copy(data=permuted), mixed).values
    return _share_as_large(chances)


def lonely_p(statistics: xr.Dataset, predictor: str = AS_PRINTED, draws: int = 2000, seed: int = 0) -> float:
    """Return the p-value of `lonely_is_robust` against permuted classes, the same in all seeds; two-sided."""
    near = mean_cosine(statistics, predictor).transpose("seed", "label")
    orders = _orders(near.sizes["label"], draws, seed)
    permuted = np.moveaxis(near.values[:, orders], 1, 0)
    shuffled = near.expand_dims(draw=len(orders)).copy(data=permuted)
    each = xr.corr(shuffled, metrics.accuracy(attacked(statistics)), "label")
    return _share_as_large(np.abs(each.mean("seed", skipna=False).values))


# Of fewer classes there are too few permutations of their pairs.
_FEWEST = 4


def _orders(size: int, draws: int, seed: int) -> np.ndarray:
    """Return the classes as they are, then in random orders: (1 + draws, size)."""
    rng = np.random.default_rng(seed)
    return np.stack([np.arange(size), *(rng.permutation(size) for _ in range(draws))])


def _share_as_large(values: np.ndarray) -> float:
    """Return the share of values that are as large as the first one, itself included; NaN where that one is unknown."""
    return float((values >= values[0] - 1e-12).mean()) if np.isfinite(values[0]) else np.nan


def true_weakest(outcomes: xr.Dataset, draws: int, seed: int) -> np.ndarray:
    """Return draws of the true accuracy of the weakest class, which is no percentage below 0 or above 100."""
    result: np.ndarray = np.clip(extremes.extreme_draws(outcomes, draws, seed, parts=of(metrics.accuracy, ROBUST)), 0, 100)
    return result


def _of_features(measure: ClaimMeasure) -> dict[str, Any]:
    return {"measure": measure, "of": "features", "defences": DEFENCES}


CLAIMS = claims(
    NAME,
    {
        "most-are-correct": {"measure": of(metrics.worst, ROBUST), "truth": true_weakest},
        "within-superclasses": measures.within_superclasses,
        "vice-versa": {"measure": of(metrics.symmetry, ROBUST, "pgd-20"), "truth": measures.true_symmetry},
        "similar-logits-are-mistaken": _of_features(alike_and_mistaken),
        "centred-logits-are-mistaken": _of_features(partial(alike_and_mistaken, predictor=CENTRED)),
        "standard-logits-are-mistaken": _of_features(partial(alike_and_mistaken, predictor=OF_STANDARD)),
        "similar-to-many-is-vulnerable": _of_features(lonely_is_robust),
    },
    defences=(ROBUST,),
    attacks=("pgd-20",),
)
