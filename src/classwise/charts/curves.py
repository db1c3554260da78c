"""Curves over the epochs and over the radius of an attack. Rates are in percent."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise.charts.primitives import class_lines, from_legend, lines_with_bands, range_band
from classwise.charts.style import PERCENT, Category, frame, names_of, tooltip, wide_bounds

EPOCH = alt.X("epoch:Q", title="epoch", axis=alt.Axis(tickMinStep=1))


def class_accuracy(accuracy: xr.DataArray, row: str = "attack", column: str = "defence") -> Any:
    """Return the accuracy of each class over the epochs, with the gap between the best and the worst class shaded.

    `accuracy` has the dimensions epoch, label, `row` and `column`. A click in the legend picks classes.
    """
    table = frame(accuracy)
    y, tips = alt.Y("value:Q", scale=PERCENT), tooltip("label", "epoch", value="accuracy, %")
    lines = class_lines(table, names_of(accuracy), EPOCH, y, tips)
    layers = alt.layer(range_band(table, EPOCH, "accuracy, %"), lines).properties(width=180, height=170)
    return _grid(layers, Category.of(accuracy, row), Category.of(accuracy, column))


def _grid(chart: Any, rows: Category, columns: Category) -> Any:
    row = alt.Row(rows.encoded, sort=rows.values, title=None)
    return chart.facet(row=row, column=alt.Column(columns.encoded, sort=columns.values, title=None))


def metric_curves(bounds: xr.DataArray, title: str, colour: str = "defence") -> Any:
    """Return a metric over the epochs with its interval: dimensions epoch, bound ("low", "value", "high") and `colour`.

    A click in the legend picks members of `colour`.
    """
    picked, hues = from_legend(Category.of(bounds, colour))
    tips = tooltip(colour, "epoch", value=title, low="", high="")
    chart = lines_with_bands(wide_bounds(bounds), EPOCH, title, hues.colour, tips, picked=picked)
    return chart.add_params(picked).properties(width=520, height=220)


def training_settings(settings: Mapping[str, xr.DataArray], row: str = "defence") -> Any:
    """Return the settings that each class was trained with over the epochs, side by side under their titles.

    Each array has the dimensions epoch, label and `row`; every panel has its own scale. A click in the legend picks classes.
    """
    first = next(iter(settings.values()))
    table = pd.concat([frame(array).assign(setting=title) for title, array in settings.items()])
    y = alt.Y("value:Q", title=None, scale=alt.Scale(zero=False))
    tips = tooltip("setting", "label", "epoch", value="value|.3f")
    lines = class_lines(table, names_of(first), EPOCH, y, tips, interpolate="step-after").properties(width=260, height=200)
    return _grid(lines, Category.of(first, row), Category("setting", list(settings))).resolve_scale(y="independent")
