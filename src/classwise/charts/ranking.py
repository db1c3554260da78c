"""The classes of a network from the most to the least robust, with the numbers of a paper. Rates are in percent."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.explorer import Choice, explorer
from classwise.charts.style import GREY, HIGHEST, LOWEST, PERCENT, THEIRS, frame, names_of, tooltip, wide_bounds

_DEFENCE = "ranking_defence"


def class_ranking(
    accuracy: xr.DataArray, interval: xr.DataArray, defences: Sequence[str], theirs: xr.DataArray | None = None
) -> Any:
    """Return the accuracy of each class as a dot with its interval, sorted, with the best and the worst class named.

    accuracy: with the dimensions defence and label; `interval` has the further dimension bound. defences: to choose from in the
    box above the chart; the first one is shown until then. theirs: the accuracies that a paper prints, drawn as diamonds.
    """
    table = frame(accuracy).merge(wide_bounds(interval))
    if theirs is not None:
        table = table.merge(frame(theirs, "theirs"), how="left")
    labels, first, printed = names_of(accuracy), defences[0], theirs is not None
    chart = alt.layer(*_marks(table, printed=printed)).properties(width=500, height=19 * len(labels))
    text = extent(table[table["defence"] == first], ["label"], f"Robust accuracy of {first}")
    below = f"Bars: 95 % intervals.{' Diamonds: Tian et al. 2021, Table 1.' * printed}"
    chart = described(chart, "Robust accuracy of each class", text, below)
    return explorer(chart, [Choice(_DEFENCE, list(defences), first, "defence")])


def _marks(table: pd.DataFrame, *, printed: bool) -> list[Any]:
    """Return the layers of the chart; printed: with a diamond for the column `theirs`."""
    # Where all classes are equal, none is named.
    place = "datum.highest == datum.lowest ? 'other' : datum.value == datum.highest ? 'best' : "
    place += "datum.value == datum.lowest ? 'worst' : 'other'"
    # A narrow chart has no room for the name, which stands before the row, too.
    words = "datum.place + (width < 400 ? '' : ': ' + datum.label) + ', ' + format(datum.value, '.0f') + ' %'"
    base = (
        alt.Chart(table)
        .transform_filter(f"datum.defence == {_DEFENCE}")
        .transform_joinaggregate(highest="max(value)", lowest="min(value)")
        .transform_calculate(place=place, words=words)
        .encode(y=alt.Y("label:N", sort=alt.EncodingSortField("value", op="max", order="descending"), title="class"))
    )
    scale = alt.Scale(domain=["best", "worst", "other"], range=[HIGHEST, LOWEST, GREY])
    more = {"theirs": "the paper, %"} if printed else {}
    tips = tooltip("label", "defence", value="robust accuracy, %", low="", high="", **more)
    hued = base.encode(color=alt.Color("place:N", scale=scale, legend=None), tooltip=tips)
    named = base.transform_filter("datum.place != 'other'")
    x = alt.X("low:Q", title="robust accuracy, %", scale=PERCENT)
    # The name stands on the side of the dot that has room, beyond the diamond.
    ends = ", ".join(f"datum.{column}" for column in ("low", "high", *more))
    left, right = (
        named.transform_filter(f"datum.low {sign} 50").transform_calculate(end=f"{end}({ends})")
        for sign, end in ((">=", "min"), ("<", "max"))
    )
    marks = [
        hued.mark_rule(strokeWidth=2).encode(x=x, x2="high:Q"),
        hued.mark_point(filled=True, size=70, opacity=1).encode(x="value:Q"),
        left.mark_text(align="right", dx=-10, fontWeight="bold").encode(x="end:Q", text="words:N"),
        right.mark_text(align="left", dx=10, fontWeight="bold").encode(x="end:Q", text="words:N"),
    ]
    if printed:
        diamonds = base.transform_filter("isValid(datum.theirs)").encode(x="theirs:Q", tooltip=tips)
        marks.insert(2, diamonds.mark_point(shape="diamond", size=70, color=THEIRS, strokeWidth=2, opacity=1))
    return marks
