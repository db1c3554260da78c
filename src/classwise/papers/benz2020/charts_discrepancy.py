"""Charts of Benz et al. 2020, section 1: classes less their mean, gaps next to those by chance, networks at one accuracy."""

from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.primitives import dots_with_intervals, faded, from_legend, lines_with_bands, panels
from classwise.charts.style import GREY, Category, names_of, panel_title, tooltip, wide_bounds

# Between two rows, in pixels: a phone writes their names in two lines.
_ROW = 31
# Labels of points stand so far apart, in points of accuracy.
_APART = 8.0
_EXPLAINED = {"value": "explained", "low": "explained, low", "high": "explained, high"}


def centred(bounds: xr.DataArray) -> Any:
    """Return the accuracy of each class less the mean of the classes, with intervals, a panel for each network.

    bounds: in points, dimensions defence, attack, label and bound. A click in the legend picks clean or attacked images.
    """
    classes, (picked, hues) = Category.of(bounds, "label", "class"), from_legend(Category.of(bounds, "attack"))
    table, axis = wide_bounds(bounds), "accuracy less the mean, points"
    dots = dots_with_intervals(table, classes, axis, hues, vertical=True, scale=alt.Scale(nice=True), picked=picked)
    zero = alt.Chart(table).mark_rule(color=GREY, aria=False).encode(y=alt.datum(0))
    chart = alt.layer(zero, dots, data=table).properties(width=270, height=200)
    chart = panels(chart, Category.of(bounds, "defence")).add_params(picked)
    text = extent(table, ["label", "attack", "defence"], "Accuracy of a class less the mean", "points", digits=1)
    return described(chart, "Classes with the mean taken off", text)


def gaps(table: pd.DataFrame) -> Any:
    """Return the gap between best and worst class, with that of equal classes in grey, and the share that the class explains.

    table: of `discrepancy.table`. A row for each network and attack, a group of rows for each dataset.
    """
    names = list(dict.fromkeys(table["dataset"]))
    rows = table.assign(line=table["case"] if len(names) == 1 else table["dataset"] + ", " + table["case"]).drop(columns="case")
    by = Category("line", list(dict.fromkeys(rows["line"])))
    picked, hues = from_legend(Category("defence", list(dict.fromkeys(rows["defence"]))))
    y = alt.Y("line:N", sort=list(by.values), title=None)
    equal = alt.Chart(rows).mark_bar(color=GREY, opacity=0.35, height=14)
    equal = equal.encode(
        y=y,
        x=alt.X("equal classes, low:Q", title="gap, points"),
        x2="equal classes, high:Q",
        tooltip=tooltip("line", **{"equal classes": "equal classes, points", "accuracy": "accuracy, %"}),
    )
    scale = alt.Scale(domainMin=0, nice=True)
    gap = alt.layer(equal, dots_with_intervals(rows, by, "gap, points", hues, scale=scale, picked=picked))
    columns = {end: rows[name] for end, name in _EXPLAINED.items()}
    share = rows.assign(**columns).dropna(subset=["value"])
    title = "share explained, %"
    right = dots_with_intervals(share, by, title, hues, scale=alt.Scale(nice=True), picked=picked)
    right = right.encode(y=alt.Y("line:N", sort=list(by.values), title=None, axis=alt.Axis(labels=False, ticks=False, grid=True)))
    high = _ROW * len(by.values)
    left = gap.properties(width=210, height=high, title=panel_title("best less worst class; grey: equal classes"))
    chart = alt.hconcat(left.add_params(picked), right.properties(width=170, height=high, title=panel_title("by the class")))
    parts = [extent(rows, ["line"], "Gap", "points", digits=0), extent(share, ["line"], "Share explained by the class", digits=1)]
    parts.append(extent(rows, ["line"], "Gap of equal classes by chance", "points", "equal classes", 0))
    return described(chart, "Gap between the classes, and the share of the variance that they explain", " ".join(parts))


def over_accuracy(share: xr.DataArray, accuracy: xr.DataArray) -> Any:
    """Return the share of the variance that the class explains over the accuracy of a network, from clean images to the radius.

    share: dimensions defence, eval_eps and bound. accuracy: of all images, dimensions defence and eval_eps. At the same place on
    the horizontal axis networks are as inaccurate; numbers are radii.
    """
    overall = accuracy.rename("accuracy").to_dataframe()["accuracy"].reset_index()
    table = wide_bounds(share).merge(overall, on=["defence", "eval_eps"]).sort_values(["defence", "accuracy"], ascending=False)
    picked, hues = from_legend(Category("defence", names_of(share, "defence")))
    x = alt.X("accuracy:Q", title="accuracy of all images, %", scale=alt.Scale(domain=[0, 100]))
    tips = tooltip("defence", "eval_eps", value="share explained, %", low="", high="", accuracy="accuracy, %")
    lines = lines_with_bands(table, x, "share explained by the class, %", hues.colour, tips, picked=picked)
    words = (
        alt.Chart(table[_far_apart(table)]).mark_text(dy=-13).encode(x=x, y="value:Q", text="eval_eps:N", opacity=faded(picked))
    )
    text = extent(table, ["defence", "eval_eps"], "Share explained by the class", digits=1)
    chart = alt.layer(lines, words).properties(width=560, height=240).add_params(picked)
    return described(
        chart, "The share that the class explains, over the accuracy of the network", text, "Numbers: radius of the attack."
    )


def _far_apart(table: pd.DataFrame) -> list[bool]:
    """Return which points have a label: those that stand far enough from the last label of the same network."""
    last: dict[str, float] = {}
    kept = []
    for name, place in zip(table["defence"], table["accuracy"], strict=True):
        far = abs(place - last.get(name, float("inf"))) >= _APART
        kept.append(far)
        if far:
            last[name] = place
    return kept
