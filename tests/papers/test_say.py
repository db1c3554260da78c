"""Sentences of pages: numbers with their intervals, and verdicts in words."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import texts
import xarray as xr

from classwise.core.errors import NotRecorded, UserError
from classwise.papers import say
from classwise.papers.claims import Claim, Verdict
from classwise.stats.metrics import mcd


def bounds(low, value, high):
    return xr.DataArray([low, value, high], {"bound": ["low", "value", "high"]}, ("bound",))


def test_templates_and_intervals_write_numbers_one_way():
    wide, clear, below = bounds(-0.04, 3.25, 12), bounds(0.96, 4.25, 13), bounds(-3, -2, -1)
    gaps = {"gap": bounds(1, 2.4, 3), "r": bounds(0, 0.5, np.nan), "one": bounds(0, 1, 2)}
    others = {"name": "a*b", "p": 7.6, "start": "**x**"}
    texts.check(
        "say-numbers",
        say.text("{gap:points}, {r:,2}, {one:points,1} of {name}, {p:.0f} %, {start:s}", **gaps, **others),
        *(say.text("It {by:points|rises by ~|falls by ~}.", by=bounds(*ends)) for ends in ((1, 2, 3), (-3, -2, 1))),
        *(say.text("It {by:points,1|rises by ~|falls by ~}.", by=by) for by in (1.5, xr.DataArray(-1.0))),
        *(say.text("It {by:points|rises by ~|falls by ~|changes by ~}.", by=by) for by in (below, wide)),
        *(say.interval(wide, "points"), say.interval(wide, digits=1)),
        *(say.effect(some, "It differs") for some in (wide, clear)),
        *(say.effect(some, "It differs", answers=("Yes", "No")) for some in (wide, clear, below)),
        *(say.choose_by_sign(bounds(low, 0, low + 2), "above", "below") for low in (1, -1, -3)),
        say.choose_by_sign(bounds(1, 1, 2), "above", "below", "open", than=3),
    )


def test_a_number_without_bounds_may_have_digits_and_has_no_minus_zero():
    assert say.text("{low:,2} to {high:,2} of {all:,}", low=-1.5, high=-0.001, all=1200) == "\u22121.50 to 0.00 of 1,200"


HOLDS = Verdict(Claim("c", "p/s", "1", "It is so.", mcd), "holds", "quick", "digits", 2, 1, 3, 0.001, 0.002, seeds=1, images=9)
LACKING = Verdict(HOLDS.claim, "not tested", "quick", "digits", reason="it has no such classes")


def test_a_finding_shows_an_effect_or_says_that_none_is_clear():
    texts.check(
        "say-findings",
        say.finding([HOLDS, replace(HOLDS, effect=9)], "c", "It gains {value:points,1}."),
        say.finding([replace(HOLDS, verdict="described")], "c", "It gains {value:points,1}."),
        *(say.finding([replace(HOLDS, low=low)], "c", "It gains {value}.") for low in (-1, np.nan)),
        say.finding([replace(HOLDS, low=-3, high=-1)], "c", "PGD gains."),
        say.finding([replace(HOLDS, low=-3)], "c", "PGD gains {value}."),
    )
    with pytest.raises(NotRecorded, match=r"not tested: It is so\. \(it has no such classes\)"):
        say.finding([LACKING], "c", "{value}")
    with pytest.raises(UserError, match="unknown claim among the verdicts 'd'; there are: c"):
        say.finding([HOLDS], "d", "{value}")


def test_ends_name_what_is_lowest_and_highest():
    rates = xr.DataArray(
        [[16.4, 73.0], [2.0, np.nan]], {"label": ["cat", "8"], "predicted": ["dog", "8"]}, ("label", "predicted")
    )
    ends = "{low:.0f} {lowest:s}, {high:.1f} {highest:s}{more}"
    assert say.ends(rates, ends, more="") == "2 8 as dog, 73.0 cat as 8"
    assert say.ends(rates[:, 0], ends, more="!") == "2 8s, 16.4 cats!"
    of_two = xr.concat([bounds(1, 5, 9), bounds(2, 4, 6)], pd.Index(["standard", "pgd-at"], name="defence"))
    assert say.ends(of_two, ends, more="") == "4 PGD-AT, 5.0 standard training"
    for names, titles in ((["cw"], {"cw": "C&#38;W!: 73 cat as 8"}), ([0, 1], {"0": "0!: 73 cat as 8", "1": "1!: 73 cat as 8"})):
        assert say.ends_by("of", rates.expand_dims(of=names), "{of}{more}: {high:.0f} {highest:s}", more="!") == titles
    equal = xr.DataArray([1.0] * 4, {"label": ["cat", "dog", "bird", "frog"]}, ("label",))
    assert say.ends(equal[:3], "{lowest:s}") == "cats, dogs and birds"
    assert say.ends(equal, "{lowest:s}") == "several"


def test_a_title_names_the_class_that_is_most_often_below_average():
    relative = xr.DataArray([[-1, 0, 1], [-1, np.nan, -1]], {"label": ["cat", "dog"]}, ("label", "attack"))
    assert say.most_often_below(relative) == "Most often significantly below average: dogs, in 2 of 3 cases"
    missing = relative.where(relative.label == "dog")
    assert say.most_often_below(missing).endswith("dogs, in 2 of 2 cases")
    assert say.most_often_below(0 * relative) == "No class is significantly below average in 3 cases"


def test_a_sample_has_as_many_runs_as_each_defence():
    truth = np.zeros((2, 2, 5), dtype="i2")
    outcomes = xr.Dataset({"truth": (("defence", "seed", "image"), truth)}, {"defence": ["standard", "pgd-at"], "seed": [0, 1]})
    fewer = outcomes.copy(deep=True)
    fewer.truth[1, 1] = -1
    some = (outcomes, fewer, fewer.sel(defence=["pgd-at"]), outcomes.sel(seed=0, drop=True))
    texts.check("say-samples", *map(say.sample, some))
