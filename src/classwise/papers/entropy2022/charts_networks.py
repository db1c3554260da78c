"""Charts of Entropy 2022, Tables 1 to 4: gains with their intervals, the trade-off over lambda, and an explorer of lambda."""

import re
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.explorer import Choice, explorer
from classwise.charts.primitives import faded, from_legend, panels
from classwise.charts.style import CHOSEN, GREY, HIGHEST, LOWEST, PERCENT, Category, label_angle, names_of, tooltip, wide_bounds
from classwise.core.errors import NotRecorded
from classwise.papers.entropy2022.networks import NETWORKS
from classwise.stats import intervals, metrics

# What joins networks in the chart of the trade-off, with its colour.
_METHODS = {"trades": "TRADES over λ", "me-trades": "ME-TRADES over λ"}
_COLOURS = {"TRADES over λ": HIGHEST, "ME-TRADES over λ": LOWEST, "other": GREY}
_LEVELS: Any = alt.Scale(zero=False)


def differences(rows: pd.DataFrame, title: str, columns: int = 2) -> Any:
    """Return gains (`gains.compared`, `gains.falls`) as dots with intervals and a line at zero, a panel for each `panel`."""
    sources, names = (list(dict.fromkeys(rows[name])) for name in ("source", "panel"))
    picked, hues = from_legend(Category("source", sources))
    order = list(dict.fromkeys(rows["comparison"]))
    base = alt.Chart(rows).encode(
        y=alt.Y("comparison:N", sort=order, title=None, axis=alt.Axis(labelLimit=260, labelPadding=8, ticks=False, grid=True)),
        yOffset=alt.YOffset("source:N", sort=sources, scale=alt.Scale(paddingOuter=0.4)),
        color=hues.colour,
        opacity=faded(picked),
        tooltip=tooltip("comparison", "panel", "source", value="difference, points", low="", high=""),
    )
    zero = alt.Chart(rows).mark_rule(strokeDash=[4, 3], color="#888", aria=False).encode(x=alt.datum(0))
    lines = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title="points"), x2="high:Q")
    dots = base.mark_point(filled=True, size=50, opacity=1).encode(x="value:Q")
    height, width = max(9 * len(sources) + 8, 31) * len(order), {1: 400, 2: 190}[columns]
    chart = panels(alt.layer(zero, lines, dots).properties(width=width, height=height), Category("panel", names), columns)
    chart = chart.resolve_scale(x="independent").add_params(picked)
    texts = [extent(rows[rows["panel"] == name], ["comparison", "source"], name, "points", digits=1) for name in names]
    return described(chart, title, " ".join(texts))


def _lambda(name: str) -> float:
    """Return the lambda in the name of a network, 0 where it has none."""
    match = re.search(r"λ=(\d+)", name)
    return float(match.group(1)) if match else 0.0


def trade_off(clean: xr.DataArray, robust: xr.DataArray) -> Any:
    """Return robust against clean accuracy, a dot with two intervals for each network, and a path over lambda for each method.

    clean, robust: in percent, with the dimensions bound ("low", "value", "high") and defence, whose names are in NETWORKS.
    NotRecorded where no method has two values of lambda.
    """
    table = wide_bounds(clean).merge(wide_bounds(robust), on="defence", suffixes=("", "2"))
    table["place"] = table["defence"].map(_lambda)
    table["method"] = table["defence"].map(lambda name: _METHODS.get(NETWORKS[name].defence, "other"))
    joined = table["method"] != "other"
    if table.loc[joined, "method"].is_unique:
        raise NotRecorded("neither TRADES nor ME-TRADES is recorded with several values of λ")
    table["name"] = table["defence"].where(~joined, table["place"].map("{:g}".format))
    # Names of single networks stand on the outer side of their dots.
    table["left"] = ~joined & (table["value"] <= table.loc[~joined, "value"].median())
    used = [name for name in _COLOURS if name in set(table["method"])]
    legend = alt.Legend(orient="top", title=None, labelLimit=300, values=[name for name in used if name != "other"])
    colour = alt.Color("method:N", scale=alt.Scale(domain=used, range=[_COLOURS[name] for name in used]), legend=legend)
    axes = "clean accuracy, %", "robust accuracy, %"
    plain = alt.Chart(table).encode(tooltip=tooltip("defence", value=axes[0], low="", high="", value2=axes[1], low2="", high2=""))
    base = plain.encode(color=colour)
    x, y = (alt.X("value:Q", title=axes[0], scale=_LEVELS), alt.Y("value2:Q", title=axes[1], scale=_LEVELS))
    ends = [
        base.mark_rule(strokeWidth=1.2, opacity=0.3).encode(x=alt.X("low:Q", title=axes[0], scale=_LEVELS), x2="high:Q", y=y),
        base.mark_rule(strokeWidth=1.2, opacity=0.3).encode(y=alt.Y("low2:Q", title=axes[1], scale=_LEVELS), y2="high2:Q", x=x),
    ]
    path = base.transform_filter("datum.place > 0 && datum.method != 'other'").mark_line(strokeWidth=1.5)
    dots = base.mark_circle(size=70, opacity=1).encode(x=x, y=y)
    words = [
        plain.transform_filter(f"{'' if left else '!'}datum.left")
        .mark_text(align="right" if left else "left", dx=-7 if left else 7, dy=-7)
        .encode(x=x, y=y, text="name:N")
        for left in (True, False)
    ]
    chart = alt.layer(*ends, path.encode(x=x, y=y, order="place:Q"), dots, *words).properties(width=580, height=330)
    text = f"{extent(table, ['defence'], 'Clean accuracy')} {extent(table, ['defence'], 'Robust accuracy', column='value2')}"
    return described(chart, "Robust against clean accuracy, with 95 % intervals", text, "Numbers along the paths: λ.")


