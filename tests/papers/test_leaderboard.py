"""The leaderboard of the defences: its rows, their order, the CSV, and what a reader does with it in a browser."""

import io
import re
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from browser import expect, launched
from mocks import dataset

from classwise import runs
from classwise.core.paths import checkout
from classwise.papers import leaderboard, overview
from classwise.stats import bootstrap, metrics
from classwise.stats.combine import concat_named

CHANCES = {"standard": 0.02, "pgd-at": 0.3, "at-ccm": 0.6, "trades": 0.45}
BASES = {"standard": "pgd-at", "pgd-at": "pgd-at", "at-ccm": "pgd-at", "trades": "pgd-at"}


@pytest.fixture(scope="module")
def outcomes():
    chances = {"clean": dict.fromkeys(CHANCES, 0.9), "strong": CHANCES}
    some = {
        attack: concat_named("defence", each, lambda chance: dataset("outcomes 1", accuracies={"any": chance}, seed=9))
        for attack, each in chances.items()
    }
    return concat_named("attack", some).expand_dims("seed")


@pytest.fixture(scope="module")
def table(outcomes):
    seconds = xr.DataArray([5.0, 1200.0, 30.0, 400.0, 1.0], {"defence": [*CHANCES, "other"]})
    return leaderboard.rows(outcomes, "strong", BASES, seconds, "a small CNN")


def test_a_row_has_the_numbers_of_its_defence_and_the_most_robust_worst_class_comes_first(outcomes, table):
    assert table["defence"].tolist() == ["at-ccm", "trades", "pgd-at", "standard"]
    # Standard training lies below all, whose intervals overlap.
    assert (table["rank, low"].tolist(), table["rank, high"].tolist()) == ([1, 1, 1, 4], [3, 3, 3, 4])
    best, plain = table.iloc[0], table.iloc[2]
    one = outcomes.sel(defence="at-ccm", attack="strong")
    right = (one.truth == one.prediction).values.reshape(10, -1).mean(1) * 100  # the images are sorted by class
    assert [best[f"class {label}"] for label in "0123456789"] == pytest.approx(right, rel=1e-4)
    assert (best["worst"], best["robust"]) == pytest.approx((right.min(), right.mean()))
    assert best["worst class"] in {f"class {right.argmin()}", f"{(right == right.min()).sum()} classes"}
    gain = bootstrap.gains(outcomes.sel(attack="strong"), {"at-ccm": "pgd-at"}, metrics.worst)
    assert best[["gain, low", "gain", "gain, high"]].tolist() == gain.values.ravel().tolist()
    assert best["rho"] == pytest.approx(best["worst"] / plain["worst"] + best["robust"] / plain["robust"] - 2)
    assert -2 <= best["rho, low"] < best["rho"] < best["rho, high"]
    # The worst class of TRADES, from which nothing is relative where it is 0.
    assert np.isnan(leaderboard.rho(outcomes.sel(attack="strong"), {"trades": "standard"})).all()
    assert (best["base"], best["paper"], best["seconds"]) == ("pgd-at", "Wei et al. 2023", 30)
    assert (np.isnan(plain["gain"]), plain["base"], table.iloc[3]["paper"]) == (True, "", "")


def test_a_base_is_a_row():
    named = ["pgd-at", "trades", "at-ccm", "trades-ema", "trades-ccm-ccr", "frl-rmrw"]
    bases = {"at-ccm": "pgd-at", "trades-ema": "trades", "trades-ccm-ccr": "trades"}
    assert runs.baselines(named) == bases
    assert runs.baselines([*named, "trades-normalised"])["trades-ema"] == "trades-normalised"


def test_published_rows_stand_next_to_ours_with_the_rho_that_lee_et_al_print(table):
    printed = leaderboard._published().set_index(["paper", "defence"])
    rho = printed.loc["Lee et al. 2024"].rho.round(2).to_dict()
    assert rho == {"frl-rmrw": 0.11, "trades-cfa": 0.32, "wat": 0.27, "dafa": 0.42}
    assert set(printed.loc["Wei et al. 2023"].index) == {"at-ema", "at-cfa", "trades-ema", "trades-cfa", "fat-cfa"}
    assert leaderboard.add_published(table, "cifar10").empty
    renamed = table.replace({"defence": {"at-ccm": "trades-cfa"}, "base": {"pgd-at": "trades"}})
    both = leaderboard.add_published(renamed, "cifar10")
    assert leaderboard.add_published(renamed, "digits").empty
    assert both["paper"].tolist() == ["Lee et al. 2024", "Wei et al. 2023"]
    assert both.loc[0, "worst, theirs"] == "27.6"
    assert both.loc[0, "ρ, theirs"] == "+0.32 over TRADES"
    assert both.loc[1, "worst, ours"] == both.loc[0, "worst, ours"] == f"{table.loc[0, 'worst']:.1f}"


def test_one_defence_alone_has_no_gain(outcomes):
    one = {"defence": ["trades"]}
    alone = leaderboard.rows(outcomes.sel(one), "strong", {"trades": "trades"}, xr.DataArray([1.0], one), "")
    assert '<td data-value="">–</td>' in leaderboard.leaderboard(alone, "x")


def test_the_link_holds_the_rows_as_csv(table):
    link = re.compile(r'href="data:text/csv;charset=utf-8,([^"]+)" download="([^"]+)"')
    text, name = link.search(leaderboard.leaderboard(table, "a")).groups()
    read = pd.read_csv(io.StringIO(unquote(text))).fillna({"base": "", "paper": ""})
    assert name == "a.csv"
    pd.testing.assert_frame_equal(read, table, check_dtype=False, rtol=1e-3)


def test_heads_sort_by_number_and_the_search_hides_rows(table, tmp_path, program):
    # Two on a page, as at two scales; a gain below zero, one of two digits and none.
    board = leaderboard.leaderboard(table.assign(gain=[-2.0, 10.0, 9.0, np.nan]), "a")
    (tmp_path / "page.html").write_text(f"<body>{board}{board}</body>")
    with launched(program) as browser:
        page = browser.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        first, second = page.locator(".leaderboard").all()
        shown, count = first.locator("tbody th:visible"), first.locator("output")
        head = first.get_by_role("columnheader", name="gain")
        for order, ranks in (("descending", "TRADES PGD-AT AT-CCM standard"), ("ascending", "AT-CCM PGD-AT TRADES standard")):
            head.get_by_role("button").press("Enter")
            expect(head).to_have_attribute("aria-sort", order)
            assert [text.split()[0] for text in shown.all_inner_texts()] == ranks.split()
            expect(first.locator("[aria-sort]")).to_have_count(1)
        first.get_by_role("button", name="defence").click()
        assert [text.split()[0] for text in shown.all_inner_texts()] == ["AT-CCM", "PGD-AT", "standard", "TRADES"]
        first.get_by_role("searchbox").fill("wei ")
        expect(shown).to_have_text(["AT-CCM Wei et al. 2023 a small CNN"])
        expect(count).to_have_text("1 of 4 defences")
        expect(second.locator("output")).to_have_text("4 of 4 defences")
        with page.expect_download() as download:
            first.get_by_role("link").click()
        assert download.value.path().read_text().startswith('"rank, low","rank, high",defence,worst class,')


def test_every_paper_of_a_defence_is_among_the_references():
    listed = re.findall(r"^@\w+\{(\w+),", (checkout() / "book" / "references.bib").read_text(), re.MULTILINE)
    assert {f"{paper.split()[0].lower()}{paper[-4:]}" for paper in overview.SOURCES.values()} <= set(listed)
