"""Section 5.2: robustness and fairness of CFA, judged on answers made by hand."""

import numpy as np
import pytest
import xarray as xr
from claim_answers import at, outcomes_with
from drawing import drawn

from classwise.charts import explorers
from classwise.core.errors import NotAtScale, NotRecorded
from classwise.papers import registry
from classwise.papers.wei2023 import gains
from classwise.papers.wei2023 import robustness_and_fairness as section
from classwise.stats import aggregate, metrics

BASES = ("AT", "TRADES", "FAT")
UNDER = "cr"


def answers(rows, times=1):
    """Return outcomes of methods, how many of a hundred are right in each class or in all, so many times."""
    return outcomes_with({(name, UNDER): right for name, right in rows.items()}, times=times)


def cfa(over, right, plain, **but):
    """Return answers of each method with CFA and of what it is compared with; but: of a method, other answers with CFA."""
    rows = {f"{base} + CFA": but.get(base, right) for base in BASES}
    rows |= {f"{base} + {over}" if over else base: plain for base in BASES}
    return answers(rows)


def two(first, right, second, plain, times=1):
    return answers({first: right, second: plain}, times)


def either(first, second, better, worse):
    """Return answers on which the first method is the better one, and on which the second one is."""
    return [two(first, better, second, worse)], [two(first, worse, second, better)]


# The worst class alone decides in these; all others say the opposite.
WORST = at(20, 3, rest=70)
FAIRER, STRONGER = at(45, 3, rest=60), at(8, 3, rest=85)
OVERALL = ([cfa("", 75, 60), cfa("", STRONGER, WORST)], [cfa("", 60, 75), cfa("", 75, 60, FAT=50), cfa("", FAIRER, WORST)])
LEAST = ([cfa("", 75, 60), cfa("", FAIRER, WORST)], [cfa("", STRONGER, WORST), cfa("", FAIRER, WORST, TRADES=at(5, 3, rest=90))])
OVER_EMA = (
    [cfa("EMA", 75, 60), cfa("EMA", STRONGER, WORST)],
    [cfa("EMA", 60, 75), cfa("EMA", 75, 60, AT=50), cfa("EMA", FAIRER, WORST)],
)
FAIRER_THAN_EMA = ([cfa("EMA", FAIRER, WORST)], [cfa("EMA", STRONGER, WORST), cfa("EMA", FAIRER, WORST, FAT=at(10, 3, rest=90))])
AT_BOTH = ("cfa-overall", "cfa-worst", "cfa-over-ema-overall", "cfa-over-ema-worst", "fat-below-trades", "frl-costs-overall")
AT_BOTH += ("cfa-above-frl-overall", "worst-fifth", "tiny-overall")
UNEQUAL, EQUAL = np.arange(20, 100, 8), np.arange(50, 70, 2)
FOUR, LOST = (2, 3, 4, 6), (7, 8)

