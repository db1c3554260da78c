"""Charts of accuracies on corrupted images."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import xarray as xr
from IPython.display import Markdown

from classwise.charts.descriptions import described, extent
from classwise.charts.gallery import image_rows
from classwise.charts.primitives import dots_with_intervals, from_legend, lines_with_bands, panels
from classwise.charts.style import PERCENT, Category, names_of, tooltip, wide_bounds

# A row, which a phone names in two lines.
_ROW = 31
_SEVERITY = alt.X("severity:Q", title="severity (0: clean)", axis=alt.Axis(tickMinStep=1, values=[0, 1, 3, 5]))


def differences(bounds: xr.DataArray, first: str, second: str) -> Any:
    """Return how much more the first network loses to each corruption than the second, as dots with intervals.

    bounds: along bound and corruption, which are drawn in the order of their values.
    """
    ordered = bounds.sortby(bounds.sel(bound="value"), ascending=False)
    table, axis = wide_bounds(bounds), f"loss of {first} less that of {second}, points"
    rows = Category("corruption", names_of(ordered, "corruption"))
    dots = dots_with_intervals(table, rows, axis, scale=alt.Scale())
    zero = alt.Chart(table).mark_rule(strokeDash=[4, 3], color="#888", aria=False).encode(x=alt.datum(0))
    chart = alt.layer(zero, dots).properties(width=450, height=24 * len(rows.values))
    text = extent(table, ["corruption"], f"Loss of {first} less that of {second}", "points", digits=1)
    return described(
        chart, "Which network loses more accuracy", text, f"Right of the line {first} loses more, left of it {second}."
    )


def correlations(bounds: xr.DataArray, reliability: Mapping[str, float]) -> Any:
    """Return the correlation of drops with robust accuracy over the classes, a row for each kind of corruption.

    bounds: along bound, kind and defence. reliability: by defence, the correlation that its robust accuracies have with
    themselves in other images, which is drawn below zero as a tick: what a perfect agreement would come to at most.
    """
    table = wide_bounds(bounds.clip(-1, 1))
    picked, hues = from_legend(Category.of(bounds, "defence"))
    scale, axis = alt.Scale(domain=[-1, 1]), "correlation over the classes"
    dots = dots_with_intervals(table, Category.of(bounds, "kind"), axis, hues, scale=scale, picked=picked)
    zero = alt.Chart(table).mark_rule(strokeDash=[4, 3], color="#888", aria=False).encode(x=alt.datum(0))
    height = max(_ROW, 18 * len(hues.values)) * bounds.sizes["kind"]
    chart = alt.layer(zero, dots).add_params(picked).properties(width=450, height=height)
    text = extent(table, ["kind", "defence"], "Correlation of drops with robust accuracy", "", digits=2)
    words = ", ".join(f"{-value:.2f} ({name})" for name, value in reliability.items())
    return described(
        chart, "Do corruptions break the classes that the attack breaks?", text, f"Equal profiles would give about {words}."
    )


def by_severity(bounds: xr.DataArray) -> Any:
    """Return the accuracy over the severity, a panel for each corruption: along bound, defence, corruption and severity."""
    table = wide_bounds(bounds)
    picked, hues = from_legend(Category.of(bounds, "defence"))
    tips = tooltip("defence", "corruption", "severity", value="accuracy, %", low="", high="")
    lines = lines_with_bands(table, _SEVERITY, "accuracy, %", hues.colour, tips, scale=PERCENT, picked=picked)
    chart = panels(lines.properties(width=160, height=170), Category.of(bounds, "corruption"), 3).add_params(picked)
    last = table[table["severity"] == table["severity"].max()]
    text = extent(last, ["defence", "corruption"], "Accuracy at the highest severity")
    return described(chart, "Accuracy over the severity of a corruption", text)


def examples(scenes: Mapping[str, xr.Dataset], most: int = 8) -> Any:
    """Return the first image of each class as it is and corrupted, a row for each of `scenes`, of the same images by title.

    A sentence is returned where there are none.
    """
    if not scenes:
        return Markdown("There are no images to show: these runs were recorded elsewhere.")
    rows, captions = {}, {}
    for title, data in scenes.items():
        names = names_of(data, "predicted")[:most]
        first = [int((data.truth == number).argmax("image")) for number in range(len(names))]
        rows[title], captions[title] = data.pixels.isel(image=first), names
    return image_rows(rows, captions, side=56, title="The first test images, and the same corrupted")
