"""Verdicts: for every claim answers of which its sentence is plainly true, and others of which it is plainly false.

Answers that a claim does not speak of (to other images, attacks and temperatures) say the opposite of those that it does.
"""

from itertools import product

import numpy as np
import pytest
import xarray as xr

from classwise.core.datasets import known_classes
from classwise.papers import registry
from classwise.papers.judging import Bootstrap

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


def told(tables, sharp=None, along=ALONG, times=1):
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
    data = {"truth": (dims, truth), "answer": (dims, answer), "flipped": (dims, answer != truth)}
    if sharp is not None:
        height = np.broadcast_to(np.asarray(sharp, dtype=float), (*map(len, axes), 10))[..., whole]
        height = height * np.random.default_rng(0).uniform(0.9, 1.1, height.shape)
        data["logits"] = ((*dims, "predicted"), (answer[..., None] == CLASS) * height[..., None])
    marks = {"vulnerable": CLASS == 3, "partner": CLASS == 5, "background": CLASS // 2}
    coords = dict(zip(along, axes, strict=True)) | {name: ("predicted", mark) for name, mark in marks.items()}
    return xr.Dataset(data, coords | {"predicted": DIGITS}, {"scale": "quick"})


def under(*defences, attacks=("pgd-20",), table=60):
    return dict.fromkeys(product(defences, attacks), table)


def at(value, *classes, rest=0):
    """Return one value for some classes, and another for the rest."""
    return np.where(np.isin(CLASS, classes), value, rest)


UP = np.arange(30, 100, 7)
WEAK = CLASS < 5
FROM_WEAK, FROM_ROBUST = np.where(WEAK, 15, 1), np.where(WEAK, 1, 15)
# One class loses the most, but those of the other kind lose more by far.
BUT_ONE_ROBUST, BUT_ONE_WEAK = np.where(CLASS == 7, 30, 12 * WEAK), np.where(CLASS == 2, 30, 12 * ~WEAK)
FOUR = ("pgd-at", "trades", "mart", "pgd-he")
FIVE = ("fgsm", "cw", "pgd-20", "transfer", "n-attack")
BOTH_WAYS = [(3, 5), (5, 3), (1, 9), (9, 1), (0, 8), (8, 0)]
ONE_WAY = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7)]
ACROSS = [(animal, 0) for animal in range(2, 8)] + [(vehicle, 3) for vehicle in (0, 1, 8, 9)]
MATES, APART = [(one, one ^ 1) for one in range(10)], [(one, (one + 5) % 10) for one in range(10)]


# Sections 4.1 and 4.2: one network, attacked; what it answers to images as they are must not matter.


def attacked(table, clean=90, times=1):
    return told({("pgd-at", "clean"): clean, ("pgd-at", "pgd-20"): table}, times=times)


def beside_standard(standard, robust, *others):
    """Return standard training not attacked, adversarial training attacked, and the two that nobody asks for."""
    keys = ("standard", "clean"), ("pgd-at", "pgd-20"), ("standard", "pgd-20"), ("pgd-at", "clean")
    return told(dict(zip(keys, (standard, robust, *others), strict=True)))


DRIFTED = tuple(
    [beside_standard(one, other, 10 * CLASS, 90), beside_standard(one, other, 90, 10 * CLASS)]
    for one, other in ((80 + CLASS, UP), (UP, 80 + CLASS))
)

# Section 4.3: four defences and five attacks.


def everywhere(right, **but):
    """Return what `right` says of each setting, by its number; "mart_cw=..." sets another right than the others."""
    keys = {key: right(place) for place, key in enumerate(product(FOUR, FIVE))}
    return told(keys | {tuple(name.split("_")): value for name, value in but.items()})


def ends(worst, best):
    return at(20, worst, rest=at(95, best, rest=60))


def beyond(first, second, lost, otherwise):
    """Return what the second attack breaks beyond the first, both of the named; after other attacks it is otherwise."""
    rest, own = (under(*FOUR, attacks=some, table=UP - some_lost) for some, some_lost in ((FIVE, otherwise), ((second,), lost)))
    return told(rest | under(*FOUR, attacks=(first,), table=UP) | own)


def breaks_the_weak(first, second):
    return (
        [beyond(first, second, FROM_WEAK, FROM_ROBUST), beyond(first, second, BUT_ONE_ROBUST, FROM_ROBUST)],
        [beyond(first, second, FROM_ROBUST, FROM_WEAK), beyond(first, second, BUT_ONE_WEAK, FROM_WEAK)],
    )


