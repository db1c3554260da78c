"""Charts of calibrations: their gains, the settings that they give each class, and uniform settings for comparison.

Rates are in percent. A setting is a radius or a trade-off; as a multiple, of the one that all classes had before the calibration.
"""

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.explorer import Choice, explorer
from classwise.charts.primitives import Cells, heatmap, panels
from classwise.charts.style import (
    CHOSEN,
    GREY,
    HIGHEST,
    LOWEST,
    Category,
    frame,
    label_angle,
    names_of,
    titled,
    tooltip,
    wide_bounds,
)

# The colour of a class by its column `kind`.
_KIND = alt.Color(
    "kind:N",
    scale=alt.Scale(domain=["hard", "easy", "other"], range=[LOWEST, HIGHEST, GREY]),
    title="class",
    legend=alt.Legend(symbolOpacity=1),
)


def factorial(measured: Mapping[str, xr.DataArray], change: Mapping[str, xr.DataArray], subtitle: str = "") -> Any:
    """Return two factors as grids of cells, a panel for each metric and each method.

    measured, change: by the title of a metric its value, and its difference from the first cell with the further dimension bound
    ("low", "value", "high"), with the dimensions method, calibration (the rows) and averaging (the columns). Cells without a
    value stay empty. The shade is the difference; frames mark those whose interval excludes 0.
    """
    first = next(iter(measured.values()))
    tables = [frame(values).merge(_differences(change[title])).assign(metric=title) for title, values in measured.items()]
    table = pd.concat(tables, ignore_index=True)
    short = {title: titled(title).partition(",")[0] for title in measured}
    table["panel"] = table["method"] + ", " + table["metric"].map(short)
    table["written"] = table["value"].map("{:.1f}".format)
    cells = Cells("points", "points from the first cell", "written", framed="datum.low > 0 || datum.high < 0", step=(60, 30))
    tips = tooltip("panel", "calibration", "averaging", value="%", points="points from the first cell|+.1f", low="", high="")
    chart = heatmap(table, Category.of(first, "averaging"), Category.of(first, "calibration"), cells, tips)
    names = [f"{method}, {word}" for word in short.values() for method in names_of(first, "method")]
    text = " ".join(
        extent(part, ["method", "calibration", "averaging"], titled(str(name)), digits=1)
        for name, part in table.groupby("metric")
    )
    chart = panels(chart, Category("panel", names), columns=first.sizes["method"], gap=14)
    # On a phone the panels stand in one column.
    chart = chart.resolve_axis(x="independent")
    return described(chart, "Robust accuracy by calibration and averaging, %", text, subtitle)


def _differences(change: xr.DataArray) -> pd.DataFrame:
    return wide_bounds(change).rename(columns={"value": "points"})


def against_uniform(measured: Mapping[str, xr.DataArray], place: xr.DataArray, axis: str) -> Any:
    """Return metrics of networks over the mean of a setting of their classes, a panel for each metric.

    measured: by title, with the dimensions bound and network. place: of each network, the mean of the setting, with the
    coordinate `uniform`, whether all classes have it: these networks are joined by a line, the others are named dots. axis: the
    title of the setting.
    """
    parts, charts, where = [], [], frame(place.reset_coords(drop=True), "place")
    alike = [str(name) for name in place.network.values[place.uniform.values]]
    for name, bounds in measured.items():
        title, table = titled(name), wide_bounds(bounds).merge(where)
        x = alt.X("place:Q", title=axis, scale=alt.Scale(zero=False, padding=12))
        y = alt.Y("low:Q", title=title, scale=alt.Scale(zero=False))
        tips = tooltip("network", place=f"{axis}|.3~f", value=title, low="", high="")
        line = table["network"].isin(alike)
        base = alt.Chart(table[line]).encode(x=x, color=alt.value(GREY))
        dots = alt.Chart(table[~line]).encode(x=x, tooltip=tips)
        chosen = dots.encode(color=alt.value(CHOSEN))
        layers = [
            base.mark_area(opacity=0.18).encode(y=y, y2="high:Q"),
            base.mark_line(strokeWidth=2, point=True).encode(y="value:Q", tooltip=tips),
            chosen.mark_rule(strokeWidth=2).encode(y=y, y2="high:Q"),
            chosen.mark_point(filled=True, size=80, opacity=1).encode(y="value:Q"),
            dots.mark_text(dy=-8, fontWeight="bold").encode(y="high:Q", text="network:N"),
        ]
        charts.append(alt.layer(*layers).properties(width=260, height=190))
        parts.append(extent(table, ["network"], title))
    text = f"{' '.join(parts)} Setting: {', '.join(f'{name} {value:.3g}' for name, value in where.to_numpy())}."
    title = f"Class-wise settings compared with uniform ones, over the {axis}"
    return described(alt.hconcat(*charts, spacing=30), title, text, "Grey: the same setting for all classes.")