def lambda_explorer(clean: xr.DataArray, robust: xr.DataArray, live: bool | None = None) -> Any:
    """Return the explorer of lambda with and without maximum entropy: the classes of the chosen network, and the others in grey.

    clean, robust: counts along defence (names of NETWORKS), label and predicted. The reader chooses lambda, the method, and clean
    or attacked images. NotRecorded without any network of TRADES or ME-TRADES. For `live` see `explorer.explorer`.
    """
    names = [name for name in names_of(clean, "defence") if NETWORKS[name].defence in _METHODS]
    if not names:
        raise NotRecorded("no network of TRADES or ME-TRADES is recorded")
    start = names[-1]
    labels = names_of(clean)
    tables = []
    for images, count in (("clean", clean), ("attacked", robust)):
        ends = intervals.wilson(count.sel(defence=names))
        both = xr.concat([ends, metrics.accuracy(count.sel(defence=names)).expand_dims(bound=["value"])], "bound")
        tables.append(wide_bounds(both).assign(images_are=images))
    table = pd.concat(tables, ignore_index=True)
    table["place"] = table["defence"].map(lambda name: f"{_lambda(name):g}")
    table["method"] = table["defence"].map(lambda name: NETWORKS[name].defence)
    values = sorted(set(table["place"]), key=float)
    choices = [
        Choice("chosen_lambda", values, f"{_lambda(start):g}", "λ"),
        Choice("chosen_method", [name for name in _METHODS if name in set(table["method"])], NETWORKS[start].defence, "method"),
        Choice("chosen_images", ["clean", "attacked"], "attacked", "images"),
    ]
    shown = alt.Chart(table).transform_filter("datum.images_are == chosen_images")
    x = alt.X(
        "label:N", sort=labels, scale=alt.Scale(domain=labels), title="class", axis=alt.Axis(labelAngle=label_angle(labels))
    )
    y = alt.Y("value:Q", title="accuracy, %", scale=PERCENT)
    tips = tooltip("defence", "label", value="accuracy, %", low="", high="")
    others = shown.mark_tick(thickness=2, width=22, opacity=0.6, color=GREY).encode(x=x, y=y, tooltip=tips)
    now = shown.transform_filter("datum.place == chosen_lambda && datum.method == chosen_method")
    dots = now.mark_circle(size=80, opacity=1, color=CHOSEN).encode(x=x, y=y, tooltip=tips)
    rules = now.mark_rule(strokeWidth=2, color=CHOSEN).encode(
        x=x, y=alt.Y("low:Q", title="accuracy, %", scale=PERCENT), y2="high:Q"
    )
    mean = now.transform_aggregate(value="mean(value)").mark_rule(strokeDash=[4, 3], color=CHOSEN).encode(y=y)
    known = " || ".join(
        f"(chosen_method == '{NETWORKS[name].defence}' && chosen_lambda == '{_lambda(name):g}')" for name in names
    )
    missing = alt.Chart(pd.DataFrame({"text": ["no network of this method has this λ"]})).transform_filter(f"!({known})")
    note = missing.mark_text(fontSize=13).encode(x=alt.value(290), y=alt.value(20), text="text:N")
    chart = alt.layer(others, rules, dots, mean, note).properties(width=580, height=240)
    first = metrics.accuracy(robust.sel(defence=start, drop=True))
    text = extent(first.rename("value").to_dataframe().reset_index(), ["label"], f"Robust accuracy of {start}")
    title = "Classes of the chosen network; grey: those of the other ones"
    return explorer(described(chart, title, text), choices, live=live)
