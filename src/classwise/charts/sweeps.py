"""Charts over a setting of the training: its radius or the weight of a term. Rates are in percent.

Values of a setting are text as written ("0.1", "8/255", "6"), and stand on a logarithmic axis.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.primitives import faded, from_legend, lines_with_bands, panels, spread
from classwise.charts.style import GREY, HIGHEST, LOWEST, Category, frame, names_of, titled, tooltip, wide_bounds
from classwise.core.identity import exact_radius, radius_value
from classwise.stats import intervals, metrics

# Of two groups of classes, in their order.
_GROUP_COLOURS = (LOWEST, HIGHEST)
# How far apart the names at the ends of lines stand, as a share of all values.
_APART = 0.05
_LEVELS: Any = alt.Scale(zero=False)


@dataclass(frozen=True)
class Setting:
    """A setting: its dimension, the title of its axis, and what its values are called in a sentence ("radius {}")."""

    dim: str
    title: str
    named: str = "{}"

    def values(self, array: xr.DataArray | xr.Dataset) -> list[str]:
        """Return the values as written, in rising order."""
        return sorted(names_of(array, self.dim), key=exact_radius)

    def axis(self, values: Sequence[str], right: float = 1.02) -> alt.X:
        """Return the axis of the column "place"; right: the factor of the room beyond the highest value."""
        places = [radius_value(value) for value in values]
        words = " : ".join(
            f"abs(datum.value / {place!r} - 1) < 1e-6 ? '{value}'" for place, value in zip(places, values, strict=True)
        )
        scale = alt.Scale(type="log", domain=[places[0] / 1.02, places[-1] * right], nice=False)
        return alt.X(
            "place:Q", title=self.title, scale=scale, axis=alt.Axis(values=places, labelExpr=f"{words} : ''", grid=False)
        )

    def placed(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a table with the place of each value on the axis."""
        return table.assign(place=table[self.dim].map(radius_value))


def class_sweep(count: xr.DataArray, groups: Mapping[str, Sequence[str]], setting: Setting, title: str, y: str) -> Any:
    """Return the accuracy of each class over a setting, and of two groups of classes together with 95 % intervals as bands.

    count: pooled, with the dimension of the setting, label and predicted. Lines of classes have the colour of their group, those
    of no group are grey. y: what the accuracy is, "robust accuracy, %". A click in the legend picks a group.
    """
    values, along = setting.values(count), setting.dim
    of = {str(label): name for name, labels in groups.items() for label in labels}
    table = setting.placed(frame(metrics.accuracy(count)))
    table["group"] = table["label"].astype(str).map(of).fillna("other")
    shares = intervals.shares({name: count.sel(label=list(labels)) for name, labels in groups.items()}, along)
    both = setting.placed(shares.reset_index().rename(columns={"images of": "group", "share": "value"}))
    picked, hues = from_legend(Category("group", list(groups)))
    scale = alt.Scale(domain=[*groups, "other"], range=[*_GROUP_COLOURS, GREY])
    legend = alt.Legend(orient="top", symbolOpacity=1, values=list(groups), labelLimit=300)
    colour = alt.Color("group:N", scale=scale, title=hues.title, legend=legend)
    x = setting.axis(values, right=1.12)
    single = alt.Chart(table).encode(x=x, y=alt.Y("value:Q", title=y, scale=_LEVELS), detail="label:N", color=colour)
    lines = single.mark_line(strokeWidth=1.2).encode(
        opacity=faded(picked, 0.7), tooltip=tooltip("label", "group", along, value=y)
    )
    drawn = [*table["value"], *both["low"], *both["high"]]
    ends = spread(table[table[along] == values[-1]], _APART * float(np.ptp(drawn)), max(drawn))
    words = alt.Chart(ends).mark_text(align="left", dx=6).encode(x=x, y="at:Q", text="label:N")
    tips = tooltip("group", along, value=y, low="", high="", images="images|.0f")
    thick = lines_with_bands(both, x, y, colour, tips, scale=_LEVELS, picked=picked).add_params(picked)
    chart = alt.layer(lines, thick, words).properties(width=520, height=300)
    text = extent(both.assign(setting=both[along].map(setting.named.format)), ["group", "setting"], title)
    return described(chart, title, text, "Thick: the images of a group together, with their 95 % interval. Thin: single classes.")


