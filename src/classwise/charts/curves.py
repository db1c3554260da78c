"""From labelled arrays to Altair charts: one function a figure.

Rates are in percent. Charts carry their rows as one CSV string, so call `setup()` once before the first is shown.
"""

from typing import Any

import altair as alt
import xarray as xr

from classwise.charts.style import PERCENT, by_class, frame, names_of


def epochs(accuracy: xr.DataArray, row: str = "attack", column: str = "defence") -> Any:
    """Return the accuracy of each class over the epochs, with the gap between the best and the worst class shaded.

    `accuracy` has the dimensions epoch, label, `row` and `column`. A click in the legend picks classes.
    """
    table, labels = frame(accuracy), names_of(accuracy)
    picked = alt.selection_point(fields=["label"], bind="legend")
    base = alt.Chart(table).encode(x=alt.X("epoch:Q", title="epoch", axis=alt.Axis(tickMinStep=1)))
    band = base.mark_area(opacity=0.18, color="#888").encode(
        y=alt.Y("min(value):Q", title="accuracy, %", scale=PERCENT), y2="max(value):Q"
    )
    lines = base.mark_line(strokeWidth=1.8).encode(
        y=alt.Y("value:Q", scale=PERCENT),
        color=by_class(labels),
        opacity=alt.condition(picked, alt.value(1), alt.value(0.12)),
        tooltip=["label:N", "epoch:Q", alt.Tooltip("value:Q", format=".1f", title="accuracy, %")],
    )
    rows, columns = names_of(accuracy, row), names_of(accuracy, column)
    return (
        alt.layer(band, lines.add_params(picked))
        .properties(width=180, height=170)
        .facet(row=alt.Row(f"{row}:N", sort=rows, title=None), column=alt.Column(f"{column}:N", sort=columns, title=None))
    )


def gap(spread: xr.DataArray, title: str, colour: str = "defence") -> Any:
    """Return a measure over the epochs with its interval: dimensions epoch, bound ("low", "value", "high") and `colour`."""
    table = frame(spread).pivot(index=["epoch", colour], columns="bound", values="value").reset_index()
    hue = alt.Color(f"{colour}:N", sort=names_of(spread, colour), title=None, legend=alt.Legend(symbolOpacity=1))
    base = alt.Chart(table).encode(x=alt.X("epoch:Q", axis=alt.Axis(tickMinStep=1)), color=hue)
    band = base.mark_area(opacity=0.25).encode(y=alt.Y("low:Q", title=title), y2="high:Q")
    tooltip = [
        f"{colour}:N",
        "epoch:Q",
        *(alt.Tooltip(f"{bound}:Q", format=".1f") for bound in ("low", "value", "high")),
    ]
    line = base.mark_line(point=True).encode(y="value:Q", tooltip=tooltip)
    return alt.layer(band, line).properties(width=520, height=220)


def seeds(accuracy: xr.DataArray, column: str = "defence") -> Any:
    """Return the accuracy of each class for each seed as a dot, with their mean as a line: dimensions seed, label, `column`."""
    table, labels = frame(accuracy), names_of(accuracy)
    base = alt.Chart(table).encode(x=alt.X("label:N", sort=labels, title="class", axis=alt.Axis(labelAngle=0)))
    dots = base.mark_circle(size=45, opacity=0.7).encode(
        y=alt.Y("value:Q", title="robust accuracy, %", scale=PERCENT),
        color=by_class(labels, legend=None),
        tooltip=["label:N", "seed:Q", alt.Tooltip("value:Q", format=".1f")],
    )
    mean = base.mark_tick(thickness=2, width=14).encode(y="mean(value):Q", color=by_class(labels, legend=None))
    return (
        alt.layer(dots, mean)
        .properties(width=180, height=200)
        .facet(column=alt.Column(f"{column}:N", sort=names_of(accuracy, column), title=None))
    )