# Two halves differ more in variance than two single classes do, whose discrepancy is larger.
HALVES, SINGLES = np.where(WEAK, 40, 90), ends(4, 5)
SPREAD = beyond("fgsm", "pgd-20", FROM_WEAK, FROM_ROBUST), beyond("fgsm", "pgd-20", FROM_ROBUST, FROM_WEAK)
TO_SINGLES, TO_HALVES = (
    told(under(*FOUR, attacks=("fgsm",), table=first) | under(*FOUR, table=second))
    for first, second in ((HALVES, SINGLES), (SINGLES, HALVES))
)

# Section 5: how smooth the confidences are, and what the temperature breaks.

STEEPS = under(*FOUR, table=UP)
RISING, FALLING = np.linspace(1, 5, 10), np.linspace(5, 1, 10)
OF_KIND = np.array([5, 5, 1, 1, 0.5, 1, 1, 1, 5, 5])
DEERS, CATS = at(0.5, 4, rest=at(1, 3, rest=OF_KIND + 2)), at(0.5, 3, rest=at(1, 4, rest=OF_KIND + 2))


def of_defences(*sharp):
    return np.array(sharp, dtype=float)[:, None, None]


def sharp_in(*sharp, odd=None):
    """Return networks that are so sure of each class, the third of them otherwise."""
    return told(STEEPS, np.array([*sharp] * 4 if odd is None else [sharp[0], sharp[0], odd, sharp[0]])[:, None])


def in_both(*sharp, cosines):
    """Return networks with their logits, and HE once more with its cosines."""
    whole = told(STEEPS, of_defences(*sharp)).expand_dims(readout=["logits", "cosines"]).copy(deep=True)
    whole.logits[{"readout": 1}] *= cosines / sharp[-1]
    whole["truth"] = whole.truth.where((whole.readout == "logits") | (whole.defence == FOUR[-1]), -1).astype("i2")
    return whole


def heated(*lost, he="pgd-he", usual=UP):
    """Return what each defence loses to Temperature-PGD beyond PGD at inverse temperatures of 2 and 50."""
    found = {}
    for name, some in zip((*FOUR[:3], he), lost, strict=True):
        found[name, "pgd-20", ""] = usual
        found |= {(name, "temperature-pgd-20", heat): usual - less for heat, less in zip(("2", "50"), some, strict=True)}
    return told(found, along=(*ALONG, "inverse"), times=3)


WEAK_AT_2, WEAK_AT_50 = (FROM_WEAK, 3), (3, FROM_WEAK)
ROBUST_AT_2, ROBUST_AT_50 = (FROM_ROBUST, 3), (3, FROM_ROBUST)
# At 50 the weak lose, but less than the robust do at 2.
NOT_AT_BEST = (FROM_ROBUST, np.where(WEAK, 12, 0))
WIDER, NARROWER = heated(*[WEAK_AT_2, WEAK_AT_50] * 2), [heated(*[ROBUST_AT_50] * 4), heated(*[WEAK_AT_2] * 3, NOT_AT_BEST)]
HEATED_TO_SINGLES, HEATED_TO_HALVES = (
    heated(*[(0, HALVES - SINGLES)] * 4, usual=HALVES),
    heated(*[(SINGLES - HALVES + 10, 0)] * 4, usual=SINGLES),
)

# Section 6.1: networks without a class, and with another trade-off for class 5.


