"""Verdicts as charts: a forest plot of ours and theirs, and the ledger of all claims."""

import textwrap
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from classwise.charts.explorer import Choice, explorer
from classwise.charts.style import VERDICT_COLOURS
from classwise.papers import claims
from classwise.papers.claims import VERDICTS, Verdict

_THEIRS, _RANGE = "#8268dc", "#2a9d8f"
_ALL = "all"
# The heads of an interval without an end.
_ARROWS = {"low": "triangle-left", "high": "triangle-right"}
# The list, in pixels: its width, the height of a row and of its card; and the letters in a line of a claim, and of its place.
_WIDTH, _ROW, _CARD, _LETTERS, _PLACE = 640, 44, 172, 66, 22
_TIPS = {"verdict in words": "verdict", "ours": "ours", "theirs": "theirs", "holds if": "holds if", "p": "p (Holm)"}
_TIPS |= {"measure": "measure"}


def rows(verdicts: Sequence[Verdict], pages: Collection[str] = ()) -> pd.DataFrame:
    """Return a row for each verdict, with all that the charts of this module show.

    pages: the sections that have a page, to which the row then links. "at ..." are places on the row's axis, in pixels.
    """
    return pd.DataFrame(
        [{"row": number, **_words(verdict, pages), **_placed(verdict)} for number, verdict in enumerate(verdicts)]
    )


def _words(verdict: Verdict, pages: Collection[str]) -> Mapping[str, object]:
    """Return the texts of a verdict."""
    claim = verdict.claim
    return {
        "paper": claim.paper,
        "section": claim.section.partition("/")[2],
        "scale": verdict.scale,
        "verdict": verdict.verdict,
        "where": "\n".join(textwrap.wrap(claim.where, _PLACE)),
        "claim": "\n".join(textwrap.wrap(claim.statement, _LETTERS)),
        "verdict in words": verdict.words,
        "why": "\n".join(textwrap.wrap(verdict.reason, 90)),
        "unit": claim.unit,
        "holds if": f"{claim.range} {claim.unit}",
        "measure": claim.measure_name,
        "ours": claims.measured_value(verdict) or "none",
        "theirs": claims.published_value(claim) or "no number",
        "p": "" if verdict.verdict == "not tested" else f"{verdict.adjusted:.3f}",
        "link": f"{claim.section}.html" if claim.section in pages else "",
    }


def _placed(verdict: Verdict) -> Mapping[str, float]:
    """Return the numbers of a verdict, and their places on an axis that holds them all and the edge of the range.

    An end that is infinite is at the edge of the axis, and its "no low" or "no high" is 1.
    """
    claim = verdict.claim
    theirs = np.nan if claim.theirs is None else float(claim.theirs)
    values = {"effect": verdict.effect, "low": verdict.low, "high": verdict.high, "published": theirs}
    unbounded = {f"no {end}": float(np.isinf(values[end])) for end in ("low", "high")}
    ends = [value for value in (*values.values(), claim.low, claim.high) if np.isfinite(value)]
    reach = max(max(ends) - min(ends), 1e-6)
    first, last = min(ends) - 0.08 * reach, max(ends) + 0.08 * reach
    values |= {end: float(np.clip(values[end], first, last)) for end in ("low", "high")}
    values |= {"from": float(np.clip(claim.low, first, last)), "to": float(np.clip(claim.high, first, last))}
    places = {f"at {name}": 20 + (_WIDTH - 40) * (value - first) / (last - first) for name, value in values.items()}
    return values | places | unbounded


def _tips() -> list[alt.Tooltip]:
    return [alt.Tooltip(f"{name}:N", title=title) for name, title in _TIPS.items()]


