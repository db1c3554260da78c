"""Charts of labelled arrays, by the names of their dimensions: dots, lines, points and cells; with `choose`, explorers.

Bounds are arrays along bound ("low", "value", "high"). Titles of axes name the quantity and its unit, "gap, points". Each chart
has a title, or one for each member of `choose` by its name, and describes itself (`descriptions.extent`).
"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import xarray as xr

from classwise.charts import primitives
from classwise.charts.descriptions import describe, digits_of, extent
from classwise.charts.primitives import Choice, explorer
from classwise.charts.style import CLASSES, COLUMN, GREY, HIGHEST, Category, display_name, frame, names_of, tooltip, wide_bounds

Title = str | Mapping[str, str]
# A row of dots in pixels, and the share of an axis that labels of the same line stand apart.
_ROW, _APART = 30, 0.1


@dataclass(frozen=True)
class Look:
    """How a chart shows its array.

    colour, panel, choose: the dimensions of its colours, of its panels and of its control; first: the member that is chosen at
    first, by default the first one. label: the dimension whose members are written next to points; most: left of so many of the
    highest alone, 0 for all. domain: the ends of the axis of values. free: the axis of values fits what is chosen, in each
    panel by itself. level: of lines, a value with a dashed grey line. vertical: dots in columns. width, height: of a panel in
    pixels, 0 for what fits. below: a subtitle.
    """

    colour: str = ""
    panel: str = ""
    choose: str = ""
    first: str = ""
    label: str = ""
    most: int = 0
    domain: tuple[float, float] | None = None
    free: bool = False
    level: float | None = None
    vertical: bool = False
    width: int = 0
    height: int = 0
    below: str = ""

    def hues(self, array: xr.DataArray) -> tuple[Any, Category | None]:
        """Return the selection of the legend and the category of the colours; None for both without colours."""
        if not self.colour:
            return None, None
        return primitives.legend_selection(Category.from_array(array, self.colour, display_name(self.colour)))

    def scale(self, array: xr.DataArray) -> alt.Scale:
        """Return the axis of values, the same whatever is chosen."""
        ends = self.domain or ((float(array.min()), float(array.max())) if self.choose and not self.free else None)
        return alt.Scale(domain=list(ends), nice=self.domain is None) if ends else alt.Scale(nice=True, zero=False)

    def resize(self, chart: Any, width: int, height: int) -> Any:
        return chart.properties(width=self.width or width, height=self.height or height)

    def finish(self, chart: Any, array: xr.DataArray, title: Title, axis: str, picked: Any = None) -> Any:
        """Return a chart with its control, its panels, its title and its description."""
        (name, _, unit), dims = axis.partition(", "), [str(dim) for dim in array.dims if dim != "bound"]
        if self.choose:
            names = names_of(array, self.choose)
            several = {} if isinstance(title, str) else title
            choice = Choice(f"chosen_{self.choose}", names, self.first or names[0], display_name(self.choose), several)
            chart = chart.transform_filter(f"datum.{self.choose} == {choice.name}")
            if array.equals(array.isel({self.choose: [0] * len(names)}).assign_coords({self.choose: array[self.choose]})):
                dims.remove(self.choose)
        chart = primitives.panels(chart, Category.from_array(array, self.panel)) if self.panel else chart
        chart = chart.resolve_scale(x="independent", y="independent") if self.free else chart
        chart = chart.add_params(picked) if picked is not None else chart
        table = _table(array)  # its text tells of all choices
        text = extent(table, dims, name, unit, digits=digits_of(table["value"]))
        chart = describe(chart, title if isinstance(title, str) else "", text, self.below)
        return explorer(chart, [choice]) if self.choose else chart


def _table(array: xr.DataArray) -> pd.DataFrame:
    table = wide_bounds(array) if "bound" in array.dims else frame(array)
    return table.assign(**{str(dim): table[str(dim)].astype(str) for dim in array.dims if dim != "bound"})


def _place(array: xr.DataArray) -> pd.DataFrame:
    """Return the table of an array that places the rows of another, which say how many images they are of."""
    return _table(array.drop_vars("evaluated", errors="ignore"))


def _numbers(table: pd.DataFrame, axis: str) -> dict[str, str]:
    """Return the titles and formats of values and of the ends of their intervals, if any, for `tooltip`."""
    form = f"|.{1 + digits_of(table['value'])}f"
    return {"value": axis + form} | ({"low": form, "high": form} if "low" in table else {})


def dots(bounds: xr.DataArray, rows: str, axis: str, title: Title, band: xr.DataArray | None = None, **look: Any) -> Any:
    """Return values with intervals, a line (vertical: a column) for each member of `rows`; grey: zero, or `band` (bounds)."""
    shown = Look(**look)
    numbered = rows not in CLASSES and all(name.replace(".", "", 1).isdecimal() for name in names_of(bounds, rows))
    members = Category.from_array(bounds, rows, display_name(rows) if numbered else None)
    (picked, hues), table = shown.hues(bounds), _table(bounds)
    scale, form = shown.scale(bounds), f"{axis}|.{1 + digits_of(table['value'])}f"
    chart = primitives.dots_with_intervals(table, members, form, hues, vertical=shown.vertical, scale=scale, picked=picked)
    if bool((bounds.min() < 0) & (bounds.max() > 0)):
        at = {"y": alt.datum(0)} if shown.vertical else {"x": alt.datum(0)}
        chart = alt.layer(alt.Chart(table).mark_rule(color=GREY, aria=False).encode(**at), chart, data=table)
    if band is not None:
        names = alt.Axis(labelExpr=members.label_text)
        both = table.merge(_place(band).rename(columns={"low": "from", "high": "to"}).drop(columns="value"))
        y = alt.Y(members.encoding, sort=list(members.values), title=members.title, axis=names)
        bar = alt.Chart(both).mark_bar(color=GREY, opacity=0.35, height=14)
        bar = bar.encode(y=y, x=alt.X("from:Q", title=axis, scale=scale), x2="to:Q")
        chart = alt.layer(bar, chart, data=both)
    letters = max(map(len, members.printed), default=0)
    # On a phone, names break after some fifteen letters.
    row, named = max(_ROW, 4 + 13 * math.ceil(letters / 15)), min(260, 7 * letters)
    long = row * max(2, len(members.values)) + 8 * len(hues.values if hues else ())
    wide = 270 if shown.panel else min(COLUMN - 100, max(270, long)) if shown.vertical else min(480, COLUMN - 60 - named)
    return shown.finish(shown.resize(chart, wide, 200 if shown.vertical else long), bounds, title, axis, picked)


def lines(bounds: xr.DataArray, x: xr.DataArray | str, axis: str, title: Title, **look: Any) -> Any:
    """Return values as lines along a dimension of numbers, or over another quantity, an array with a name; bounds are bands."""
    shown, place = Look(**look), x if isinstance(x, str) else str(x.name)
    (picked, hues), table = shown.hues(bounds), _table(bounds)
    table = table if isinstance(x, str) else table.merge(_place(x).rename(columns={"value": place}))
    table = table.assign(**{place: table[place].astype(float)}).sort_values(place)
    ticks = alt.Axis(tickMinStep=1) if place == "epoch" else alt.Undefined
    at = alt.X(f"{place}:Q", title=display_name(place), scale=alt.Scale(zero=False), axis=ticks)
    names = [str(dim) for dim in bounds.dims if dim not in ("bound", place)]
    tips = tooltip(*names, **_numbers(table, axis), **{place: "|~g"})
    colour = hues.colour if hues else alt.value(HIGHEST)
    table = table if "low" in table else table.assign(low=table["value"], high=table["value"])
    chart = primitives.lines_with_bands(table, at, axis, colour, tips, scale=shown.scale(bounds), picked=picked)
    if shown.level is not None:
        rule = alt.Chart(table).mark_rule(color=GREY, strokeWidth=1.5, strokeDash=[5, 4], aria=False)
        chart = alt.layer(rule.encode(y=alt.datum(shown.level)), chart)
    if shown.label:
        words = alt.Chart(_apart(table, place, shown.colour)).mark_text(dy=-12).encode(x=at, y="value:Q", text=f"{shown.label}:N")
        chart = alt.layer(chart, words.encode(opacity=primitives.fade(picked)) if picked is not None else words)
    return shown.finish(shown.resize(chart, 270 if shown.panel else 560, 240), bounds, title, axis, picked)


def _apart(table: pd.DataFrame, place: str, of: str) -> pd.DataFrame:
    """Return the rows whose labels, from the highest place down, keep apart from the last one of the same line."""
    last: dict[str, float] = {}
    kept, least = [], _APART * float(np.ptp(table[place]))
    for _, row in table.sort_values(place, ascending=False).iterrows():
        name = str(row[of]) if of else ""
        if last.get(name, np.inf) - row[place] >= least:
            last[name] = row[place]
            kept.append(row)
    return pd.DataFrame(kept)


def points(y: xr.DataArray, x: xr.DataArray, axes: tuple[str, str], title: Title, **look: Any) -> Any:
    """Return one quantity over another as dots, with intervals where it has bounds; axes: the titles of x and of y."""
    shown, across = Look(**look), x.sel(bound="value", drop=True) if "bound" in x.dims else x
    picked, hues = shown.hues(y)
    table = _table(y).merge(_place(across).rename(columns={"value": "across"}))
    names = [str(dim) for dim in y.dims if dim != "bound"]
    base = alt.Chart(table).encode(
        x=alt.X("across:Q", title=axes[0], scale=replace(shown, domain=None).scale(across)),
        color=hues.colour if hues else alt.value(HIGHEST),
        tooltip=tooltip(*names, across=f"{axes[0]}|.{1 + digits_of(table['across'])}f", **_numbers(table, axes[1])),
    )
    faint = {"opacity": primitives.fade(picked)} if picked is not None else {}
    base = base.encode(**faint)
    up = alt.Y("value:Q", title=axes[1], scale=shown.scale(y))
    marks = [base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q", title=axes[1]), y2="high:Q")] if "low" in table else []
    marks.append(base.mark_circle(size=55).encode(y=up))
    if shown.label:  # in the colour of text, which stands out in either scheme
        words = alt.Chart(table).mark_text(dy=-5, align="right" if shown.most else "left", dx=-7 if shown.most else 7)
        if shown.most:
            order, each = [alt.SortField("value", order="descending")], [shown.choose] if shown.choose else []
            words = words.transform_window(place="row_number()", sort=order, groupby=each)
            words = words.transform_filter(f"datum.place <= {shown.most}")
        marks.append(words.encode(x="across:Q", y=up, text=f"{shown.label}:N", **faint))
    chart = shown.resize(alt.layer(*marks), 270 if shown.panel else 480, 240)
    return shown.finish(chart, y, title, axes[1], picked)


def cells(
    values: xr.DataArray, x: str, y: str, legend: str, title: Title, shade: Mapping[str, Any] | None = None, **look: Any
) -> Any:
    """Return values as shaded cells; shade: of `primitives.Cells`, such as text="value" with its format as digits."""
    shown, table = Look(**look), _table(values)
    tips = tooltip(*map(str, values.dims), value=f"{legend}|.2f")
    form = primitives.Cells("value", legend, **(shade or {}))
    across, down = (Category.from_array(values, dim, display_name(dim)) for dim in (x, y))
    return shown.finish(primitives.heatmap(table, across, down, form, tips), values, title, legend)


def arrange_in_row(*charts: Any, title: str) -> Any:
    """Return charts side by side under one title, described by all their descriptions; each needs a `width` that fits."""
    texts = " ".join(str(chart.to_dict(validate=False).get("description", "")) for chart in charts)
    with warnings.catch_warnings():  # of equal colours, a click in one legend highlights in all charts, as it should
        warnings.simplefilter("ignore", UserWarning)
        return describe(alt.hconcat(*charts).resolve_scale(color="independent"), title, texts)
