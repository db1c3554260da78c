"""Colours, titles and data of all charts: call `setup()` once before the first is shown.

The colours of classes and defences are safe for the colour-blind: with deuteranopia, protanopia and tritanopia (Machado et al.
2009) any two of them stay 11 units of CIEDE2000 or more apart. Each has a contrast of at least 3 : 1 to a white and a dark page.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr
from altair.vegalite.v6.display import html_renderer

from classwise.core.markup import CHART, printed_name

MAX_ROWS = 50_000
_PARSE = {"i": "number", "u": "number", "f": "number", "b": "boolean"}

# Of ten classes, in their order.
CLASS_COLOURS = ("#035dd0", "#c38908", "#007a2f", "#d50016", "#8283ff", "#a05e68", "#42a08d", "#ff4f8a", "#b183b9", "#b7008a")
# Of defences by name, the same on all pages; those without a colour of their own are grey.
DEFENCE_COLOURS = {
    "standard": "#b68f05",
    "pgd-at": "#3152dd",
    "trades": "#ff4479",
    "mart": "#127757",
    "pgd-he": "#b675ff",
    "trades-he": "#9a407b",
    "fat": "#2ca2ac",
    "trades-cfa": "#656510",
}
GREY = "#8a8a8a"
# Of the chosen class, and of those with the highest and the lowest values where all others are grey.
CHOSEN, HIGHEST, LOWEST = "#b7008a", "#3152dd", "#e05a00"
# Of what a paper prints.
THEIRS = "#8268dc"
# Of attacks and other series, in their order.
SERIES_COLOURS = (GREY, "#3152dd", "#e05a00", "#127757", "#b675ff")
VERDICT_COLOURS = {"holds": "#0f8aff", "fails": "#e05a00", "open": "#8a8a8a", "described": "#b08a3e", "not tested": "#b5b5b5"}
# Of cells: two thirds of the way from no effect, black and white stand out alike, and the numbers change from the first of `INKS`
# to the second. On a dark page charts.js turns both scales and the inks around.
SEQUENTIAL = ("#fffaf3", "#fdbb84", "#dc3823", "#7f0000")
INKS, INK_CHANGES = ("#000000", "#ffffff"), 2 / 3
# What charts, on phones at least, have no room for.
_SHORTER = {"standard training": "standard", "constraint relaxation": "CR", " with label smoothing": " with LS"}
# Columns of classes.
CLASSES = ("label", "predicted", "partner", "other", "removed", "attacked")
# The width of a letter in the names along an axis, in pixels.
_LETTER = 8
# The column of a page in pixels: a wider chart would be scaled down, and its text with it.
COLUMN = 688
# Sizes of text, in pixels; none is below 11.
_CONFIG: Any = {
    "view": {"continuousWidth": 300, "continuousHeight": 300},
    "axis": {"labelFontSize": 13, "titleFontSize": 13, "titleFontWeight": "normal", "labelSeparation": 4},
    "legend": {"labelFontSize": 13, "titleFontSize": 13, "titleFontWeight": "normal", "orient": "top", "titleLimit": 500},
    "header": {"labelFontSize": 13, "titleFontSize": 13},
    "title": {"anchor": "start", "fontSize": 15, "fontWeight": "bold", "subtitleFontSize": 13, "frame": "group"},
    "text": {"fontSize": 11},
}
# Red is below zero, blue above.
DIVERGING = ("#7f0000", "#dc3823", "#fdbb84", "#fff7ec", "#c7e0ee", "#2c7ab4", "#08306b")

PERCENT = alt.Scale(domain=[0, 100])
# What readers see in place of the names of dimensions, columns and metrics.
TITLES = {
    "label": "class",
    "predicted": "predicted class",
    "images_are": "images",
    "inverse": "1/T",
    "betas": "beta",
    "eps": "radius",
    "eval_eps": "radius of the attack",
    "low": "95 % interval, from",
    "high": "95 % interval, to",
    "overall": "all images, %",
    "worst": "worst class, %",
    "worst_k": "worst fifth of the classes, %",
    "mcd": "MCD, points",
    "cv": "CV, points squared",
    "cv_unbiased": "unbiased CV, points squared",
    "gini": "Gini coefficient, %",
    "explained": "share explained by the class, %",
    "precision": "precision, %",
    "gain": "gain by twice the epochs, points",
    "worst_gain": "gain of the worst class, points",
    "ratio": "ratio of the times",
    "agreement": "same verdict, %",
    "robust_ours": "robust accuracy, %",
    "ours_s": "ours, s",
    "peer_s": "theirs, s",
    "removed": "class left out",
    "row": "case",
    "of": "kind of images",
    "images_of": "images",
    "peer": "other library",
    "chosen": "epoch best by",
}


@dataclass(frozen=True)
class Category:
    """A column of categories: its name, its values in the order in which they are drawn, and its title (None: no title)."""

    field: str
    values: Sequence[str]
    title: str | None = None

    @classmethod
    def from_array(cls, array: xr.DataArray | xr.Dataset, dim: str, title: str | None = None) -> "Category":
        """Return the coordinate of a dimension."""
        return cls(dim, names_of(array, dim), title)

    @property
    def encoding(self) -> str:
        return f"{self.field}:N"

    @property
    def printed(self) -> list[str]:
        """The values as papers print them where they are attacks or defences, which classes are not, and shorter."""
        return [name if self.field in CLASSES else short_name(name) for name in map(str, self.values)]

    @property
    def label_text(self) -> Any:
        """The expression by which axes, legends and panels write the values as `printed`."""
        changed = {name: text for name, text in zip(map(str, self.values), self.printed, strict=True) if name != text}
        return f"({json.dumps(changed)})[datum.value] || (datum.label)" if changed else alt.Undefined

    @property
    def colour(self) -> alt.Color:
        """The colour of each value: classes and defences have the same in every chart, whatever is filtered."""
        legend = alt.Legend(symbolOpacity=1, symbolStrokeWidth=3, labelExpr=self.label_text)
        return alt.Color(self.encoding, sort=list(self.values), scale=self.scale, title=self.title, legend=legend)

    @property
    def x(self) -> alt.X:
        """The horizontal axis of these categories."""
        axis = alt.Axis(labelAngle=label_angle(self.printed), labelExpr=self.label_text)
        return alt.X(self.encoding, sort=list(self.values), title=self.title, axis=axis)

    @property
    def scale(self) -> alt.Scale:
        names = list(self.values)
        if self.field in ("defence", "network"):
            return alt.Scale(domain=names, range=[DEFENCE_COLOURS.get(name, GREY) for name in names])
        colours = CLASS_COLOURS if self.field in ("label", "predicted") or len(names) > len(SERIES_COLOURS) else SERIES_COLOURS
        if len(names) > len(colours):
            return alt.Scale(domain=names, scheme="tableau20")
        return alt.Scale(domain=names, range=list(colours[: len(names)]))


def live() -> bool:
    """Return whether a Jupyter server runs this kernel for somebody: then charts may talk to Python."""
    return "JPY_SESSION_NAME" in os.environ


def inline_csv(data: Any) -> Any:
    """Return a data frame as one CSV string with four significant digits: a third of the size of JSON rows."""
    if not isinstance(data, pd.DataFrame):
        return alt.default_data_transformer(data, max_rows=MAX_ROWS)
    if len(data) > MAX_ROWS:
        raise alt.MaxRowsError(f"{len(data)} rows are more than {MAX_ROWS}: aggregate or sample first")
    of_bool = [column for column, kind in data.dtypes.items() if kind.kind == "b"]
    plain = data.assign(**{str(column): data[column].map({True: "true", False: "false"}) for column in of_bool})
    parse = {str(column): _PARSE.get(kind.kind, "string") for column, kind in data.dtypes.items()}
    return {"values": plain.to_csv(index=False, float_format="%.4g"), "format": {"type": "csv", "parse": parse}}


def setup() -> None:
    """Make charts carry their rows as CSV, with text of at least 11 pixels; in JupyterLab, make them work without a network."""
    # HTML, and the specification, from which the book takes the data.
    alt.renderers.register("book", lambda spec, **metadata: {**html_renderer(spec, **metadata), CHART: json.dumps(spec)})
    alt.theme.register("classwise", enable=True)(lambda: alt.theme.ThemeConfig(config=_CONFIG))
    alt.data_transformers.register("inline_csv", inline_csv)
    alt.data_transformers.enable("inline_csv")
    alt.renderers.enable("jupyter", offline=True) if live() else alt.renderers.enable("book")


def frame(array: xr.DataArray, name: str = "value") -> pd.DataFrame:
    """Return a labelled array as a table with a column for each dimension, without the NaN.

    A further column `evaluated` has the images of each row, where these differ (`aggregate.counts`).
    """
    kept = [name, *({"evaluated"} & set(array.coords))]
    return array.rename(name).to_dataframe()[kept].dropna(subset=name).reset_index()


def wide_bounds(bounds: xr.DataArray) -> pd.DataFrame:
    """Return an array with the dimension bound ("low", "value", "high") as a table with a column for each of its members."""
    rest = [str(dim) for dim in (*bounds.dims, *({"evaluated"} & set(bounds.coords))) if dim != "bound"]
    return frame(bounds).pivot(index=rest, columns="bound", values="value").reset_index()


def names_of(array: xr.DataArray | xr.Dataset, dim: str = "label") -> list[str]:
    return [str(name) for name in array[dim].values]


def short_name(name: str) -> str:
    """Return an attack or a defence as papers print it, but shorter where charts have no room for it."""
    name = printed_name(name)
    for text, shorter in _SHORTER.items():
        name = name.replace(text, shorter)
    return name


def display_name(name: str) -> str:
    """Return what readers see in place of the name of a dimension, a column or a metric."""
    return TITLES.get(name, name)


def label_angle(labels: Sequence[str], width: int = 0) -> int:
    """Return the angle of names below a column: 0 where they are as short as digits, or fit into a column of so many pixels."""
    longest = max(map(len, labels), default=0)
    return 0 if longest <= 2 or _LETTER * longest <= width else -90


def tooltip(*names: str, **numbers: str) -> list[alt.Tooltip]:
    """Return tooltips: `names` of columns of words, and columns of numbers with their titles ("" for those of `TITLES`).

    Numbers have one digit after the point, or the format that follows a bar in their title: "share, %|.2f".
    """
    parts = [alt.Tooltip(f"{name}:N", title=display_name(name)) for name in names]
    for name, title in numbers.items():
        words, _, form = title.partition("|")
        parts.append(alt.Tooltip(f"{name}:Q", title=words or display_name(name), format=form or ".1f"))
    return parts
