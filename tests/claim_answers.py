"""Answers made by hand for the claims of the papers, and what the claims say of them; histories, too.

For every claim there are answers of which its sentence is plainly true, and others of which it is plainly false. Answers that a
claim does not use (to other images, attacks and temperatures) say the opposite of those that it does.
"""

from dataclasses import replace
from itertools import product
from typing import Any

import mocks
import numpy as np
import xarray as xr

from classwise.core.datasets import known_classes
from classwise.papers import registry
from classwise.papers.claims import Claim, Verdict
from classwise.papers.judging import Bootstrap, judge_all
from classwise.stats import features

ALONG = ("defence", "attack")
CLASS = np.arange(10)
DIGITS = list(map(str, CLASS))


def table_of(right, pairs=(), more=40, size=100):
    """Return so many right answers of each class, and the rest evenly, but `more` from the first to the second of each pair."""
    right = np.broadcast_to(right, 10)
    table = np.zeros((10, 10), dtype=int)
    for label in range(10):
        for one in range(size - right[label]):
            table[label, (label + 1 + one % 9) % 10] += 1
        table[label, label] += right[label]
    for first, second in pairs:
        table[first, first] -= more
        table[first, second] += more
    return table


def listed(table, times=1):
    """Return the answers, class by class, of a table of answers, or of how many of a hundred are right in each class or all."""
    table = times * (table_of(table) if np.ndim(table) < 2 else np.asarray(table))
    return np.concatenate([np.repeat(CLASS, row) for row in table]).astype("i2")


