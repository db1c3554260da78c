"""Gains of methods: ours, theirs, and what either set of images could have shown."""

import numpy as np
import pytest
import xarray as xr
from claim_answers import at, outcomes_with
from drawing import drawn

from classwise.charts import method_explorer, style
from classwise.core.errors import NotRecorded
from classwise.papers.claims import MeasurementError
from classwise.papers.wei2023 import charts_gains, gains, sentences_gains
from classwise.stats import aggregate, bootstrap


@pytest.fixture(autouse=True)
def _setup():
    style.setup()


def rows(right, times=1):
    """Return outcomes of one seed under one attack, how many of a hundred of each class each method classifies correctly."""
    data = outcomes_with({(name, "cr"): table for name, table in right.items()}, times=times)
    return data.sel(attack="cr", drop=True).expand_dims(seed=[0])


ALL = {"AT": 50, "AT + EMA": 52, "AT + CFA": 60, "TRADES": 50, "TRADES + EMA": 55, "TRADES + CFA": 55}


def test_printed_gains_have_the_errors_of_seeds_and_of_images():
    printed = gains.gaps_as_printed()
    assert len(printed) == len(gains.COMPARISONS) * 2 * 2
    row = printed.query("comparison == 'AT + CFA over AT + EMA' and measure == 'worst' and checkpoint == 'best'").iloc[0]
    assert row["value"] == pytest.approx(24.4 - 21.3)
    assert row["seeds"] == pytest.approx(np.sqrt((0.3**2 + 0.8**2) / 5))
    assert row["images"] == pytest.approx(100 * np.sqrt((0.244 * 0.756 + 0.213 * 0.787) / 1000))
    overall = printed.query("comparison == 'AT + CFA over AT' and measure == 'overall' and checkpoint == 'last'").iloc[0]
    assert overall["images"] == pytest.approx(100 * np.sqrt((0.477 * 0.523 + 0.43 * 0.57) / 10_000))


def test_table_4_has_no_spread_and_no_frl():
    printed = gains.gaps_as_printed(4)
    assert printed["seeds"].isna().all()
    assert set(printed["measure"]) == {"overall", "worst_k"}
    assert not printed["comparison"].str.contains("FRL").any()
    assert (printed["images"] > 0).all()


def test_our_gains_are_of_the_methods_that_are_there():
    data = rows(ALL | {"TRADES + CFA": at(90, 3, rest=51), "AT + CFA": at(10, 3, rest=70)})
    found = gains.ours(data, draws=50)
    assert found.comparison.values.tolist() == [
        "AT + CFA over AT",
        "TRADES + CFA over TRADES",
        "AT + CFA over AT + EMA",
        "TRADES + CFA over TRADES + EMA",
    ]
    value = found.sel(bound="value")
    assert value.sel(measure="overall").values == pytest.approx([14, 4.9, 12, -0.1], abs=1e-3)
    assert value.sel(measure="worst").values == pytest.approx([-40, 1, -42, -4], abs=1e-3)
    assert (found.sel(bound="low") <= value).all()
    assert (value <= found.sel(bound="high")).all()
    with pytest.raises(NotRecorded, match="no two methods"):
        gains.ours(rows({"AT": 50, "TRADES + EMA": 60}))


def test_each_class_gains_from_ema_to_cfa():
    count = aggregate.counts(rows(ALL | {"AT + CFA": at(10, 3, rest=70)})).sum("seed")
    change = gains.class_gains(count)
    assert change.method.values.tolist() == ["AT", "TRADES"]
    assert change.sel({"method": "AT"}).values.tolist() == [18, 18, 18, -42, *[18] * 6]
    with pytest.raises(NotRecorded, match="with EMA and with CFA"):
        gains.class_gains(count.sel(defence=["AT", "AT + CFA"]))