# For each claim: answers on which it must hold, and answers on which it must fail.
EXTREMES = {
    "cfa-overall": OVERALL,
    "cfa-worst": LEAST,
    "cfa-over-ema-overall": OVER_EMA,
    "cfa-over-ema-worst": FAIRER_THAN_EMA,
    "fat-below-trades": (
        [two("FAT", STRONGER, "TRADES", WORST), two("FAT", at(20, 5, rest=80), "TRADES", at(45, 3, rest=60))],
        [two("FAT", FAIRER, "TRADES", WORST)],
    ),
    "frl-gains-little-best": (
        [two("FRL + EMA", STRONGER, "TRADES + EMA", WORST), two("FRL + EMA", WORST, "TRADES + EMA", FAIRER)],
        [two("FRL + EMA", FAIRER, "TRADES + EMA", WORST)],
    ),
    "frl-costs-overall": (
        [two("TRADES + EMA", STRONGER, "FRL", FAIRER)],
        [two("TRADES + EMA", FAIRER, "FRL", STRONGER), two("TRADES + EMA", 60, "FRL", 60)],
    ),
    "cfa-above-frl-overall": either("TRADES + CFA", "FRL + EMA", STRONGER, FAIRER),
    "cfa-above-frl-worst-best": either("TRADES + CFA", "FRL + EMA", FAIRER, STRONGER),
    "frl-above-cfa-worst": either("FRL + EMA", "TRADES + CFA", FAIRER, STRONGER),
    "smaller-spread": (
        [two("AT + CFA", EQUAL, "AT + EMA", UNEQUAL), two("AT + CFA", EQUAL - 20, "AT + EMA", UNEQUAL)],
        [two("AT + CFA", UNEQUAL, "AT + EMA", EQUAL)],
    ),
    "four-classes-gain": (
        [two("AT + CFA", at(80, *FOUR, rest=40), "AT + EMA", 60)],
        [two("AT + CFA", at(80, 2, 3, 4, rest=40), "AT + EMA", 60), two("AT + CFA", at(40, *FOUR, rest=80), "AT + EMA", 60)],
    ),
    "two-classes-drop-slightly": (
        [two("AT + CFA", at(99, *LOST, rest=30), "AT + EMA", 100, times=40)],
        [
            two("AT + CFA", at(80, *LOST, rest=99), "AT + EMA", 100),
            two("AT + CFA", at(99, 7, rest=100), "AT + EMA", at(100, 7, rest=90)),
        ],
    ),
    "no-class-harmed": (
        [two("AT + CFA", 80, "AT + EMA", 60), two("AT + CFA", at(65, 4, rest=90), "AT + EMA", 60)],
        [two("AT + CFA", at(40, 4, rest=90), "AT + EMA", 60)],
    ),
    "worst-fifth": (
        [cfa("EMA", at(45, 3, 5, rest=60), at(20, 3, 5, rest=70))],
        [cfa("EMA", at(8, 3, 5, rest=90), at(20, 3, 5, rest=70))],
    ),
    "tiny-overall": OVER_EMA,
}
EXTREMES |= {f"{name}-best": both for name, both in EXTREMES.items() if name in AT_BOTH}


def test_what_the_paper_reports_agrees_with_its_claims_but_where_it_contradicts_itself():
    for claim in section.CLAIMS:
        if claim.theirs is not None:
            assert claim.low < claim.theirs < claim.high, claim.name


def test_on_tiny_imagenet_the_network_and_the_best_epoch_are_those_of_the_paper():
    pairs = registry.request(section.NAME, "paper", dataset="tiny-imagenet").pairs
    assert {(spec.model, spec.select_by) for spec, _ in pairs} == {("resnet18", "sum-fifth")}
    assert registry.training("paper", "pgd-at", 0, "wei2023").select_by == "sum"


def rows(right, times=1):
    """Return outcomes of one seed under one attack, how many of a hundred of each class each method classifies correctly."""
    return answers(right, times).sel(attack=UNDER, drop=True).expand_dims(seed=[0])


ALL = {"AT": 50, "AT + EMA": 52, "AT + CFA": 60, "TRADES": 50, "TRADES + EMA": 55, "TRADES + CFA": 55}


def test_printed_gains_have_the_errors_of_seeds_and_of_images_of_which_those_decide():
    printed = gains.printed_gains(1, section.COMPARISONS)
    assert printed["value"].size == len(section.COMPARISONS) * 2 * 2
    one = printed.sel(comparison="AT + CFA over AT + EMA", measure="worst class", checkpoint="best")
    assert float(one["value"]) == pytest.approx(24.4 - 21.3)
    assert float(one["seeds"]) == pytest.approx(np.sqrt((0.3**2 + 0.8**2) / 5))
    assert float(one["images"]) == pytest.approx(100 * np.sqrt((0.244 * 0.756 + 0.213 * 0.787) / 1000))
    overall = printed.sel(comparison="AT + CFA over AT", measure="all images", checkpoint="last")
    assert float(overall["images"]) == pytest.approx(100 * np.sqrt((0.477 * 0.523 + 0.43 * 0.57) / 10_000))
    # Table 4 has no spread and no FRL.
    fourth = gains.printed_gains(4, section.COMPARISONS)
    assert fourth["seeds"].isnull().all()
    assert fourth.measure.values.tolist() == ["all images", "worst fifth of the classes"]
    assert not any("FRL" in name for name in fourth.comparison.values)
    # The certainty of the paper is that of its images.
    sure = {kind: abs(printed["value"]) > reach * printed[kind] for kind, reach in gains.REACH.items()}
    assert {kind: round(reach, 2) for kind, reach in gains.REACH.items()} == {"images": 1.96, "seeds": 2.31}
    assert int(sure["seeds"].sum()) == printed["value"].size == 28
    by_images = sure["images"].sum(["comparison", "checkpoint"])
    assert by_images.to_series().to_dict() == {"all images": 10, "worst class": 4}


