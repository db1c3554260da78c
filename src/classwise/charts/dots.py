"""Dots, with and without intervals. Rates are in percent."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.primitives import dots_with_intervals, faded, from_legend, panels
from classwise.charts.style import HIGHEST, PERCENT, Category, frame, label_angle, names_of, titled, tooltip, wide_bounds


def _with_interval(accuracy: xr.DataArray, interval: xr.DataArray) -> pd.DataFrame:
    return frame(accuracy).merge(wide_bounds(interval))


def class_accuracy(accuracy: xr.DataArray, interval: xr.DataArray, colour: str = "attack", column: str = "defence") -> Any:
    """Return the accuracy of each class as a dot with its interval; `interval` has the further dimension bound.

    A click in the legend picks members of `colour`.
    """
    classes, (picked, hues) = Category.of(accuracy, "label", "class"), from_legend(Category.of(accuracy, colour))
    table = _with_interval(accuracy, interval)
    chart = dots_with_intervals(table, classes, "accuracy, %", hues, vertical=True, picked=picked)
    by = Category.of(accuracy, column)
    # Three panels stand in one row.
    chart = panels(chart.properties(width=180 if len(by.values) == 3 else 270, height=200), by).add_params(picked)
    return described(chart, "Accuracy of each class with its 95 % interval", extent(table, ["label", colour, column], "Accuracy"))


def class_rows(accuracy: xr.DataArray, interval: xr.DataArray, colour: str = "attack") -> Any:
    """Return the accuracy of each class as a dot with its interval, a line for each class in the order given.

    `interval` has the further dimension bound. A click in the legend picks members of `colour`.
    """
    classes, (picked, hues) = Category.of(accuracy, "label"), from_legend(Category.of(accuracy, colour))
    table = _with_interval(accuracy, interval)
    chart = dots_with_intervals(table, classes, "accuracy, %", hues, picked=picked)
    chart = chart.add_params(picked).properties(width=480, height=26 * len(classes.values))
    return described(chart, "Accuracy of each class with its 95 % interval", extent(table, ["label", colour], "Accuracy"))


def metric_dots(
    measured: Mapping[str, xr.DataArray], row: str = "attack", colour: str = "defence", *, columns: int = 2, step: int = 0
) -> Any:
    """Return metrics with their intervals as dots, a panel for each metric by its name or title, a line for each `row`.

    Each array has the dimensions bound ("low", "value", "high"), `row` and `colour`. step: the least height of a row in
    pixels; 31 holds names that a phone writes in two lines. A click in the legend picks members of `colour`.
    """
    first = next(iter(measured.values()))
    rows, (picked, hues) = Category.of(first, row), from_legend(Category.of(first, colour))
    names = [titled(name) for name in measured]
    table = pd.concat([wide_bounds(bounds).assign(metric=titled(name)) for name, bounds in measured.items()], ignore_index=True)
    chart = dots_with_intervals(table, rows, "", hues, scale=alt.Scale(), picked=picked)
    wide = {1: 480, 2: 250}.get(columns, 160)
    chart = chart.properties(width=wide, height=max(8 * len(hues.values) + 6, step) * len(rows.values))
    chart = panels(chart, Category("metric", names), columns).resolve_scale(x="independent").add_params(picked)
    parts = [extent(table[table["metric"] == name], [row, colour], name, "") for name in names]
    return described(chart, f"With 95 % intervals: {', '.join(name.partition(', ')[0] for name in names)}", " ".join(parts))


def seed_dots(accuracy: xr.DataArray, column: str = "defence") -> Any:
    """Return the accuracy of each class for each seed as a dot, with their mean as a line: dimensions seed, label, `column`."""
    labels, table = names_of(accuracy), frame(accuracy)
    x = alt.X("label:N", sort=labels, title="class", axis=alt.Axis(labelAngle=label_angle(labels)))
    base = alt.Chart(table).encode(x=x, color=alt.value(HIGHEST))
    dots = base.mark_circle(size=45, opacity=0.7).encode(
        y=alt.Y("value:Q", title="robust accuracy, %", scale=PERCENT),
        tooltip=tooltip("label", "seed", value="robust accuracy, %"),
    )
    mean = base.mark_tick(thickness=2, width=14).encode(y="mean(value):Q")
    chart = panels(alt.layer(dots, mean).properties(width=270, height=200), Category.of(accuracy, column))
    text = extent(table, ["label", "seed", column], "Robust accuracy of single runs")
    return described(chart, "Robust accuracy of each class for each seed; line: mean", text)


def _both_directions(share: xr.DataArray) -> pd.DataFrame:
    """Return a row for each pair of classes: `value` is how often the first is predicted as the second, `back` the reverse."""
    table = frame(share)
    pairs = table.merge(table.rename(columns={"label": "predicted", "predicted": "label", "value": "back"}))
    return pairs[pairs["label"] < pairs["predicted"]]


def confusion_symmetry(share: xr.DataArray, colour: str = "defence") -> Any:
    """Return each pair of classes as a dot: "i misclassified as j" against "j as i"; a symmetric matrix lies on the line.

    A click in the legend picks members of `colour`.
    """
    pairs = _both_directions(share).rename(columns={"label": "first", "predicted": "second"})
    top = float(max(pairs["value"].max(), pairs["back"].max(), 1.0))
    scale = alt.Scale(domain=[0, top], nice=True)
    titles = "first misclassified as second, %", "second misclassified as first, %"
    picked, hues = from_legend(Category.of(share, colour))
    dots = alt.Chart(pairs).mark_circle(size=60)
    dots = dots.add_params(picked).encode(
        x=alt.X("value:Q", scale=scale, title=titles[0]),
        y=alt.Y("back:Q", scale=scale, title=titles[1]),
        color=hues.colour,
        opacity=faded(picked, 0.75),
        tooltip=tooltip("first", "second", colour, value=titles[0], back=titles[1]),
    )
    line = alt.Chart(pd.DataFrame({"value": [0.0, top], "back": [0.0, top]})).mark_line(strokeDash=[4, 4], color="#888")
    chart = alt.layer(line.encode(x="value:Q", y="back:Q"), dots).properties(width=280, height=280)
    pairs["pair"] = pairs["first"] + " and " + pairs["second"]
    pairs["apart"] = (pairs["value"] - pairs["back"]).abs()
    text = extent(pairs, ["pair", colour], "Difference between the two directions of a pair", "points", "apart", 1)
    return described(chart, "How often two classes are misclassified as each other", text)


def confused_pairs(mistakes: xr.DataArray, most: int = 12, colour: str = "defence") -> Any:
    """Return the pairs of classes that are most often confused with each other, both directions added up, as bars.

    A click in the legend picks members of `colour`.
    """
    both = _both_directions(mistakes).assign(sum=lambda rows: rows["value"] + rows["back"])
    both["pair"] = both["label"] + " and " + both["predicted"]
    order = both.groupby("pair")["sum"].max().sort_values(ascending=False).index[:most]
    picked, hues = from_legend(Category.of(mistakes, colour))
    bars = alt.Chart(both[both["pair"].isin(order)]).mark_bar().add_params(picked)
    bars = bars.encode(
        y=alt.Y("pair:N", sort=list(order), title=None),
        x=alt.X("sum:Q", title="misclassified as each other, both directions, % + %"),
        yOffset=alt.YOffset(hues.encoded, sort=hues.values),
        color=hues.colour,
        opacity=faded(picked),
        tooltip=tooltip("pair", colour, value="first as second, %", back="second as first, %"),
    )
    shown = both[both["pair"].isin(order)]
    text = extent(shown, ["pair", colour], f"The {len(order)} most confused pairs, both directions", "", "sum", 1)
    return described(bars.properties(width=440, height=26 * len(order)), "Most confused pairs of classes", text)


def benchmark_ratios(bench: pd.DataFrame) -> Any:
    """Return how many times as long as ours each peer takes, with the line of equal time; `bench` as `benchmarks.load` has it.

    A click in the legend picks machines.
    """
    tips = tooltip("peer", "machine", title="measurement", ratio="times as long as ours|.2f", ours_s="|.3g", peer_s="|.3g")
    scale = alt.Scale(type="log", domainMin=min(0.5, bench["ratio"].min()))
    table = bench.assign(row=bench["title"] + ", " + bench["peer"])
    picked, machines = from_legend(Category("machine", list(dict.fromkeys(bench["machine"]))))
    dots = alt.Chart(table).mark_point(size=80, filled=True).add_params(picked)
    dots = dots.encode(
        x=alt.X("ratio:Q", scale=scale, title="seconds of the other library over ours (log)"),
        y=alt.Y("row:N", sort=list(dict.fromkeys(table["row"])), title=None, axis=alt.Axis(labelLimit=260)),
        color=machines.colour,
        opacity=faded(picked),
        tooltip=[*tips, alt.Tooltip("created:N", title="measured")],
    )
    equal = alt.Chart(pd.DataFrame({"x": [1]})).mark_rule(strokeDash=[4, 3], color="#888").encode(x="x:Q")
    text = extent(table, ["row", "machine"], "Seconds of the other library over ours", "", "ratio", 2)
    # A phone writes the names of the rows in three lines.
    chart = alt.layer(equal, dots).properties(width=400, height=alt.Step(40))
    return described(chart, "Time of other libraries, compared with ours", text)
