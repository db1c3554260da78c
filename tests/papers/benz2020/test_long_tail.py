"""Section 3.3: methods for long-tailed data, judged on answers made by hand."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from claim_answers import HALVES, SINGLES, at, judged, marked, table_of

from classwise.core.errors import NotRecorded
from classwise.papers.benz2020 import critical, long_tail
from classwise.papers.benz2020.long_tail import BASE

UNDER = "pgd-20"


def weighted(table, plain):
    """Return answers with the larger weight, and without and with the smaller one."""
    return marked({"weight 10": table, BASE: plain, "weight 3": plain})


def scheme(table, plain):
    return marked({"cost-sensitive": table, BASE: plain})


MORE_OFTEN = table_of(60, [(5, 3), (1, 3)])
# For each claim: answers on which it must hold, and answers on which it must fail.
EXTREMES = {
    # The largest gap between two classes says the opposite of the variance.
    "cost-sensitive-narrows": ([scheme(SINGLES, HALVES), scheme(60, HALVES)], [scheme(HALVES, SINGLES), scheme(HALVES, 60)]),
    "cost-sensitive-costs-little": (
        [scheme(62, 60), scheme(at(30, 3, rest=70), 60)],
        [scheme(50, 60), scheme(at(90, 3, rest=50), HALVES)],
    ),
    "weight-helps-critical": (
        [weighted(at(90, 3, rest=40), at(50, 3, rest=60))],
        [weighted(at(50, 3, rest=90), at(70, 3, rest=60)), weighted(60, at(90, 3, rest=50))],
    ),
    "weight-costs-others-little": (
        [weighted(at(20, 3, rest=71), at(60, 3, rest=70))],
        [weighted(at(90, 3, rest=50), at(60, 3, rest=70)), weighted(at(20, 5, rest=70), 70)],
    ),
    "weight-keeps-precision": ([weighted(62, 60), weighted(at(50, 3, rest=95), 60)], [weighted(MORE_OFTEN, 60)]),
}


def test_a_weight_of_three_is_judged_where_that_of_ten_is_not_recorded():
    data = marked({"weight 3": at(90, 3, rest=40), BASE: 50}, times=2)
    assert judged("weight-helps-critical", data).verdict == "holds"


def test_trainings_are_joined_by_name_and_what_is_missing_is_left_out():
    plain, other = (marked({name: table}).drop_vars("critical") for name, table in ((BASE, 60), ("at-per-class", 80)))
    data = long_tail.SECTION.arrange["trainings"].function(plain, None, None, other)
    assert data.defence.values.tolist() == [BASE, "weight 10"]
    assert critical.name_of(data) == "8"
    with pytest.raises(NotRecorded, match="only pgd-at of pgd-at, "):
        critical.class_changes(data, long_tail.CHANGED[:1], BASE, UNDER)


def test_trainings_are_compared_on_the_seeds_that_all_have():
    parts = [marked({BASE: 60, "weight 3": 60}), marked({BASE: 90})]
    parts[1] = parts[1].reindex(defence=parts[0].defence, fill_value=-1)
    both = xr.concat(parts, pd.Index([0, 1], name="seed"), join="outer", data_vars="all")
    assert critical.select_recorded(both, (BASE, "weight 3")).seed.values.tolist() == [0]
    with pytest.raises(NotRecorded, match="only pgd-at of pgd-at, "):
        critical.select_recorded(both, (BASE, "weight 10"))
    assert critical.class_changes(both, ("weight 3",), BASE, UNDER).values == pytest.approx(np.zeros((1, 10)))


def test_recall_precision_and_the_others_are_those_of_the_critical_class():
    data = marked({BASE: 60, "weight 10": MORE_OFTEN}).expand_dims(seed=[0])
    values = {title: bounds.sel(bound="value", attack=UNDER).values for title, bounds in critical.summarise(data).items()}
    assert list(values) == ["recall of 3, %", "precision of 3, %", "recall of the others, %"]
    named = MORE_OFTEN[:, 3].sum()
    assert values["recall of 3, %"] == pytest.approx([60, 60])
    assert values["precision of 3, %"][1] == pytest.approx(100 * 60 / named)
    assert values["recall of the others, %"] == pytest.approx([60, 60 - 80 / 9])
