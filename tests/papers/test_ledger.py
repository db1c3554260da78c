"""The ledger: rows that carry every claim, pictures, tables, verdicts gathered from the runs of sections."""

import re
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from xml.etree import ElementTree

import pandas as pd
import pytest
import texts
from statsmodels.stats.multitest import multipletests

from classwise import runs
from classwise.core.spec import Evaluation
from classwise.papers import ledger, registry, sections
from classwise.papers.claims import Verdict
from classwise.runs import judge

CLAIMS = registry.PAPERS["tian2021"].claims


def found(verdict, claim=CLAIMS[0], effect=10.0, low=8.0, high=13.0, **rest):
    return Verdict(claim, verdict, "quick", "digits", effect, low, high, 0.001, 0.002, 5, 100, **rest)


SILENT = Verdict(CLAIMS[1], "not tested", "quick", "digits", reason="not testable on digits: a | reason")
NAMED = {claim.name: claim for claim in registry.CLAIMS}
SOME = [found("holds"), found("open", NAMED["wider-than-standard"], -1, -3, 2), SILENT, found("fails", NAMED["symmetry"])]


RECORDED = replace(SOME[0], verdict="fails", scale="laptop", dataset="cifar10", effect=2.0)
PAGES = ["tian2021/4-1-class-bias"]