def outcomes_with(tables, sharp=None, along=ALONG, times=1):
    """Return outcomes of one seed from what `listed` takes for each setting; of settings that are left out nothing was asked.

    sharp: how high the logit of the answer is, by setting and class; none: no logits. 3 is the vulnerable class, 5 its partner,
    and 0 and 1, 2 and 3, ... have the same background.
    """
    axes = [list(dict.fromkeys(key[place] for key in tables)) for place in range(len(along))]
    lists = {key: listed(table, times) for key, table in tables.items()}
    number = len(next(iter(lists.values())))
    whole = np.repeat(CLASS, number // 10).astype("i2")
    truth, answer = np.full((2, *map(len, axes), number), -1, dtype="i2")
    for key, some in lists.items():
        place = tuple(axis.index(name) for axis, name in zip(axes, key, strict=True))
        truth[place], answer[place] = whole, some
    dims = (*along, "image")
    data = mocks.answers(dims, truth, answer)
    if sharp is not None:
        height = np.broadcast_to(np.asarray(sharp, dtype=float), (*map(len, axes), 10))[..., whole]
        height = height * np.random.default_rng(0).uniform(0.9, 1.1, height.shape)
        data["logits"] = ((*dims, "predicted"), (answer[..., None] == CLASS) * height[..., None])
    marks = {"vulnerable": CLASS == 3, "partner": CLASS == 5, "background": CLASS // 2}
    coords = dict(zip(along, axes, strict=True)) | {name: ("predicted", mark) for name, mark in marks.items()}
    return xr.Dataset(data, coords | {"predicted": DIGITS}, {"scale": "quick"})


def history(**coords):
    """Return a history of no counts, of PGD-AT and seeds 0 and 1 over two epochs, or along other members of its dimensions."""
    dims = {"defence": ["pgd-at"], "seed": [0, 1], "epoch": [1, 2], "split": ["train", "valid", "test"]}
    dims |= {"attack": ["clean", "pgd-10"], "label": DIGITS, **coords}
    dims["predicted"] = dims["label"]
    return xr.Dataset({"count": (tuple(dims), np.zeros([len(some) for some in dims.values()], dtype="i4"))}, dims)


def with_features(outcomes, values, blocks, along="defence"):
    """Return outcomes with sums of features of clean images, from those of each network (image, feature), by its name."""
    truth = outcomes.truth.max([dim for dim in outcomes.truth.dims if dim != "image"]).values
    block = features.blocks_of(truth, np.arange(len(truth)), blocks)
    sums = [mocks.feature_sums(some, truth, block, DIGITS) for some in values.values()]
    parts = [one.expand_dims({along: [name], "attack": ["clean"]}) for name, one in zip(values, sums, strict=True)]
    return features.add_blocks(outcomes, xr.concat(parts, along))


def under(*defences, attacks=("pgd-20",), table=60):
    return dict.fromkeys(product(defences, attacks), table)


def marked(tables, attacks=("pgd-20",), times=2, sharp=None):
    """Return outcomes of trainings, from what `listed` takes for each; class 3 is critical."""
    rows = {(name, attack): table for name, table in tables.items() for attack in attacks}
    data = outcomes_with(rows, times=times, sharp=sharp)
    return data.assign_coords(critical=("predicted", CLASS == 3)).assign_attrs(dataset="digits")


def at(value, *classes, rest=0):
    """Return one value for some classes, and another for the rest."""
    return np.where(np.isin(CLASS, classes), value, rest)


UP = np.arange(30, 100, 7)
WEAK = CLASS < 5
FROM_WEAK, FROM_ROBUST = np.where(WEAK, 15, 1), np.where(WEAK, 1, 15)
# One class loses the most, but those of the other kind lose more by far.
BUT_ONE_ROBUST, BUT_ONE_WEAK = np.where(CLASS == 7, 30, 12 * WEAK), np.where(CLASS == 2, 30, 12 * ~WEAK)
FOUR = ("pgd-at", "trades", "mart", "pgd-he")
BOTH_WAYS = [(3, 5), (5, 3), (1, 9), (9, 1), (0, 8), (8, 0)]
ACROSS = [(animal, 0) for animal in range(2, 8)] + [(vehicle, 3) for vehicle in (0, 1, 8, 9)]
CAT, DOG = [(3, 5)], [(5, 3)]
PAIR = CAT + DOG


def ends(worst, best):
    return at(20, worst, rest=at(95, best, rest=60))


# Two halves differ more in variance than two single classes do, whose discrepancy is larger.
HALVES, SINGLES = np.where(WEAK, 40, 90), ends(4, 5)
STEEPS = under(*FOUR, table=UP)
RISING, FALLING = np.linspace(1, 5, 10), np.linspace(5, 1, 10)
CLEAN_TOO = under(*FOUR, attacks=("clean",), table=90) | STEEPS
STEEPER = [[outcomes_with(CLEAN_TOO, np.array([some, 6 - some]))] for some in (RISING, FALLING)]


def attacked(table, clean=90, times=1):
    return outcomes_with({("pgd-at", "clean"): clean, ("pgd-at", "pgd-20"): table}, times=times)


def beside_standard(standard, robust, *others):
    """Return standard training not attacked, adversarial training attacked, and the two that nobody asks for."""
    keys = ("standard", "clean"), ("pgd-at", "pgd-20"), ("standard", "pgd-20"), ("pgd-at", "clean")
    return outcomes_with(dict(zip(keys, (standard, robust, *others), strict=True)))


DRIFTED = tuple(
    [beside_standard(one, other, 10 * CLASS, 90), beside_standard(one, other, 90, 10 * CLASS)]
    for one, other in ((80 + CLASS, UP), (UP, 80 + CLASS))
)


def of_dataset(data, dataset):
    """Return outcomes whose classes are called as those of the dataset."""
    names = list(known_classes(dataset) or DIGITS)
    data = data.assign_coords(predicted=names)
    if "without" not in data.dims:
        return data
    return data.assign_coords(without=[names[int(one)] if one in DIGITS else one for one in data["without"].values])


def unequal(data):
    """Return the same outcomes with the images of every other class twice."""
    truth = data.truth.max([dim for dim in data.truth.dims if dim != "image"]).values
    chosen = np.repeat(np.arange(len(truth)), 1 + truth % 2)
    return data.isel(image=chosen).assign_coords(image=range(len(chosen)))


def trained_thrice(data):
    """Return outcomes of three trainings: those of one seed, and twice the same but for an image in each third class.

    Which class, and so by how much trainings differ, goes by the place of the setting; sums of features differ by a thousandth.
    """
    if data.sizes.get("seed", 1) > 1:
        return data
    data = data if "seed" in data.dims else data.expand_dims(seed=[0])
    return xr.concat([data.assign_coords(seed=[0]), *(_another(data, seed) for seed in (1, 2))], "seed")


def _another(data, seed):
    """Return the outcomes of another training, which is right on an image fewer (seed 1) or more (seed 2)."""
    dims = [dim for dim in data.prediction.dims if dim not in ("seed", "image")]
    truth = data.truth.max([dim for dim in data.truth.dims if dim not in data.prediction.dims])
    truth, answer = (some.transpose(*dims, "seed", "image").values.copy() for some in (truth, data.prediction))
    for number, place in enumerate(np.ndindex(truth.shape[:-1])):
        for label in range(number % 3, data.sizes["predicted"], 3):
            members = np.flatnonzero((truth[place] == label) & ((answer[place] == label) == (seed == 1)))[:1]
            answer[(*place, members)] = (label + 1) % data.sizes["predicted"] if seed == 1 else label
    answers = data.prediction.transpose(*dims, "seed", "image").copy(data=answer).transpose(*data.prediction.dims)
    further = {"misclassified": (answers != data.truth) & (data.truth >= 0)} if "half" not in data.dims else {}
    further |= {"total": data.total * (1 + 0.001 * (2 * seed - 3))} if "total" in data else {}
    return data.assign(prediction=answers, **further).assign_coords(seed=[seed])


def judged(name: str, data: xr.Dataset) -> Verdict:
    """Return the verdict on a claim, on a dataset of which it speaks, with twice as many images of every other class."""
    claim = next(one for one in registry.CLAIMS if one.name == name)
    dataset = claim.datasets[0] if claim.datasets else "digits"
    data = unequal(of_dataset(trained_thrice(data), dataset))
    return verdict_on(claim, data, dataset)


def verdict_on(claim: Claim, data: Any, dataset: str, draws: int = 200) -> Verdict:
    """Return the verdict on a claim by itself, at a scale whose levels count; a description is judged as if it were a claim."""
    tested = replace(claim, family="main", family_size=1)
    (found,) = judge_all([tested], data, scale="paper", dataset=dataset, bootstrap=Bootstrap(draws))
    return found
