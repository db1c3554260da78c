"""Verdicts as charts: ours beside theirs, and the ledger of all claims."""

import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from classwise.charts.explorer import Choice, explorer
from classwise.papers import claims, published
from classwise.papers.claims import VERDICTS, Verdict

_HUES = ["#1b9e77", "#d95f02", "#999999", "#bbbbbb"]
_THEIRS = "#9e9ac8"
_ALL = "all"
# The list, in pixels: how wide it is, how high a row is, how high a row's card; and how many letters of a claim stand in a line.
_WIDTH, _ROW, _CARD, _LETTERS = 640, 36, 172, 68
_TIPS = {
    "told:N": "verdict",
    "ours said:N": "ours",
    "theirs said:N": "theirs",
    "holds if:N": "holds if",
    "p:N": "p (Holm)",
}


def rows(verdicts: Sequence[Verdict], pages: Collection[str] = ()) -> pd.DataFrame:
    """Return a row for each verdict, with all that the charts of this module show.

    pages: the sections that have a page, to which the row then links. "at ..." are places on the row's own axis, in pixels.
    """
    return pd.DataFrame([{"row": number, **_told(one, pages), **_placed(one)} for number, one in enumerate(verdicts)])


def _told(one: Verdict, pages: Collection[str]) -> Mapping[str, object]:
    """Return what a verdict says in words."""
    claim, asked = one.claim, one.verdict != "not asked"
    return {
        "paper": claim.paper,
        "section": claim.section.partition("/")[2],
        "scale": one.scale,
        "verdict": one.verdict,
        "where": claim.where,
        "claim": "\n".join(textwrap.wrap(claim.says, _LETTERS)),
        "told": one.words,
        "why": "\n".join(textwrap.wrap(one.reason, 90)),
        "holds if": f"{claim.range} {claim.unit}",
        "ours said": claims.measured_value(one) or "none",
        "theirs said": claims.published_value(claim) or "no number",
        "p": f"{one.adjusted:.3f}" if asked else "",
        "link": f"{claim.section}.html" if claim.section in pages else "",
    }


def _placed(one: Verdict) -> Mapping[str, float]:
    """Return the numbers of a verdict, and their places on an axis that holds them all and the edge of the range."""
    claim = one.claim
    theirs = np.nan if claim.theirs is None else float(claim.theirs)
    seen = {"effect": one.effect, "low": one.low, "high": one.high, "theirs": theirs}
    ends = [value for value in (*seen.values(), claim.low, claim.high) if np.isfinite(value)]
    reach = max(max(ends) - min(ends), 1e-6)
    first, last = min(ends) - 0.08 * reach, max(ends) + 0.08 * reach
    seen |= {end: float(np.clip(value, first, last)) for end, value in seen.items() if end in ("low", "high")}
    seen |= {"from": float(np.clip(claim.low, first, last)), "to": float(np.clip(claim.high, first, last))}
    return seen | {f"at {name}": 20 + (_WIDTH - 40) * (value - first) / (last - first) for name, value in seen.items()}


def _hue(**kwargs: Any) -> alt.Color:
    return alt.Color("verdict:N", scale=alt.Scale(domain=list(VERDICTS), range=_HUES), **kwargs)


def _tips() -> list[alt.Tooltip]:
    return [alt.Tooltip(name, title=said) for name, said in _TIPS.items()]


def forest(verdicts: Sequence[Verdict]) -> Any:
    """Return the claims that were asked, one below the other: ours with its interval, theirs, and the range that bears it out."""
    table = rows([one for one in verdicts if one.verdict != "not asked"])
    panels = []
    for _, one in table.groupby("row") if len(table) else ():
        chart, words = alt.Chart(one), [*one["claim"].iloc[0].split("\n"), one["told"].iloc[0]]
        hue = dict(zip(VERDICTS, _HUES, strict=True))[one["verdict"].iloc[0]]
        shade = chart.mark_rect(opacity=0.18, color="#1b9e77").encode(
            x=alt.X("from:Q", title=None, scale=alt.Scale(zero=False)), x2="to:Q"
        )
        line = chart.mark_rule(strokeWidth=3, color=hue).encode(x=alt.X("low:Q", title=None), x2="high:Q", tooltip=_tips())
        ours = chart.mark_point(filled=True, size=110, opacity=1, color=hue).encode(x="effect:Q", tooltip=_tips())
        theirs = chart.mark_point(shape="diamond", size=130, strokeWidth=2.5, color=_THEIRS).encode(x="theirs:Q", tooltip=_tips())
        title = alt.Title(words, anchor="start", fontWeight="normal", fontSize=12)
        marks = [shade, line, ours, *([theirs] if one["theirs"].notna().all() else [])]
        panels.append(alt.layer(*marks).properties(width=480, height=36, title=title))
    if not panels:
        return alt.Chart(pd.DataFrame({"said": ["none of these claims was asked"]})).mark_text(align="left").encode(text="said:N")
    return alt.vconcat(*panels, spacing=16)


