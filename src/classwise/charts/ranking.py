"""The classes of a network from the most to the least robust. Rates are in percent."""

from typing import Any

import altair as alt
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.explorer import Choice, explorer
from classwise.charts.style import GREY, HIGHEST, LOWEST, PERCENT, frame, names_of, tooltip, wide_bounds

_DEFENCE = "ranking_defence"


def class_ranking(accuracy: xr.DataArray, interval: xr.DataArray, defence: str, titles: tuple[str, str]) -> Any:
    """Return the accuracy of each class as a dot with its interval, sorted, with the best and the worst class named.

    accuracy: with the dimensions defence and label; `interval` has the further dimension bound. defence: the one that is shown
    until another is chosen in the box above the chart. titles: the title and what stands below it.
    """
    table = frame(accuracy).merge(wide_bounds(interval))
    labels = names_of(accuracy)
    shown = f"datum.defence == {_DEFENCE}"
    # Where all classes are equal, none is named.
    place = "datum.highest == datum.lowest ? 'other' : datum.value == datum.highest ? 'best' : "
    place += "datum.value == datum.lowest ? 'worst' : 'other'"
    # A narrow chart has no room for the name, which stands before the row, too.
    words = "datum.place + (width < 400 ? '' : ': ' + datum.label) + ', ' + format(datum.value, '.0f') + ' %'"
    base = (
        alt.Chart(table)
        .transform_filter(shown)
        .transform_joinaggregate(highest="max(value)", lowest="min(value)")
        .transform_calculate(place=place, words=words)
        .encode(y=alt.Y("label:N", sort=alt.EncodingSortField("value", op="max", order="descending"), title="class"))
    )
    scale = alt.Scale(domain=["best", "worst", "other"], range=[HIGHEST, LOWEST, GREY])
    tips = tooltip("label", "defence", value="robust accuracy, %", low="", high="")
    hued = base.encode(color=alt.Color("place:N", scale=scale, legend=None), tooltip=tips)
    named = base.transform_filter("datum.place != 'other'")
    x = alt.X("low:Q", title="robust accuracy, %", scale=PERCENT)
    # The name stands on the side of the dot that has room.
    left, right = named.transform_filter("datum.low >= 50"), named.transform_filter("datum.low < 50")
    marks = [
        hued.mark_rule(strokeWidth=2).encode(x=x, x2="high:Q"),
        hued.mark_point(filled=True, size=70, opacity=1).encode(x="value:Q"),
        left.mark_text(align="right", dx=-8, fontWeight="bold").encode(x="low:Q", text="words:N"),
        right.mark_text(align="left", dx=8, fontWeight="bold").encode(x="high:Q", text="words:N"),
    ]
    chart = alt.layer(*marks).properties(width=500, height=19 * len(labels))
    first = table[table["defence"] == defence]
    chart = described(chart, titles[0], extent(first, ["label"], f"Robust accuracy of {defence}"), titles[1])
    return explorer(chart, [Choice(_DEFENCE, names_of(accuracy, "defence"), defence, "defence")])
