"""The papers' tables, against themselves: what can be recomputed from a table's own numbers is."""

from functools import partial

import numpy as np
import pytest
import xarray as xr

from classwise.core.datasets import superclasses
from classwise.core.errors import UserError
from classwise.papers import published, registry
from classwise.papers.tian2021 import tables
from classwise.stats import metrics

PAPERS = [name for name, paper in registry.PAPERS.items() if paper.tables is not None]
ALL = [(paper, table) for paper in PAPERS for table in sorted(registry.tables_of(paper).rows()["table"].unique())]
READ = [key for key in ALL if key != ("tian2021", "2")]


@pytest.mark.parametrize(("paper", "table"), ALL)
def test_every_number_stands_once_with_its_unit(paper, table):
    rows = registry.tables_of(paper).rows().query("table == @table")
    assert not rows.duplicated(["row", "column"]).any()
    assert set(rows["unit"]) <= {"%", "points", "points^2", "images", "label", "share", "nats", "times"}
    assert rows["value"].notna().all()
    assert rows.loc[rows["unit"] == "%", "value"].between(0, 100).all()
    # A table is a grid: every row has every column that any row has, but for what only treated lines print; sentences are none.
    grid = rows[~rows["column"].str.contains("change")].groupby("row")["column"].agg(frozenset)
    assert (paper, table) == ("tian2021", "2") or table == "text" or grid.nunique() == 1


def test_how_many_numbers_there_are():
    sizes = {key: len(registry.tables_of(key[0]).rows().query("table == @key[1]")) for key in ALL}
    assert [sizes[paper, table] for paper, table in ALL if paper == "tian2021"] == [20 * 13, 20, 5 * 13 * 2, 10 * 10, 12]
    assert [sizes[paper, table] for paper, table in ALL if paper == "wei2023"] == [11 * 8, 8 * 2, 6 * 2, 9 * 8, 6]
    assert [sizes[paper, table] for paper, table in ALL if paper == "entropy2022"] == [2 * 9, 8 * 4, 4 * 4, 7 * 4, 8 * 2, 11]


@pytest.mark.parametrize("key", READ, ids=str)
def test_what_is_loaded_is_what_is_printed(key):
    found, rows = registry.tables_of(key[0]).load(key[1]), registry.tables_of(key[0]).rows().query("table == @key[1]")
    printed = sorted(rows["value"].tolist() + rows["spread"].dropna().tolist())
    assert sorted(np.concatenate([array.values[array.notnull().values] for array in found.values()])) == printed
    assert found.attrs["table"] == key[1]


@pytest.mark.parametrize("table", [1, 3])
def test_totals_variance_and_discrepancy_come_from_the_classes(table):
    found = registry.tables_of("tian2021").load(table)
    assert (found.overall - found.accuracy.mean("label")).to_series().dropna().between(-0.1, 0.005).all()
    cv, mcd = found.accuracy.var("label"), found.accuracy.max("label") - found.accuracy.min("label")
    off = (found.cv - cv).to_series().dropna()
    assert off.abs().max() < 0.25
    # Numbers are cut to a decimal, not rounded; the one that cannot be is told in a note.
    assert list(off.index[~off.between(-0.1, 0.005)]) == ([("mart", "transfer")] if table == 1 else [])
    noted = registry.tables_of("tian2021").rows().query("row == 'MART (Transfer-based attack)' and note != ''")
    assert noted["column"].item() == "CV"
    more = (mcd - found.mcd).to_series().dropna().round(1)
    assert sorted(more)[-5:] == ([0, 0.1, 0.1, 0.1, 0.1] if table == 1 else [0, 0, 0, 0, 0.1])
    assert more.min() == 0


def test_changes_are_the_differences_to_table_1_but_for_two_misprints():
    hot, plain = registry.tables_of("tian2021").load(3), registry.tables_of("tian2021").load(1).sel(attack="pgd-20")
    odd = []
    for name in ("overall", "accuracy", "cv", "mcd"):
        difference = (hot[name] - plain[name] - hot[f"{name}_change"]).to_dataframe("off")["off"].dropna()
        bound = 0.31 if name == "cv" else 0.11
        odd += [(name, *place) for place in difference.index[difference.abs() > bound]]
    assert odd == [("accuracy", "pgd-he", 5, "automobile"), ("mcd", "pgd-he", 5)]
    noted = registry.tables_of("tian2021").rows().query("table == '3' and note != ''")
    assert sorted(noted["column"]) == ["1 change", "MCD change"]
    assert set(noted["row"]) == {"HE (1/T=5)"}


