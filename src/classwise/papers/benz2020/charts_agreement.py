"""Charts of the agreement of class profiles: dots next to their ceiling, and a matrix of all networks."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.primitives import Cells, dots_with_intervals, from_legend, heatmap
from classwise.charts.style import Category, frame, names_of, panel_title, tooltip, wide_bounds

# What the two values of a row are.
MEASURED, CORRECTED = "as measured", "corrected for few images"
_AXIS = "correlation of class profiles"
_STEP, _WIDTH = 32, 430


def _rows(bounds: xr.DataArray) -> pd.DataFrame:
    """Return bounds of correlations as rows; ends that are unknown are those of all correlations."""
    known = bounds.clip(-1, 1).where(bounds.sel(bound="value", drop=True).notnull())
    return wide_bounds(known)


def agreement_dots(bounds: xr.DataArray, groups: Mapping[str, str], ceiling: xr.DataArray) -> Any:
    """Return how much each network agrees with one other, as dots with intervals, a panel for each group of networks.

    bounds: along bound, `measure` (MEASURED, CORRECTED) and setting. groups: the group of each setting, in their order. ceiling:
    low, value and high of the corrected agreement that is expected of networks that differ in nothing, which is shaded.
    """
    table = _rows(bounds)
    table = table.assign(group=table["setting"].map(dict(groups)))
    picked, hues = from_legend(Category.of(bounds, "measure"))
    scale = alt.Scale(domain=[min(-0.25, float(np.floor(4 * table["low"].min()) / 4)), 1])
    low, value, high = (float(ceiling.sel(bound=name).clip(-1, 1)) for name in ("low", "value", "high"))
    shade = pd.DataFrame({"from": [low], "value": [value], "to": [high]})
    charts = []
    for group, part in table.groupby("group", sort=False):
        rows = Category("setting", [name for name in groups if groups[name] == group and name in set(part["setting"])])
        band = alt.Chart(shade).mark_rect(opacity=0.16, color="#888", aria=False)
        band = band.encode(x=alt.X("from:Q", title=_AXIS, scale=scale), x2="to:Q")
        middle = alt.Chart(shade).mark_rule(strokeDash=[4, 3], color="#888", aria=False).encode(x="value:Q")
        dots = dots_with_intervals(part, rows, _AXIS, hues, scale=scale, picked=picked)
        chart = alt.layer(band, middle, dots).properties(width=_WIDTH, height=_STEP * len(rows.values))
        charts.append(chart.properties(title=panel_title(str(group))))
    charts[0] = charts[0].add_params(picked)
    parts = [
        extent(table[table["measure"] == name], ["setting"], f"Correlation {name}", "", digits=2)
        for name in table["measure"].unique()
    ]
    chart = alt.vconcat(*charts, spacing=8)
    shaded = f"Shaded: {low:.2f} to {high:.2f}, that of the same training with other initial weights."
    return described(chart, "Do other networks find the same classes hard?", " ".join(parts), shaded)


def agreement_matrix(values: xr.DataArray, reliable: xr.DataArray) -> Any:
    """Return the agreement of each two networks as shaded cells, and on the diagonal, framed, the reliability of each profile.

    values: corrected, along setting and other. reliable: along setting.
    """
    names = names_of(values, "setting")
    table = frame(values).rename(columns={"value": "corrected"})
    diagonal = frame(reliable).assign(other=lambda rows: rows["setting"]).rename(columns={"value": "corrected"})
    table = pd.concat([table[table["setting"] != table["other"]], diagonal], ignore_index=True)
    table["same"] = table["setting"] == table["other"]
    wide = 34 if len(names) > 8 else 44
    cells = Cells("corrected", "correlation", "corrected", ".2f", framed="datum.same", step=(wide, _STEP))
    tips = tooltip("setting", "other", corrected="correlation|.2f")
    chart = heatmap(table, Category("other", names), Category("setting", names), cells, tips)
    off = table[~table["same"]]
    text = extent(off, ["setting", "other"], "Corrected correlation of two networks", "", "corrected", 2)
    return described(chart, "Agreement of each two networks", text, "Framed: reliability of the profile of one network.")
