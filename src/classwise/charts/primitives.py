"""The kinds of marks that charts are made of: heatmaps, dots with intervals, lines with bands, and panels of them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from classwise.charts import style
from classwise.charts.descriptions import title_lines
from classwise.charts.style import CHOSEN, COLUMN, GREY, HIGHEST, LOWEST, PERCENT, Category, label_angle, tooltip

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


def heatmap(table: pd.DataFrame, x: Category, y: Category, cells: Cells, tips: Sequence[alt.Tooltip]) -> Any:
    """Return categories against categories as shaded cells with text in them, and frames around some."""
    shades = table[cells.shade].abs() if cells.diverging else table[cells.shade]
    # Where all are equal, the scale has a length, too.
    high = max(float(shades.max()), 1.0 if cells.diverging or not cells.bottom else cells.bottom + 1e-6)
    low, none = (-high, 0) if cells.diverging else (cells.bottom, cells.bottom)
    strong = f"abs(datum['{cells.shade}'] - {none}) > {style.INK_CHANGES * (high - none)}"
    ink = alt.condition(strong, alt.value(style.INKS[1]), alt.value(style.INKS[0]))
    below = alt.Axis(labelAngle=label_angle(x.printed, cells.step[0]), labelExpr=x.label_text, **_BARE)
    left = alt.Axis(labelLimit=260, labelExpr=y.label_text, **_BARE)
    base = alt.Chart(table).encode(
        x=alt.X(x.encoding, sort=list(x.values), title=x.title, axis=below),
        y=alt.Y(y.encoding, sort=list(y.values), title=y.title, axis=left),
        tooltip=list(tips),
    )
    colours = list(style.DIVERGING if cells.diverging else style.SEQUENTIAL)
    scale = alt.Scale(range=colours, domain=[low, high], interpolate="lab")
    colour = alt.Color(f"{cells.shade}:Q", scale=scale, title=cells.title)
    marks = [base.mark_rect(stroke=_SHADE, strokeWidth=0.5).encode(color=colour)]
    if cells.framed:
        size = alt.RelativeBandSize(band=0.88)
        frames = base.transform_filter(cells.framed).mark_rect(fillOpacity=0, strokeWidth=_FRAME, width=size, height=size)
        marks.append(frames.encode(stroke=ink))
    if cells.text:
        written = alt.Text(f"{cells.text}:Q", format=cells.digits) if cells.digits else alt.Text(f"{cells.text}:N")
        shown = base.transform_filter(f"!({cells.blank})") if cells.blank else base
        # Two lines stand about the middle of their cell.
        lift = 0 if cells.digits else alt.expr(f"indexof(datum['{cells.text}'], '\\n') < 0 ? 0 : -6")
        marks.append(shown.mark_text(fontSize=12, lineBreak="\n", dy=lift).encode(text=written, color=ink))
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
        base = base.encode(color=alt.value(style.CLASS_COLOURS[0]))
    else:
        offset = alt.XOffset if vertical else alt.YOffset
        side = offset(colour.encoding, sort=list(colour.values), scale=alt.Scale(paddingOuter=0.4))
        base = base.encode(side, color=colour.colour)
    if picked is not None:
        base = base.encode(opacity=fade(picked))
    lines, dots = base.mark_rule(strokeWidth=2), base.mark_point(filled=True, size=55, opacity=1)
    if vertical:
        y = alt.Y("low:Q", title=title or None, scale=scale)
        return alt.layer(lines.encode(x=along.x, y=y, y2="high:Q"), dots.encode(x=along.x, y="value:Q"))
    # Names keep off a dot at the left end of the axis.
    axis = alt.Axis(labelLimit=290, labelPadding=8, ticks=False, grid=True, labelExpr=along.label_text)
    y, x = alt.Y(along.encoding, sort=list(along.values), title=along.title, axis=axis), alt.X("low:Q", scale=scale)
    return alt.layer(lines.encode(y=y, x=x.title(title or None), x2="high:Q"), dots.encode(y=y, x="value:Q"))


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
        line = line.encode(opacity=fade(picked))
    y = alt.Y("low:Q", title=title, scale=scale)
    return alt.layer(bounds.encode(y=y, y2="high:Q"), line.encode(y=alt.Y("value:Q", title=title), tooltip=list(tips)))


def class_lines(
    table: pd.DataFrame, x: alt.X, y: alt.Y, tips: Sequence[alt.Tooltip], panel: str = "", band: bool = False, **mark: Any
) -> Any:
    """Return the column value as a line for each class: grey, but for those that end highest and lowest, named at their ends.

    panel: the column that names the panel of a row. band: shade the gap between the lowest and the highest line. `highlight` is
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
    ends["place"] = np.select([apart & (ends.index == high), apart & (ends.index == low)], ["highest", "lowest"], "other")
    rows = table.merge(ends[[*keys, "place"]])
    rows["end"] = rows[along] == rows[along].max()
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


def highlight(labels: Sequence[str]) -> alt.Parameter:
    """Return the control that chooses the class that `class_lines` highlight."""
    return Choice(HIGHLIGHTED, [NONE, *labels], NONE, "highlighted class").param(bound=True)