def metric_sweep(measured: Mapping[str, xr.DataArray], setting: Setting, colour: str, title: str) -> Any:
    """Return metrics over a setting as lines with their intervals as bands, a panel for each title.

    measured: by the title of a panel, with the dimensions bound, `colour` and that of the setting. A click in the legend picks
    members of `colour`.
    """
    first = next(iter(measured.values()))
    picked, hues = from_legend(Category.of(first, colour, titled(colour)))
    tables = [wide_bounds(bounds).assign(panel=name) for name, bounds in measured.items()]
    table = setting.placed(pd.concat(tables, ignore_index=True))
    tips = tooltip(colour, setting.dim, value="value, %", low="", high="")
    chart = lines_with_bands(table, setting.axis(setting.values(first)), "", hues.colour, tips, scale=_LEVELS, picked=picked)
    parts = [
        extent(part.assign(setting=part[setting.dim].map(setting.named.format)), [colour, "setting"], str(name))
        for name, part in table.groupby("panel", sort=False)
    ]
    chart = panels(chart.properties(width=258, height=210), Category("panel", list(measured)), columns=2, gap=34).add_params(
        picked
    )
    return described(chart, title, " ".join(parts))


def exchange(accuracy: xr.DataArray, groups: Mapping[str, Sequence[str]], setting: Setting, images: tuple[str, str]) -> Any:
    """Return the path of each class through the plane of clean and robust accuracy, from the lowest value of a setting up.

    accuracy: with the dimensions attack (with both `images`), label and that of the setting. images: the attacks of the
    horizontal and of the vertical axis. A path ends at a filled dot with the name of its class; a click in the legend picks a
    group of classes, those of none are grey.
    """
    values = setting.values(accuracy)
    of = {str(label): name for name, labels in groups.items() for label in labels}
    table = frame(accuracy.sel(attack=images[0], drop=True), "clean").merge(
        frame(accuracy.sel(attack=images[1], drop=True), "robust")
    )
    table = setting.placed(table).assign(group=lambda rows: rows["label"].astype(str).map(of).fillna("other"))
    table["end"] = table[setting.dim] == values[-1]
    picked, hues = from_legend(Category("group", list(groups)))
    scale = alt.Scale(domain=[*groups, "other"], range=[*_GROUP_COLOURS, GREY])
    legend = alt.Legend(symbolOpacity=1, values=list(groups))
    colour = alt.Color("group:N", scale=scale, title=hues.title, legend=legend)
    # The room around the dots may reach beyond 100 %.
    axis = alt.Axis(labelExpr="datum.value > 100 ? '' : datum.label")
    base = alt.Chart(table).encode(
        x=alt.X("clean:Q", title="clean accuracy, %", scale=alt.Scale(zero=False, padding=14), axis=axis),
        y=alt.Y("robust:Q", title="robust accuracy, %", scale=alt.Scale(zero=False, padding=14), axis=axis),
        opacity=faded(picked),
        tooltip=tooltip("label", "group", setting.dim, clean="clean accuracy, %", robust="robust accuracy, %"),
    )
    marks = [
        base.mark_line(strokeWidth=1.6).encode(detail="label:N", order="place:Q", color=colour),
        base.transform_filter("!datum.end").mark_point(size=26).encode(color=colour),
        base.transform_filter("datum.end").mark_point(size=60, filled=True).encode(color=colour),
        base.transform_filter("datum.end").mark_text(dx=8, dy=-8, align="left", fontWeight="bold").encode(text="label:N"),
    ]
    change = accuracy.sel({setting.dim: values[-1]}) - accuracy.sel({setting.dim: values[0]})
    moved = frame(change)
    parts = [
        extent(moved[moved["attack"] == name], ["label"], f"Change of {kind} accuracy", "points", digits=1)
        for name, kind in zip(images, ("clean", "robust"), strict=True)
    ]
    ends = " to ".join(setting.named.format(value) for value in (values[0], values[-1]))
    chart = alt.layer(*marks).add_params(picked).properties(width=520, height=360)
    title = f"Clean and robust accuracy of each class over {setting.title}"
    return described(chart, title, f"From {ends}. {' '.join(parts)}", f"Open dots to filled dot: {ends}.")