def forest(verdicts: Sequence[Verdict]) -> Any:
    """Return a forest plot of the claims that were tested: ours with its interval, theirs, and the range where a claim holds.

    An arrow head marks an end of an interval that is unbounded.
    """
    table = rows([verdict for verdict in verdicts if verdict.verdict != "not tested"])
    panels = []
    for _, row in table.groupby("row") if len(table) else ():
        words = row.iloc[0]
        chart, colour = alt.Chart(row), VERDICT_COLOURS[words["verdict"]]
        axis = alt.Axis(tickCount=6, labelOverlap=True)
        x = alt.X("from:Q", title=words["unit"], scale=alt.Scale(zero=False), axis=axis)
        marks = [
            chart.mark_rect(opacity=0.2, color=_RANGE).encode(x=x, x2="to:Q"),
            chart.mark_rule(strokeWidth=3, color=colour).encode(
                x=alt.X("low:Q", title=words["unit"]), x2="high:Q", tooltip=_tips()
            ),
            chart.mark_point(filled=True, size=110, opacity=1, color=colour).encode(x="effect:Q", tooltip=_tips()),
        ]
        marks += [
            chart.mark_point(shape=shape, filled=True, size=110, opacity=1, color=colour).encode(x=f"{end}:Q", tooltip=_tips())
            for end, shape in _ARROWS.items()
            if words[f"no {end}"]
        ]
        if np.isfinite(words["published"]):
            theirs = chart.mark_point(shape="diamond", size=130, strokeWidth=2.5, color=_THEIRS)
            marks.append(theirs.encode(x="published:Q", tooltip=_tips()))
        title = alt.Title(
            [*words["claim"].split("\n"), words["verdict in words"]], anchor="start", fontWeight="normal", fontSize=12
        )
        panels.append(alt.layer(*marks).properties(width=480, height=36, title=title))
    if not panels:
        empty = pd.DataFrame({"text": ["none of these claims was tested"]})
        return alt.Chart(empty).mark_text(align="left").encode(text="text:N")
    return alt.vconcat(*panels, spacing=16)


def claims_explorer(verdicts: Sequence[Verdict], pages: Collection[str] = (), live: bool | None = None) -> Any:
    """Return the ledger: all claims as a list, with filters; a click on one opens a card that a double click closes.

    The card shows ours next to theirs and links to the section, if it is among `pages`.
    """
    table = rows(verdicts, pages)
    choices = [
        Choice(f"ledger_{name}", [_ALL, *dict.fromkeys(table[name])], _ALL, name)
        for name in ("paper", "section", "scale", "verdict")
    ]
    names = [choice.label for choice in choices]
    chosen = " && ".join(f"(ledger_{name} == '{_ALL}' || datum.{name} == ledger_{name})" for name in names)
    picked = alt.selection_point(name="picked", fields=["row"], toggle=False, empty=False, clear="dblclick")
    base = alt.Chart(table).transform_filter(chosen).encode(y=alt.Y("row:O", axis=None))
    chart = alt.layer(*_list(base, picked), *_card(base.transform_filter(picked)))
    chart = chart.properties(width=_WIDTH, height=alt.Step(_ROW), padding={"left": 0, "top": 5, "right": 5, "bottom": _CARD})
    return explorer(chart, choices, live=live)


def _list(base: Any, picked: Any) -> list[Any]:
    """Return the marks of the list: the verdict, the place in the paper, the claim."""
    line = base.mark_rect(cursor="pointer").encode(
        color=alt.condition(picked, alt.value(_THEIRS), alt.value("#888")),
        opacity=alt.condition(picked, alt.value(0.35), alt.value(0.06)),
        tooltip=_tips(),
    )
    scale = alt.Scale(domain=list(VERDICTS), range=[VERDICT_COLOURS[name] for name in VERDICTS])
    square = base.mark_point(filled=True, size=90, opacity=1, shape="square", x=8, cursor="pointer").encode(
        color=alt.Color("verdict:N", scale=scale, title=None, legend=alt.Legend(orient="top"))
    )
    text = {"align": "left", "baseline": "middle", "fontSize": 11, "lineBreak": "\n", "cursor": "pointer"}
    words = [
        base.mark_text(**text, x=x, dy=dy).encode(text=f"{name}:N") for name, x, dy in (("verdict", 18, -6), ("scale", 18, 7))
    ]
    # The first of two or three lines is above the middle of the row.
    for name, x in (("where", 80), ("claim", 214)):
        for lines, dy in ((1, 0), (2, -6), (3, -12)):
            shown = base.transform_filter(f"length(split(datum['{name}'], '\\n')) == {lines}")
            words.append(shown.mark_text(**text, x=x, dy=dy).encode(text=f"{name}:N"))
    return [line.add_params(picked), square, *words]


