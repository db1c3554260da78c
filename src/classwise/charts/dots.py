"""Dots, with and without intervals. Rates are in percent."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import describe, digits_of, extent
from classwise.charts.primitives import NONE, Choice, dots_with_intervals, fade, legend_selection, panels
from classwise.charts.style import CHOSEN, GREY, HIGHEST, PERCENT, Category, display_name, frame, short_name, tooltip, wide_bounds
from classwise.stats import intervals, metrics


def class_accuracy(count: xr.DataArray) -> Any:
    """Return the accuracy of each class as a dot with its Wilson interval: a panel for each defence, or a line for each class.

    count: with the dimensions attack, label and predicted, and for panels defence. A click in the legend picks attacks.
    """
    rates = metrics.accuracy(count)
    by = Category.from_array(rates, "defence") if "defence" in rates.dims else None
    classes = Category.from_array(rates, "label", "class" if by else None)
    table = frame(rates).merge(wide_bounds(intervals.wilson(count)))
    picked, hues = legend_selection(Category.from_array(rates, "attack"))
    chart = dots_with_intervals(table, classes, "accuracy, %", hues, vertical=by is not None, picked=picked)
    if by:
        chart = panels(chart.properties(width=270, height=200), by)
    else:
        chart = chart.properties(width=480, height=26 * len(classes.values))
    text = extent(table, ["label", "attack", *(["defence"] if by else [])], "Accuracy")
    return describe(chart.add_params(picked), "Accuracy of each class with its 95 % interval", text)


def metric_dots(measured: Mapping[str, xr.DataArray], row: str = "attack", colour: str = "defence", columns: int = 2) -> Any:
    """Return metrics with their intervals as dots, a panel for each metric by its name or title, a line for each `row`.

    Each array has the dimensions bound ("low", "value", "high"), `row` and `colour`. A click in the legend picks members of
    `colour`.
    """
    first = next(iter(measured.values()))
    rows, (picked, hues) = Category.from_array(first, row), legend_selection(Category.from_array(first, colour))
    names = [display_name(name) for name in measured]
    tables = [wide_bounds(bounds).assign(metric=display_name(name)) for name, bounds in measured.items()]
    table = pd.concat(tables, ignore_index=True)
    chart = dots_with_intervals(table, rows, "", hues, scale=alt.Scale(zero=False), picked=picked)
    chart = chart.properties(width=480 if columns == 1 else 250, height=(8 * len(hues.values) + 6) * len(rows.values))
    chart = panels(chart, Category("metric", names), columns).resolve_scale(x="independent").add_params(picked)
    rows_of = {name: table[table["metric"] == name] for name in names}
    parts = [extent(some, [row, colour], name, "", digits=digits_of(some["value"])) for name, some in rows_of.items()]
    return describe(chart, f"With 95 % intervals: {', '.join(name.partition(', ')[0] for name in names)}", " ".join(parts))


def seed_dots(accuracy: xr.DataArray) -> Any:
    """Return the accuracy of each class for each seed as a dot, with their mean as a line: dimensions seed, label, defence."""
    table = frame(accuracy)
    base = alt.Chart(table).encode(x=Category.from_array(accuracy, "label", "class").x, color=alt.value(HIGHEST))
    dots = base.mark_circle(size=45, opacity=0.7).encode(
        y=alt.Y("value:Q", title="robust accuracy, %", scale=PERCENT),
        tooltip=tooltip("label", "seed", value="robust accuracy, %"),
    )
    mean = base.mark_tick(thickness=2, width=14).encode(y="mean(value):Q")
    chart = panels(alt.layer(dots, mean).properties(width=270, height=200), Category.from_array(accuracy, "defence"))
    text = extent(table, ["label", "seed", "defence"], "Robust accuracy of single runs")
    return describe(chart, "Robust accuracy of each class for each seed; line: mean", text)


def _both_directions(share: xr.DataArray) -> pd.DataFrame:
    """Return a row for each pair of classes: `value` is how often the first is predicted as the second, `back` the reverse."""
    table = frame(share)
    pairs = table.merge(table.rename(columns={"label": "predicted", "predicted": "label", "value": "back"}))
    return pairs[pairs["label"] < pairs["predicted"]]


def confusion_symmetry(share: xr.DataArray) -> Any:
    """Return each pair of classes as a dot: "i misclassified as j" against "j as i"; a symmetric matrix lies on the line.

    share: in percent, with the dimensions defence, label and predicted. A click in the legend picks defences.
    """
    pairs = _both_directions(share).rename(columns={"label": "first", "predicted": "second"})
    top = float(max(pairs["value"].max(), pairs["back"].max(), 1.0))
    scale = alt.Scale(domain=[0, top], nice=True)
    titles = "first misclassified as second, %", "second misclassified as first, %"
    picked, hues = legend_selection(Category.from_array(share, "defence"))
    dots = alt.Chart(pairs).mark_circle(size=60)
    dots = dots.add_params(picked).encode(
        x=alt.X("value:Q", scale=scale, title=titles[0]),
        y=alt.Y("back:Q", scale=scale, title=titles[1]),
        color=hues.colour,
        opacity=fade(picked, 0.75),
        tooltip=tooltip("first", "second", "defence", value=titles[0], back=titles[1]),
    )
    line = alt.Chart(pd.DataFrame({"value": [0.0, top], "back": [0.0, top]})).mark_line(strokeDash=[4, 4], color="#888")
    chart = alt.layer(line.encode(x="value:Q", y="back:Q"), dots).properties(width=280, height=280)
    pairs["pair"] = pairs["first"] + " and " + pairs["second"]
    pairs["apart"] = (pairs["value"] - pairs["back"]).abs()
    text = extent(pairs, ["pair", "defence"], "Difference between the two directions of a pair", "points", "apart", 1)
    return describe(chart, "How often two classes are misclassified as each other", text)


def confused_pairs(mistakes: xr.DataArray) -> Any:
    """Return the pairs of classes that are most often confused with each other, both directions added up, as bars.

    mistakes: in percent, with the dimensions defence, label and predicted. A click in the legend picks defences.
    """
    both = _both_directions(mistakes).assign(sum=lambda rows: rows["value"] + rows["back"])
    both["pair"] = both["label"] + " and " + both["predicted"]
    order = both.groupby("pair")["sum"].max().sort_values(ascending=False).index[:12]
    picked, hues = legend_selection(Category.from_array(mistakes, "defence"))
    shown = both[both["pair"].isin(order)]
    bars = alt.Chart(shown).mark_bar().add_params(picked)
    bars = bars.encode(
        y=alt.Y("pair:N", sort=list(order), title=None),
        x=alt.X("sum:Q", title="misclassified as each other, both directions, % + %"),
        yOffset=alt.YOffset(hues.encoding, sort=hues.values),
        color=hues.colour,
        opacity=fade(picked),
        tooltip=tooltip("pair", "defence", value="first as second, %", back="second as first, %"),
    )
    text = extent(shown, ["pair", "defence"], f"The {len(order)} most confused pairs, both directions", "", "sum", 1)
    return describe(bars.properties(width=440, height=26 * len(order)), "Most confused pairs of classes", text)


def benchmark_ratios(bench: pd.DataFrame) -> Any:
    """Return how many times as long as ours each peer takes, with the line of equal time; `bench` as `benchmarks.load` has it.

    A click in the legend picks machines.
    """
    tips = tooltip("peer", "machine", title="measurement", ratio="times as long as ours|.2f", ours_s="|.3g", peer_s="|.3g")
    scale = alt.Scale(type="log", domainMin=min(0.5, bench["ratio"].min()))
    table = bench.assign(row=bench["title"] + ", " + bench["peer"])
    picked, machines = legend_selection(Category("machine", list(dict.fromkeys(bench["machine"]))))
    dots = alt.Chart(table).mark_point(size=80, filled=True).add_params(picked)
    dots = dots.encode(
        x=alt.X("ratio:Q", scale=scale, title="seconds of the other library over ours (log)"),
        y=alt.Y("row:N", sort=list(dict.fromkeys(table["row"])), title=None, axis=alt.Axis(labelLimit=260)),
        color=machines.colour,
        opacity=fade(picked),
        tooltip=[*tips, alt.Tooltip("created:N", title="measured")],
    )
    equal = alt.Chart(pd.DataFrame({"x": [1]})).mark_rule(strokeDash=[4, 3], color="#888").encode(x="x:Q")
    text = extent(table, ["row", "machine"], "Seconds of the other library over ours", "", "ratio", 2)
    # A phone writes the names of the rows in three lines.
    chart = alt.layer(equal, dots).properties(width=400, height=alt.Step(40))
    return describe(chart, "Time of other libraries, compared with ours", text)


# The plot of `metric_scatter` and the height and mean width of a letter, in pixels.
_WIDTH, _HEIGHT, _LINE, _LETTER = 580, 420, 13, 6.2
# Where a name may stand, by alignment and offset: first the corners of its dot, between its two intervals.
_PLACES = (("left", 6, -6), ("right", -6, -6), ("left", 6, 14), ("right", -6, 14), ("center", 0, -10), ("center", 0, 18))
# The share of its width that a name keeps off others on either side: on a phone, names that touch are hidden.
_SPARE = 0.25
# A defence with less than this share of the highest value is named in the subtitle instead of drawn.
_LEAST = 0.35
_HIGHLIGHTED = "highlighted_defence"


def metric_scatter(
    overall: xr.DataArray, worst: xr.DataArray, cost: xr.DataArray | None = None, named: Sequence[str] = ()
) -> Any:
    """Return the accuracy of the worst class against that of all images, a dot with two intervals for each defence.

    overall, worst: with the dimensions bound ("low", "value", "high") and defence. cost: seconds of a training of each, drawn as
    the area of its dot. Blue are those that no other exceeds in both; a control highlights one. Names that would cover others are
    left to the tooltip, but for those of `named`.
    """
    table = wide_bounds(overall).merge(wide_bounds(worst), on="defence", suffixes=("", "2"))
    (one, other), axes = table[["value", "value2"]].to_numpy().T, [display_name("overall"), display_name("worst")]
    worse = (one[:, None] <= one) & (other[:, None] <= other) & ((one[:, None] < one) | (other[:, None] < other))
    table["cost"] = 1.0 if cost is None else table["defence"].map(frame(cost).set_index("defence")["value"]).fillna(1.0)
    table["front"] = np.where(worse.any(1), "other", "best")
    table["text"] = table["defence"].map(short_name)
    kept = table["value"] >= _LEAST * table["value"].max()
    drawn, domains = _with_names(table[kept].reset_index(drop=True), named)
    scales = [alt.Scale(domain=domain, nice=False, zero=False) for domain in domains]
    first = {"value": axes[0], "low": "all images, from", "high": "all images, to"}
    second = {"value2": axes[1], "low2": "worst class, from", "high2": "worst class, to"}
    tips = tooltip("defence", **first, **second, cost="training, seconds|.0f")
    base = alt.Chart(drawn).transform_calculate(kind=f"datum.defence == {_HIGHLIGHTED} ? 'chosen' : datum.front")
    base = base.encode(tooltip=tips if cost is not None else tips[:-1])
    hues = alt.Scale(domain=["chosen", "best", "other"], range=[CHOSEN, HIGHEST, GREY])
    hued = base.encode(color=alt.Color("kind:N", scale=hues, legend=None))
    x, y = alt.X("value:Q", title=axes[0], scale=scales[0]), alt.Y("value2:Q", title=axes[1], scale=scales[1])
    rules = hued.mark_rule(strokeWidth=1.2)
    rules = rules.encode(opacity=alt.condition("datum.kind == 'other'", alt.value(0.25), alt.value(0.8)))
    place: Any = {name: alt.expr(f"datum.{name}") for name in ("align", "dx", "dy")}
    words = base.transform_filter("datum.align").mark_text(baseline="alphabetic", **place)
    marks = [
        rules.encode(x=alt.X("low:Q", title=axes[0], scale=scales[0]), x2="high:Q", y=y),
        rules.encode(x=x, y=alt.Y("low2:Q", title=axes[1], scale=scales[1]), y2="high2:Q"),
        hued.mark_circle(opacity=0.9).encode(x=x, y=y, size=alt.value(70) if cost is None else _area(float(cost.max()))),
        words.encode(x=x, y=y, text="text:N"),
    ]
    choice = Choice(_HIGHLIGHTED, [NONE, *sorted(drawn["defence"])], NONE, "highlighted defence").param(bound=True)
    chart = alt.layer(*marks).add_params(choice).properties(width=_WIDTH, height=_HEIGHT)
    left = ", ".join(f"{row['text']} ({row['value']:.0f} and {row['value2']:.0f})" for _, row in table[~kept].iterrows())
    below = f"Lines: 95 % intervals. Blue: no other is better in both.{' Area: seconds of a training.' * (cost is not None)}"
    below += f" Not drawn: {left}." * bool(left)
    best = ", ".join(table[table["front"] == "best"]["text"])
    ends = extent(table, ["defence"], axes[0], ""), extent(table, ["defence"], axes[1], "", "value2")
    text = f"{' '.join(ends)} Exceeded by no other in both: {best}."
    return describe(chart, "Worst class against all images", text, below)


def _with_names(table: pd.DataFrame, named: Sequence[str]) -> tuple[pd.DataFrame, list[tuple[float, float]]]:
    """Add the columns align, dx and dy of the place of each name, and return the ends of both axes, too.

    align: "" where a name would cover a dot or another name. named: those that are placed first, and if need be on a dot.
    """
    ends = [(float(table[f"low{end}"].min()), float(table[f"high{end}"].max())) for end in ("", "2")]
    (left, right), (low, high) = domains = [(a - 0.04 * (b - a), b + 0.04 * (b - a)) for a, b in ends]
    x = (table["value"] - left) / (right - left) * _WIDTH
    y = (high - table["value2"]) / (high - low) * _HEIGHT
    taken = [(px - 6, py - 6, px + 6, py + 6) for px, py in zip(x, y, strict=True)]
    places = dict.fromkeys(table.index, ("", 0, 0))
    first = table.assign(free=~table["defence"].isin(named), behind=table["front"] != "best", down=-table["value2"])
    for row in first.sort_values(["free", "behind", "down"], kind="stable").index:
        wide = _LETTER * len(table["text"][row])
        for align, dx, dy in _PLACES:
            start, foot = x[row] + dx - {"left": 0.0, "center": wide / 2, "right": wide}[align], y[row] + dy + 2
            end, top = start + wide, foot - _LINE
            covers = any(start < other[2] and other[0] < end and top < other[3] and other[1] < foot for other in taken)
            if not covers and start >= 0 and end <= _WIDTH and top >= 0 and foot <= _HEIGHT:
                taken.append((start - _SPARE * wide, top, end + _SPARE * wide, foot))
                places[row] = (align, dx, dy)
                break
        else:
            places[row] = _PLACES[0] if table["defence"][row] in named else places[row]
    columns = dict(zip(("align", "dx", "dy"), map(list, zip(*places.values(), strict=True)), strict=True))
    return table.assign(**columns), domains


def _area(most: float) -> alt.Size:
    """Return the area of a dot by seconds, of which the legend shows three round numbers up to the largest."""
    unit = 10.0 ** np.floor(np.log10(max(most, 1e-9)))
    top = float(np.floor(most / unit) * unit)
    legend = alt.Legend(values=[top / 4, top / 2, top], format="~s", symbolFillColor=GREY, symbolStrokeWidth=0)
    return alt.Size("cost:Q", title="training, seconds", scale=alt.Scale(range=[20, 220], domainMin=0), legend=legend)
