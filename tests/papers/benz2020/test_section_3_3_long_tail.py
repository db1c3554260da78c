"""Section 3.3: methods for long-tailed data, judged on answers made by hand."""

import mocks
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from claim_answers import CLASS, HALVES, SINGLES, at, judged, outcomes_with, table_of

from classwise import images
from classwise.core.errors import NotRecorded
from classwise.papers import registry, scales
from classwise.papers.benz2020 import critical, section_3_3_long_tail, sentences_long_tail
from classwise.papers.benz2020.kinds import where
from classwise.papers.benz2020.section_3_3_long_tail import BASE, CHANGED, NAME
from classwise.papers.findings import interval
from classwise.stats import bootstrap, metrics

UNDER = "pgd-20"
EPOCHS = {BASE: 60, "weight 3": 60, "ldam": 90}


def marked(tables, under=UNDER, times=1):
    """Return outcomes of trainings, from what `listed` takes for each; class 3 is critical."""
    data = outcomes_with({(name, under): table for name, table in tables.items()}, times=times)
    return data.assign_coords(critical=("predicted", CLASS == 3)).assign_attrs(dataset="digits")


def two(first, second, base=BASE, **others):
    """Return answers after a training and after the one that it is compared with; others: after further ones."""

    def answers(table, plain):
        return marked({first: table, base: plain, **others}, times=2)

    return answers if second is None else answers(*second)


def weighted(table, plain):
    return two("weight 10", (table, plain), **{"weight 3": plain})


def scheme(table, plain):
    return two("cost-sensitive", (table, plain))


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
    "weight-keeps-precision": (
        [weighted(62, 60), weighted(at(50, 3, rest=95), 60)],
        [weighted(MORE_OFTEN, 60)],
    ),
}


def test_the_paper_reports_no_number_and_each_claim_says_what_it_is():
    for claim in section_3_3_long_tail.CLAIMS:
        assert claim.theirs is None
        assert claim.where in (where("3.3", "asked"), where("3.3", "control"))


def test_a_weight_of_three_is_judged_where_that_of_ten_is_not_recorded():
    data = marked({"weight 3": at(90, 3, rest=40), BASE: 50}, times=2)
    assert judged("weight-helps-critical", data).verdict == "holds"


def test_weights_have_mean_one_but_where_they_are_recorded_without():
    for scale, weight, options in (
        ("quick", "weight 10", {"weights": "8:10", "mean_one": True}),
        ("short", "weight 3", {"weights": "3:3", "mean_one": True}),
        ("laptop", "weight 3", {"weights": "3:3"}),
    ):
        specs = registry.request(NAME, scale).parts[weight].specs
        assert {tuple(spec.options.items()) for spec in specs} == {tuple(options.items())}
    assert not registry.request(NAME, "laptop").parts["weight 10"].specs


def test_no_image_that_selects_the_critical_class_is_tested():
    request, seeds = registry.request(NAME), scales.selection_seeds("digits")
    judging = [spec for part in (request, *(request.parts[name] for name in ("weight 3", "weight 10"))) for spec in part.specs]
    held = [{int(one) for one in images.load("digits", "test", seed).index} for seed in {spec.seed for spec in judging}]
    assert set(seeds) <= {spec.seed for spec in request.parts["choosing"].specs}
    for seed in seeds:
        chosen = {int(one) for one in images.load("digits", "valid", seed).index}
        assert all(not chosen & some for some in held)


def test_trainings_are_joined_by_name_and_what_is_missing_is_left_out():
    plain, other = (marked({name: table}).drop_vars("critical") for name, table in ((BASE, 60), ("at-per-class", 80)))
    data = section_3_3_long_tail.arranged(plain, None, None, other)
    assert data.defence.values.tolist() == [BASE, "weight 10"]
    assert critical.name_of(data) == "8"
    assert section_3_3_long_tail.recorded(data) == [BASE, "weight 10"]
    with pytest.raises(NotRecorded, match="no training that is compared with pgd-at"):
        critical.class_changes(data, CHANGED[:1], BASE, UNDER)


def test_trainings_are_compared_on_the_seeds_that_all_have():
    parts = [marked({BASE: 60, "weight 3": 60}), marked({BASE: 90})]
    parts[1] = parts[1].reindex(defence=parts[0].defence, fill_value=-1)
    both = xr.concat(parts, pd.Index([0, 1], name="seed"), join="outer", data_vars="all")
    assert critical.compared(both, (BASE, "weight 3")).seed.values.tolist() == [0]
    with pytest.raises(NotRecorded, match="pgd-at alone is recorded"):
        critical.compared(both, (BASE, "weight 10"))
    gained = critical.gain(both, ("weight 3", BASE), critical.recall, UNDER)
    assert float(gained.sel(bound="value")) == 0