def _card(row: Any) -> list[Any]:
    """Return the marks of the opened card, which covers the rows below: ours, theirs, the range, and the link to the section."""
    top = _ROW / 2
    text = {"align": "left", "baseline": "top", "fontSize": 12, "color": "#eee", "lineBreak": "\n", "x": 20}

    def at(name: str) -> alt.X:
        return alt.X(f"at {name}:Q", scale=None, axis=None)

    lines = row.transform_calculate(
        head="datum['verdict in words'] + (datum.p == '' ? '' : '    p = ' + datum.p + ' (Holm)')",
        measured="'ours: ' + datum.ours + ', by ' + datum.measure",
        printed="'theirs: ' + datum.theirs",
        range="'shaded: it holds if ' + datum['holds if']",
    )
    tested = lines.transform_filter("isValid(datum.effect)")
    untested = lines.transform_filter("!isValid(datum.effect)")
    plot = top + 66
    return [
        row.mark_rect(height=_CARD - 8, yOffset=_ROW / 2 + (_CARD - 8) / 2, color="#26263a", opacity=1, cornerRadius=4),
        lines.mark_text(**{**text, "fontWeight": "bold"}, dy=top + 10).encode(text="head:N"),
        tested.mark_text(**text, dy=top + 28).encode(text="measured:N"),
        untested.mark_text(**text, dy=top + 28).encode(text="why:N"),
        lines.mark_text(**{**text, "color": _THEIRS}, dy=top + 112).encode(text="printed:N"),
        lines.mark_text(**{**text, "color": "#7fcdbb"}, dy=top + 129).encode(text="range:N"),
        lines.mark_rect(height=44, yOffset=plot + 11, color=_RANGE, opacity=0.45).encode(x=at("from"), x2="at to:Q"),
        tested.mark_rule(strokeWidth=3, yOffset=plot, color="#eee").encode(x=at("low"), x2="at high:Q"),
        tested.mark_point(filled=True, size=110, opacity=1, yOffset=plot, color="#eee").encode(x=at("effect")),
        *(
            tested.transform_filter(f"datum['no {end}'] == 1")
            .mark_point(shape=shape, filled=True, size=110, opacity=1, yOffset=plot, color="#eee")
            .encode(x=at(end))
            for end, shape in _ARROWS.items()
        ),
        lines.transform_filter("isValid(datum.published)")
        .mark_point(shape="diamond", size=130, strokeWidth=2.5, yOffset=plot + 22, color=_THEIRS)
        .encode(x=at("published")),
        lines.transform_filter("datum.link != ''")
        .mark_text(**{**text, "color": "#9ecae1", "align": "right", "x": _WIDTH - 20, "cursor": "pointer"}, dy=top + 129)
        # In a chart with a selection only marks with a tooltip can be clicked.
        .encode(text=alt.value("open its section"), href="link:N", tooltip=alt.value("open its section")),
    ]


def summary(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """Return how many claims of each section hold, fail, are open or were not tested, at each scale."""
    table = rows(verdicts)
    numbers = table.groupby(["paper", "section", "scale"], sort=False)["verdict"].value_counts().unstack(fill_value=0)
    order = table[["paper", "section", "scale"]].drop_duplicates()
    return numbers.reindex(columns=list(VERDICTS), fill_value=0).loc[[tuple(line) for line in order.values]]


def markdown(verdicts: Sequence[Verdict]) -> str:
    """Return `claims.verdict_table` in Markdown, whose sentences break at the edge of the page; the measure follows the claim."""
    lines = ["| where | claim | holds if | theirs | ours | p | verdict |", "|" + "---|" * 7]
    for where, line in claims.verdict_table(verdicts).iterrows():
        cells = [str(where), f"{line['claim']} `{line['measure']}`", *map(str, line.drop(["claim", "measure"]))]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def not_tested(verdicts: Sequence[Verdict]) -> str:
    """Return in Markdown how many claims of each section were not tested, for each reason."""
    untested = [verdict for verdict in verdicts if verdict.verdict == "not tested"]
    numbers = Counter((verdict.claim.section, verdict.scale, verdict.reason) for verdict in untested)
    lines = ["| section | scale | claims | not tested because |", "|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {place} | {scale} | {number} | {why} |" for (place, scale, why), number in numbers.items())])


def notes(misprints: pd.DataFrame) -> str:
    """Return in Markdown what the papers misprint or leave unclear, and how it is read here."""
    lines = ["| paper | where | printed | read as | why |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *("| " + " | ".join(map(str, line)) + " |" for line in misprints.values)])