def homed(home, again=0.3, another=0.3, table=60):
    """Return which share of the mistakes comes home without their class, trained again, and without another class.

    home: one number, or one for each class and what it is taken for.
    """
    rng, full = np.random.default_rng(0), listed(table)
    truth = np.repeat(CLASS, len(full) // 10)
    found = {"": (truth, full)}
    for name in ("again 1", "again 2", *DIGITS):
        left = int(name) if name in DIGITS else -1
        share = np.where(full == left, np.broadcast_to(home, (10, 10))[truth, full], again if left < 0 else another)
        wrong = np.where((truth + 1) % 10 == left, truth + 2, truth + 1) % 10
        answer = np.where(rng.random(len(full)) < np.where(full == truth, 0.9, share), truth, wrong)
        found[name] = (np.where(truth == left, -1, truth), np.where(truth == left, -1, answer))
    data = told({("pgd-at", "pgd-20", name): table for name in found}, along=(*ALONG, "without"))
    for place, (there, answer) in enumerate(found.values()):
        data.truth[0, 0, place], data.answer[0, 0, place] = there, answer
    return data.assign(flipped=data.answer != data.truth)


def of_pairs(pairs, within, rest):
    table = np.full((10, 10), rest)
    table[tuple(np.transpose(pairs))] = within
    return table


CAT, DOG = [(3, 5)], [(5, 3)]
PAIR = CAT + DOG


def swept(lower, higher, **others):
    """Return answers at the usual trade-off and what classes gain by a lower and by a higher one of class 5, or of others."""
    usual = at(25, 3, rest=at(45, 5, rest=60))
    gains = {"": 0, "5:0.5": lower, "5:2": 0, "5:18": higher, "5:9": 0} | others
    return told({("trades", "pgd-20", name): usual + gain for name, gain in gains.items()}, along=(*ALONG, "betas"))


VICTIM_GAINS, VICTIM_LOSES = (swept(some, -some) for some in (at(20, 3, rest=-20), at(-20, 3, rest=20)))


# Section 6.2: drawings before the colours of their classes, and photographs before white.


def on_colours(own, control, clean=(90, 90), defence="pgd-at"):
    """Return answers before the ground of the own class and before that of others, attacked and not."""
    tables = {"clean": clean, "pgd-40": (own, control)}
    dresses = ("neighbours", "apart")
    return told(
        {(defence, attack, dress): one for attack, some in tables.items() for dress, one in zip(dresses, some, strict=True)},
        along=(*ALONG, "colouring"),
    )


def treated(clean, hot, times=1):
    """Return how many are right of class 3 as they are, before white, and trained for it too; of others it is the reverse."""
    names, attacks = ("as they are", "white", "both"), {"clean": clean, "temperature-pgd-20": hot}
    tables = {
        ("trades", key, name): at(one, 3, rest=110 - one)
        for key in attacks
        for name, one in zip(names, attacks[key], strict=True)
    }
    return told(tables, along=(*ALONG, "treatment"), times=times)


def lightened(own, others):
    """Return images that are lighter around the surer the network is of them (1), or darker (-1), in class 3 and the others."""
    data = told({("trades", "pgd-20", name): 60 for name in ("as they are", "white")}, 3, (*ALONG, "treatment"))
    first = data.isel(defence=0, attack=0, treatment=0)
    height = first.logits.max("predicted").values * np.where(first.flipped, -1, 1)
    luck = np.random.default_rng(1).normal(size=height.shape)
    return data.assign(white=("image", height * np.where(first.truth == 3, own, others) + luck))


# For every claim: answers on which it must hold, and answers on which it must fail.
EXTREMES = {
    "gap": ([attacked(UP, 90), attacked(at(80, 4, rest=98))], [attacked(99, UP), attacked(at(97, 4, rest=99))]),
    "gap-of-40-to-50": ([attacked(UP)], [attacked(60 + 2 * CLASS, UP)]),
    "gap-of-80": ([attacked(10 * CLASS + 5)], [attacked(UP, 10 * CLASS + 5)]),
    "simple-is-robust": ([attacked(98, 50)], [attacked(90, 99), attacked(at(99, 3), 99)]),
    "wider-than-standard": DRIFTED,
    "symmetry": ([attacked(table_of(90, BOTH_WAYS))], [attacked(table_of(90, ONE_WAY))]),
    "six-and-eight": (
        [attacked(table_of(70, [(6, 8), (8, 6)]))],
        [attacked(table_of(90, BOTH_WAYS), table_of(70, [(6, 8), (8, 6)]))],
    ),
    "cat-and-dog": ([attacked(table_of(70, PAIR))], [attacked(table_of(90, BOTH_WAYS[2:]), table_of(70, PAIR))]),
    "same-superclass": ([attacked(table_of(90, BOTH_WAYS))], [attacked(table_of(90, ACROSS), table_of(90, BOTH_WAYS))]),
    "few-across": (
        [attacked(table_of(90, BOTH_WAYS))],
        [attacked(table_of(90, ACROSS), table_of(90, BOTH_WAYS)), attacked(50, table_of(90, BOTH_WAYS))],
    ),
    "dog-and-truck": (
        [attacked(table_of(100, BOTH_WAYS[:4]), table_of(90, [(5, 9), (9, 5)]), times=3)],
        [
            attacked(table_of(100, [(5, 9), (9, 5)], 20), 100),
            *(attacked(table_of(100, [one], 20), 100) for one in ((5, 9), (9, 5))),
        ],
    ),
    "gaps-everywhere": ([everywhere(lambda n: UP)], [everywhere(lambda n: UP, mart_transfer=99)]),
    "same-worst-class": (
        [everywhere(lambda n: ends(2, n % 2)), everywhere(lambda n: ends(3, 1))],
        [everywhere(lambda n: ends(n % 2, 2)), everywhere(lambda n: ends(2, 1), mart_cw=ends(3, 1))],
    ),
    "same-best-class": (
        [everywhere(lambda n: ends(n % 2, 2)), everywhere(lambda n: ends(3, 1))],
        [everywhere(lambda n: ends(2, n % 2)), everywhere(lambda n: ends(2, 1), mart_cw=ends(2, 3))],
    ),
    "cats-worst": (
        [everywhere(lambda n: ends(3, n % 2))],
        [everywhere(lambda n: ends(5, 1)), everywhere(lambda n: ends(3, 1), mart_cw=ends(5, 1))],
    ),
    "cars-best": (
        [everywhere(lambda n: ends(2 + n % 2, 1))],
        [everywhere(lambda n: ends(3, 9)), everywhere(lambda n: ends(3, 1), mart_cw=ends(3, 9))],
    ),
    "dataset-decides": (
        [everywhere(lambda n: UP - n), everywhere(lambda n: (UP - 30) // (1 + n % 5) + 30)],
        [everywhere(lambda n: np.roll(UP, n // 5 * 3)), everywhere(lambda n: np.roll(UP, n % 5 * 2))],
    ),
    "stronger-on-vulnerable": breaks_the_weak("fgsm", "pgd-20"),
    "margin-on-vulnerable": breaks_the_weak("fgsm", "cw"),
    "stronger-larger-cv": ([SPREAD[0], TO_HALVES], [SPREAD[1], TO_SINGLES]),
    "stronger-larger-mcd": ([SPREAD[0], TO_SINGLES], [SPREAD[1], TO_HALVES]),
    "queries-on-vulnerable": breaks_the_weak("transfer", "n-attack"),
    "closer-to-the-boundary": [
        [told(under(*FOUR, attacks=("clean",), table=90) | STEEPS, np.array([some, 6 - some]))] for some in (RISING, FALLING)
    ],
    "cv-of-standard": (
        [*DRIFTED[0], beside_standard(SINGLES, HALVES, UP, UP)],
        [*DRIFTED[1], beside_standard(HALVES, SINGLES, UP, UP)],
    ),
    "mcd-of-standard": (
        [*DRIFTED[0], beside_standard(HALVES, SINGLES, UP, UP)],
        [*DRIFTED[1], beside_standard(SINGLES, HALVES, UP, UP)],
    ),
    "smooth-where-weak": ([sharp_in(RISING)], [sharp_in(FALLING)]),
    "smooth-where-weak-clean": [
        [told(under(*FOUR, attacks=("clean",)) | STEEPS, np.array([some, 6 - some]))] for some in (RISING, FALLING)
    ],
    "animals-smoother": (
        [sharp_in(OF_KIND), sharp_in(at(6, 6, rest=OF_KIND))],
        [sharp_in(6 - OF_KIND), sharp_in(at(6, 8, rest=6 - OF_KIND)), sharp_in(OF_KIND, odd=6 - OF_KIND)],
    ),
    "deer-and-cat-smoothest": (
        [sharp_in(DEERS), sharp_in(CATS), sharp_in(DEERS, odd=CATS)],
        [sharp_in(6 - DEERS), sharp_in(DEERS, odd=at(0.5, 4, 2, rest=DEERS + 1))],
    ),
    "deer-smoothest": ([sharp_in(DEERS)], [sharp_in(6 - DEERS), sharp_in(CATS), sharp_in(DEERS, odd=CATS)]),
    "he-smoothest": (
        [in_both(5, 5, 5, 1, cosines=1), in_both(5, 5, 5, 5, cosines=1)],
        [in_both(5, 5, 5, 5, cosines=5), in_both(5, 5, 1.2, 1, cosines=1), in_both(5, 5, 5, 1, cosines=5)],
    ),
    "he-smoothest-scaled": (
        [in_both(5, 5, 5, 1, cosines=1), in_both(5, 5, 5, 1, cosines=5)],
        [in_both(1, 5, 5, 5, cosines=5), in_both(5, 5, 1.2, 1, cosines=1), in_both(5, 5, 5, 5, cosines=1)],
    ),
    "breaks-more": (
        [heated((9, -5), (-5, 9), (9, 5), (5, 9)), heated((0, 9), (9, 0), (9, 0), (0, 9), he="trades-he")],
        [heated((30, 30), (30, 30), (-3, -6), (30, 30)), heated(*[(-4, -5)] * 4)],
    ),
    "larger-cv": ([WIDER, HEATED_TO_HALVES], [*NARROWER, HEATED_TO_SINGLES]),
    "larger-mcd": ([WIDER, HEATED_TO_SINGLES], [*NARROWER, HEATED_TO_HALVES]),
    "hits-vulnerable": (
        [WIDER, heated(*[(0, BUT_ONE_ROBUST)] * 4)],
        [heated(*[ROBUST_AT_2] * 4), heated(*[NOT_AT_BEST] * 4), heated(*[(BUT_ONE_WEAK, 0)] * 4)],
    ),
    "he-loses-most": (
        [heated((2, 1), (20, 9), (20, 9), (3, 12)), heated((-2, -1), (20, 9), (20, 9), (3, 12), he="trades-he")],
        [heated((9, 12), (0, 0), (0, 0), (1, 2))],
    ),
    "plain-hardly-loses": ([heated((0, -3), *[(20, 9)] * 3), heated((-3, -5), *[(20, 9)] * 3)], [heated((0, 5), *[(0, 0)] * 3)]),
    "plain-steepest": (
        [in_both(5, 3, 3, 1, cosines=1), in_both(5, 3, 3, 6, cosines=1)],
        [in_both(3, 5, 3, 3, cosines=1), in_both(3, 2, 5, 2, cosines=1), in_both(3, 2, 2, 2, cosines=5)],
    ),
    "he-loses": (
        [heated(*[(0, 0)] * 3, (1, 9)), heated(*[(0, 0)] * 3, (9, 1), he="trades-he")],
        [heated(*[(20, 20)] * 3, (0, -3))],
    ),
    "he-loses-the-vulnerable": ([heated(*[ROBUST_AT_2] * 3, WEAK_AT_50)], [heated(*[WEAK_AT_2] * 3, ROBUST_AT_50)]),
    "homing": ([homed(0.8)], [homed(0.3, again=0.7, another=0.1), homed(0.3, again=0.1, another=0.7)]),
    "cat-to-dog-homes": (
        [homed(of_pairs(CAT, 0.8, 0.1), table=table_of(70, PAIR))],
        [homed(of_pairs(CAT, 0.2, 0.9), again=0.9, table=table_of(70, PAIR))],
    ),
    "one-to-one": (
        [homed(of_pairs(PAIR, 0.8, 0.1), table=table_of(80, PAIR))],
        [homed(of_pairs(CAT, 0.8, 0.9) * of_pairs(DOG, 0.1, 1), table=table_of(85, [*PAIR, (5, 1)]))],
    ),
    "one-to-one-beyond-mistakes": (
        [homed(of_pairs(PAIR, 0.9, 0.2), table=table_of(50, PAIR, 20))],
        [homed(of_pairs(PAIR, 0.3, 0.9), table=table_of(50, PAIR, 20)), homed(of_pairs(CAT, 0.9, 0.3) * of_pairs(DOG, 0.1, 1))],
    ),
    "groups-home": (
        [homed(of_pairs(BOTH_WAYS, 0.9, 0.3)), homed(of_pairs(BOTH_WAYS, 0.9, 0.3), again=0.9, table=table_of(80, BOTH_WAYS))],
        [homed(of_pairs(BOTH_WAYS, 0.3, 0.9), table=table_of(50, BOTH_WAYS, 30)), homed(of_pairs(ACROSS, 0.9, 0.1))],
    ),
    "victim-gains": ([VICTIM_GAINS, swept(at(20, 3), 0, **{"6:0.1": at(-20, 3)})], [VICTIM_LOSES]),
    "victim-loses": ([VICTIM_GAINS, swept(0, at(-20, 3), **{"6:30": at(20, 3)})], [VICTIM_LOSES]),
    "changed-class-loses": (
        [swept(at(-20, 5, rest=20), at(20, 5, rest=-20))],
        [swept(at(20, 5, rest=-20), at(-20, 5, rest=20))],
    ),
    "evener": (
        [swept(at(30, 3, rest=at(10, 5)), at(-20, 3)), swept(at(20, 3, rest=-5), at(-20, 3))],
        [swept(at(-20, 3), at(30, 3, rest=at(10, 5))), swept(at(-20, 5, rest=30 * (CLASS % 2)), 0)],
    ),
    "mnist-above-95": (
        [told(under("pgd-at", attacks=("pgd-40",), table=98) | {("standard", "pgd-40"): 0})],
        [told(under("pgd-at", attacks=("pgd-40",), table=90) | {("standard", "pgd-40"): 99})],
    ),
    "cifar10-50-to-60": (
        [treated((90, 95, 95), (55, 90, 90), 3)],
        [treated((55, 55, 55), (80, 55, 55)), treated((55, 55, 55), (40, 55, 55))],
    ),
    "standard-does-not-care": (
        [on_colours(10, 90, (97, 97), "standard")],
        [on_colours(50, 50, (97, 90), "standard"), on_colours(50, 50, (90, 97), "standard")],
    ),
    "follows-background": (
        [on_colours(table_of(90, MATES), table_of(90, APART))],
        [on_colours(table_of(90, APART), table_of(90, MATES)), on_colours(table_of(60), table_of(90, MATES))],
    ),
    "all-follow": (
        [on_colours(table_of(90, MATES), table_of(90, APART)), on_colours(table_of(90, MATES), table_of(90, MATES))],
        [on_colours(table_of(90, [*MATES[:7], (7, 2), *MATES[8:]]), 90), on_colours(table_of(90, APART), table_of(90, MATES))],
    ),
    "more-than-natural": (
        [on_colours(table_of(90, MATES), table_of(90, APART))],
        [
            on_colours(60, 60, clean=(table_of(90, MATES), table_of(90, APART))),
            on_colours(table_of(90, MATES), table_of(90, MATES), clean=(table_of(90, MATES), 90)),
        ],
    ),
    "white-helps": ([treated((70, 40, 40), (30, 60, 20))], [treated((40, 70, 70), (60, 30, 80))]),
    "natural-insensitive": (
        [treated((80, 80, 20), (30, 70, 90), 5), treated((81, 80, 20), (30, 70, 90), 5)],
        [treated((70, 90, 70), (60, 60, 60)), treated((90, 70, 90), (60, 60, 60))],
    ),
    "mostly-attacked": (
        [treated((70, 72, 10), (30, 55, 30)), treated((72, 70, 10), (55, 30, 55))],
        [treated((70, 95, 70), (30, 32, 90)), treated((95, 70, 95), (30, 32, 90))],
    ),
    "both-help": ([treated((70, 70, 40), (30, 20, 60))], [treated((40, 40, 70), (60, 70, 30))]),
    "both-help-more": ([treated((70, 70, 40), (70, 30, 60))], [treated((40, 40, 70), (30, 60, 40))]),
    "white-is-sure": ([lightened(1, -1)], [lightened(-1, 1)]),
}


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


def test_every_claim_must_hold_somewhere_and_fail_somewhere():
    assert sorted(EXTREMES) == sorted(one.name for one in registry.CLAIMS)
    assert all(len(both) == 2 and all(both) for both in EXTREMES.values())


@pytest.mark.parametrize(
    ("name", "verdict", "place"),
    [
        (name, verdict, place)
        for name, both in EXTREMES.items()
        for verdict, some in zip(("holds", "fails"), both, strict=True)
        for place in range(len(some))
    ],
)
def test_a_claim_holds_where_it_must_and_fails_where_it_must(name, verdict, place):
    asked = next(one for one in registry.CLAIMS if one.name == name)
    dataset = asked.datasets[0] if asked.datasets else "digits"
    data = unequal(of_dataset(EXTREMES[name][verdict == "fails"][place], dataset))
    (found,) = registry.judge(asked.section, data, dataset=dataset, only=[name], bootstrap=Bootstrap(200))
    assert found.verdict == verdict, found
    assert found.low <= found.high, found