def test_a_class_that_images_lack_cannot_be_measured():
    total = bootstrap.sums(rows({"AT + CFA": 60, "AT + EMA": 50}), {}).expand_dims(attack=["cr"], axis=1)
    assert gains.gains_of_classes(total, ("3", "4")).values.tolist() == [10, 10]
    assert gains.losses_of_classes(total).values.tolist() == [-10] * 10
    assert float(gains.farthest_class_gain(total, ("3",), middle=-1.0)) == 10
    with pytest.raises(MeasurementError, match="no class cat"):
        gains.gains_of_classes(total, ("cat", "3"))


def test_image_by_image_comparisons_are_corrected_together():
    data = rows({"AT": 50, "AT + CFA": 80, "AT + EMA": 52})
    paired = gains.image_by_image(data)
    assert paired["points"].to_dict() == {"AT + CFA over AT": 30, "AT + CFA over AT + EMA": 28}
    assert (paired["p"] < 0.001).all()
    assert sentences_gains.different(paired).endswith("AT + CFA over AT (+30.0 points); AT + CFA over AT + EMA (+28.0 points).")
    same = gains.image_by_image(rows({"AT": 50, "AT + CFA": 50}))
    assert sentences_gains.different(same).endswith(": none.")


def test_the_headline_has_the_least_gain_and_counts_the_intervals_above_zero():
    data = rows(ALL | {"AT + CFA": 80}, times=2)
    text = sentences_gains.headline(gains.ours(data, draws=200), data, "cr")
    assert text.startswith("**Under cr, the least gain by CFA is 5.0 points (95 % interval")
    assert "over all images, for TRADES, and" in text
    assert "** The interval lies above 0 for 2 of 2 methods over all images" in text
    assert "Compared with EMA, the least gain by CFA is 0.0 points" in text
    assert "The interval lies above 0 for 1 of 2 methods over all images" in text
    alone = rows({"TRADES + CFA": 60, "FRL + EMA": 50})
    assert "no method has results" in sentences_gains.headline(gains.ours(alone, draws=50), alone, "cr")


def test_power_counts_the_printed_gains_that_would_have_been_seen():
    printed, names = gains.gaps_as_printed(), [gains.named(pair) for pair in gains.COMPARISONS]
    coords = {"measure": ["overall", "worst"], "comparison": names, "bound": ["low", "value", "high"]}

    def gain(reach):
        ends = np.array([-1.0, 0.0, 1.0]) * np.array([[[reach]], [[100.0]]])
        return xr.DataArray(np.broadcast_to(ends, (2, len(names), 3)), coords, tuple(coords))

    assert "in 0 of 14 comparisons" in sentences_gains.power(printed, gain(50.0))
    assert "in 7 of 14 comparisons" in sentences_gains.power(printed, gain(0.9))
    assert "in 6 of 14 comparisons" in sentences_gains.power(printed, gain(1.5))
    assert "All images: our intervals reach 0.9 to 0.9 points" in sentences_gains.power(printed, gain(0.9))


def test_the_certainty_of_the_paper_is_that_of_its_images():
    text = sentences_gains.certainty_of_the_paper(gains.gaps_as_printed())
    assert text.startswith("**Of the 28 gains of Table 1, 28 are larger than 2.31 standard errors over the five trainings**")
    assert "than 1.96 standard errors over the test images" in text
    assert "- All images: 10 of 14." in text
    assert "- Worst class: 4 of 14." in text
    assert "AT + CFA over AT + EMA (best epoch, +3.1)" in text


def test_what_the_paper_calls_variance_is_larger_than_any_variance():
    text = sentences_gains.largest_variances()
    bound = max((1 - mean) * (mean - least) for mean, least in ((0.501, 0.244), (0.501, 0.265), (0.496, 0.209)))
    assert f"{bound:.3f} with CFA" in text
    assert bound < 0.15


def test_spreads_name_the_change_of_each_method():
    text = sentences_gains.spreads(rows(ALL | {"AT + CFA": at(10, 3, rest=60)}))
    assert "AT 0.0 to 15.0 points, a change of 15.0 points" in text
    assert "TRADES 0.0 to 0.0 points" in text


