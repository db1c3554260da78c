"""Charts of batch-instance norm: the gates of its channels."""

from typing import Any

import altair as alt
import numpy as np
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.style import HIGHEST, LOWEST, frame, tooltip


def gate_strips(gates: xr.DataArray) -> Any:
    """Return the gate of each channel as a tick, a line for each layer (`runs.gates`), with the mean of the layer."""
    table = frame(gates).dropna(subset="value")
    table["row"] = "layer " + table["layer"].astype(str)
    title = "gate: 0 is instance norm, 1 is batch norm"
    x = alt.X("value:Q", title=title, scale=alt.Scale(domain=[0, 1.0]))
    rows = [f"layer {number}" for number in gates.layer.values]
    base = alt.Chart(table).encode(y=alt.Y("row:N", title=None, sort=rows))
    ticks = base.mark_tick(thickness=2, opacity=0.65, color=HIGHEST).encode(
        x=x, tooltip=tooltip("row", "channel", value="gate|.3f")
    )
    means = base.mark_point(shape="diamond", size=90, filled=True, color=LOWEST).encode(
        x=alt.X("mean(value):Q", title=title), tooltip=[alt.Tooltip("row:N"), alt.Tooltip("mean(value):Q", format=".3f")]
    )
    chart = alt.layer(ticks, means).properties(width=520, height=alt.Step(44))
    text = extent(table.assign(name=table["row"] + ", channel " + table["channel"].astype(str)), ["name"], "Gates", "", digits=2)
    below = float(np.mean(table["value"] < 1))
    return described(
        chart, "The gates of batch-instance norm", text, f"Diamonds: means. Below 1: {100 * below:.0f} % of the channels."
    )
