"""From labelled arrays to Altair charts: one function a figure.

Rates are in percent. Charts carry their rows as one CSV string, so call `setup()` once before the first is shown.
"""

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise.charts.style import PERCENT, bound_tooltips, by_class, class_colour, frame, names_of, wide_bounds


def classes(accuracy: xr.DataArray, interval: xr.DataArray, colour: str = "attack", column: str = "defence") -> Any:
    """Return the accuracy of each class as a dot with its interval; `interval` has the further dimension bound."""
    table = frame(accuracy).merge(
        frame(interval).pivot(index=["label", colour, column], columns="bound", values="value").reset_index()
    )
    labels, hues = names_of(accuracy), names_of(accuracy, colour)
    base = alt.Chart(table).encode(
        x=alt.X("label:N", sort=labels, title="class", axis=alt.Axis(labelAngle=0)),
        color=alt.Color(f"{colour}:N", sort=hues, title=None),
        tooltip=[
            "label:N",
            f"{colour}:N",
            *(alt.Tooltip(f"{name}:Q", format=".1f") for name in ("low", "value", "high")),
        ],
    )
    bars = base.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q", title="accuracy, %", scale=PERCENT), y2="high:Q")
    dots = base.mark_point(filled=True, size=55, opacity=1).encode(y="value:Q")
    return (
        alt.layer(bars, dots)
        .properties(width=180, height=220)
        .facet(column=alt.Column(f"{column}:N", sort=names_of(accuracy, column), title=None))
    )


def mirrored(share: xr.DataArray, colour: str = "defence") -> Any:
    """Return each pair of classes as a dot: "i taken for j" against "j taken for i"; a symmetrical matrix lies on the line."""
    table = frame(share)
    back = table.rename(columns={"label": "predicted", "predicted": "label", "value": "back"})
    pairs = table.merge(back)
    pairs = pairs[pairs["label"] < pairs["predicted"]]
    top = float(max(pairs["value"].max(), pairs["back"].max(), 1.0))
    scale = alt.Scale(domain=[0, top], nice=True)
    dots = (
        alt.Chart(pairs)
        .mark_circle(size=60, opacity=0.75)
        .encode(
            x=alt.X("value:Q", scale=scale, title="first taken for second, %"),
            y=alt.Y("back:Q", scale=scale, title="second taken for first, %"),
            color=alt.Color(f"{colour}:N", sort=names_of(share, colour), title=None),
            tooltip=[
                "label:N",
                "predicted:N",
                f"{colour}:N",
                alt.Tooltip("value:Q", format=".1f"),
                alt.Tooltip("back:Q", format=".1f"),
            ],
        )
    )
    line = alt.Chart(pd.DataFrame({"value": [0.0, top], "back": [0.0, top]})).mark_line(strokeDash=[4, 4], color="#888")
    return alt.layer(line.encode(x="value:Q", y="back:Q"), dots).properties(width=320, height=320)


def ratios(bench: pd.DataFrame) -> Any:
    """Return how many times as long as ours each peer takes, beside the line of equal time; `bench` as `benches.load` has it."""
    name, where = alt.Y("name:N", sort=list(dict.fromkeys(bench["name"])), title=None), alt.Color("machine:N", title=None)
    tips = ["name:N", "peer:N", "machine:N", alt.Tooltip("ratio:Q", format=".2f"), "ours_s:Q", "peer_s:Q", "created:N"]
    scale = alt.Scale(type="log", domainMin=min(0.5, bench["ratio"].min()))
    dots = (
        alt.Chart(bench)
        .mark_point(size=80, filled=True)
        .encode(
            x=alt.X("ratio:Q", scale=scale, title="seconds of the peer over ours (log)"),
            y=name,
            color=where,
            shape=alt.Shape("peer:N", title=None, legend=alt.Legend(symbolFillColor="#888", symbolStrokeColor="#888")),
            tooltip=tips,
        )
    )
    equal = alt.Chart(pd.DataFrame({"x": [1]})).mark_rule(strokeDash=[4, 3], color="#888").encode(x="x:Q")
    return alt.layer(equal, dots).properties(width=420, height=alt.Step(26))


_KINDS = ["#9aa5b1", "#4292c6", "#d7301f"]
_ENDS = ("low", "value", "high")


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


def spreads(found: Mapping[str, xr.DataArray], row: str = "attack", colour: str = "defence") -> Any:
    """Return measures with their intervals as dots, a panel for each measure by its title, a line for each `row`.

    Each array has the dimensions bound ("low", "value", "high"), `row` and `colour`. A click in the legend picks one colour.
    """
    first = next(iter(found.values()))
    rows, hues = names_of(first, row), names_of(first, colour)
    picked = alt.selection_point(fields=[colour], bind="legend")
    panels = []
    for title, bounds in found.items():
        base = (
            alt.Chart(wide_bounds(bounds))
            .encode(
                y=alt.Y(f"{row}:N", sort=rows, title=None, axis=alt.Axis(grid=True, ticks=False)),
                yOffset=alt.YOffset(f"{colour}:N", sort=hues),
                color=class_colour(colour, hues),
                opacity=alt.condition(picked, alt.value(1), alt.value(0.1)),
                tooltip=[f"{row}:N", f"{colour}:N", *bound_tooltips()],
            )
            .properties(width=190, height=46 * len(rows), title=alt.Title(title, fontWeight="normal", fontSize=12))
        )
        bars = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=None), x2="high:Q")
        panels.append(alt.layer(bars, base.mark_point(filled=True, size=40).encode(x="value:Q")))
    # One selection serves all panels.
    return alt.concat(panels[0].add_params(picked), *panels[1:], columns=2)
