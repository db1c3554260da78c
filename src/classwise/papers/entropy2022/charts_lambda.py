"""Charts of similarity and variance over lambda (Entropy 2022, Figure 9)."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.explorer import Choice, explorer
from classwise.charts.primitives import from_legend, lines_with_bands
from classwise.charts.style import CHOSEN, GREY, Category, frame, names_of, panel_title, tooltip, wide_bounds

_SWEPT = "TRADES over λ"
_AXES = {"similarity": "mean largest cosine", "variance": "mean variance of the features"}


def over_lambda(swept: xr.DataArray, others: xr.DataArray) -> Any:
    """Return the mean similarity and variance of TRADES over lambda, on a logarithmic axis, and of other networks as lines.

    swept: along measure, `lambda` and bound. others: along measure, network and bound; each a dashed line with its interval.
    """
    picked, hues = from_legend(Category("line", [_SWEPT, *names_of(others, "network")]))
    values = [float(value) for value in swept["lambda"].values]
    x = alt.X("lambda:Q", title="λ", scale=alt.Scale(type="log", nice=False, padding=12), axis=alt.Axis(values=values))
    panels, texts = [], []
    for measure, axis in _AXES.items():
        table = wide_bounds(swept.sel(measure=measure, drop=True)).assign(line=_SWEPT)
        rest = wide_bounds(others.sel(measure=measure, drop=True)).rename(columns={"network": "line"})
        low, high = min(table["low"].min(), rest["low"].min()), max(table["high"].max(), rest["high"].max())
        scale = alt.Scale(domain=[float(low), float(high)], nice=True, zero=False)
        tips = tooltip("line", "lambda", value=f"{axis}|.3f", low="|.3f", high="|.3f")
        lines = lines_with_bands(table, x, axis, hues.colour, tips, scale=scale, picked=picked)
        flat = alt.Chart(rest).encode(color=hues.colour, tooltip=tooltip("line", value=f"{axis}|.3f", low="|.3f", high="|.3f"))
        bands = flat.mark_rect(opacity=0.15).encode(y=alt.Y("low:Q", title=axis, scale=scale), y2="high:Q")
        rules = flat.mark_rule(strokeDash=[5, 4], strokeWidth=2).encode(y="value:Q")
        panels.append(alt.layer(bands, rules, lines).properties(width=260, height=210))
        texts.append(extent(table, ["lambda"], f"{axis} of TRADES", "", digits=3))
    chart = alt.hconcat(panels[0].add_params(picked), *panels[1:])
    return described(chart, "Similarity and variance over λ, means over the classes", " ".join(texts))


QUANTITIES = {
    "similarity": "largest cosine",
    "variance": "variance",
    "clean": "clean accuracy, %",
    "robust": "robust accuracy, %",
    "entropy": "entropy, clean, nats",
}


def one_class(values: xr.DataArray, start: str) -> Any:
    """Return the explorer of a class over lambda: what is measured of it, and of the other classes in grey.

    values: along quantity (QUANTITIES), label and `lambda`. start: the class at first.
    """
    labels, known = names_of(values), [name for name in QUANTITIES if name in names_of(values, "quantity")]
    choices = [Choice("chosen_class", labels, start, "class")]
    table, places = frame(values), [float(value) for value in values["lambda"].values]
    x = alt.X("lambda:Q", title="λ", scale=alt.Scale(type="log", nice=False, padding=12), axis=alt.Axis(values=places))
    panels = []
    for name in known:
        part = table[table["quantity"] == name]
        y = alt.Y("value:Q", title=None, scale=alt.Scale(zero=False))
        base = alt.Chart(part).encode(x=x, y=y, detail="label:N", tooltip=tooltip("label", "lambda", value=f"{name}|.3f"))
        others = base.transform_filter("datum.label != chosen_class").mark_line(color=GREY, strokeWidth=1, opacity=0.5)
        chosen = base.transform_filter("datum.label == chosen_class").mark_line(
            color=CHOSEN, strokeWidth=3, point={"color": CHOSEN}
        )
        panels.append(alt.layer(others, chosen).properties(width=165, height=140, title=panel_title(QUANTITIES[name])))
    first = table[(table["label"] == start) & (table["quantity"] == known[0])]
    text = extent(first, ["lambda"], f"Largest cosine of class {start}", "", digits=3)
    return explorer(described(alt.concat(*panels, columns=3, spacing=14), "One class of TRADES over λ", text), choices)


def path(values: Mapping[float, xr.DataArray], dim: str = "lambda") -> xr.DataArray:
    """Return arrays by a number along a new dimension of that number."""
    index = pd.Index(np.array(list(values), dtype=float), name=dim)
    return xr.concat(list(values.values()), index, coords="minimal", compat="override")
