"""From labelled arrays to Altair charts: one function a figure.

Rates are in percent. Charts carry their rows as one CSV string, so call `setup()` once before the first is shown.
"""

from collections.abc import Sequence
from typing import Any

import altair as alt
import xarray as xr

from classwise.charts.style import DIVERGING, SEQUENTIAL, angle, frame, names_of
from classwise.stats import metrics


def confusion(share: xr.DataArray, order: Sequence[str] | None = None, column: str = "defence") -> Any:
    """Return confusion matrices side by side: rows true, columns answered, in percent of the row.

    The diagonal is outlined rather than coloured, so that the colours tell the mistakes apart; `order` sorts the classes.
    """
    table, labels = frame(share), list(order or names_of(share))
    table["right"] = table["label"] == table["predicted"]
    table["mistake"] = table["value"].where(~table["right"], 0.0)
    side = 21 * len(labels)
    axis = alt.Axis(labelAngle=0, ticks=False, domain=False)
    base = alt.Chart(table).encode(
        x=alt.X(
            "predicted:N", sort=labels, title="answered as", axis=alt.Axis(labelAngle=angle(labels), ticks=False, domain=False)
        ),
        y=alt.Y("label:N", sort=labels, title="class", axis=axis),
        tooltip=["label:N", "predicted:N", alt.Tooltip("value:Q", format=".1f", title="share, %")],
    )
    top = max(float(table["mistake"].max()), 1.0)
    cells = base.mark_rect(stroke="#8888", strokeWidth=0.5).encode(
        color=alt.Color("mistake:Q", scale=alt.Scale(range=SEQUENTIAL, domain=[0, top]), title="mistaken, %")
    )
    text = (
        base.transform_filter("datum.value >= 0.5")
        .mark_text(fontSize=9)
        .encode(
            text=alt.Text("value:Q", format=".0f"),
            color=alt.condition(f"datum.mistake > {0.55 * top}", alt.value("white"), alt.value("#222")),
        )
    )
    frames = base.transform_filter("datum.right").mark_rect(fillOpacity=0, stroke="#333", strokeWidth=1.2)
    return (
        alt.layer(cells, frames, text)
        .properties(width=side, height=side)
        .facet(column=alt.Column(f"{column}:N", sort=names_of(share, column), title=None))
    )


def pairs(mistakes: xr.DataArray, most: int = 12, colour: str = "defence") -> Any:
    """Return the pairs of classes that are most often taken for one another, both directions added up, as bars."""
    table = frame(mistakes)
    back = table.rename(columns={"label": "predicted", "predicted": "label", "value": "back"})
    both = table.merge(back)
    both = both[both["label"] < both["predicted"]].assign(flips=lambda rows: rows["value"] + rows["back"])
    both["pair"] = both["label"] + " and " + both["predicted"]
    order = both.groupby("pair")["flips"].max().sort_values(ascending=False).index[:most]
    names = names_of(mistakes, colour)
    return (
        alt.Chart(both[both["pair"].isin(order)])
        .mark_bar()
        .encode(
            y=alt.Y("pair:N", sort=list(order), title=None),
            x=alt.X("flips:Q", title="one taken for the other, either way, % + %"),
            yOffset=alt.YOffset(f"{colour}:N", sort=names),
            color=alt.Color(f"{colour}:N", sort=names, title=None),
            tooltip=[
                "pair:N",
                f"{colour}:N",
                alt.Tooltip("value:Q", format=".1f"),
                alt.Tooltip("back:Q", format=".1f"),
            ],
        )
        .properties(width=420, height=26 * len(order))
    )


def matrix(accuracy: xr.DataArray, row: str = "defence") -> Any:
    """Return the accuracy of each class in percent as shaded cells, a line for each `row`; blue is above the mean of all."""
    table = frame(accuracy)
    labels, rows = ([str(name) for name in accuracy[dim].values] for dim in ("label", row))
    middle = float(table["value"].mean())
    reach = max(float((table["value"] - middle).abs().max()), 1.0)
    table["from the mean"] = table["value"] - middle
    base = alt.Chart(table).encode(
        x=alt.X("label:N", sort=labels, title="class", axis=alt.Axis(labelAngle=0, ticks=False, domain=False)),
        y=alt.Y(f"{row}:N", sort=rows, title=None, axis=alt.Axis(ticks=False, domain=False, labelLimit=200)),
        tooltip=[f"{row}:N", "label:N", alt.Tooltip("value:Q", format=".1f", title="accuracy, %")],
    )
    shade = alt.Scale(range=DIVERGING, domain=[-reach, reach], interpolate="lab")
    cells = base.mark_rect(stroke="#8888", strokeWidth=0.5).encode(
        color=alt.Color("from the mean:Q", scale=shade, title="points from the mean")
    )
    text = base.mark_text(fontSize=11).encode(
        text=alt.Text("value:Q", format=".0f"),
        color=alt.condition(f"abs(datum['from the mean']) > {0.6 * reach}", alt.value("white"), alt.value("#222")),
    )
    return alt.layer(cells, text).properties(width=38 * len(labels), height=28 * len(rows))


_SIGNS = {1: "robust", -1: "vulnerable", 0: "not to be told"}


def accuracy_heatmap(count: xr.DataArray, standing: xr.DataArray, row: str = "attack", column: str = "defence") -> Any:
    """Return the accuracy of each class as cells, a panel for each `column` and a line for each `row`.

    The shade is the distance from the accuracy of the whole network under the same attack (Tian 2021, Definition 3.3: above it a
    class is robust, below it vulnerable); framed are the classes of which that is sure, by `intervals.standing`.
    """
    rates, total = metrics.accuracy(count), metrics.overall(count)
    table = frame(rates).merge(frame(rates - total, "off")).merge(frame(standing, "sure"))
    table["standing"] = table["sure"].map(_SIGNS)
    labels, rows, columns = names_of(count, "label"), names_of(count, row), names_of(count, column)
    reach = max(float(table["off"].abs().max()), 1.0)
    base = alt.Chart(table).encode(
        x=alt.X("label:N", sort=labels, title="class", axis=alt.Axis(labelAngle=0, ticks=False, domain=False)),
        y=alt.Y(f"{row}:N", sort=rows, title=None, axis=alt.Axis(ticks=False, domain=False)),
        tooltip=[
            f"{column}:N",
            f"{row}:N",
            "label:N",
            alt.Tooltip("value:Q", format=".1f", title="accuracy, %"),
            alt.Tooltip("off:Q", format="+.1f", title="points from the network's"),
            "standing:N",
        ],
    )
    shade = alt.Scale(range=DIVERGING, domain=[-reach, reach], interpolate="lab")
    cells = base.mark_rect(stroke="#8888", strokeWidth=0.5).encode(color=alt.Color("off:Q", scale=shade, title="points from all"))
    dark = f"abs(datum.off) > {0.6 * reach}"
    wide, high = alt.RelativeBandSize(band=0.86), alt.RelativeBandSize(band=0.82)
    frames = base.transform_filter("datum.sure != 0").mark_rect(fillOpacity=0, strokeWidth=1.6, width=wide, height=high)
    frames = frames.encode(stroke=alt.condition(dark, alt.value("white"), alt.value("#111")))
    words = base.mark_text(fontSize=10).encode(
        text=alt.Text("value:Q", format=".0f"), color=alt.condition(dark, alt.value("white"), alt.value("#222"))
    )
    panel = alt.layer(cells, frames, words).properties(width=27 * len(labels), height=25 * len(rows))
    return panel.facet(facet=alt.Facet(f"{column}:N", sort=columns, title=None), columns=2)
