"""The explorer of the rule by which a calibration gives each class its setting, as a multiple of the uniform one."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.explorer import Choice, explorer
from classwise.charts.style import GREY, HIGHEST, LOWEST, frame, label_angle, names_of, tooltip

# The colour of a class by its column `kind`.
_KIND = alt.Color(
    "kind:N",
    scale=alt.Scale(domain=["hard", "easy", "other"], range=[LOWEST, HIGHEST, GREY]),
    title="class",
    legend=alt.Legend(symbolOpacity=1),
)


def _kinds(array: xr.DataArray) -> dict[str, str]:
    """Return whether each class is "hard", "easy" or "other", by the class coordinates of an array."""
    kinds = np.select([array["hard"].values, array["easy"].values], ["hard", "easy"], "other")
    return dict(zip(names_of(array), map(str, kinds), strict=True))


def rule_explorer(accuracy: xr.DataArray, offset: Mapping[str, float], live: bool | None = None) -> Any:
    """Return what the rule lambda + t gives each class, as a multiple of the uniform setting, with controls.

    accuracy: t, the training accuracy of each class under attack, 0 to 1, with the dimensions network, epoch and label,
    and the class coordinates `hard` and `easy`. offset: the lambda that each network was trained with. The reader chooses
    network, epoch and lambda. For `live` see `explorer.explorer`.
    """
    labels, networks = names_of(accuracy), names_of(accuracy, "network")
    table = frame(accuracy.drop_vars(["hard", "easy"]), "t")
    table = table.assign(trained=table["network"].map(offset), kind=table["label"].map(_kinds(accuracy)))
    epochs = [int(epoch) for epoch in accuracy.epoch.values]
    first = float(offset[networks[0]])
    choices = [
        Choice("chosen_network", networks, networks[0], "network"),
        Choice("chosen_lambda", [round(0.05 * step, 2) for step in range(21)], first, "lambda"),
        Choice("chosen_epoch", list(range(epochs[0], epochs[-1] + 1)), epochs[-1], "after epoch"),
    ]
    base = alt.Chart(table).transform_filter("datum.network == chosen_network && datum.epoch == chosen_epoch")
    base = base.transform_calculate(multiple="chosen_lambda + datum.t", used="datum.trained + datum.t")
    x = alt.X("label:N", sort=labels, title="class", axis=alt.Axis(labelAngle=label_angle(labels)))
    y = alt.Y("multiple:Q", title="multiple of the uniform setting", scale=alt.Scale(domain=[0, 2]))
    tips = tooltip("label", "kind", multiple="lambda + t|.2f", t="training accuracy t|.2f", used="in this training|.2f")
    marks = [
        base.mark_bar().encode(x=x, y=y, color=_KIND, tooltip=tips),
        base.mark_tick(thickness=3, width=34, color="#888").encode(x=x, y=alt.Y("used:Q"), tooltip=tips),
        base.mark_rule(strokeDash=[5, 4], color="#888", strokeWidth=1.5).encode(y=alt.Y("mean(multiple):Q")),
        alt.Chart(table.head(1)).mark_rule(strokeWidth=1.5, color="#888", aria=False).encode(y=alt.datum(1.0)),
    ]
    last = table[(table["epoch"] == epochs[-1]) & (table["network"] == networks[0])].assign(value=lambda rows: first + rows["t"])
    text = extent(last, ["label"], f"{networks[0]} after the last epoch, lambda {first:g}", "", digits=2)
    subtitle = "Line: 1, the uniform setting. Dashed: mean of the classes. Ticks: what the training itself used next."
    chart = alt.layer(*marks).properties(width=580, height=220)
    return explorer(described(chart, "What the rule gives each class", text, subtitle), choices, live=live)