def claims_explorer(verdicts: Sequence[Verdict], pages: Collection[str] = (), live: bool | None = None) -> Any:
    """Return the ledger: all claims as a list, with filters; a click on one opens a card that a double click closes.

    The card sets ours beside theirs and links to the section, if it is among `pages`.
    """
    table = rows(verdicts, pages)
    choices = [
        Choice(f"ledger_{name}", [_ALL, *dict.fromkeys(table[name])], _ALL, name)
        for name in ("paper", "section", "scale", "verdict")
    ]
    asked = " && ".join(f"(ledger_{one.label} == '{_ALL}' || datum.{one.label} == ledger_{one.label})" for one in choices)
    picked = alt.selection_point(name="picked", fields=["row"], toggle=False, empty=False, clear="dblclick")
    base = alt.Chart(table).transform_filter(asked).encode(y=alt.Y("row:O", axis=None))
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
    square = base.mark_point(filled=True, size=90, opacity=1, shape="square", x=8, cursor="pointer").encode(
        color=_hue(title=None, legend=alt.Legend(orient="top"))
    )
    text = {"align": "left", "baseline": "middle", "fontSize": 11, "lineBreak": "\n", "cursor": "pointer"}
    words = [
        base.mark_text(**text, x=x, dy=dy).encode(text=f"{name}:N")
        for name, x, dy in (("verdict", 18, -6), ("scale", 18, 7), ("where", 80, 0))
    ]
    # The first of two lines stands above the middle of the row.
    high, middle = "indexof(datum.claim, '\\n') >= 0", "indexof(datum.claim, '\\n') < 0"
    for test, dy in ((high, -6), (middle, 0)):
        words.append(base.transform_filter(test).mark_text(**text, x=210, dy=dy).encode(text="claim:N"))
    return [line.add_params(picked), square, *words]


def _card(one: Any) -> list[Any]:
    """Return the marks of the opened card, which covers the rows below: ours, theirs, the range, and the way to the section."""
    top = _ROW / 2
    text = {"align": "left", "baseline": "top", "fontSize": 12, "color": "#eee", "lineBreak": "\n", "x": 20}

    def at(name: str) -> alt.X:
        return alt.X(f"at {name}:Q", scale=None, axis=None)

    lines = one.transform_calculate(
        head="datum.told + (datum.p == '' ? '' : '    p = ' + datum.p + ' (Holm)')",
        ours="'ours: ' + datum['ours said']",
        their="'theirs: ' + datum['theirs said']",
        range="'shaded: it holds if ' + datum['holds if']",
    )
    asked = lines.transform_filter("isValid(datum.effect)")
    unasked = lines.transform_filter("!isValid(datum.effect)")
    plot = top + 66
    return [
        one.mark_rect(height=_CARD - 8, yOffset=_ROW / 2 + (_CARD - 8) / 2, color="#26263a", opacity=1, cornerRadius=4),
        lines.mark_text(**{**text, "fontWeight": "bold"}, dy=top + 10).encode(text="head:N"),
        asked.mark_text(**text, dy=top + 28).encode(text="ours:N"),
        unasked.mark_text(**text, dy=top + 28).encode(text="why:N"),
        lines.mark_text(**{**text, "color": _THEIRS}, dy=top + 112).encode(text="their:N"),
        lines.mark_text(**{**text, "color": "#7fcdbb"}, dy=top + 129).encode(text="range:N"),
        lines.mark_rect(height=44, yOffset=plot + 11, color="#1b9e77", opacity=0.45).encode(x=at("from"), x2="at to:Q"),
        asked.mark_rule(strokeWidth=3, yOffset=plot, color="#eee").encode(x=at("low"), x2="at high:Q"),
        asked.mark_point(filled=True, size=110, opacity=1, yOffset=plot, color="#eee").encode(x=at("effect")),
        lines.transform_filter("isValid(datum.theirs)")
        .mark_point(shape="diamond", size=130, strokeWidth=2.5, yOffset=plot + 22, color=_THEIRS)
        .encode(x=at("theirs")),
        lines.transform_filter("datum.link != ''")
        .mark_text(**{**text, "color": "#9ecae1", "align": "right", "x": _WIDTH - 20, "cursor": "pointer"}, dy=top + 129)
        # Beside a selection only marks with a tooltip can be clicked.
        .encode(text=alt.value("open its section"), href="link:N", tooltip=alt.value("open its section")),
    ]


def summary(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """Return how many claims of each section hold, fail, are open or were not asked, at each scale."""
    table = rows(verdicts)
    found = table.groupby(["paper", "section", "scale"], sort=False)["verdict"].value_counts().unstack(fill_value=0)
    order = table[["paper", "section", "scale"]].drop_duplicates()
    return found.reindex(columns=list(VERDICTS), fill_value=0).loc[[tuple(line) for line in order.values]]


def markdown(verdicts: Sequence[Verdict]) -> str:
    """Return verdicts as a table in Markdown, whose sentences break where the page ends: `claims.table` for reading."""
    lines = ["| where | claim | holds if | theirs | ours | p | verdict |", "|" + "---|" * 7]
    for where, line in claims.verdict_table(verdicts).iterrows():
        cells = [str(where), *map(str, line)]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def not_tested(verdicts: Sequence[Verdict]) -> str:
    """Return in Markdown how many claims of each section were not asked, for each reason."""
    found: dict[tuple[str, str, str], int] = {}
    for one in verdicts:
        if one.verdict == "not asked":
            key = (one.claim.section, one.scale, one.reason)
            found[key] = found.get(key, 0) + 1
    lines = ["| section | scale | claims | not asked because |", "|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {place} | {scale} | {number} | {why} |" for (place, scale, why), number in found.items())])


def notes() -> str:
    """Return in Markdown what the papers misprint or leave unclear, and how it is read here."""
    lines = ["| paper | where | printed | read as | why |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *("| " + " | ".join(map(str, line)) + " |" for line in published.misprints().values)])
