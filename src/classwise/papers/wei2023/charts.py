"""Charts of Wei et al. 2023: classes over a setting of the training, and the rule by which a calibration sets each class.

Rates are in percent. Values of a setting (its radius, the weight of a term) are text as written ("0.1", "8/255", "6"), and stand
on a logarithmic axis.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import xarray as xr

from classwise.charts import style
from classwise.charts.class_explorer import Along, panels_along, rows
from classwise.charts.descriptions import describe, extent
from classwise.charts.primitives import Choice, explorer, fade, legend_selection, lines_with_bands, panels
from classwise.core.identity import exact_radius, radius_value
from classwise.core.markup import printed_name
from classwise.stats import intervals, metrics

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
        return sorted(style.names_of(array, self.dim), key=exact_radius)

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

    def add_places(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a table with the place of each value on the axis."""
        return table.assign(place=table[self.dim].map(radius_value))


def _spread(table: pd.DataFrame, apart: float, top: float = float("inf")) -> pd.DataFrame:
    """Return rows by rising value with a place `at` for the word of each, at least so far above the last and none above `top`."""
    rows, place, places = table.sort_values("value"), -float("inf"), []
    for value in rows["value"]:
        place = max(value, place + apart)
        places.append(place)
    for number in reversed(range(len(places))):
        places[number] = min(places[number], top)
        top = places[number] - apart
    return rows.assign(at=places)


def _grouped(groups: Mapping[str, Sequence[str]], **legend: Any) -> tuple[Any, alt.Color, dict[str, str]]:
    """Return the selection of groups by the legend, their colours, grey for "other", and the group of each class in any."""
    picked, hues = legend_selection(style.Category("group", list(groups)))
    scale = alt.Scale(domain=[*groups, "other"], range=[style.LOWEST, style.HIGHEST, style.GREY])
    key = alt.Legend(symbolOpacity=1, values=list(groups), **legend)
    of = {str(label): name for name, labels in groups.items() for label in labels}
    return picked, alt.Color("group:N", scale=scale, title=hues.title, legend=key), of


def class_sweep(count: xr.DataArray, groups: Mapping[str, Sequence[str]], setting: Setting, title: str, y: str) -> Any:
    """Return the accuracy of each class over a setting, and of two groups of classes together with 95 % intervals as bands.

    count: pooled, with the dimension of the setting, label and predicted. Lines of classes have the colour of their group, those
    of no group are grey. y: what the accuracy is, "robust accuracy, %". A click in the legend picks a group.
    """
    values, along = setting.values(count), setting.dim
    picked, colour, of = _grouped(groups, orient="top", labelLimit=300)
    table = setting.add_places(style.frame(metrics.accuracy(count)))
    table["group"] = table["label"].astype(str).map(of).fillna("other")
    shares = intervals.shares({name: count.sel(label=list(labels)) for name, labels in groups.items()}, along)
    both = setting.add_places(shares.reset_index().rename(columns={"images of": "group", "share": "value"}))
    x = setting.axis(values, right=1.12)
    single = alt.Chart(table).encode(x=x, y=alt.Y("value:Q", title=y, scale=_LEVELS), detail="label:N", color=colour)
    thin = style.tooltip("label", "group", along, value=y)
    lines = single.mark_line(strokeWidth=1.2).encode(opacity=fade(picked, 0.7), tooltip=thin)
    drawn = [*table["value"], *both["low"], *both["high"]]
    ends = _spread(table[table[along] == values[-1]], _APART * float(np.ptp(drawn)), max(drawn))
    words = alt.Chart(ends).mark_text(align="left", dx=6).encode(x=x, y="at:Q", text="label:N")
    tips = style.tooltip("group", along, value=y, low="", high="", images="images|.0f")
    thick = lines_with_bands(both, x, y, colour, tips, scale=_LEVELS, picked=picked).add_params(picked)
    chart = alt.layer(lines, thick, words).properties(width=520, height=300)
    text = extent(both.assign(setting=both[along].map(setting.named.format)), ["group", "setting"], title)
    return describe(chart, title, text, "Thick: the images of a group together, with their 95 % interval. Thin: single classes.")


