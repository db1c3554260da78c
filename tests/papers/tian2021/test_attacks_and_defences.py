"""Section 4.3: four defences and five attacks."""

from itertools import product

import claim_answers
import mocks
import numpy as np
import pytest
import xarray as xr
from claim_answers import DRIFTED, FOUR, FROM_ROBUST, FROM_WEAK, HALVES, SINGLES, UP, ends, outcomes_with, under
from scipy import stats

from classwise import runs
from classwise.papers import published, registry
from classwise.papers.tian2021 import attacks_and_defences
from classwise.papers.tian2021.tables import TABLES
from classwise.runs import describe
from classwise.stats import aggregate, intervals, metrics, pooling

EVERYWHERE = TABLES.load(1).accuracy
PRINTED = EVERYWHERE.sel(attack="pgd-20")
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
        [beyond(first, second, FROM_WEAK, FROM_ROBUST), beyond(first, second, claim_answers.BUT_ONE_ROBUST, FROM_ROBUST)],
        [beyond(first, second, FROM_ROBUST, FROM_WEAK), beyond(first, second, claim_answers.BUT_ONE_WEAK, FROM_WEAK)],
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
    "closer-to-the-boundary": claim_answers.STEEPER,
    "cv-of-standard": (
        [*DRIFTED[0], claim_answers.beside_standard(SINGLES, HALVES, UP, UP)],
        [*DRIFTED[1], claim_answers.beside_standard(HALVES, SINGLES, UP, UP)],
    ),
    "mcd-of-standard": (
        [*DRIFTED[0], claim_answers.beside_standard(HALVES, SINGLES, UP, UP)],
        [*DRIFTED[1], claim_answers.beside_standard(SINGLES, HALVES, UP, UP)],
    ),
}


def test_relative_robustness_is_certain_only_where_the_whole_interval_lies_on_one_side():
    rates = xr.DataArray([[90.0, 50, 70], [60, 60, 60]], dims=("defence", "label"), coords={"label": list("abc")})
    count = published.counts(rates, 100)
    assert intervals.relative_robustness(count).values.tolist() == [[1, -1, 0], [0, 0, 0]]
    assert intervals.relative_robustness(count * 0).isnull().all()
    assert intervals.relative_robustness(published.counts(rates, 10)).values.tolist() == [[0, 0, 0]] * 2


def test_the_correlation_is_that_of_ranks():
    first, second = (PRINTED.sel(defence=name, drop=True) for name in ("pgd-at", "trades"))
    expected = stats.spearmanr(first, second).statistic
    assert float(attacks_and_defences.correlation(published.counts(first), second)) == pytest.approx(expected)
    several = xr.concat([published.counts(first), published.counts(second)], "draw")
    assert attacks_and_defences.correlation(several, second).values.tolist() == pytest.approx([expected, 1])


def test_the_earlier_recipe_is_recorded_and_compared_with_the_paper():
    earlier = runs.outcomes(runs.keep_recorded(attacks_and_defences.EARLIER))
    assert list(earlier.defence.values) == ["standard", "pgd-at", "trades"]
    found = attacks_and_defences.order(earlier, EVERYWHERE)
    count = aggregate.counts(earlier).sum("seed").sel(defence="pgd-at", attack="pgd-20")
    rank = stats.spearmanr(metrics.accuracy(count), PRINTED.sel(defence="pgd-at", label=count.label.values)).statistic
    assert float(found.sel(defence="pgd-at", attack="pgd-20", bound="value")) == pytest.approx(rank)
    itself = attacks_and_defences.order(earlier, metrics.accuracy(pooling.pool(earlier)))
    assert itself.defence.values.tolist() == ["pgd-at", "trades"]
    assert itself.sel(bound="value", attack="pgd-20").values == pytest.approx([1, 1])
    requested = registry.request("tian2021/4-3-attacks-and-defences", "laptop").specs
    assert attacks_and_defences.EARLIER.specs[1] not in requested


def test_the_settings_say_how_far_the_level_of_a_recorded_scale_lies_below_the_paper(data):
    request = registry.request("tian2021/4-1-class-bias", "laptop", seeds=[0], defences=["pgd-at"])
    assert "below Table 1" not in describe._level("laptop")
    mocks.record(request.specs[0], *request.evaluations)
    outcomes = runs.outcomes(request)
    level = 100 * float((outcomes.prediction == outcomes.truth).sel(attack="pgd-20").mean())
    theirs = float(TABLES.load(1).overall.sel(defence="pgd-at", attack="pgd-20"))
    said = f"pgd-at under pgd-20: {level:.1f} % of all images, {theirs - level:.1f} points below Table 1 of Tian et al. 2021"
    assert describe.scale_notes()["laptop"].endswith(said)
