"""The kinds of marks that charts are made of: heatmaps, dots with intervals, lines with bands, and panels of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from classwise.charts.explorer import Choice
from classwise.charts.style import (
    CHOSEN,
    CLASS_COLOURS,
    COLUMN,
    DIVERGING,
    GREY,
    HIGHEST,
    INK_CHANGES,
    INKS,
    LOWEST,
    PERCENT,
    SEQUENTIAL,
    Category,
    label_angle,
    tooltip,
)

# What the title of a legend says that can be clicked.
CUE = "click to highlight"
# The parameter of the class that is highlighted among grey lines, and its value for no class.
HIGHLIGHTED, NONE = "highlighted_class", "none"
_FADED = 0.12
# Room for the names and the title of an axis, in pixels.
_MARGIN = 80
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
    none = 0 if cells.diverging else low
    strong = f"abs(datum['{cells.shade}'] - {none}) > {INK_CHANGES * (high - none)}"
    ink = alt.condition(strong, alt.value(INKS[1]), alt.value(INKS[0]))
    base = alt.Chart(table).encode(
        x=alt.X(
            x.encoded, sort=list(x.values), title=x.title, axis=alt.Axis(labelAngle=label_angle(x.values, cells.step[0]), **_BARE)
        ),
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
        marks.append(frames.encode(stroke=ink))
    if cells.text:
        written = alt.Text(f"{cells.text}:Q", format=cells.digits) if cells.digits else alt.Text(f"{cells.text}:N")
        shown = base.transform_filter(f"!({cells.blank})") if cells.blank else base
        # Two lines stand about the middle of their cell.
        lift = 0 if cells.digits else alt.expr(f"indexof(datum['{cells.text}'], '\\n') < 0 ? 0 : -6")
        marks.append(shown.mark_text(fontSize=11, lineBreak="\n", dy=lift).encode(text=written, color=ink))
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

    The members of `colour` lie side by side; those of `along` are in the order of their values. title: of the values, with their
    format on hover as in `tooltip`. picked: a selection from the legend; what it leaves out fades.
    """
    title, _, form = title.partition("|")
    names = [*(["metric"] if "metric" in table else []), along.field, *([colour.field] if colour else [])]
    extra = {"images": "images|.0f"} if "images" in table else {}
    numbers = {"value": f"{title or 'value'}|{form}", "low": f"|{form}", "high": f"|{form}"}
    base: Any = alt.Chart(table).encode(tooltip=tooltip(*names, **numbers, **extra))
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
            lines.encode(x=x, y=alt.Y("low:Q", title=title or None, scale=scale), y2="high:Q"), dots.encode(x=x, y="value:Q")
        )
    # Names keep off a dot at the left end of the axis.
    y = alt.Y(along.encoded, axis=alt.Axis(labelLimit=260, labelPadding=8, ticks=False, grid=True), **order)
    return alt.layer(
        lines.encode(y=y, x=alt.X("low:Q", title=title or None, scale=scale), x2="high:Q"), dots.encode(y=y, x="value:Q")
    )


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


def class_lines(
    table: pd.DataFrame, x: alt.X, y: alt.Y, tips: Sequence[alt.Tooltip], panel: str = "", band: bool = False, **mark: Any
) -> Any:
    """Return the column value as a line for each class: grey, but for those that end highest and lowest, named at their ends.

    panel: the column that names the panel of a row. band: shade the gap between the lowest and the highest line. `highlighted` is
    the control that chooses a further class.
    """
    field: Any = x.to_dict()
    along = str(field["field"])
    keys = [name for name in (panel, "label") if name]
    ends = table.sort_values(along).groupby(keys, as_index=False).last()
    last = ends.groupby(panel or (lambda _: 0))["value"]
    high, low = last.transform("idxmax"), last.transform("idxmin")
    # Lines that end alike, as those of a network that is never right, have no highest.
    apart = last.transform("max") > last.transform("min")
    ends = ends.assign(
        place=np.select([apart & (ends.index == high), apart & (ends.index == low)], ["highest", "lowest"], "other")
    )
    rows = table.merge(ends[[*keys, "place"]])
    rows = rows.assign(end=rows[along] == rows[along].max())
    shade = alt.Chart(rows).mark_area(opacity=0.14, color=GREY).encode(x=x, y=alt.Y("min(value):Q"), y2="max(value):Q")
    base = alt.Chart(rows).transform_calculate(kind=f"datum.label == {HIGHLIGHTED} ? 'chosen' : datum.place")
    scale = alt.Scale(domain=["chosen", "highest", "lowest", "other"], range=[CHOSEN, HIGHEST, LOWEST, GREY])
    base = base.encode(x=x, y=y, detail="label:N", color=alt.Color("kind:N", scale=scale, legend=None), tooltip=list(tips))
    other, named = (base.transform_filter(f"datum.kind {sign} 'other'") for sign in ("==", "!="))
    # Names of lines that end close to each other stand apart.
    shift = alt.expr("datum.kind == 'highest' ? -5 : datum.kind == 'lowest' ? 5 : 0")
    words = named.transform_filter("datum.end").mark_text(align="left", dx=5, dy=shift, fontWeight="bold").encode(text="label:N")
    lines = other.mark_line(strokeWidth=1.2, opacity=0.55, **mark), named.mark_line(strokeWidth=2.4, **mark)
    return alt.layer(*([shade] if band else []), *lines, words)


def highlighted(labels: Sequence[str]) -> alt.Parameter:
    """Return the control that chooses the class that `class_lines` highlight."""
    return Choice(HIGHLIGHTED, [NONE, *labels], NONE, "highlighted class").param(bound=True)


def from_legend(by: Category) -> tuple[alt.Parameter, Category]:
    """Return the selection of members by clicks in the legend of their colours, and the category whose legend says so."""
    title = " – ".join(filter(None, [by.title, CUE]))
    return alt.selection_point(fields=[by.field], bind="legend"), replace(by, title=title)


def faded(picked: alt.Parameter, shown: float = 1) -> Any:
    """Return the opacity of marks of which a selection leaves some out: `shown` is that of the others."""
    return alt.condition(picked, alt.value(shown), alt.value(_FADED))


def panels(chart: Any, by: Category, columns: int | None = None, gap: int = 20) -> Any:
    """Return a chart as panels, one for each member of `by`, in rows of `columns`; None: as many as the page has room for.

    gap: between two panels, in pixels.
    """
    wide = getattr(chart, "width", COLUMN)
    wide = wide if isinstance(wide, int | float) else COLUMN
    most = max(1, int((COLUMN - _MARGIN + gap) // (wide + gap)))
    columns = min(columns or most, most, len(by.values))
    header = alt.Header(labelFontSize=12, labelFontWeight="bold", labelAnchor="start")
    facet = alt.Facet(by.encoded, sort=list(by.values), title=by.title, header=header)
    facets = chart.facet(facet=facet, columns=columns, spacing=gap)
    # With shared axes the gap in the last row would have one of its own.
    return facets.resolve_axis(x="independent") if len(by.values) % columns else facets