def test_every_noted_cell_is_among_the_misprints_and_every_misprint_says_why():
    misprints = registry.misprints()
    assert set(misprints["paper"]) <= set(PAPERS)
    assert misprints.notna().all().all()
    for paper in PAPERS:
        for note in registry.tables_of(paper).rows().query("note != ''").itertuples():
            of_table = misprints[(misprints["paper"] == paper) & misprints["where"].str.contains(f"Table {note.table}")]
            assert of_table["printed"].str.contains(f"{abs(note.value):g}", regex=False).any(), note


def test_what_the_misprints_say_of_cw_and_n_attack_can_be_counted():
    rates = registry.tables_of("tian2021").load(1).accuracy
    odd = (10 * rates % 5).round(6) > 0
    cw = odd.sel(attack="cw", defence=["pgd-at", "trades", "mart"]).to_series()
    assert list(cw.index[cw]) == [("pgd-at", "cat")]
    assert bool(odd.sel(attack="cw", defence="pgd-he").any())
    assert bool(odd.sel(attack="n-attack").any("label").all())


def test_table_4_counts_a_thousand_cats_and_its_changes():
    found = registry.tables_of("tian2021").load(4)
    assert (found["count"].sum("predicted") == 1000).all()
    change = found["count"] - found["count"].sel(treatment="as they are")
    treated = ["white", "white and adjusted"]
    xr.testing.assert_equal(change.sel(treatment=treated, drop=True), found.change.sel(treatment=treated).rename("count"))
    # Line 4 is the TRADES of Table 3.
    cats = registry.tables_of("tian2021").load(3).accuracy.sel(defence="trades", inverse=5, label="cat")
    assert float(found["count"].sel(attack="temperature-pgd-20", treatment="as they are", predicted="cat")) == 10 * float(cats)


def test_the_tables_of_cfa_agree_where_they_say_the_same():
    first = registry.tables_of("wei2023").load(1).sel(attack="autoattack", checkpoint="best")
    for table in (2, 3):
        found = registry.tables_of("wei2023").load(table).sel(attack="autoattack", checkpoint="best")
        common = [name for name in found.defence.values if name in first.defence.values]
        assert len(common) >= 3
        for measure in ("overall", "worst"):
            assert (found[measure].sel(defence=common) == first[measure].sel(defence=common)).all()
    assert (first.overall > first.worst).all()
    assert (first.overall_spread > 0).all()


def test_the_numbers_in_the_text_of_cfa_are_read_and_its_misprints_follow_from_its_tables():
    paper = registry.tables_of("wei2023")
    text, first = paper.load("text"), paper.load(1).sel(attack="autoattack")
    at = text.sel(defence="AT")
    assert (at.overall.sel(epoch=108) - at.overall.sel(epoch=110)).round(1) == 0.6
    assert (at.worst.sel(epoch=110) - at.worst.sel(epoch=108)).round(1) == 4.6
    # Figure 6 cannot show variances: that of rates between the least and 1 is at most (1 - mean)(mean - least).
    best = first.sel(checkpoint="best")
    for method in ("AT", "TRADES", "FAT"):
        for name in ("EMA", "CFA"):
            mean, least = (best[measure].sel(defence=f"{method} + {name}") / 100 for measure in ("overall", "worst"))
            bound = float((1 - mean) * (mean - least))
            assert bound < float(text.variance.sel(defence=name)), (method, name)
            # As standard deviations they are possible.
            assert bound > float(text.variance.sel(defence=name)) ** 2
    cost = best.overall.sel(defence="TRADES + EMA") - best.overall.sel(defence=["FRL", "FRL + EMA"])
    assert cost.round(1).values.tolist() == [3.8, 3.6]
    worst = paper.load(3).worst.sel(attack="autoattack", checkpoint="best", drop=True)
    gains = [float(worst.sel(defence=f"{name} + FAWA") - worst.sel(defence=f"{name} + EMA")) for name in ("AT", "TRADES", "FAT")]
    assert [round(gain, 1) for gain in gains] == [1.8, 0.9, 1.6]