def metric_sweep(measured: Mapping[str, xr.DataArray], setting: Setting, colour: str, title: str) -> Any:
    """Return metrics over a setting as lines with their intervals as bands, a panel for each title.

    measured: by the title of a panel, with the dimensions bound, `colour` and that of the setting. A click in the legend picks
    members of `colour`.
    """
    first = next(iter(measured.values()))
    picked, hues = legend_selection(style.Category.from_array(first, colour, style.display_name(colour)))
    tables = [style.wide_bounds(bounds).assign(panel=name) for name, bounds in measured.items()]
    table = setting.add_places(pd.concat(tables, ignore_index=True))
    tips = style.tooltip(colour, setting.dim, value="value, %", low="", high="")
    chart = lines_with_bands(table, setting.axis(setting.values(first)), "", hues.colour, tips, scale=_LEVELS, picked=picked)
    parts = [
        extent(part.assign(setting=part[setting.dim].map(setting.named.format)), [colour, "setting"], str(name))
        for name, part in table.groupby("panel", sort=False)
    ]
    chart = panels(chart.properties(width=258, height=210), style.Category("panel", list(measured)), columns=2, gap=34)
    return describe(chart.add_params(picked), title, " ".join(parts))


def exchange(accuracy: xr.DataArray, groups: Mapping[str, Sequence[str]], setting: Setting, images: tuple[str, str]) -> Any:
    """Return the path of each class through the plane of clean and robust accuracy, from the lowest value of a setting up.

    accuracy: with the dimensions attack (with both `images`), label and that of the setting. images: the attacks of the
    horizontal and of the vertical axis. A path ends at a filled dot with the name of its class; a click in the legend picks a
    group of classes, those of none are grey.
    """
    values = setting.values(accuracy)
    picked, colour, of = _grouped(groups)
    clean, robust = (accuracy.sel(attack=name, drop=True).drop_vars("evaluated", errors="ignore") for name in images)
    table = style.frame(clean, "clean").merge(style.frame(robust, "robust"))
    table = setting.add_places(table).assign(group=lambda rows: rows["label"].astype(str).map(of).fillna("other"))
    table["end"] = table[setting.dim] == values[-1]
    # The room around the dots may reach beyond 100 %.
    axis = alt.Axis(labelExpr="datum.value > 100 ? '' : datum.label")
    base = alt.Chart(table).encode(
        x=alt.X("clean:Q", title="clean accuracy, %", scale=alt.Scale(zero=False, padding=14), axis=axis),
        y=alt.Y("robust:Q", title="robust accuracy, %", scale=alt.Scale(zero=False, padding=14), axis=axis),
        opacity=fade(picked),
        tooltip=style.tooltip("label", "group", setting.dim, clean="clean accuracy, %", robust="robust accuracy, %"),
    )
    marks = [
        base.mark_line(strokeWidth=1.6).encode(detail="label:N", order="place:Q", color=colour),
        base.transform_filter("!datum.end").mark_point(size=26).encode(color=colour),
        base.transform_filter("datum.end").mark_point(size=60, filled=True).encode(color=colour),
        base.transform_filter("datum.end").mark_text(dx=8, dy=-8, align="left", fontWeight="bold").encode(text="label:N"),
    ]
    change = accuracy.sel({setting.dim: values[-1]}) - accuracy.sel({setting.dim: values[0]})
    moved = style.frame(change)
    parts = [
        extent(moved[moved["attack"] == name], ["label"], f"Change of {kind} accuracy", "points", digits=1)
        for name, kind in zip(images, ("clean", "robust"), strict=True)
    ]
    ends = " to ".join(setting.named.format(value) for value in (values[0], values[-1]))
    chart = alt.layer(*marks).add_params(picked).properties(width=520, height=360)
    title = f"Clean and robust accuracy of each class over {setting.title}"
    return describe(chart, title, f"From {ends}. {' '.join(parts)}", f"Open dots to filled dot: {ends}.")


