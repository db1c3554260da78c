"""Charts that set defences and their settings side by side, class by class; `charts.setup()` comes first, as for the others."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise.charts import by_class, frame

# From weak to strong.
_SHADES = ["#7f0000", "#d7301f", "#fdbb84", "#fff7ec", "#c7e0ee", "#4292c6", "#08306b"]

_KINDS = ["#9aa5b1", "#4292c6", "#d7301f"]
_ENDS = ("low", "value", "high")


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
    shade = alt.Scale(range=_SHADES, domain=[-reach, reach], interpolate="lab")
    cells = base.mark_rect(stroke="#8888", strokeWidth=0.5).encode(
        color=alt.Color("from the mean:Q", scale=shade, title="points from the mean")
    )
    text = base.mark_text(fontSize=11).encode(
        text=alt.Text("value:Q", format=".0f"),
        color=alt.condition(f"abs(datum['from the mean']) > {0.6 * reach}", alt.value("white"), alt.value("#222")),
    )
    return alt.layer(cells, text).properties(width=38 * len(labels), height=28 * len(rows))


def ranked(found: Mapping[str, xr.DataArray], series: str = "attack", row: str = "defence") -> Any:
    """Return measures with their intervals as dots, a line for each `row`, a panel for each measure, a colour for each `series`.

    Each array has the dimensions bound ("low", "value", "high"), `series` and `row`; the rows are sorted by the first measure in
    the last of the series. A click in the legend picks one of the series.
    """
    first = next(iter(found.values()))
    kinds = [str(name) for name in first[series].values]
    order = first.sel({"bound": "value", series: first[series].values[-1]}).to_series().sort_values(ascending=False).index
    wide = [frame(array).pivot(index=[row, series], columns="bound", values="value") for array in found.values()]
    table = pd.concat([one.reset_index().assign(measure=title) for title, one in zip(found, wide, strict=True)])
    picked = alt.selection_point(fields=[series], bind="legend")
    base = alt.Chart(table).encode(
        y=alt.Y(f"{row}:N", sort=[str(one) for one in order], title=None, axis=alt.Axis(grid=True, ticks=False, labelLimit=200)),
        color=alt.Color(f"{series}:N", sort=kinds, scale=alt.Scale(domain=kinds, range=_KINDS[-len(kinds) :]), title=None),
        opacity=alt.condition(picked, alt.value(1), alt.value(0.1)),
        tooltip=[f"{row}:N", f"{series}:N", "measure:N", *(alt.Tooltip(f"{end}:Q", format=".1f") for end in _ENDS)],
    )
    bars = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title="%"), x2="high:Q")
    dots = base.mark_point(filled=True, size=45).encode(x="value:Q")
    panel = alt.layer(bars, dots).add_params(picked).properties(width=200, height=16 * len(order))
    return panel.facet(column=alt.Column("measure:N", sort=list(found), title=None))


def settings(given: Mapping[str, xr.DataArray], row: str = "defence") -> Any:
    """Return what each class was trained with over the epochs: side by side the settings, `given` by their titles.

    Each array has the dimensions epoch, label and `row`; every panel has its own scale. A click in the legend picks classes.
    """
    first = next(iter(given.values()))
    labels, rows = ([str(name) for name in first[dim].values] for dim in ("label", row))
    table = pd.concat([frame(array).assign(setting=title) for title, array in given.items()])
    picked = alt.selection_point(fields=["label"], bind="legend")
    lines = (
        alt.Chart(table)
        .mark_line(strokeWidth=1.8, interpolate="step-after")
        .encode(
            x=alt.X("epoch:Q", title="epoch", axis=alt.Axis(tickMinStep=1)),
            y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False)),
            color=by_class(labels),
            opacity=alt.condition(picked, alt.value(1), alt.value(0.12)),
            tooltip=["setting:N", "label:N", "epoch:Q", alt.Tooltip("value:Q", format=".3f")],
        )
        .add_params(picked)
        .properties(width=330, height=220)
    )
    columns = alt.Column("setting:N", sort=list(given), title=None)
    return lines.facet(row=alt.Row(f"{row}:N", sort=rows, title=None), column=columns).resolve_scale(y="independent")


def last(given: xr.DataArray, row: str = "defence") -> pd.DataFrame:
    """Return what each class was trained with in the last epoch: a line for each `row`, a column for each class."""
    rows, labels = ([str(name) for name in given[dim].values] for dim in (row, "label"))
    values = given.isel(epoch=-1).transpose(row, "label").values
    index, columns = pd.Index(rows, name=row), pd.Index(labels, name="class")
    return pd.DataFrame(values, index=index, columns=columns).map("{:.2f}".format)


def forest(accuracy: xr.DataArray, interval: xr.DataArray, colour: str = "attack") -> Any:
    """Return the accuracy of each class as a dot on a line of its own, with its interval, for each `colour`.

    `interval` has the further dimension bound; the classes stand in the order that they are given in.
    """
    bounds = frame(interval).pivot(index=["label", colour], columns="bound", values="value").reset_index()
    labels, hues = ([str(name) for name in accuracy[dim].values] for dim in ("label", colour))
    side = alt.YOffset(f"{colour}:N", sort=hues, scale=alt.Scale(paddingOuter=0.4))
    base = alt.Chart(frame(accuracy).merge(bounds)).encode(
        y=alt.Y("label:N", sort=labels, title=None, axis=alt.Axis(labelLimit=180)),
        yOffset=side,
        color=alt.Color(f"{colour}:N", sort=hues, title=None),
        tooltip=["label:N", f"{colour}:N", *(alt.Tooltip(f"{name}:Q", format=".1f") for name in ("low", "value", "high"))],
    )
    percent = alt.Scale(domain=[0, 100])
    bars = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title="accuracy, %", scale=percent), x2="high:Q")
    dots = base.mark_point(filled=True, size=45, opacity=1).encode(x="value:Q")
    return alt.layer(bars, dots).properties(width=480, height=26 * len(labels))