def legend_selection(by: Category) -> tuple[alt.Parameter, Category]:
    """Return the selection of members by clicks in the legend of their colours, and the category whose legend says so."""
    title = " – ".join(filter(None, [by.title, CUE]))
    return alt.selection_point(fields=[by.field], bind="legend"), replace(by, title=title)


def fade(picked: alt.Parameter, shown: float = 1) -> Any:
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
    header = alt.Header(labelFontSize=13, labelFontWeight="bold", labelAnchor="start", labelExpr=by.label_text)
    facet = alt.Facet(by.encoding, sort=list(by.values), title=by.title, header=header)
    facets = chart.facet(facet=facet, columns=columns, spacing=gap)
    # With shared axes the gap in the last row would have one of its own.
    return facets.resolve_axis(x="independent") if len(by.values) % columns else facets


# A ring that turns, drawn by the browser while the kernel computes.
_SPINNER = """<style>@keyframes classwise-turn { to { transform: rotate(1turn); } }
.classwise-spinner { display: inline-block; width: 1em; height: 1em; vertical-align: -0.15em; border: 0.15em solid #8886;
border-top-color: currentColor; border-radius: 50%; animation: classwise-turn 0.9s linear infinite; }</style>
<span role="status"><span class="classwise-spinner"></span> attacking the images …</span>"""


@dataclass(frozen=True)
class Choice:
    """One control: a drop-down list of `options`, or a slider where these are numbers in even steps.

    name: of the chart's parameter, different from all columns of its data. label: what the reader sees. titles: of the chart, by
    option, if it changes with them.
    """

    name: str
    options: Sequence[Any]
    value: Any
    label: str
    titles: Mapping[str, str] = field(default_factory=dict)

    @property
    def slider(self) -> tuple[float, float, float] | None:
        """Lowest and highest value and step of a slider; None for a drop-down list."""
        numbers = [option for option in self.options if isinstance(option, int | float)]
        steps = {round(after - before, 9) for before, after in pairwise(numbers)}
        return (numbers[0], numbers[-1], steps.pop()) if len(numbers) == len(self.options) and len(steps) == 1 else None

    @property
    def labels(self) -> list[str]:
        """The options as readers see them: attacks and defences as papers print them."""
        return [name if "class" in self.name else style.short_name(name) for name in map(str, self.options)]

    def param(self, *, bound: bool) -> alt.Parameter:
        """Return the chart's parameter; if `bound`, with a control of Vega."""
        if not bound:
            return alt.param(name=self.name, value=self.value)
        if self.slider:
            low, high, step = self.slider
            control: Any = alt.binding_range(min=low, max=high, step=step, name=self.label)
        else:
            labels = self.labels if self.labels != list(map(str, self.options)) else alt.Undefined
            control = alt.binding_select(options=list(self.options), labels=labels, name=self.label)
        return alt.param(name=self.name, value=self.value, bind=control)

    def widget(self) -> Any:
        """Return the ipywidget."""
        import ipywidgets

        kind = ipywidgets.SelectionSlider if self.slider else ipywidgets.Dropdown
        style = {"description_width": "initial"}  # the label is not cut
        return kind(
            options=list(zip(self.labels, self.options, strict=True)), value=self.value, description=self.label, style=style
        )


@dataclass(frozen=True)
class Show:
    """What stands below a chart in a live kernel: what `draw` returns of all choices, and controls of this display alone."""

    draw: Callable[..., object]
    choices: Sequence[Choice] = ()


def explorer(chart: Any, choices: Sequence[Choice], show: Show | None = None) -> Any:
    """Return a chart with controls of Vega, or in a live kernel with ipywidgets and `show`, drawn again after each change.

    chart: None for controls and `show` alone. Widgets can also show what only a kernel can compute.
    """
    for choice in (choice for choice in choices if choice.titles):
        chart = chart.copy()
        lines = {option: title_lines(title) for option, title in choice.titles.items()}
        chart.title.text = alt.expr(f"({json.dumps(lines)})[{choice.name}]")
    if not style.live():
        return chart.add_params(*[choice.param(bound=True) for choice in choices])
    import ipywidgets
    from IPython.display import HTML, display

    alt.JupyterChart.enable_offline(True)
    views = [alt.JupyterChart(chart.add_params(*[choice.param(bound=False) for choice in choices]))] if chart else []
    more = show.choices if show else ()
    boxes, below = {choice.name: choice.widget() for choice in (*choices, *more)}, ipywidgets.Output()

    def again(*_: object) -> None:
        if show is not None:
            with below:
                below.clear_output()
                display(HTML(_SPINNER))
                shown = show.draw(**{name: box.value for name, box in boxes.items()})
                below.clear_output(wait=True)
                display(shown)

    for box in boxes.values():
        box.observe(again, "value")
    for view in views:
        for choice in choices:
            ipywidgets.link((boxes[choice.name], "value"), (view.params, choice.name))
    again()
    return ipywidgets.VBox([ipywidgets.HBox(list(boxes.values()), layout={"flex_flow": "row wrap"}), *views, below])
