"""Section 4.3: four defences and five attacks."""

from itertools import product

import numpy as np
import pytest
import xarray as xr
from claim_answers import (
    BUT_ONE_ROBUST,
    BUT_ONE_WEAK,
    DRIFTED,
    FALLING,
    FOUR,
    FROM_ROBUST,
    FROM_WEAK,
    HALVES,
    RISING,
    SINGLES,
    STEEPS,
    UP,
    beside_standard,
    ends,
    outcomes_with,
    under,
)

from classwise.core.errors import NotRecorded
from classwise.papers.tian2021 import section_4_3
from classwise.stats import intervals, metrics

FIVE = ("fgsm", "cw", "pgd-20", "transfer", "n-attack")


def everywhere(right, **but):
    """Return what `right` says of each setting, by its number; "mart_cw=..." sets another right than the others."""
    keys = {key: right(place) for place, key in enumerate(product(FOUR, FIVE))}
    return outcomes_with(keys | {tuple(name.split("_")): value for name, value in but.items()})


def beyond(first, second, lost, otherwise):
    """Return what the second attack breaks beyond the first, both of the named; after other attacks it is otherwise."""
    rest, own = (under(*FOUR, attacks=some, table=UP - some_lost) for some, some_lost in ((FIVE, otherwise), ((second,), lost)))
    return outcomes_with(rest | under(*FOUR, attacks=(first,), table=UP) | own)


def breaks_the_weak(first, second):
    return (
        [beyond(first, second, FROM_WEAK, FROM_ROBUST), beyond(first, second, BUT_ONE_ROBUST, FROM_ROBUST)],
        [beyond(first, second, FROM_ROBUST, FROM_WEAK), beyond(first, second, BUT_ONE_WEAK, FROM_WEAK)],
    )


SPREAD = beyond("fgsm", "pgd-20", FROM_WEAK, FROM_ROBUST), beyond("fgsm", "pgd-20", FROM_ROBUST, FROM_WEAK)
TO_SINGLES, TO_HALVES = (
    outcomes_with(under(*FOUR, attacks=("fgsm",), table=first) | under(*FOUR, table=second))
    for first, second in ((HALVES, SINGLES), (SINGLES, HALVES))
)

# For each claim: answers on which it must hold, and answers on which it must fail.
EXTREMES = {
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
        [outcomes_with(under(*FOUR, attacks=("clean",), table=90) | STEEPS, np.array([some, 6 - some]))]
        for some in (RISING, FALLING)
    ],
    "cv-of-standard": (
        [*DRIFTED[0], beside_standard(SINGLES, HALVES, UP, UP)],
        [*DRIFTED[1], beside_standard(HALVES, SINGLES, UP, UP)],
    ),
    "mcd-of-standard": (
        [*DRIFTED[0], beside_standard(HALVES, SINGLES, UP, UP)],
        [*DRIFTED[1], beside_standard(SINGLES, HALVES, UP, UP)],
    ),
}


def test_relative_robustness_is_certain_only_where_the_whole_interval_lies_on_one_side(rates, counts):
    found = intervals.relative_robustness(rates)
    wilson = intervals.wilson(rates, together=True)
    total = metrics.overall(rates)
    assert found.sel(defence="a", attack="fgsm").values.tolist() == [1, -1, 0]
    assert found.sel(defence="b", attack="fgsm").values.tolist() == [0, 0, 0]
    xr.testing.assert_equal((found == 1), (wilson.sel(bound="low", drop=True) > total))
    xr.testing.assert_equal((found == -1), intervals.vulnerable(rates))
    assert intervals.relative_robustness(rates * 0).isnull().all()
    few = counts({("a", "fgsm"): [90, 50, 70]}, images=10)
    assert intervals.relative_robustness(few).values.tolist() == [[[0, 0, 0]]]


def test_settings_are_counted_for_each_class(rates):
    table = section_4_3.certain_classes(intervals.relative_robustness(rates))
    assert table.loc["vulnerable", "1"] == 3
    assert table.loc["robust", "0"] == 2
    assert (table.sum() == 4).all()


def test_agreement_names_the_best_and_worst_classes_and_the_correlation(rates):
    said = section_4_3.agreement(metrics.accuracy(rates.sel(defence="a")))
    assert "class 0 in 2; the worst is class 1 in 2" in said
    assert f"{np.corrcoef([90, 50, 70], [80, 20, 60])[0, 1]:.2f} on average" in said
    assert "one setting only" in section_4_3.agreement(metrics.accuracy(rates.isel(defence=[0], attack=[0])))


def test_only_what_was_evaluated_is_described():
    truth = np.zeros((1, 1, 3, 1200), "i2")
    truth[0, 0, 2, 20:] = -1
    dims = ("defence", "seed", "attack", "image")
    coords = {
        "defence": ["mart"],
        "seed": [0],
        "attack": ["clean", "fgsm", "cw"],
        "image": np.arange(1200),
        "predicted": ["x", "y"],
    }
    text = section_4_3.settings(xr.Dataset({"truth": (dims, truth)}, coords))
    assert "*mart*" in text
    assert "**fgsm**" in text
    assert "pgd-he" not in text
    assert "n-attack" not in text
    assert text.endswith("Images of each attack: 1,200; fewer for the slow ones: cw 20.")


def test_a_name_without_words_is_listed():
    truth = np.zeros((2, 1, 2, 4), "i2")
    coords = {"defence": ["mart", "faal"], "seed": [0], "attack": ["fgsm", "square"], "image": np.arange(4)}
    text = section_4_3.settings(xr.Dataset({"truth": (("defence", "seed", "attack", "image"), truth)}, coords))
    assert "; *faal*." in text
    assert "; *square*." in text


def test_no_pair_of_attacks_counts_as_not_recorded():
    with pytest.raises(NotRecorded, match="no weaker attack"):
        section_4_3.attack_steps(xr.Dataset(), [])


def test_steps_are_counted_on_the_images_that_both_attacks_were_evaluated_on():
    truth = np.array([[[[0, 0, 1], [0, -1, 1]]]], dtype="i2")
    answer = np.array([[[[0, 1, 1], [1, -1, 1]]]], dtype="i2")
    dims = ("defence", "seed", "attack", "image")
    coords = {"defence": ["a"], "seed": [0], "attack": ["transfer", "n-attack"], "image": [3, 4, 5], "predicted": ["x", "y"]}
    whole = xr.Dataset({"truth": (dims, truth), "answer": (dims, answer), "flipped": (dims, truth != answer)}, coords)
    found = section_4_3.attack_steps(whole, [("transfer", "n-attack")])
    assert list(found) == ["transfer to n-attack"]
    assert metrics.images(found["transfer to n-attack"]).values.tolist() == [[[1, 1], [1, 1]]]
    assert section_4_3.accuracy_lost(found).squeeze().values.tolist() == [-100, 0]
