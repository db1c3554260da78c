"""Charts of Wei et al. 2023, section 5.2: gains with their intervals, ours and theirs."""

from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.primitives import faded, from_legend, panels
from classwise.charts.style import Category, tooltip, wide_bounds
from classwise.papers.wei2023.gains import REACH

OURS = "ours, last epoch"
_MEASURES = {"overall": "all images", "worst": "worst class", "worst_k": "worst fifth of the classes"}


def gap_rows(printed: pd.DataFrame, ours: xr.DataArray | None = None) -> pd.DataFrame:
    """Return printed gains (`gains.gaps_as_printed`) and ours as rows with 95 % intervals.

    low, high: of theirs, by their test images. near, far: by their trainings, NaN where they print no spread, and of ours.
    """
    theirs = printed.assign(source="theirs, " + printed["checkpoint"] + " epoch")
    for ends, error in ((("low", "high"), "images"), (("near", "far"), "seeds")):
        for end, sign in zip(ends, (-1, 1), strict=True):
            theirs[end] = theirs["value"] + sign * REACH[error] * theirs[error]
    columns = ["comparison", "measure", "source", "value", "low", "high", "near", "far"]
    parts = [theirs[columns]]
    if ours is not None:
        parts.append(wide_bounds(ours).assign(source=OURS).reindex(columns=columns))
    return pd.concat(parts, ignore_index=True)


def gaps(rows: pd.DataFrame) -> Any:
    """Return gains as dots, a panel for each measure, with a thin line for the images and a thick one for the seeds."""
    sources = list(dict.fromkeys(rows["source"]))
    measures = [_MEASURES[name] for name in dict.fromkeys(rows["measure"])]
    table = rows.assign(measure=rows["measure"].map(_MEASURES))
    picked, hues = from_legend(Category("source", sources))
    order = list(dict.fromkeys(table["comparison"]))
    tips = tooltip("comparison", "source", value="gain, points", low="", high="", near="by seeds, from", far="by seeds, to")
    base = alt.Chart(table).encode(
        y=alt.Y("comparison:N", sort=order, title=None, axis=alt.Axis(labelLimit=260, labelPadding=8, ticks=False, grid=True)),
        yOffset=alt.YOffset("source:N", sort=sources, scale=alt.Scale(paddingOuter=0.4)),
        color=hues.colour,
        opacity=faded(picked),
        tooltip=tips,
    )
    x = alt.X("low:Q", title="gain, points")
    zero = alt.Chart(table).mark_rule(strokeDash=[4, 3], color="#888", aria=False).encode(x=alt.datum(0))
    marks = [zero, base.mark_rule(strokeWidth=1.5).encode(x=x, x2="high:Q")]
    if bool(table["near"].notna().any()):
        marks.append(base.transform_filter("isValid(datum.near)").mark_rule(strokeWidth=5).encode(x="near:Q", x2="far:Q"))
    marks.append(base.mark_point(filled=True, size=50, opacity=1).encode(x="value:Q"))
    height = (9 * len(sources) + 8) * len(order)
    chart = panels(alt.layer(*marks).properties(width=190, height=height), Category("measure", measures), 2)
    chart = chart.resolve_scale(x="independent").add_params(picked)
    texts = [
        extent(table[table["measure"] == name], ["comparison", "source"], f"Gain, {name}", "points", digits=1)
        for name in measures
    ]
    return described(chart, "Gains of robust accuracy, with 95 % intervals", " ".join(texts))
