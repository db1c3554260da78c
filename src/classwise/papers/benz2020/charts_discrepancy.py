"""Charts of Benz et al. 2020, section 1: classes less their mean, gaps next to those by chance, networks at one accuracy."""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.primitives import dots_with_intervals, faded, from_legend, lines_with_bands, panels
from classwise.charts.style import GREY, Category, names_of, panel_title, tooltip, wide_bounds

# Between two rows, in pixels: a phone writes their names in two lines.
_ROW = 31
_LEFT, _RIGHT = 220, 170
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
    return described(chart, "Accuracy of each class relative to the mean", text)


def gaps(table: pd.DataFrame) -> Any:
    """Return the gap between best and worst class, with that of equal classes in grey, and the share that the class explains.

    table: of `discrepancy.table`. A row for each network and attack, two panels for each dataset.
    """
    picked, hues = from_legend(Category("defence", list(dict.fromkeys(table["defence"]))))
    both = []
    for name, rows in table.groupby("dataset", sort=False):
        # A network that is right nowhere keeps its row, so that the rows of both panels are the same.
        share = rows.assign(**{end: rows[column] for end, column in _EXPLAINED.items()})
        marks = [_equal_classes(rows), *_dots(rows, "gap, points", hues, picked)]
        high = _ROW * len(rows)
        both.append(alt.layer(*marks).properties(width=_LEFT, height=high, title=panel_title(f"{name}; grey: equal classes")))
        explained = alt.layer(*_dots(share, "share explained, %", hues, picked))
        both.append(explained.properties(width=_RIGHT, height=high, title=panel_title("share explained by the class")))
    chart = alt.concat(both[0].add_params(picked), *both[1:], columns=2)
    parts = [
        extent(table, ["dataset", "case"], "Gap", "points"),
        extent(table, ["dataset", "case"], "Gap of equal classes by chance", "points", "equal classes"),
        extent(table, ["dataset", "case"], "Share explained by the class", "%", "explained", 1),
    ]
    return described(chart, "Gap between the classes, and the share of the variance that they explain", " ".join(parts))


def _equal_classes(rows: pd.DataFrame) -> Any:
    """Return the range of the gap of equal classes as a grey bar in each row."""
    tips = tooltip("case", **{"equal classes": "gap of equal classes, points", "accuracy": "accuracy, %"})
    bars = alt.Chart(rows).mark_bar(color=GREY, opacity=0.35, height=16)
    x = alt.X("equal classes, low:Q", title="gap, points", scale=alt.Scale(domainMin=0, nice=True))
    return bars.encode(y=_rows_of(rows), x=x, x2="equal classes, high:Q", tooltip=tips)


def _dots(rows: pd.DataFrame, title: str, hues: Category, picked: alt.Parameter) -> list[alt.Chart]:
    """Return the columns value, low and high as a dot with its interval in each row."""
    base = alt.Chart(rows).encode(
        y=_rows_of(rows), color=hues.colour, opacity=faded(picked), tooltip=tooltip("case", value=title, low="", high="")
    )
    line = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=title, scale=alt.Scale(nice=True)), x2="high:Q")
    return [line, base.mark_point(filled=True, size=55, opacity=1).encode(x="value:Q")]


def _rows_of(rows: pd.DataFrame) -> alt.Y:
    names, axis = list(rows["case"]), alt.Axis(labelPadding=8, ticks=False, grid=True)
    return alt.Y("case:N", sort=names, scale=alt.Scale(domain=names), title=None, axis=axis)


def over_accuracy(share: xr.DataArray, accuracy: xr.DataArray, at_equal: float = np.nan) -> Any:
    """Return the share of the variance that the class explains over the accuracy of a network, from clean images to the radius.

    share: dimensions defence, eval_eps and bound. accuracy: of all images, dimensions defence and eval_eps. At the same place on
    the horizontal axis networks are as inaccurate; numbers are radii. at_equal: the share of the first network where it is as
    inaccurate as the last one at the full radius (`discrepancy.explained_at_equal_accuracy`), an open dot.
    """
    overall = accuracy.rename("accuracy").to_dataframe()["accuracy"].reset_index()
    table = wide_bounds(share).merge(overall, on=["defence", "eval_eps"]).sort_values("accuracy", ascending=False)
    picked, hues = from_legend(Category("defence", names_of(share, "defence")))
    x = alt.X("accuracy:Q", title="accuracy of all images, %", scale=alt.Scale(domain=[0, 100]))
    tips = tooltip("defence", "eval_eps", value="share explained, %", low="", high="", accuracy="accuracy, %")
    lines = lines_with_bands(table, x, "share explained by the class, %", hues.colour, tips, picked=picked)
    words = (
        alt.Chart(table[_far_apart(table)]).mark_text(dy=-13).encode(x=x, y="value:Q", text="eval_eps:N", opacity=faded(picked))
    )
    text = extent(table, ["defence", "eval_eps"], "Share explained by the class", digits=1)
    at_last = table["eval_eps"] == names_of(share, "eval_eps")[-1]
    trained = table[at_last & (table["defence"] == names_of(share, "defence")[-1])]
    equal = alt.Chart(trained).mark_rule(strokeDash=[4, 3], color=GREY, aria=False).encode(x=x)
    of = names_of(share, "defence")[0]
    dots = [_open_dot(trained.assign(defence=of, value=at_equal), x, hues)] if np.isfinite(at_equal) else []
    chart = alt.layer(equal, lines, words, *dots).properties(width=560, height=240).add_params(picked)
    below = f"Numbers: radius of the attack. Dashed: accuracy of {names_of(share, 'defence')[-1]} at the full radius."
    below += "" if np.isnan(at_equal) else f" Open dot: {of} there, its predictions interpolated."
    return described(chart, "The share that the class explains, over the accuracy of the network", text, below)


def _open_dot(table: pd.DataFrame, x: alt.X, hues: Category) -> Any:
    tips = tooltip("defence", value="share explained at this accuracy, %", accuracy="accuracy, %")
    dot = alt.Chart(table[["defence", "accuracy", "value"]]).mark_point(size=90, strokeWidth=2, opacity=1)
    return dot.encode(x=x, y="value:Q", color=hues.colour, tooltip=tips)


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
