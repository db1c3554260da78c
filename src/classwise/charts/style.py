"""From labelled arrays to Altair charts: one function a figure.

Rates are in percent. Charts carry their rows as one CSV string, so call `setup()` once before the first is shown.
"""

import os
from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

MAX_ROWS = 50_000
_PARSE = {"i": "number", "u": "number", "f": "number", "b": "boolean"}
SEQUENTIAL = ["#fffaf3", "#fdbb84", "#d7301f", "#7f0000"]
PERCENT = alt.Scale(domain=[0, 100])


def live() -> bool:
    """Return whether a Jupyter server runs this kernel for somebody: then charts may talk to Python."""
    return "JPY_SESSION_NAME" in os.environ


def inline_csv(data: Any) -> Any:
    """Return a data frame as one CSV string with four significant digits: a third of the size of JSON rows."""
    if not isinstance(data, pd.DataFrame):
        return alt.default_data_transformer(data, max_rows=MAX_ROWS)
    if len(data) > MAX_ROWS:
        raise alt.MaxRowsError(f"{len(data)} rows are more than {MAX_ROWS}: aggregate or sample first")
    plain = data.copy()
    for column in plain.columns:
        if plain[column].dtype.kind == "b":
            plain[column] = plain[column].map({True: "true", False: "false"})
    parse = {str(column): _PARSE.get(kind.kind, "string") for column, kind in data.dtypes.items()}
    return {"values": plain.to_csv(index=False, float_format="%.4g"), "format": {"type": "csv", "parse": parse}}


def setup() -> None:
    """Make charts carry their rows as CSV; in JupyterLab, make them work without a network."""
    alt.data_transformers.register("inline_csv", inline_csv)
    alt.data_transformers.enable("inline_csv")
    if live():
        alt.renderers.enable("jupyter", offline=True)


def frame(array: xr.DataArray, name: str = "value") -> pd.DataFrame:
    """Return a labelled array as a table with a column for each dimension, without the NaN."""
    return array.rename(name).to_dataframe()[name].dropna().reset_index()


def by_class(labels: Sequence[str], field: str = "label", **kwargs: Any) -> alt.Color:
    """Return the colour of each class: the same in every chart, whatever is filtered."""
    return alt.Color(f"{field}:N", scale=palette(labels), title="class", **kwargs)


def angle(labels: Sequence[str]) -> int:
    """Return how the names of classes stand below a column: upright where they are as short as digits."""
    return 0 if max(map(len, labels)) <= 2 else -90


def palette(labels: Sequence[str]) -> alt.Scale:
    """Return the scale that gives each class its colour."""
    return alt.Scale(domain=list(labels), scheme="tableau10" if len(labels) <= 10 else "tableau20")


def names_of(array: xr.DataArray | xr.Dataset, dim: str = "label") -> list[str]:
    return [str(name) for name in array[dim].values]


# From far below the whole network to far above it.
DIVERGING = ["#7f0000", "#d7301f", "#fdbb84", "#fff7ec", "#c7e0ee", "#4292c6", "#08306b"]


def wide_bounds(bounds: xr.DataArray) -> pd.DataFrame:
    """Return a table with the columns low, value and high."""
    rest = [str(dim) for dim in bounds.dims if dim != "bound"]
    return frame(bounds).pivot(index=rest, columns="bound", values="value").reset_index()


def bound_tooltips(digits: str = ".1f") -> list[alt.Tooltip]:
    return [alt.Tooltip(f"{end}:Q", format=digits, title=end) for end in ("low", "value", "high")]


def class_colour(field: str, names: list[str]) -> alt.Color:
    scale = alt.Scale(domain=names, scheme="tableau10")
    return alt.Color(f"{field}:N", sort=names, scale=scale, title=None, legend=alt.Legend(symbolOpacity=1))
