"""Charts of accuracies on corrupted images."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr
from IPython.display import Markdown

from classwise.charts.descriptions import described, extent
from classwise.charts.gallery import image_rows
from classwise.charts.primitives import dots_with_intervals, from_legend, lines_with_bands, panels
from classwise.charts.style import PERCENT, Category, names_of, tooltip, wide_bounds
from classwise.core.errors import NotRecorded
from classwise.papers.benz2020 import corruptions

# A row, which a phone names in two lines.
_ROW = 28
# Of a correlation.
_TICKS = (-1, -0.5, 0, 0.5, 1)
_SEVERITY = alt.X("severity:Q", title="severity (0: clean)", axis=alt.Axis(tickMinStep=1, values=[0, 1, 3, 5]))


def differences(bounds: xr.DataArray | None) -> Any:
    """Return how much more adversarial training loses to each corruption than standard training, as dots with intervals.

    bounds: of `corruptions.more_lost`, drawn in the order of their values; NotRecorded for None.
    """
    if bounds is None:
        raise NotRecorded("standard and adversarial training are not both recorded on corrupted images")
    ordered = bounds.sortby(bounds.sel(bound="value"), ascending=False)
    rows, axis = Category("corruption", names_of(ordered, "corruption")), "loss of pgd-at less that of standard, points"
    table = wide_bounds(bounds)
    dots = dots_with_intervals(table, rows, axis, scale=alt.Scale())
    chart = alt.layer(_zero(table), dots).properties(width=450, height=18 * len(rows.values))
    text = extent(table, ["corruption"], "Loss of pgd-at less that of standard", "points", digits=1)
    where = "Right of the line adversarial training loses more, left of it standard training."
    return described(chart, "Which network loses more accuracy", text, where)


def _zero(table: pd.DataFrame, ticks: Sequence[float] = ()) -> alt.Chart:
    """Return a dashed line at 0; ticks: of its axis, () for those of the scale."""
    line: alt.Chart = alt.Chart(table).mark_rule(strokeDash=[4, 3], color="#888", aria=False)
    return line.encode(x=alt.XDatum(0, axis=alt.Axis(values=list(ticks))) if ticks else alt.datum(0))


def correlations(bounds: xr.DataArray | None) -> Any:
    """Return the correlation of losses with robust accuracy over the classes, a row for each member of `row`.

    bounds: of `corruptions.shared`; NotRecorded for None. The accuracy that is left is no loss, and is not drawn.
    """
    if bounds is None:
        raise NotRecorded("adversarial training is not recorded on corrupted images")
    bounds = bounds.drop_sel(row=corruptions.LEFT)
    table = wide_bounds(bounds.clip(-1, 1))
    scale, axis = alt.Scale(domain=[-1, 1]), "correlation over the classes"
    dots = dots_with_intervals(table, Category.of(bounds, "row"), axis, scale=scale)
    chart = alt.layer(_zero(table, _TICKS), dots).properties(width=430, height=_ROW * bounds.sizes["row"])
    text = extent(table, ["row"], "Correlation of losses with robust accuracy", "", digits=2)
    where = "Left of the line the classes that the attack breaks lose more, right of it they lose less."
    return described(chart, "Do corruptions break the classes that the attack breaks?", text, where)


def by_severity(bounds: xr.DataArray) -> Any:
    """Return the accuracy over the severity, a panel for each corruption: along bound, defence, corruption and severity."""
    table = wide_bounds(bounds)
    picked, hues = from_legend(Category.of(bounds, "defence"))
    tips = tooltip("defence", "corruption", "severity", value="accuracy, %", low="", high="")
    lines = lines_with_bands(table, _SEVERITY, "accuracy, %", hues.colour, tips, scale=PERCENT, picked=picked)
    chart = panels(lines.properties(width=160, height=130), Category.of(bounds, "corruption"), 3).add_params(picked)
    last = table[table["severity"] == table["severity"].max()]
    text = extent(last, ["defence", "corruption"], "Accuracy at the highest severity")
    return described(chart, "Accuracy over the severity of a corruption", text)


def examples(scenes: Mapping[str, xr.Dataset], most: int = 8) -> Any:
    """Return the first image of each class as it is and corrupted, a row for each of `scenes`, of the same images by title.

    A sentence is returned where there are none.
    """
    if not scenes:
        return Markdown("The images of this dataset are not part of the book, so that none are shown.")  # type: ignore[no-untyped-call]
    rows, captions = {}, {}
    for title, data in scenes.items():
        names = names_of(data, "predicted")[:most]
        first = [int((data.truth == number).argmax("image")) for number in range(len(names))]
        rows[title], captions[title] = data.pixels.isel(image=first), names
    return image_rows(rows, captions, side=38, title="The first test images, and the same corrupted")
