"""Charts of the similarity of classes and of the mistakes between them."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.primitives import Cells, heatmap, panels, spread
from classwise.charts.style import CHOSEN, HIGHEST, Category, frame, names_of, tooltip, wide_bounds
from classwise.papers.benz2020 import section_3_2_similarity

_MISTAKES = "mistaken for one another, % + %"


def predictors(statistics: xr.Dataset, names: Sequence[str]) -> xr.DataArray:
    """Return the cosines of each two classes by predictors of `section_3_2_similarity`, the mean over the seeds.

    Dimensions predictor, label and other.
    """
    parts = [section_3_2_similarity.cosines(statistics, name).mean("seed") for name in names]
    return xr.concat(parts, "predictor", coords="minimal", compat="override").assign_coords(predictor=list(names))


def pair_dots(cosine: xr.DataArray, mistakes: xr.DataArray) -> Any:
    """Return each pair of classes as a dot, its mistakes over its cosine, a panel for each predictor.

    cosine: along predictor, label and other. mistakes: in percent, both directions added, along label and other.
    """
    table = frame(cosine, "cosine").merge(frame(mistakes, "sum"))
    order = {name: place for place, name in enumerate(names_of(cosine))}
    table = table[table["label"].map(order) < table["other"].map(order)]
    table = table.assign(pair=table["label"] + " and " + table["other"]).drop(columns=["label", "other"])
    dots = alt.Chart(table).mark_circle(size=50, opacity=0.65, color=HIGHEST)
    dots = dots.encode(
        x=alt.X("cosine:Q", title="cosine", scale=alt.Scale(zero=False, nice=True)),
        y=alt.Y("sum:Q", title=_MISTAKES),
        tooltip=tooltip("pair", "predictor", cosine="|.3f", sum=_MISTAKES),
    )
    chart = panels(dots.properties(width=235, height=150), Category.of(cosine, "predictor"), columns=2)
    chart = chart.resolve_scale(x="independent")
    text = extent(table, ["pair"], "Mistakes of a pair, both directions", "", "sum", 1)
    return described(chart, "Are similar classes mistaken for one another?", text)


def cosine_matrices(cosine: xr.DataArray) -> Any:
    """Return cosines of each two classes as shaded cells, a panel for each predictor: along predictor, label and other."""
    labels, table = names_of(cosine), frame(cosine).rename(columns={"other": "other class"})
    off = table[table["label"] != table["other class"]]
    cells = Cells("value", "cosine", step=(24, 24))
    tips = tooltip("label", "other class", "predictor", value="cosine|.2f")
    chart = heatmap(off, Category("other class", labels), Category("label", labels, "class"), cells, tips)
    chart = panels(chart, Category.of(cosine, "predictor"), columns=2)
    return described(
        chart, "Cosines of each two classes", extent(off, ["label", "other class", "predictor"], "Cosine", "", digits=2)
    )


def lonely_classes(cosine: xr.DataArray, accuracy: xr.DataArray) -> Any:
    """Return each class as a dot: its accuracy under attack, with its interval, over its mean cosine with all others.

    cosine: along label. accuracy: along label and bound.
    """
    table = wide_bounds(accuracy).merge(frame(cosine, "cosine"))
    x = alt.X("cosine:Q", title="mean cosine with all other classes", scale=alt.Scale(zero=False, nice=True))
    base = alt.Chart(table).encode(x=x, tooltip=tooltip("label", cosine="|.3f", value="accuracy, %", low="", high=""))
    y = alt.Y("low:Q", title="accuracy under attack, %", scale=alt.Scale(domain=[0, 100]))
    rules = base.mark_rule(strokeWidth=2, color=CHOSEN).encode(y=y, y2="high:Q")
    dots = base.mark_point(filled=True, size=60, opacity=1, color=CHOSEN).encode(y="value:Q")
    words = alt.Chart(spread(table, 4)).mark_text(align="left", dx=8).encode(x=x, y="at:Q", text="label:N")
    chart = alt.layer(rules, dots, words).properties(width=520, height=240)
    text = extent(table, ["label"], "Accuracy under attack") + extent(table, ["label"], " Mean cosine", "", "cosine", 2)
    return described(chart, "Are classes that are similar to all others weak?", text)


def correlation_dots(bounds: xr.DataArray) -> Any:
    """Return the correlation of each predictor with the mistakes as a dot with its interval: along predictor and bound."""
    table: pd.DataFrame = wide_bounds(bounds)
    rows = Category.of(bounds, "predictor")
    base = alt.Chart(table).encode(
        y=alt.Y(rows.encoded, sort=list(rows.values), title=None, axis=alt.Axis(labelLimit=290, ticks=False, grid=True)),
        tooltip=tooltip("predictor", value="rank correlation|.2f", low="|.2f", high="|.2f"),
        color=alt.value(HIGHEST),
    )
    x = alt.X("low:Q", title="rank correlation of cosine and mistakes", scale=alt.Scale(domain=[-0.5, 1], clamp=True))
    zero = alt.Chart(pd.DataFrame({"x": [0.0]})).mark_rule(strokeDash=[4, 3], color="#888", aria=False).encode(x="x:Q")
    lines = base.mark_rule(strokeWidth=2).encode(x=x, x2="high:Q")
    dots = base.mark_point(filled=True, size=60, opacity=1).encode(x="value:Q")
    chart = alt.layer(zero, lines, dots).properties(width=300, height=46 * len(rows.values))
    return described(chart, "Which cosines tell the mistakes?", extent(table, ["predictor"], "Rank correlation", "", digits=2))
