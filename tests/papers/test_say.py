"""Sentences of pages: numbers with their intervals, and verdicts in words."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from classwise.core.errors import NotRecorded, UserError
from classwise.papers import say
from classwise.papers.claims import Claim, Verdict
from classwise.stats.metrics import mcd


def bounds(low, value, high):
    return xr.DataArray([low, value, high], {"bound": ["low", "value", "high"]}, ("bound",))


def test_a_template_writes_numbers_one_way():
    text = say.text(
        "{gap:points} and {r:,2} of {name}, {p:.0f} %", gap=bounds(1, 2.4, 3), r=bounds(0, 0.5, np.nan), name="a*b", p=7.6
    )
    assert text == "2 points (95 % interval 1 to 3) and 0.50 (95 % interval 0.00 to unknown) of a&#42;b, 8 %"
    assert (
        say.text("{one:points,1} {start:s}", one=bounds(0, 1, 2), start="**x**") == "1.0 points (95 % interval 0.0 to 2.0) **x**"
    )


def test_an_interval_in_words():
    assert say.interval(bounds(-0.04, 3.25, 12), "points") == "3 points (95 % interval 0 to 12)"
    assert say.interval(bounds(-0.04, 3.25, 12), digits=1) == "3.2 (95 % interval 0.0 to 12.0)"
    assert say.effect(bounds(-0.04, 3.25, 12), "It differs") == "No clear effect: it differs"
    assert say.effect(bounds(0.96, 4.25, 13), "It differs") == "It differs"


def test_a_phrase_follows_the_interval():
    assert [say.choose_by_sign(bounds(low, 0, low + 2), "above", "below") for low in (1, -1, -3)] == [
        "above",
        "No clear effect",
        "below",
    ]
    assert say.choose_by_sign(bounds(1, 1, 2), "above", "below", "open", than=3) == "below"


def test_verdicts_are_sentences():
    claim = Claim("c", "p/s", "1", "It is so.", mcd)
    holds = Verdict(claim, "holds", "quick", "digits", 2, 1, 3, 0.001, 0.002, seeds=1, images=9)
    assert say.verdicts([holds], "c") == "- It is so. **Holds**: 2.00 [1.00, 3.00] points, p (Holm) = 0.002, 9 images."
    lacking = Verdict(claim, "not tested", "quick", "digits", reason="it has no such classes")
    assert say.verdicts([lacking], "c") == "- It is so. **Not tested**: it has no such classes."
    with pytest.raises(UserError, match="unknown claim among the verdicts 'd'; there are: c"):
        say.verdicts([holds], "d")


def test_a_finding_is_a_verdict_that_shows_an_effect_or_says_that_none_is_clear():
    claim = Claim("c", "p/s", "1", "It is so.", mcd)
    holds = Verdict(claim, "holds", "quick", "digits", 2, 1, 3, 0.001, 0.002, seeds=1, images=9)
    assert say.finding([holds], "c", "It gains {value:points,1}.") == "**It gains 2.0 points (interval of the test 1.0 to 3.0).**"
    assert "p (permuted classes) = 0.200" in say.verdicts([replace(holds, permutation_p=0.2)], "c")
    assert "(interval 1.0 to 3.0)" in say.finding([replace(holds, verdict="described")], "c", "It gains {value:points,1}.")
    for one, than in ((replace(holds, low=-1), 0), (replace(holds, low=np.nan), 0), (holds, 1)):
        assert say.finding([one], "c", "It gains {value}.", than).startswith("**No clear effect: it gains 2 (")
    assert say.finding([replace(holds, low=-3, high=-1)], "c", "It gains.") == "**It gains.**"
    assert say.finding([holds, replace(holds, effect=9)], "c", "It gains {value}.").startswith("**It gains 2 ")
    with pytest.raises(NotRecorded, match="the claim 'c' is not tested: it has no such classes"):
        say.finding([replace(holds, verdict="not tested", reason="it has no such classes")], "c", "{value}")
    with pytest.raises(UserError, match="unknown claim among the verdicts 'd'; there are: c"):
        say.finding([holds], "d", "{value}")


def test_a_sample_has_as_many_runs_as_each_defence():
    truth = np.zeros((2, 2, 5), dtype="i2")
    outcomes = xr.Dataset({"truth": (("defence", "seed", "image"), truth)}, {"defence": ["standard", "pgd-at"], "seed": [0, 1]})
    assert say.sample(outcomes) == "2 runs of each defence. 5 test images."
    fewer = outcomes.copy(deep=True)
    fewer.truth[1, 1] = -1
    assert (
        say.sample(fewer) == "1 to 2 runs of each defence: the intervals of charts do not cover other trainings. 5 test images."
    )
    assert say.sample(fewer.sel(defence=["pgd-at"])).startswith("One run of pgd-at: the intervals")
    assert say.sample(outcomes.sel(seed=0, drop=True)).startswith("One run of each defence: the intervals")