def test_our_gains_are_of_the_methods_that_are_recorded():
    data = rows(ALL | {"TRADES + CFA": at(90, 3, rest=51), "AT + CFA": at(10, 3, rest=70)})
    ours = gains.ours(data, section.COMPARISONS, draws=50)
    over = [f"{base} + CFA over {base}{than}" for than in ("", " + EMA") for base in ("AT", "TRADES")]
    assert ours.comparison.values.tolist() == over
    value = ours.sel(bound="value")
    assert value.sel(measure="all images").values == pytest.approx([14, 4.9, 12, -0.1], abs=1e-3)
    assert value.sel(measure="worst class").values == pytest.approx([-40, 1, -42, -4], abs=1e-3)
    assert (ours.sel(bound="low") <= value).all()
    assert (value <= ours.sel(bound="high")).all()
    both = gains.gains_by_source(gains.printed_gains(1, section.COMPARISONS), ours)
    assert both.source.values.tolist() == ["theirs, best epoch", "theirs, last epoch", "ours, last epoch"]
    assert both.sel(source="ours, last epoch", bound="value", measure="all images").notnull().sum() == 4
    with pytest.raises(NotAtScale, match="no two methods"):
        gains.ours(rows({"AT": 50, "TRADES + EMA": 60}), section.COMPARISONS)


def test_each_class_gains_from_ema_to_cfa():
    count = aggregate.counts(rows(ALL | {"AT + CFA": at(10, 3, rest=70)})).sum("seed")
    change = gains.differences(metrics.accuracy(count), gains.pairs_of("CFA", "EMA"))
    assert change.comparison.values.tolist() == ["AT + CFA over AT + EMA", "TRADES + CFA over TRADES + EMA"]
    assert change.isel(comparison=0).values.tolist() == [18, 18, 18, -42, *[18] * 6]
    with pytest.raises(NotAtScale, match="no two methods"):
        gains.differences(metrics.accuracy(count.sel(defence=["AT", "AT + CFA"])), gains.pairs_of("CFA", "EMA"))


def test_the_explorer_counts_the_images_that_only_one_method_gets_right():
    data = rows({"AT + CFA": at(60, 3, rest=50), "AT + EMA": 50})
    scenes = xr.Dataset({"pixels": (("image", "channel", "row", "column"), np.zeros((1000, 1, 8, 8)))}, {"image": range(1000)})
    table = explorers.method_rows(data, scenes)
    assert len(table) == 1000
    gains = (table["AT + CFA"] - table["AT + EMA"]).groupby(table["label"]).sum()
    assert gains.to_dict() == {str(n): 10 * (n == 3) for n in range(10)}
    shown = table[table["url"] != ""]
    assert set(shown["label"]) == {"3"}
    assert (shown["AT + CFA"] != shown["AT + EMA"]).all()
    chart = explorers.two_methods(table, "AT + CFA", "AT + EMA")
    assert "Only AT + CFA classifies 10 images correctly, only AT + EMA 0 images, of 1000." in chart.to_dict()["description"]
    # A row of eight of the ten images.
    assert len(shown) == 10
    assert drawn(chart).count("<image") == 8
    turned = drawn(explorers.two_methods(explorers.method_rows(data, None), "AT + EMA", "AT + CFA"))
    assert "<image" not in turned
    assert "images: 10" in turned
    # Methods without results are left out.
    lacking = data.assign(truth=data.truth.where(data.defence == "AT + CFA", -1))
    with pytest.raises(NotRecorded, match="no two of these methods"):
        explorers.method_rows(lacking, None)