def settings_by_accuracy(multiple: xr.DataArray, accuracy: xr.DataArray, interval: xr.DataArray) -> Any:
    """Return the setting of each class over its accuracy in another network, a panel for each `network`.

    multiple: of the settings. accuracy, interval: of the classes, the second with the dimension bound ("low", "high"). All have
    the dimensions network and label; accuracy has the class coordinates `hard` and `easy`.
    """
    table = frame(multiple).merge(frame(accuracy.drop_vars(["hard", "easy"]), "rate")).merge(wide_bounds(interval))
    table = table.assign(kind=table["label"].map(_kinds(accuracy)))
    axis: dict[str, Any] = {"title": "robust accuracy with the uniform setting, %", "scale": alt.Scale(zero=False)}
    x = alt.X("rate:Q", **axis)
    y = alt.Y("value:Q", title="multiple of the uniform setting", scale=alt.Scale(zero=False))
    tips = tooltip("network", "label", "kind", value="multiple|.2f", rate="robust accuracy, %", low="", high="")
    base = alt.Chart(table).encode(y=y, tooltip=tips)
    coloured = base.encode(color=_KIND)
    marks = [
        alt.Chart(table).mark_rule(strokeDash=[4, 3], color="#888", aria=False).encode(y=alt.datum(1.0)),
        coloured.mark_rule(opacity=0.4).encode(x=alt.X("low:Q", **axis), x2="high:Q"),
        coloured.mark_circle(size=60, opacity=1).encode(x=x),
        base.mark_text(dy=-9, fontWeight="bold").encode(x=x, text="label:N"),
    ]
    by = Category.of(multiple, "network")
    chart = panels(alt.layer(*marks).properties(width=260, height=200), by)
    parts = [table[table["network"] == name] for name in by.values]
    ends = [extent(part, ["label"], f"{name}, multiple", "", digits=2) for name, part in zip(by.values, parts, strict=True)]
    ranks = [
        f"{name} {part['value'].corr(part['rate'], method='spearman'):.2f}" for name, part in zip(by.values, parts, strict=True)
    ]
    title = "Setting of each class in the training, and its accuracy without it"
    subtitle = f"Rank correlation: {', '.join(ranks)}. Dashed: 1, the uniform setting."
    return described(chart, title, " ".join(ends), subtitle)


def _kinds(array: xr.DataArray) -> dict[str, str]:
    """Return whether each class is "hard", "easy" or "other", by the class coordinates of an array."""
    kinds = np.select([array["hard"].values, array["easy"].values], ["hard", "easy"], "other")
    return dict(zip(names_of(array), map(str, kinds), strict=True))