class Rows(HTMLParser):
    """The rows of the ledger: their attributes, their badges, and the links and pictures inside."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.badges, self.links, self.pictures, self.options, self.groups = [], [], [], [], [], 0
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "details" and given.get("class") == "group":
            self.groups += 1
        elif tag == "details":
            self.rows.append(given)
        if "data-verdict" in given:
            self.badges.append((self.rows[-1].get("id"), given["data-scale"], given["data-verdict"]))
        if tag == "a":
            self.links.append(given["href"])
        if tag == "svg":
            self.pictures.append(given["aria-label"])
        if tag == "select":
            self.options.append(given["name"])


def test_each_claim_is_one_row_with_all_its_verdicts():
    parsed = Rows(ledger.claims_list([*SOME, RECORDED], PAGES))
    assert [row["id"] for row in parsed.rows] == [ledger.anchor(verdict.claim) for verdict in SOME]
    own = [(scale, verdict) for name, scale, verdict in parsed.badges if name == ledger.anchor(CLAIMS[0])]
    assert own == [("quick", "holds"), ("laptop", "fails")]
    assert parsed.options == ["paper", "section", "scale", "verdict"]


def words(html):
    """Return what a reader sees or hears of a page, a line for each piece."""
    parts = re.findall(r'aria-label="([^"]+)"|>([^<>]+)<', re.sub(r"(?s)<(style|script).*?</\1>", "", html))
    return "\n".join(filter(None, (" ".join((heard or seen).split()) for heard, seen in parts)))


def test_rows_sections_and_tables_have_their_words_and_numbers():
    described = replace(SOME[0], verdict="described", p=float("nan"), adjusted=float("nan"), reason="a description")
    texts.check(
        "ledger",
        *(words(ledger.claims_list([*some, RECORDED], PAGES)) for some in (SOME, [described, replace(SOME[1], adjusted=0.0001)])),
        words(ledger.claims_list(SOME, filters=False)),
        words(ledger.not_tested(SOME)),
        ledger.opening([*SOME, RECORDED]),
        ledger.numbers([described, SOME[1]]),
    )
    assert ledger.notes(registry.misprints()).count("<tr>") == len(registry.misprints())


def test_rates_of_false_discovery_are_those_of_statsmodels():
    some, expected = [replace(SOME[0], p=p) for p in (0.01, 0.04, 0.03)], multipletests([0.01, 0.04, 0.03], method="fdr_bh")[1]
    assert [*ledger.false_discovery_rates([*some, SILENT]).values()] == pytest.approx(expected)


def test_a_described_claim_counts_where_it_is_tested():
    matched = replace(RECORDED, verdict="described", scale="matched")
    assert ledger.decisive([matched, RECORDED]) == [RECORDED]
    assert ledger.decisive([matched, replace(RECORDED, verdict="not tested")]) == [matched]
    assert ledger.decisive([matched, replace(RECORDED, verdict="described")]) == [matched]


def test_photographs_count_by_the_verdict_at_the_level_of_the_papers_where_that_tests_a_claim():
    matched = replace(RECORDED, verdict="holds", scale="matched")
    assert ledger.decisive([*SOME, matched, RECORDED]) == [*SOME, matched]
    untested = replace(matched, verdict="not tested", dataset="cifar10")
    assert ledger.decisive([untested, RECORDED]) == [RECORDED]
    assert ledger.decisive([untested]) == [untested]
    other = replace(RECORDED, dataset="mnist")
    assert ledger.decisive([matched, RECORDED, other]) == [matched, other]
    assert ledger.opening([matched, RECORDED]) == "On CIFAR-10 at 4/255: 1 holds."
    # The list has both; the one at 8/255 is not counted, nor found by a filter of verdicts.
    text = ledger.claims_list([matched, RECORDED], PAGES)
    assert re.findall(r'<span class="badge [\w -]+" data-scale="(\w+)"( data-verdict)?', text) == [
        ("matched", " data-verdict"),
        ("laptop", ""),
    ]
    assert '<span data-scale="matched">CIFAR-10 at 4/255: 1 holds</span></span>' in text


def test_on_the_page_of_a_section_what_no_scale_tests_is_folded_below():
    page = ledger.claims_list(SOME, filters=False)
    assert page.count('<span class="claim">1 claim not tested</span>') == Rows(page).groups == 1
    assert Rows(ledger.claims_list([*SOME, replace(SILENT, verdict="holds", scale="laptop")], filters=False)).groups == 0


def test_on_the_page_of_a_section_rows_have_no_ids_and_link_to_the_ledger():
    text = ledger.claims_list(SOME, filters=False)
    parsed = Rows(text)
    assert (parsed.options, parsed.rows, text.count("<script")) == ([], [{}] * len(SOME), 0)
    rows = [f"../claims.html#{ledger.anchor(one.claim)}" for one in (SOME[0], SOME[1], SOME[3], SOME[2])]
    assert parsed.links == ["../guide/reading.html#claims", *rows]


def test_a_row_links_to_its_section_and_to_itself():
    links = Rows(ledger.claims_list(SOME, PAGES)).links
    assert links.count("tian2021/4-1-class-bias.html") == 1 + 3  # of the section and of three rows
    assert all(f"#{ledger.anchor(verdict.claim)}" in links for verdict in SOME)
    assert not any("4-2" in link for link in links if link.endswith(".html"))


def test_a_remark_says_on_the_page_and_in_the_ledger_why_a_claim_fails_or_is_open():
    one = replace(SOME[3], scale="laptop", dataset="cifar10", verdict="open", seeds=3)
    assert {ledger.remark(other) for other in (replace(one, verdict="holds"), replace(one, seeds=4), SOME[3])} == {""}
    assert ledger.remark(one).startswith("PGD-AT predicts frog far more often")
    for filters in (False, True):
        text = ledger.claims_list([one], filters=filters).partition("</style>")[2]
        assert text.count(f'<span class="remark">CIFAR-10 at 8/255: {escape(ledger.remark(one))}</span>') == 1
        assert 'class="remark"' not in ledger.claims_list(SOME, filters=filters).partition("</style>")[2]


def test_each_claim_that_fails_on_recorded_runs_has_a_remark_and_no_remark_is_on_another_verdict():
    verdicts = [one for one in runs.verdicts("laptop", others=["matched"]) if one.scale in ("laptop", "matched")]
    assert [ledger.anchor(one.claim) for one in verdicts if one.verdict == "fails" and not ledger.remark(one)] == []
    stale = ledger._remarks().keys() - set(map(ledger._place, verdicts))
    assert stale == set(), "read these again: they have another verdict now, or more trainings (remarks.csv)"


def test_a_verdict_on_one_run_is_outlined():
    text = ledger.claims_list([replace(SOME[0], seeds=1), replace(SILENT, seeds=0)])
    assert (text.count('"badge holds one-run"'), text.count("one-run")) == (2, 3)
    assert "one-run" not in ledger.claims_list(SOME).partition("</style>")[2]


def test_an_address_names_filters_and_a_claim():
    assert ledger.address() == "claims.html"
    assert ledger.address(paper="tian2021", verdict="not tested") == "claims.html?paper=tian2021&verdict=not+tested"
    assert ledger.address(CLAIMS[0], scale="quick") == f"claims.html?scale=quick#{ledger.anchor(CLAIMS[0])}"


def test_the_picture_holds_all_numbers_and_marks_an_end_that_is_unbounded():
    pictures = [ledger.interval_picture(verdict) for verdict in (SOME[0], replace(SOME[0], high=float("inf")))]
    for picture, heads in zip(pictures, (0, 1), strict=True):
        root = ElementTree.fromstring(picture)
        places = [float(one.get("cx")) for one in root.iter("circle")]
        assert all(0 <= place <= 240 for place in places)
        assert sum("z" in one.get("d", "") and "v12" in one.get("d", "") for one in root.iter("path")) == heads
        assert "points" in [text.text for text in root.iter("text")]


@pytest.mark.parametrize(
    ("ends", "expected"), [((0, 10), [0, 5, 10]), ((-26, 3), [-20, -10, 0]), ((0.1, 0.42), [0.1, 0.2, 0.3, 0.4])]
)
def test_ticks_are_few_and_round(ends, expected):
    assert ledger.ticks(*ends) == pytest.approx(expected)


def test_a_range_without_an_end_is_shaded_up_to_the_edge_and_a_correlation_up_to_one():
    close = next(claim for claim in registry.CLAIMS if claim.unit == "correlation" and claim.high == float("inf"))
    for verdict, last in ((SOME[0], None), (found("holds", close, 0.9, 0.8, 1.0), "1")):
        root = ElementTree.fromstring(ledger.interval_picture(verdict))
        shaded = next(iter(root.iter("rect")))
        assert float(shaded.get("x")) + float(shaded.get("width")) == pytest.approx(240 - 18, abs=0.11)
        assert last is None or [text.text for text in root.iter("text")][-2] == last


def test_on_the_page_of_a_section_pictures_stand_beside_the_claims():
    shown = ledger.claims_list(SOME, filters=False)
    beside = [row.partition("</summary>")[0].count("<svg") for row in shown.split("<details>")[1:]]
    assert sorted(beside) == [0, 1, 1, 1]
    assert shown.count("<svg") == 3
    # Of a claim with two verdicts they stand below each other, in one column.
    both = ledger.claims_list([SOME[0], replace(SOME[0], dataset="mnist")], filters=False)
    assert (both.count('class="pictures"'), both.count("<svg")) == (1, 2)
    assert "<svg" not in ledger.claims_list([SILENT], filters=False)
    inside = [row.partition("</summary>")[0].count("<svg") for row in ledger.claims_list(SOME).split("<details id")[1:]]
    assert inside == [0, 0, 0, 0]


def test_cells_of_tables_are_escaped():
    assert "<td>&lt;b&gt; &amp;</td>" in ledger.not_tested([replace(SILENT, reason="<b> &")])
    long = "a" * 200
    assert f"<td>{long}</td>" in ledger.notes(pd.DataFrame([["Tian 2021", "Table 1", long, "x", "y"]]))


def test_outcomes_say_what_they_speak_of(data, small):
    grid = Evaluation(attack="temperature-pgd-20", options={"steps": 2}).grid(inverse=[2, 50])
    outcomes = runs.outcomes([small], [Evaluation(), *grid])
    assert (outcomes.attrs["dataset"], outcomes.attrs["scale"]) == ("digits", "own settings")
    # An option that one attack has and another has not.
    there = (outcomes.truth >= 0).any("image").squeeze(["defence", "seed"])
    assert there.sel(attack="clean").values.tolist() == [True, False, False]
    assert there.sel(attack="temperature-pgd-20").values.tolist() == [False, True, True]


def test_a_section_is_judged_at_its_scale_and_told_where_it_cannot_be(data, small, monkeypatch):
    asked = sections.Request((small,), (Evaluation(attack="clean"), Evaluation(attack="pgd-20", options={"steps": 2})))
    monkeypatch.setattr(registry, "request", lambda section, scale, **rest: replace(asked, scale=scale))
    monkeypatch.setattr(registry, "base", lambda scale: replace(asked, scale=scale))  # which else is trained
    section = "tian2021/4-1-class-bias"
    short = judge.verdicts("short", [], sections=[section])
    excluded = {one.claim.exclusion("digits") for one in short if one.claim.exclusion("digits")}
    assert {one.reason for one in short} == {"no complete results on digits for standard, pgd-at, trades", *excluded}
    quick = judge.verdicts("quick", [], sections=[section])
    assert [one.claim.name for one in quick] == [one.name for one in registry.claims_of(section)]
    assert (quick[0].verdict, quick[0].claim.family) == ("described", "description")
    assert quick[-1].reason == "no results on digits for standard"