def test_the_tables_of_the_entropy_paper_agree_where_they_say_the_same():
    smoothing, trades, at = (registry.tables_of("entropy2022").load(table) for table in (1, 2, 3))
    assert float(abs(smoothing.smoothed - smoothing.overall - smoothing.change).max()) < 1e-9
    for attack in ("clean", "autoattack"):
        plain, smooth = (one.sel(attack=attack) for one in (smoothing.overall, smoothing.smoothed))
        assert float(plain.sel(defence="pgd-at")) == float(at.overall.sel(defence="pgd-at", attack=attack))
        assert float(plain.sel(defence="trades")) == float(trades.overall.isel(defence=0).sel(attack=attack))
        assert float(smooth.sel(defence="pgd-at")) == float(at.overall.sel(defence="label-smoothing", attack=attack))
    worst = registry.tables_of("entropy2022").load(4).worst
    assert worst.sizes == {"defence": 7, "attack": 4}
    assert (worst.sel(attack="clean") > worst.sel(attack="autoattack")).all()


def test_the_numbers_in_the_text_of_the_entropy_paper_are_read_and_its_slips_follow_from_its_tables():
    text, second, fourth = (registry.tables_of("entropy2022").load(table) for table in ("text", 2, 4))
    number = partial(registry.tables_of("entropy2022").number, "text")
    assert number("accuracy", defence="single-class-at", label="cat", attack="clean") == 7.03
    error = partial(number, "error of a pair", label="cat", partner="dog")
    assert [error(defence="pgd-at", attack=name) for name in ("pgd-10", "clean")] == [49.7, 49.7]
    assert error(defence="trades", attack="pgd-10") == 44
    assert float(text["limit of entropy"].sel(classes=10)) == round(np.log(10), 1)
    trades, entropy = ([name for name in second.defence.values if name.startswith(start)] for start in ("trades", "me-trades"))
    left = second.overall.sel(attack="autoattack", defence=trades)
    assert (left.diff("defence") > 0).values.tolist() == [False, True, False]
    assert (second.overall.sel(attack="pgd-20", defence=trades[:3]).diff("defence") > 0).all()
    best = second.overall.sel(defence=entropy).idxmax("defence")
    assert [str(best.sel(attack=attack).item())[-4:] for attack in ("autoattack", "pgd-20")] == ["=27)", "=24)"]
    smoothed = fourth.worst.sel(defence=[name for name in fourth.defence.values if name.startswith("trades-smoothed")])
    assert smoothed.sizes["defence"] == 1
    assert (smoothed.isel(defence=0) < fourth.worst.sel(defence="trades (λ=6)")).all()


def test_rates_become_counts_that_give_them_back():
    rates = registry.tables_of("tian2021").load(1).accuracy
    count = published.counts(rates)
    xr.testing.assert_allclose(metrics.accuracy(count), rates.rename("accuracy"))
    assert (metrics.images(count) == 1000).all()


def test_our_results_stand_next_to_those_of_the_tables_setting_by_setting():
    first, heated = (tables.TABLES.load(number) for number in (1, 3))
    table = published.comparison_table(published.counts(first.accuracy.sel(defence=["trades"])), first)
    assert len(table) == 20
    same = table.xs("trades", level="defence")
    for name in ("worst", "best", "MCD", "cat"):
        assert np.allclose(same[f"{name}, ours"].astype(float), same[f"{name}, theirs"].astype(float), atol=0.11), name
    assert (table.xs("mart", level="defence")["all, ours"] == "").all()
    digits = {"defence": ["a"], "inverse": ["2"], "label": ["0", "1"]}
    count = published.counts(xr.DataArray([[[60.0, 70]]], digits, tuple(digits)))
    named = heated.assign_coords(inverse=heated.inverse.astype(str))
    other = published.comparison_table(count, named, over=("defence", "inverse"))
    assert len(other) == 5
    assert "cat, ours" not in other


def test_superclasses():
    printed = registry.tables_of("tian2021").rows().query("table == '2'")
    for name, dataset in (("CIFAR-10", "cifar10"), ("STL-10", "stl10")):
        rows = printed[printed["row"].str.startswith(name)]
        groups = rows["row"].str.split().str[1].str.lower().replace("transportation", "transport")
        assert dict(zip(rows["column"].str.lower(), groups, strict=True)) == superclasses(dataset)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: registry.tables_of("tian2020").load(1), "unknown paper with tables 'tian2020'"),
        (lambda: registry.tables_of("wei2023").load(7), "unknown table of wei2023 '7'.*there are: 1, 2, 3, 4"),
        (lambda: registry.tables_of("tian2021").load(2), "holds names of classes, not measures"),
    ],
)
def test_misprints_are_named(call, says):
    with pytest.raises(UserError, match=says):
        call()
