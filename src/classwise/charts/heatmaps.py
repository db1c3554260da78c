"""Heatmaps of classes. Rates are in percent."""

from collections.abc import Sequence
from typing import Any

import xarray as xr

from classwise.charts.descriptions import describe, extent, largest
from classwise.charts.primitives import Cells, heatmap, panels
from classwise.charts.style import Category, display_name, frame, names_of, tooltip
from classwise.stats import metrics


def confusion(share: xr.DataArray, order: Sequence[str] | None = None, column: str = "defence") -> Any:
    """Return confusion matrices in percent of the true class (rows), a panel for each `column`.

    The diagonal is framed rather than coloured, so that the colours show the mistakes; `order` sorts the classes.
    """
    table, labels = frame(share), list(order or names_of(share))
    table["right"] = table["label"] == table["predicted"]
    table["mistake"] = table["value"].where(~table["right"], 0.0)
    few, right = "datum.value < 0.5", "datum.right"
    cells = Cells("mistake", "misclassified, %", "value", ".0f", diverging=False, blank=few, framed=right, step=(26, 26))
    tips = tooltip("label", "predicted", value="share of the class, %")
    chart = heatmap(table, Category("predicted", labels, "predicted class"), Category("label", labels, "class"), cells, tips)
    text = extent(table[table["right"]], ["label", column], "Share of correct predictions")
    most = largest(table[~table["right"]], ["label", "predicted", column], "Most frequent mistake")
    chart = panels(chart, Category.from_array(share, column))
    return describe(chart, "Predictions for each class, % of its images", f"{text} {most}")


_SIGNS = {1: "robust", -1: "vulnerable", 0: "uncertain"}


def accuracy_heatmap(
    count: xr.DataArray, relative: xr.DataArray, row: str = "attack", column: str = "defence", *, upright: bool = False
) -> Any:
    """Return the accuracy of each class as cells, a panel for each `column` and a line for each `row`; upright: for each class.

    The shade is the distance from the overall accuracy of the network under the same attack (Tian 2021, Definition 3.3: above it
    a class is robust, below it vulnerable). The classes of which that is certain are framed, by `intervals.relative_robustness`.
    """
    rates = metrics.accuracy(count)
    table = frame(rates).merge(frame(rates - metrics.overall(count), "off")).merge(frame(relative, "sign"))
    table["the class is"] = table["sign"].map(_SIGNS)
    cells = Cells("off", "points from overall", "value", ".0f", framed="datum.sign != 0", step=(27, 25))
    tips = tooltip(column, row, "label", "the class is", value="accuracy, %", off="points from the overall accuracy|+.1f")
    across, down = Category.from_array(count, "label", None if upright else "class"), Category.from_array(count, row)
    chart = heatmap(table, *((down, across) if upright else (across, down)), cells, tips)
    chart, text = panels(chart, Category.from_array(count, column)), extent(table, ["label", row, column], "Accuracy")
    below = "Framed: significantly above or below the overall accuracy."
    return describe(chart, f"Accuracy of each class by {row}, %", text, below)


def change_heatmap(change: xr.DataArray, row: str, title: str | None = None, digits: str = "+.1f") -> Any:
    """Return by how many points the accuracy of each class changes, as cells: red where it falls.

    `change` has the dimensions label and `row`. title: of the rows; None is that of `row`.
    """
    lines = Category.from_array(change, row, display_name(row) if title is None else title)
    tips = tooltip(row, "label", value="points|+.1f")
    # Wide enough for "−12.5".
    cells = Cells("value", "points", "value", digits, step=(38, 25))
    chart = heatmap(frame(change), Category.from_array(change, "label", "class"), lines, cells, tips)
    text = extent(frame(change), ["label", row], "Change of the accuracy", "points", digits=1)
    return describe(chart, "Change of the accuracy of each class, points", text)
