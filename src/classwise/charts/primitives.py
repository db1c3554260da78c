"""The kinds of marks that charts are made of: heatmaps, dots with intervals, lines with bands, and panels of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt
import pandas as pd

from classwise.charts.style import CLASS_COLOURS, DIVERGING, PERCENT, SEQUENTIAL, Category, label_angle, tooltip

# What the title of a legend says that can be clicked.
CUE = "click to highlight"
_FADED = 0.12
_SHADE, _FRAME = "#8888", 1.4
_BARE: dict[str, Any] = {"ticks": False, "domain": False}


@dataclass(frozen=True)
class Cells:
    """What the cells of a heatmap show.

    shade: the column of numbers that colours them; title: of the scale of colours; text: the column that is written in them, in
    the format `digits`. diverging: the scale is symmetrical about zero, red below it; otherwise it begins at `bottom`. blank,
    framed: Vega expressions of the cells that have no text and of those with a frame, "" for none. step: width and height.
    """

    shade: str
    title: str
    text: str = ""
    digits: str = ""
    diverging: bool = True
    bottom: float = 0.0
    blank: str = ""
    framed: str = ""
    step: tuple[int, int] = (30, 26)

    def domain(self, table: pd.DataFrame) -> tuple[float, float]:
        """Return the ends of the scale of colours."""
        top = float((table[self.shade].abs() if self.diverging else table[self.shade]).max())
        least = 1.0 if self.diverging or not self.bottom else self.bottom + 1e-6
        top = max(top, least)
        return (-top, top) if self.diverging else (self.bottom, top)


def heatmap(table: pd.DataFrame, x: Category, y: Category, cells: Cells, tips: Sequence[alt.Tooltip]) -> Any:
    """Return categories against categories as shaded cells with text in them, and frames around some."""
    low, high = cells.domain(table)
    dark = (
        f"abs(datum['{cells.shade}']) > {0.6 * high}"
        if cells.diverging
        else f"datum['{cells.shade}'] > {low + 0.58 * (high - low)}"
    )
    base = alt.Chart(table).encode(
        x=alt.X(x.encoded, sort=list(x.values), title=x.title, axis=alt.Axis(labelAngle=label_angle(x.values), **_BARE)),
        y=alt.Y(y.encoded, sort=list(y.values), title=y.title, axis=alt.Axis(labelLimit=260, **_BARE)),
        tooltip=list(tips),
    )
    colours = list(DIVERGING if cells.diverging else SEQUENTIAL)
    scale = alt.Scale(range=colours, domain=[low, high], interpolate="lab")
    marks = [
        base.mark_rect(stroke=_SHADE, strokeWidth=0.5).encode(color=alt.Color(f"{cells.shade}:Q", scale=scale, title=cells.title))
    ]
    if cells.framed:
        size = alt.RelativeBandSize(band=0.88)
        frames = base.transform_filter(cells.framed).mark_rect(fillOpacity=0, strokeWidth=_FRAME, width=size, height=size)
        marks.append(frames.encode(stroke=alt.condition(dark, alt.value("white"), alt.value("#222"))))
    if cells.text:
        written = alt.Text(f"{cells.text}:Q", format=cells.digits) if cells.digits else alt.Text(f"{cells.text}:N")
        ink = alt.condition(dark, alt.value("white"), alt.value("#222"))
        shown = base.transform_filter(f"!({cells.blank})") if cells.blank else base
        marks.append(shown.mark_text(fontSize=11).encode(text=written, color=ink))
    wide, high = cells.step
    return alt.layer(*marks).properties(width=wide * len(x.values), height=high * len(y.values))


def dots_with_intervals(
    table: pd.DataFrame,
    along: Category,
    title: str,
    colour: Category | None = None,
    *,
    vertical: bool = False,
    scale: alt.Scale = PERCENT,
    picked: alt.Parameter | None = None,
) -> Any:
    """Return the columns value, low and high as dots with intervals, a line (`vertical`: a column) for each member of `along`.

    The members of `colour` lie side by side; those of `along` are in the order of their values. picked: a selection from the
    legend; what it leaves out fades.
    """
    names = [along.field, *([colour.field] if colour else [])]
    extra = {"images": "images|.0f"} if "images" in table else {}
    base: Any = alt.Chart(table).encode(tooltip=tooltip(*names, value=title, low="", high="", **extra))
    if colour is None:
        base = base.encode(color=alt.value(CLASS_COLOURS[0]))
    else:
        offset = alt.XOffset if vertical else alt.YOffset
        side = offset(colour.encoded, sort=list(colour.values), scale=alt.Scale(paddingOuter=0.4))
        base = base.encode(side, color=colour.colour)
    if picked is not None:
        base = base.encode(opacity=faded(picked))
    lines, dots = base.mark_rule(strokeWidth=2), base.mark_point(filled=True, size=55, opacity=1)
    order: dict[str, Any] = {"sort": list(along.values), "title": along.title}
    if vertical:
        x = alt.X(along.encoded, axis=alt.Axis(labelAngle=label_angle(along.values)), **order)
        return alt.layer(
            lines.encode(x=x, y=alt.Y("low:Q", title=title, scale=scale), y2="high:Q"), dots.encode(x=x, y="value:Q")
        )
    y = alt.Y(along.encoded, axis=alt.Axis(labelLimit=260, ticks=False, grid=True), **order)
    return alt.layer(lines.encode(y=y, x=alt.X("low:Q", title=title, scale=scale), x2="high:Q"), dots.encode(y=y, x="value:Q"))


def lines_with_bands(
    table: pd.DataFrame | alt.Chart,
    x: alt.X,
    title: str,
    colour: Any,
    tips: Sequence[alt.Tooltip],
    *,
    scale: Any = alt.Undefined,
    picked: alt.Parameter | None = None,
) -> Any:
    """Return the column value as lines with points, and a band from the column low to high around each.

    picked: a selection from the legend; what it leaves out fades.
    """
    base = (table if isinstance(table, alt.Chart) else alt.Chart(table)).encode(x=x, color=colour)
    bounds, line = base.mark_area(opacity=0.2), base.mark_line(strokeWidth=3, point=True)
    if picked is not None:
        bounds = bounds.encode(opacity=alt.condition(picked, alt.value(0.2), alt.value(0.02)))
        line = line.encode(opacity=faded(picked))
    y = alt.Y("low:Q", title=title, scale=scale)
    return alt.layer(bounds.encode(y=y, y2="high:Q"), line.encode(y=alt.Y("value:Q", title=title), tooltip=list(tips)))


def class_lines(table: pd.DataFrame, labels: Sequence[str], x: alt.X, y: alt.Y, tips: Sequence[alt.Tooltip], **mark: Any) -> Any:
    """Return the column value as a line for each class; a click in the legend picks classes."""
    picked, classes = from_legend(Category("label", labels, "class"))
    lines = alt.Chart(table).mark_line(strokeWidth=1.8, **mark).encode(x=x, y=y, color=classes.colour, tooltip=list(tips))
    return lines.encode(opacity=faded(picked)).add_params(picked)


def from_legend(by: Category) -> tuple[alt.Parameter, Category]:
    """Return the selection of members by clicks in the legend of their colours, and the category whose legend says so."""
    title = " – ".join(filter(None, [by.title, CUE]))
    return alt.selection_point(fields=[by.field], bind="legend"), replace(by, title=title)


def faded(picked: alt.Parameter, shown: float = 1) -> Any:
    """Return the opacity of marks of which a selection leaves some out: `shown` is that of the others."""
    return alt.condition(picked, alt.value(shown), alt.value(_FADED))


def range_band(table: pd.DataFrame, x: alt.X, title: str) -> Any:
    """Return a grey band from the least to the greatest value at each place of `x`."""
    base = alt.Chart(table).mark_area(opacity=0.18, color="#888")
    return base.encode(x=x, y=alt.Y("min(value):Q", title=title, scale=PERCENT), y2="max(value):Q")


def panels(chart: Any, by: Category, columns: int = 2) -> Any:
    """Return a chart as panels, one for each member of `by`, in rows of `columns`."""
    header = alt.Header(labelFontSize=12)
    facets = chart.facet(facet=alt.Facet(by.encoded, sort=list(by.values), title=by.title, header=header), columns=columns)
    # With shared axes the gap in the last row would have one of its own.
    gap = len(by.values) > columns and len(by.values) % columns
    return facets.resolve_axis(x="independent") if gap else facets