def sweeps(measured: Mapping[str, xr.DataArray], base: Mapping[str, xr.DataArray], axis: str) -> Any:
    """Return metrics over a setting as lines with bands, a panel for each title, with a network without it as a dashed line.

    measured: by the title of a panel, with the dimensions bound and one whose coordinate is read as numbers. base: by the same
    titles, with the dimension bound alone. axis: the title of the setting.
    """
    charts, parts = [], []
    for title, bounds in measured.items():
        (along,) = (str(dim) for dim in bounds.dims if dim != "bound")
        table = wide_bounds(bounds).rename(columns={along: "offset"})
        table = table.assign(at=table["offset"].astype(float)).sort_values("at")
        without = {str(end): float(base[title].sel(bound=end)) for end in ("low", "value", "high")}
        level = pd.DataFrame([{"offset": "none", **without}])
        places = sorted(table["at"])
        x = alt.X("at:Q", title=axis, scale=alt.Scale(domain=[places[0] - 0.05, places[-1] + 0.05]), axis=alt.Axis(values=places))
        y = alt.Y("low:Q", title="robust accuracy, %", scale=alt.Scale(zero=False))
        tips = tooltip(at=f"{axis}|.2~f", value="robust accuracy, %", low="", high="")
        dots, line = alt.Chart(table).encode(x=x, color=alt.value(CHOSEN)), alt.Chart(level).encode(color=alt.value(GREY))
        layers = [
            line.mark_rect(opacity=0.18).encode(y=y, y2="high:Q"),
            line.mark_rule(strokeDash=[5, 4], strokeWidth=2).encode(y="value:Q"),
            dots.mark_rule(strokeWidth=2).encode(y=y, y2="high:Q", tooltip=tips),
            dots.mark_line(strokeWidth=1.5, point=alt.OverlayMarkDef(size=60)).encode(y="value:Q", tooltip=tips),
        ]
        charts.append(alt.layer(*layers).properties(width=262, height=170, title=alt.Title(title, fontSize=12, anchor="start")))
        parts.append(f"{extent(table, ['at'], title)} Without: {without['value']:.0f} %.")
    chart = alt.concat(*charts, columns=2)
    return described(chart, "Robust accuracy over the offset of the rule", " ".join(parts), "Dashed: without the calibration.")


def rule_explorer(accuracy: xr.DataArray, offset: Mapping[str, float], live: bool | None = None) -> Any:
    """Return what the rule lambda + t gives each class, as a multiple of the uniform setting, with controls.

    accuracy: t, the training accuracy of each class under attack, 0 to 1, with the dimensions network, epoch and label,
    and the class coordinates `hard` and `easy`. offset: the lambda that each network was trained with. The reader chooses
    network, epoch and lambda. For `live` see `explorer.explorer`.
    """
    labels, networks = names_of(accuracy), names_of(accuracy, "network")
    table = frame(accuracy.drop_vars(["hard", "easy"]), "t")
    table = table.assign(trained=table["network"].map(offset), kind=table["label"].map(_kinds(accuracy)))
    epochs = [int(epoch) for epoch in accuracy.epoch.values]
    first = float(offset[networks[0]])
    choices = [
        Choice("chosen_network", networks, networks[0], "network"),
        Choice("chosen_lambda", [round(0.05 * step, 2) for step in range(21)], first, "lambda"),
        Choice("chosen_epoch", list(range(epochs[0], epochs[-1] + 1)), epochs[-1], "after epoch"),
    ]
    base = alt.Chart(table).transform_filter("datum.network == chosen_network && datum.epoch == chosen_epoch")
    base = base.transform_calculate(multiple="chosen_lambda + datum.t", used="datum.trained + datum.t")
    x = alt.X("label:N", sort=labels, title="class", axis=alt.Axis(labelAngle=label_angle(labels)))
    y = alt.Y("multiple:Q", title="multiple of the uniform setting", scale=alt.Scale(domain=[0, 2]))
    tips = tooltip("label", "kind", multiple="lambda + t|.2f", t="training accuracy t|.2f", used="in this training|.2f")
    marks = [
        base.mark_bar().encode(x=x, y=y, color=_KIND, tooltip=tips),
        base.mark_tick(thickness=3, width=34, color="#888").encode(x=x, y=alt.Y("used:Q"), tooltip=tips),
        base.mark_rule(strokeDash=[5, 4], color="#888", strokeWidth=1.5).encode(y=alt.Y("mean(multiple):Q")),
        alt.Chart(table.head(1)).mark_rule(strokeWidth=1.5, color="#888").encode(y=alt.datum(1.0)),
    ]
    last = table[(table["epoch"] == epochs[-1]) & (table["network"] == networks[0])].assign(value=lambda rows: first + rows["t"])
    text = extent(last, ["label"], f"{networks[0]} after the last epoch, lambda {first:g}", "", digits=2)
    subtitle = "Line: 1, the uniform setting. Dashed: mean of the classes. Ticks: what the training itself used next."
    chart = alt.layer(*marks).properties(width=580, height=220)
    return explorer(described(chart, "What the rule gives each class", text, subtitle), choices, live=live)