def test_epochs_of_the_averages_are_counted():
    taken = np.zeros((2, 1, 4, 2), dtype=bool)
    taken[:, :, 1:, 0], taken[0, :, 3, 1] = True, True
    coords = {"defence": ["pgd-at", "at-ccm"], "seed": [0], "epoch": [1, 2, 3, 4], "average": ["ema", "fawa"]}
    history = xr.Dataset({"taken": (tuple(coords), taken)}, coords)
    assert sentences_gains.averaged_epochs(history).endswith("AT 1 of 3, AT + CCM 0 of 3.")


def test_gaps_show_both_errors_of_theirs_and_ours():
    data = rows(ALL)
    table = charts_gains.gap_rows(gains.gaps_as_printed(), gains.ours(data, draws=50))
    assert set(table["source"]) == {"theirs, best epoch", "theirs, last epoch", charts_gains.OURS}
    theirs = table[table["source"] != charts_gains.OURS]
    assert (theirs["low"] < theirs["near"]).all()
    assert (theirs["far"] < theirs["high"]).all()
    assert table.loc[table["source"] == charts_gains.OURS, "near"].isna().all()
    svg = drawn(charts_gains.gaps(table))
    assert ">AT + CFA over AT<" in svg
    assert ">worst class<" in svg
    assert ">worst fifth of the classes<" in drawn(charts_gains.gaps(charts_gains.gap_rows(gains.gaps_as_printed(4))))


def test_our_table_stands_next_to_theirs():
    data = outcomes_with({(name, kind): at(10, 3, rest=60) for name in ("AT", "AT + CFA") for kind in ("clean", "cr")})
    count = aggregate.clean_and_attacked(aggregate.counts(data))
    table = gains.both_tables(count)
    assert table.loc[("AT + CFA", "attacked")].tolist() == ["55.0", "47.7", "50.1", "10.0", "20.5", "24.4"]
    assert table.loc[("AT", "clean")].tolist() == ["55.0", "84.1", "82.3", "10.0", "65.1", "63.9"]
    assert table.loc[("FRL", "clean")].iloc[0] == ""
    assert gains.both_tables(count, 4).loc[("AT + CFA", "clean")].tolist() == ["55.0", "42.3", "41.2", "35.0", "20.0", "16.2"]


def test_the_explorer_counts_the_images_that_only_one_method_gets_right():
    data = rows({"AT + CFA": at(60, 3, rest=50), "AT + EMA": 50})
    scenes = xr.Dataset({"pixels": (("image", "channel", "row", "column"), np.zeros((1000, 1, 8, 8)))}, {"image": range(1000)})
    table = method_explorer.method_rows(data, scenes)
    assert len(table) == 1000
    assert (table["AT + CFA"] - table["AT + EMA"]).groupby(table["label"]).sum().to_dict() == {
        str(n): 10 * (n == 3) for n in range(10)
    }
    shown = table[table["url"] != ""]
    assert set(shown["label"]) == {"3"}
    assert (shown["AT + CFA"] != shown["AT + EMA"]).all()
    chart = method_explorer.two_methods(table, "AT + CFA", "AT + EMA")
    assert "Only AT + CFA classifies 10 images correctly, only AT + EMA 0 images, of 1000." in chart.to_dict()["description"]
    # A row of eight of the ten images.
    assert len(shown) == 10
    assert drawn(chart).count("<image") == 8
    assert "<image" not in drawn(method_explorer.two_methods(method_explorer.method_rows(data, None), "AT + CFA", "AT + EMA"))


def test_the_explorer_leaves_out_methods_without_results_and_needs_two():
    data = rows({"AT + CFA": 60, "AT + EMA": 50, "FRL": 40})
    data["truth"] = data.truth.where(data.defence != "FRL", -1)
    assert {"AT + CFA", "AT + EMA"} == set(method_explorer.method_rows(data, None).columns) - {"label", "number", "url"}
    with pytest.raises(NotRecorded, match="no two of these methods"):
        method_explorer.method_rows(data.sel(defence=["FRL", "AT + CFA"]), None)
