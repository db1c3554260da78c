"""The ledger: charts that carry every claim, tables in words, verdicts gathered from the runs of sections."""

import json

import pytest

from classwise import runs
from classwise.charts import explorer, style
from classwise.core.errors import UserError
from classwise.core.spec import Evaluation
from classwise.papers import ledger, registry, sections
from classwise.papers.claims import Verdict
from classwise.papers.registry import CLAIMS
from classwise.runs import judge


def found(verdict, claim=CLAIMS[0], effect=10.0, low=8.0, high=13.0, **rest):
    return Verdict(claim, verdict, "quick", "digits", effect, low, high, 0.001, 0.002, 5, 100, **rest)


SILENT = Verdict(CLAIMS[1], "not tested", "quick", "digits", reason="not testable on digits: a | reason")
NAMED = {claim.name: claim for claim in CLAIMS}
SOME = [found("holds"), found("open", NAMED["wider-than-standard"], -1, -3, 2), SILENT, found("fails", NAMED["symmetry"])]


def test_a_row_tells_all_and_keeps_its_marks_on_its_own_axis():
    table = ledger.rows(SOME, ["tian2021/4-1-class-bias"])
    assert list(table["verdict"]) == ["holds", "open", "not tested", "fails"]
    assert list(table["link"]) == ["tian2021/4-1-class-bias.html"] * 3 + [""]
    assert table["why"].iloc[2] == "not testable on digits: a | reason"
    at = table[[name for name in table if name.startswith("at ")]]
    assert ((at >= 0) & (at <= 640) | at.isna()).all(axis=None)
    first = table.iloc[0]
    assert first["at published"] < first["at low"] < first["at effect"] < first["at high"] <= first["at to"]
    # The range is above 6, where the paper's own value of 6 lies.
    assert first["at from"] == first["at published"]


def test_the_ledger_filters_opens_and_links():
    style.setup()
    spec = ledger.claims_explorer(SOME, ["tian2021/4-1-class-bias"], live=False).to_dict()
    bound = {param["name"]: param["bind"]["options"] for param in spec["params"] if "bind" in param}
    assert bound["ledger_verdict"] == ["all", "holds", "open", "not tested", "fails"]
    assert set(bound) == {"ledger_paper", "ledger_section", "ledger_scale", "ledger_verdict"}
    (picked,) = [param for param in spec["params"] if param["name"] == "picked"]
    assert picked["select"]["fields"] == ["row"]
    whole = json.dumps(spec)
    assert '"href": {"field": "link"' in whole
    # Vega-Lite lets a mark be clicked beside a selection only if it has a tooltip.
    (link,) = [layer["encoding"] for layer in spec["layer"] if "href" in layer["encoding"]]
    assert link["tooltip"] == {"value": "open its section"}
    assert all(f"datum.{name} == ledger_{name}" in whole for name in ("paper", "section", "scale", "verdict"))


def test_the_ledger_is_a_widget_in_a_live_kernel():
    box = ledger.claims_explorer(SOME, live=True)
    assert [one.description for one in box.children[0].children] == ["paper", "section", "scale", "verdict"]
    assert explorer.Choice("x", ["all"], "all", "x").slider is None


def test_what_was_asked_stands_beside_what_is_theirs():
    spec = ledger.forest(SOME).to_dict()
    assert len(spec["vconcat"]) == 3
    assert spec["vconcat"][0]["title"]["text"][-1] == "holds (digits, quick, 5 seeds)"
    # Theirs is drawn where there is one.
    assert [len(panel["layer"]) for panel in spec["vconcat"]] == [4, 3, 3]
    assert "none of these claims was tested" in json.dumps(ledger.forest([SILENT]).to_dict())


def test_tables_in_words():
    told = ledger.markdown(SOME).splitlines()
    assert len(told) == 2 + len(SOME)
    assert "not tested: not testable on digits: a \\| reason" in told[4]
    assert "| 10.0 [8.00, 13.0] |" in told[2]
    assert "| tian2021/4-1-class-bias | quick | 1 |" in ledger.not_tested(SOME)
    assert ledger.summary(SOME).loc[("tian2021", "4-1-class-bias", "quick")].to_dict() == {
        "holds": 1,
        "fails": 0,
        "open": 1,
        "not tested": 1,
    }
    assert len(ledger.notes(registry.misprints()).splitlines()) == 2 + len(registry.misprints())


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
    monkeypatch.setattr(registry, "request", lambda section, scale, **rest: asked)
    section = "tian2021/4-1-class-bias"
    short = judge.verdicts("short", [], sections=[section])
    assert {one.reason for one in short} == {"none of its runs is stored"}
    quick = judge.verdicts("quick", [], sections=[section])
    assert [one.claim.name for one in quick] == [one.name for one in registry.claims_of(section)]
    assert quick[0].verdict in ("holds", "fails", "open")
    assert "needs the defence 'standard'" in quick[-1].reason
    monkeypatch.setattr(registry, "SECTIONS", {})
    assert {one.reason for one in judge.verdicts(sections=[section])} == {"there is no such section yet"}


def test_a_scale_that_does_not_exist_is_named():
    with pytest.raises(UserError, match=r"unknown scale 'shrt' .did you mean 'short'"):
        runs.verdicts("quick", ["shrt"])
