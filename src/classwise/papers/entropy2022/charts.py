"""Charts of Entropy 2022 of the features of classes: their similarity and variance, with intervals."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.primitives import dots_with_intervals, from_legend
from classwise.charts.style import Category, names_of, panel_title, wide_bounds

_TITLES = {"similarity": "largest cosine with another class", "variance": "variance of the features"}


def profile_rows(rows: Mapping[str, xr.DataArray], title: str, colour: str = "defence") -> Any:
    """Return similarity and variance of each class with intervals, a row for each group of networks.

    rows: by the name of a group, dimensions measure, label, `colour` and bound (of `similarity.profile`), with the same members
    of `colour`. A click in the legend picks networks.
    """
    members = dict.fromkeys(name for bounds in rows.values() for name in names_of(bounds, colour))
    picked, hues = from_legend(Category(colour, list(members)))
    drawn = [_profiles(bounds, name, hues, picked) for name, bounds in rows.items()]
    panels = [panel for some, _ in drawn for panel in some]
    chart = alt.concat(panels[0].add_params(picked), *panels[1:], columns=len(drawn[0][0]))
    return described(chart, title, " ".join(text for _, text in drawn))


def _profiles(bounds: xr.DataArray, name: str, hues: Category, picked: alt.Parameter) -> tuple[list[Any], str]:
    """Return a panel for each measure, and what they show in words; name: of all of them."""
    classes, panels, texts = Category.of(bounds, "label", "class"), [], []
    for measure in names_of(bounds, "measure"):
        table, axis = _rows(bounds.sel(measure=measure, drop=True)), _TITLES[measure]
        scale = alt.Scale(zero=measure == "variance")
        panel = dots_with_intervals(table, classes, f"{axis}|.3f", hues, vertical=True, scale=scale, picked=picked)
        panel = panel.properties(width=260, height=200)
        panels.append(panel.properties(title=panel_title(name)) if name else panel)
        texts.append(extent(table, ["label", hues.field], f"{name}, {axis}" if name else axis, "", digits=3))
    return panels, " ".join(texts)


def _rows(bounds: xr.DataArray) -> pd.DataFrame:
    """Return bounds as rows; a value without an interval has its value as both ends."""
    table = wide_bounds(bounds).reindex(columns=[*(str(dim) for dim in bounds.dims if dim != "bound"), "low", "value", "high"])
    return table.assign(low=table["low"].fillna(table["value"]), high=table["high"].fillna(table["value"]))