def test_the_finding_gives_the_runs_of_each_scenario():
    first = marked({BASE: 60, "weight 3": 70, "cost-sensitive": 62}, times=2)
    second = marked({BASE: 60, "weight 3": 70}, times=2).reindex(defence=first.defence, fill_value=-1)
    both = xr.concat([first, second], pd.Index([0, 1], name="seed"), data_vars="all")
    text = sentences_long_tail.headline(both, UNDER, EPOCHS)
    assert "2 runs of pgd-at and of each weight; 1 run of the methods of scenario 1. " in text
    assert "One run of each defence" in sentences_long_tail.headline(both.isel(seed=[0]), UNDER, EPOCHS)


def test_the_difference_of_variances_is_without_what_sampling_adds():
    data = marked({BASE: HALVES, "cost-sensitive": 50}, times=2).expand_dims(seed=[0])
    count = bootstrap.sums(data.isel(attack=0, drop=True), {})["count"]
    low, value, high = critical.gain(data, ("cost-sensitive", BASE), metrics.cv_unbiased, UNDER).values
    plain = critical.gain(data, ("cost-sensitive", BASE), metrics.cv, UNDER).values
    unbiased = metrics.cv_unbiased(count)
    assert value == pytest.approx(float(unbiased.sel(defence="cost-sensitive") - unbiased.sel(defence=BASE)))
    assert value != pytest.approx(plain[1])
    assert low < value < high
    # The interval is that of the plain variance, which its reflected draws correct already.
    assert [low, high] == pytest.approx(plain[[0, 2]], abs=4)


def test_epochs_are_those_of_the_runs():
    known = section_3_3_long_tail.epochs(registry.request(NAME))
    assert set(known) == {BASE, *CHANGED}
    assert known["ldam"] > known[BASE] == known["cost-sensitive"]


def test_one_point_is_singular():
    bounds = xr.DataArray([-3.0, -1.0, 1.0], {"bound": ["low", "value", "high"]}, ["bound"])
    assert interval(bounds, "points") == "-1 point (95 % interval -3 to 1)"
    assert interval(bounds - 10, "points") == "-11 points (95 % interval -13 to -9)"


def test_recall_precision_and_the_others_are_those_of_the_critical_class():
    data = marked({BASE: 60, "weight 10": MORE_OFTEN}).expand_dims(seed=[0])
    values = {title: bounds.sel(bound="value", attack=UNDER).values for title, bounds in critical.measured(data).items()}
    assert list(values) == ["recall of class 3, %", "precision of class 3, %", "recall of the others, %"]
    named = MORE_OFTEN[:, 3].sum()
    assert values["recall of class 3, %"] == pytest.approx([60, 60])
    assert values["precision of class 3, %"][1] == pytest.approx(100 * 60 / named)
    assert values["recall of the others, %"] == pytest.approx([60, 60 - 80 / 9])


def test_the_finding_names_the_larger_weight_and_what_is_not_recorded():
    rows = {(name, under): 60 for name in (BASE, "weight 3") for under in ("clean", UNDER)}
    data = outcomes_with(rows | {("weight 3", UNDER): at(90, 3, rest=40)}, times=2)
    data = data.assign_coords(critical=("predicted", CLASS == 3)).expand_dims(seed=[0])
    text = sentences_long_tail.headline(data, UNDER, EPOCHS)
    assert text.startswith("**Under pgd-20 and with a weight of 3 for class 3, its robust accuracy differs by 30 points (95 %")
    assert ") from that of pgd-at.** Its precision" in text
    assert "the mean of the other classes by -20 points" in text
    assert "Cost-sensitive" not in text
    assert "**The epochs differ**: ldam has 90; pgd-at has 60." in text
    with pytest.raises(NotRecorded, match="pgd-at alone is recorded"):
        sentences_long_tail.headline(data.sel(defence=[BASE]), UNDER, EPOCHS)
    assert "the others lose more than it gains" in sentences_long_tail.paid(data, UNDER)
    assert "No larger weight is recorded" in sentences_long_tail.paid(data.sel(defence=[BASE]), UNDER)


def test_the_selection_says_whether_the_page_takes_what_the_rule_gives():
    history = mocks.dataset(seed=1).expand_dims(defence=["pgd-at"], seed=[1]).copy(deep=True)
    right = np.where(CLASS == 8, 5, 30)
    table = np.diag(right) + np.roll(np.diag(40 - right), 1, 1)
    history["count"].loc[{"epoch": 4, "split": "valid", "attack": "pgd-10"}] = table
    text = sentences_long_tail.selection(history, "digits")
    assert text == "**By this rule** the critical class is 8. This page takes the same."
