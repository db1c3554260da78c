"""Curves over the epochs and over the radius of an attack. Rates are in percent."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import LINES, capital, describe, extent
from classwise.charts.primitives import class_lines, highlight, panels
from classwise.charts.style import PERCENT, Category, frame, names_of, tooltip

EPOCH = alt.X("epoch:Q", title="epoch", axis=alt.Axis(tickMinStep=1))


def class_accuracy(accuracy: xr.DataArray, row: str = "attack") -> Any:
    """Return the accuracy of each class over the epochs, with the gap between the best and the worst class shaded.

    `accuracy` has the dimensions epoch, label, `row` and defence. A control highlights a class.
    """
    table, axis, labels = frame(accuracy), "accuracy, %", names_of(accuracy)
    table["panel"] = table["defence"].astype(str) + ", " + table[row].astype(str)
    panel = Category("panel", [f"{one}, {other}" for one in names_of(accuracy, "defence") for other in names_of(accuracy, row)])
    tips = tooltip(row, "defence", "label", "epoch", value=axis)
    lines = class_lines(table, EPOCH, alt.Y("value:Q", title=axis, scale=PERCENT), tips, "panel", band=True)
    last = table[table["epoch"] == table["epoch"].max()]
    text = extent(last, ["label", row, "defence"], "Accuracy after the last epoch")
    chart = panels(lines.properties(width=230, height=160), panel, columns=2, gap=_gap(labels)).add_params(highlight(labels))
    return describe(chart, "Accuracy of each class over the epochs", text, LINES)


def _gap(labels: Sequence[str]) -> int:
    """Return the gap between two panels, in pixels, that holds the name of a class at the end of its line."""
    return 16 + 7 * max(map(len, labels), default=0)


def training_settings(settings: Mapping[str, xr.DataArray]) -> Any:
    """Return the settings that each class was trained with over the epochs, side by side under their titles.

    They are multiples of the uniform ones, as of `stats.aggregate.multiples`. Each array has the dimensions epoch, label and
    defence, with members that may differ; every panel has its own scale. A control highlights a class.
    """
    labels = names_of(next(iter(settings.values())))
    table = pd.concat([frame(array).assign(setting=name) for name, array in settings.items()], ignore_index=True)
    members = dict.fromkeys(one for array in settings.values() for one in names_of(array, "defence"))
    names = [f"{one}, {name}" for one in members for name, array in settings.items() if one in names_of(array, "defence")]
    table["panel"] = table["defence"].astype(str) + ", " + table["setting"]
    y = alt.Y("value:Q", title="multiple of the uniform setting", scale=alt.Scale(zero=False))
    tips = tooltip("defence", "setting", "label", "epoch", value="value|.3f")
    lines = class_lines(table, EPOCH, y, tips, "panel", interpolate="step-after").properties(width=200, height=180)
    last = table[table["epoch"] == table["epoch"].max()]
    ends = {f"{name} after the last epoch": last[last["setting"] == name] for name in settings}
    text = " ".join(extent(rows, ["label", "defence"], what, "", digits=3) for what, rows in ends.items())
    chart = panels(lines, Category("panel", names), columns=2, gap=_gap(labels) + 24)
    chart = chart.add_params(highlight(labels)).resolve_scale(y="independent")
    return describe(chart, f"{capital(' and '.join(settings))} of each class over the epochs", text, LINES)
