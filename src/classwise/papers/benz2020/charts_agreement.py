"""Charts of class profiles: a matrix of them, dots of their agreement next to the ceiling, and a matrix of all networks."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.primitives import Cells, dots_with_intervals, from_legend, heatmap
from classwise.charts.style import Category, frame, names_of, panel_title, tooltip, wide_bounds

_AXIS = "correlation of class profiles"
_STEP, _WIDTH, _OTHER = 32, 430, "other setting"


def agreement_dots(bounds: xr.DataArray, groups: Mapping[str, str], ceiling: xr.DataArray) -> Any:
    """Return how much each network agrees with one other, as dots with intervals, a panel for each group of networks.

    bounds: of `agreement.with_base`. groups: the group of each setting, in their order. ceiling:
    low, value and high of the corrected agreement that is expected of networks that differ in nothing, which is shaded; NaN
    where the same training is not repeated.
    """
    table = wide_bounds(bounds)
    table = table.assign(group=table["setting"].map(dict(groups)))
    picked, hues = from_legend(Category.of(bounds, "measure"))
    lowest = min(0.0, float(np.floor(2 * table["low"].min()) / 2))
    scale = alt.Scale(domain=[lowest, 1])
    present = [group for group in dict.fromkeys(groups.values()) if group in set(table["group"])]
    low, value, high = (float(ceiling.sel(bound=name).clip(-1, 1)) for name in ("low", "value", "high"))
    known = bool(np.isfinite(value))
    shade = pd.DataFrame({"from": [max(low, lowest)], "value": [value], "to": [high]})[: int(known)]
    charts = []
    for group in present:
        part, title = table[table["group"] == group], _AXIS if group == present[-1] else ""
        rows = Category("setting", [name for name in groups if groups[name] == group and name in set(part["setting"])])
        band = alt.Chart(shade).mark_rect(opacity=0.16, color="#888", aria=False)
        band = band.encode(x=alt.X("from:Q", title=title or None, scale=scale), x2="to:Q")
        middle = alt.Chart(shade).mark_rule(strokeDash=[4, 3], color="#888", aria=False).encode(x="value:Q")
        dots = dots_with_intervals(part, rows, title, hues, scale=scale, picked=picked)
        chart = alt.layer(band, middle, dots).properties(width=_WIDTH, height=_STEP * len(rows.values))
        charts.append(chart.properties(title=panel_title(group)))
    charts[0] = charts[0].add_params(picked)
    parts = [
        extent(table[table["measure"] == name], ["setting"], f"Correlation {name}", "", digits=2)
        for name in table["measure"].unique()
    ]
    stacked = alt.vconcat(*charts, spacing=8)
    shaded = f"Shaded: {low:.2f} to {high:.2f}, the same training with other initial weights." if known else ""
    return described(stacked, "Do other networks find the same classes hard?", " ".join(parts), shaded)


def agreement_matrix(values: xr.DataArray, reliable: xr.DataArray) -> Any:
    """Return the agreement of each two networks as shaded cells, and on the diagonal, framed, the reliability of each profile.

    values: corrected, along setting and other. reliable: along setting.
    """
    names = names_of(values, "setting")
    named = {"other": _OTHER}
    table = frame(values).rename(columns=named)
    diagonal = frame(reliable).assign(**{_OTHER: lambda rows: rows["setting"]})
    table = pd.concat([table[table["setting"] != table[_OTHER]], diagonal], ignore_index=True)
    wide, same = 34 if len(names) > 8 else 44, f"datum.setting == datum['{_OTHER}']"
    cells = Cells("value", "correlation", "value", ".2f", framed=same, step=(wide, _STEP))
    tips = tooltip("setting", _OTHER, value="correlation|.2f")
    chart = heatmap(table, Category(_OTHER, names), Category("setting", names), cells, tips)
    off = table[table["setting"] != table[_OTHER]]
    text = extent(off, ["setting", _OTHER], "Corrected correlation of two networks", "", digits=2)
    return described(chart, "Agreement of each two networks", text, "Framed: reliability of the profile of one network.")


def profile_matrix(accuracy: xr.DataArray) -> Any:
    """Return the accuracy of each class in percent as shaded cells, a line for each setting; blue is above its mean."""
    table = frame(accuracy).merge(frame(accuracy - accuracy.mean("label"), "off"))
    cells = Cells("off", "points from the mean of the row", "value", ".0f", step=(38, 28))
    tips = tooltip("setting", "label", value="accuracy, %", off="points from the mean of the row|+.1f")
    chart = heatmap(table, Category.of(accuracy, "label", "class"), Category.of(accuracy, "setting"), cells, tips)
    return described(chart, "Accuracy of each class, %", extent(table, ["label", "setting"], "Accuracy"))
