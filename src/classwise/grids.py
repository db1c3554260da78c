"""Charts of attacks beside defences, class by class, over kinds of attacks and temperatures (Tian 2021, Tables 1 and 3)."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise import metrics
from classwise.charts import by_class, frame

# From far below the whole network to far above it.
_SHADES = ["#7f0000", "#d7301f", "#fdbb84", "#fff7ec", "#c7e0ee", "#4292c6", "#08306b"]
_SIGNS = {1: "robust", -1: "vulnerable", 0: "not to be told"}


def _names(array: xr.DataArray, dim: str) -> list[str]:
    return [str(name) for name in array[dim].values]


def _wide(bounds: xr.DataArray) -> pd.DataFrame:
    """Return a table with the columns low, value and high."""
    rest = [str(dim) for dim in bounds.dims if dim != "bound"]
    return frame(bounds).pivot(index=rest, columns="bound", values="value").reset_index()


def _ends(digits: str = ".1f") -> list[alt.Tooltip]:
    return [alt.Tooltip(f"{end}:Q", format=digits, title=end) for end in ("low", "value", "high")]


def _hue(field: str, names: list[str]) -> alt.Color:
    scale = alt.Scale(domain=names, scheme="tableau10")
    return alt.Color(f"{field}:N", sort=names, scale=scale, title=None, legend=alt.Legend(symbolOpacity=1))


def standings(count: xr.DataArray, standing: xr.DataArray, row: str = "attack", column: str = "defence") -> Any:
    """Return the accuracy of each class as cells, a panel for each `column` and a line for each `row`.

    The shade is the distance from the accuracy of the whole network under the same attack (Tian 2021, Definition 3.3: above it a
    class is robust, below it vulnerable); framed are the classes of which that is sure, by `intervals.standing`.
    """
    rates, total = metrics.accuracy(count), metrics.overall(count)
    table = frame(rates).merge(frame(rates - total, "off")).merge(frame(standing, "sure"))
    table["standing"] = table["sure"].map(_SIGNS)
    labels, rows, columns = _names(count, "label"), _names(count, row), _names(count, column)
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
    shade = alt.Scale(range=_SHADES, domain=[-reach, reach], interpolate="lab")
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


def spreads(found: Mapping[str, xr.DataArray], row: str = "attack", colour: str = "defence") -> Any:
    """Return measures with their intervals as dots, a panel for each measure by its title, a line for each `row`.

    Each array has the dimensions bound ("low", "value", "high"), `row` and `colour`. A click in the legend picks one colour.
    """
    first = next(iter(found.values()))
    rows, hues = _names(first, row), _names(first, colour)
    picked = alt.selection_point(fields=[colour], bind="legend")
    panels = []
    for title, bounds in found.items():
        base = (
            alt.Chart(_wide(bounds))
            .encode(
                y=alt.Y(f"{row}:N", sort=rows, title=None, axis=alt.Axis(grid=True, ticks=False)),
                yOffset=alt.YOffset(f"{colour}:N", sort=hues),
                color=_hue(colour, hues),
                opacity=alt.condition(picked, alt.value(1), alt.value(0.1)),
                tooltip=[f"{row}:N", f"{colour}:N", *_ends()],
            )
            .properties(width=190, height=46 * len(rows), title=alt.Title(title, fontWeight="normal", fontSize=12))
        )
        bars = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=None), x2="high:Q")
        panels.append(alt.layer(bars, base.mark_point(filled=True, size=40).encode(x="value:Q")))
    # One selection serves all panels.
    return alt.concat(panels[0].add_params(picked), *panels[1:], columns=2)


def heated(found: Mapping[str, xr.DataArray], along: str = "inverse", colour: str = "defence", title: str = "1 / T") -> Any:
    """Return measures over the whole grid of temperatures with their bands, a panel for each measure by its title.

    Each array has the dimensions bound, `along` (numbers as text) and `colour`. A click in the legend picks one colour.
    """
    first = next(iter(found.values()))
    hues, ticks = _names(first, colour), [float(name) for name in first[along].values]
    picked = alt.selection_point(fields=[colour], bind="legend")
    axis = alt.Axis(values=ticks, grid=False, format="~g")
    panels = []
    for name, bounds in found.items():
        table = _wide(bounds)
        table[along] = table[along].astype(float)
        base = (
            alt.Chart(table)
            .encode(
                x=alt.X(f"{along}:Q", title=title, scale=alt.Scale(type="log"), axis=axis),
                color=_hue(colour, hues),
                tooltip=[f"{colour}:N", f"{along}:Q", *_ends()],
            )
            .properties(width=230, height=190, title=alt.Title(name, fontWeight="normal", fontSize=12))
        )
        y = alt.Y("low:Q", title=None, scale=alt.Scale(zero=False))
        band = base.mark_area().encode(y=y, y2="high:Q", opacity=alt.condition(picked, alt.value(0.13), alt.value(0.02)))
        line = base.mark_line(point=True).encode(y="value:Q", opacity=alt.condition(picked, alt.value(1), alt.value(0.1)))
        panels.append(alt.layer(band, line))
    return alt.concat(panels[0].add_params(picked), *panels[1:], columns=2)


def lost(change: xr.DataArray, row: str = "inverse", column: str = "defence", title: str = "1 / T") -> Any:
    """Return by how many points the accuracy of each class changes, as cells: red where it falls; a panel for each `column`."""
    table, labels = frame(change), _names(change, "label")
    reach = max(float(table["value"].abs().max()), 1.0)
    base = alt.Chart(table).encode(
        x=alt.X("label:N", sort=labels, title="class", axis=alt.Axis(labelAngle=0, ticks=False, domain=False)),
        y=alt.Y(f"{row}:N", sort=_names(change, row), title=title, axis=alt.Axis(ticks=False, domain=False)),
        tooltip=[f"{column}:N", alt.Tooltip(f"{row}:N", title=title), "label:N", alt.Tooltip("value:Q", format="+.1f")],
    )
    shade = alt.Scale(range=_SHADES, domain=[-reach, reach], interpolate="lab")
    cells = base.mark_rect(stroke="#8888", strokeWidth=0.5).encode(color=alt.Color("value:Q", scale=shade, title="points"))
    dark = f"abs(datum.value) > {0.6 * reach}"
    words = base.mark_text(fontSize=10).encode(
        text=alt.Text("value:Q", format="+.1f"), color=alt.condition(dark, alt.value("white"), alt.value("#222"))
    )
    panel = alt.layer(cells, words).properties(width=31 * len(labels), height=25 * change.sizes[row])
    return panel.facet(facet=alt.Facet(f"{column}:N", sort=_names(change, column), title=None), columns=2)


def variances(bounds: xr.DataArray, row: str = "defence") -> Any:
    """Return the class-wise variance of confidence with its interval, a panel for each `row`: Tian 2021, Figure 3a.

    `bounds` has the dimensions bound, label and `row`; each panel has its own scale, since the networks differ by much.
    """
    labels = _names(bounds, "label")
    base = alt.Chart(_wide(bounds)).encode(
        x=alt.X("label:N", sort=labels, title="class", axis=alt.Axis(labelAngle=0)),
        color=by_class(labels, legend=None),
        tooltip=[f"{row}:N", "label:N", *_ends(".3g")],
    )
    bars = base.mark_bar(opacity=0.75).encode(y=alt.Y("value:Q", title="CVC"))
    ends = base.mark_rule(strokeWidth=1.5, color="#777").encode(y="low:Q", y2="high:Q", color=alt.value("#777"))
    panel = alt.layer(bars, ends).properties(width=23 * len(labels), height=130)
    facet = alt.Facet(f"{row}:N", sort=_names(bounds, row), title=None)
    return panel.facet(facet=facet, columns=2).resolve_scale(y="independent")


def courses(rates: Mapping[str, xr.DataArray]) -> Any:
    """Return the accuracy of each class over the epochs, a panel for each dataset by its name: Tian 2021, Figure 1.

    The arrays have the dimensions epoch and label. The band reaches from the best class to the worst; these two are named at the
    end of their lines, and the title tells how far apart they end. Point at a line for its class.
    """
    panels = []
    for name, rate in rates.items():
        table, last = frame(rate), rate.isel(epoch=-1)
        ends = {kind: str(last[getattr(last, kind)("label")].label.values) for kind in ("argmax", "argmin")}
        gap = float(last.max() - last.min())
        base = alt.Chart(table).encode(x=alt.X("epoch:Q", title="epoch", axis=alt.Axis(tickMinStep=1)))
        y = alt.Y("value:Q", title="robust accuracy, %", scale=alt.Scale(domain=[0, 100]))
        band = base.mark_area(opacity=0.15, color="#888").encode(
            y=alt.Y("min(value):Q", title="robust accuracy, %"), y2="max(value):Q"
        )
        tips = ["label:N", "epoch:Q", alt.Tooltip("value:Q", format=".1f")]
        labels = _names(rate, "label")
        hue = by_class(labels, legend=None) if len(labels) <= 20 else alt.value("#8aa")
        lines = base.mark_line(strokeWidth=1.5).encode(y=y, detail="label:N", color=hue, tooltip=tips)
        final = last.sel(label=list(ends.values())).to_dataframe("value").reset_index()
        words = alt.Chart(final).mark_text(align="left", dx=4, fontSize=11).encode(x="epoch:Q", y=y, text="label:N")
        told = f"{gap:.0f} points between {ends['argmax']} and {ends['argmin']} at the end"
        title = alt.Title(name, subtitle=told, anchor="start")
        panels.append(alt.layer(band, lines, words).properties(width=270, height=200, title=title))
    return alt.concat(*panels, columns=2).resolve_scale(color="independent")