def setting_explorer(clean: xr.DataArray, attacked: xr.DataArray, setting: Setting, start: str) -> Any:
    """Return the explorer of a class over a setting of the training.

    clean, attacked: counts with the dimension of the setting, label and predicted. start: the value of the setting at first, with
    its least robust class under attack.
    """
    values, labels = setting.values(clean), style.names_of(clean)
    last = metrics.accuracy(attacked.sel({setting.dim: start}, drop=True))
    images = pd.Index(["clean", "attacked"], name="images_are")
    count = xr.concat([clean, attacked], images, coords="minimal", compat="override")
    choices = [
        Choice("chosen_class", labels, str(last.idxmin("label").values), "class"),
        Choice("chosen_images", ["clean", "attacked"], "attacked", "images"),
        Choice(f"chosen_{setting.dim}", values, start, setting.title),
    ]
    along = Along(setting.axis(values), setting.dim, setting.dim)
    table = setting.add_places(rows(count))
    text = extent(style.frame(last), ["label"], f"Robust accuracy, {setting.named.format(start)}")
    chart = panels_along(table, labels, along, "datum.images_are == chosen_images")
    return explorer(describe(chart, f"One class by {setting.title}", text), choices)


# The colour of a class by its column `kind`.
_KIND = alt.Color(
    "kind:N",
    scale=alt.Scale(domain=["hard", "easy", "other"], range=[style.LOWEST, style.HIGHEST, style.GREY]),
    title="class",
    legend=alt.Legend(symbolOpacity=1),
)


def rule_explorer(accuracy: xr.DataArray, offset: Mapping[str, float]) -> Any:
    """Return what the rule lambda + t gives each class, as a multiple of the uniform setting, with controls.

    accuracy: t, the training accuracy under attack, 0 to 1, along network, epoch and label, with the class coordinates `hard` and
    `easy`. offset: the lambda that each network was trained with. The reader chooses network, epoch and lambda.
    """
    labels, networks = style.names_of(accuracy), style.names_of(accuracy, "network")
    table = style.frame(accuracy.drop_vars(["hard", "easy"]), "t")
    kinds = np.select([accuracy["hard"].values, accuracy["easy"].values], ["hard", "easy"], "other")
    kind = table["label"].map(dict(zip(labels, map(str, kinds), strict=True)))
    table = table.assign(trained=table["network"].map(offset), kind=kind)
    epochs = [int(epoch) for epoch in accuracy.epoch.values]
    first = float(offset[networks[0]])
    choices = [
        Choice("chosen_network", networks, networks[0], "network"),
        Choice("chosen_lambda", [round(0.05 * step, 2) for step in range(21)], first, "lambda"),
        Choice("chosen_epoch", list(range(epochs[0], epochs[-1] + 1)), epochs[-1], "after epoch"),
    ]
    base = alt.Chart(table).transform_filter("datum.network == chosen_network && datum.epoch == chosen_epoch")
    base = base.transform_calculate(multiple="chosen_lambda + datum.t", used="datum.trained + datum.t")
    x = alt.X("label:N", sort=labels, title="class", axis=alt.Axis(labelAngle=style.label_angle(labels)))
    y = alt.Y("multiple:Q", title="multiple of the uniform setting", scale=alt.Scale(domain=[0, 2]))
    tips = style.tooltip("label", "kind", multiple="lambda + t|.2f", t="training accuracy t|.2f", used="as trained|.2f")
    marks = [
        base.mark_bar().encode(x=x, y=y, color=_KIND, tooltip=tips),
        base.mark_tick(thickness=3, width=34, color="#888").encode(x=x, y=alt.Y("used:Q"), tooltip=tips),
        base.mark_rule(strokeDash=[5, 4], color="#888", strokeWidth=1.5).encode(y=alt.Y("mean(multiple):Q")),
        alt.Chart(table.head(1)).mark_rule(strokeWidth=1.5, color="#888", aria=False).encode(y=alt.datum(1.0)),
    ]
    last = table[(table["epoch"] == epochs[-1]) & (table["network"] == networks[0])].assign(value=lambda rows: first + rows["t"])
    text = extent(last, ["label"], f"{printed_name(networks[0])} after the last epoch, lambda {first:g}", "", digits=2)
    subtitle = "Line: 1, the uniform setting. Dashed: mean of the classes. Ticks: what this network was trained with next."
    chart = alt.layer(*marks).properties(width=580, height=220)
    return explorer(describe(chart, "What the rule gives each class", text, subtitle), choices)
