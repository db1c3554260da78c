"""Charts of Entropy 2022 of the features of classes: their similarity and variance, with intervals."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.primitives import dots_with_intervals, faded, from_legend
from classwise.charts.style import Category, names_of, panel_title, tooltip, wide_bounds

_TITLES = {"similarity": "largest cosine with another class", "variance": "variance of the features"}


def profiles(bounds: xr.DataArray, title: str = "Similarity and variance of each class", colour: str = "defence") -> Any:
    """Return similarity and variance of each class side by side, with their intervals, a colour for each network.

    bounds: of `similarity.profile`, dimensions measure, label, `colour` and bound. A click in the legend picks networks.
    """
    return profile_rows({"": bounds}, title, colour)


def profile_rows(rows: Mapping[str, xr.DataArray], title: str, colour: str = "defence") -> Any:
    """Return `profiles` of several groups of networks, each a row with its name, with the same members of `colour`."""
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


def drops(bounds: xr.DataArray) -> Any:
    """Return by how much the clean accuracy of each class is below that of standard training, with intervals and mean lines.

    bounds: in points, dimensions label, defence and bound. The dashed lines are the means over the classes: even shares.
    """
    classes, (picked, hues) = Category.of(bounds, "label", "class"), from_legend(Category.of(bounds, "defence"))
    table, axis = _rows(bounds), "drop of clean accuracy, points"
    dots = dots_with_intervals(table, classes, axis, hues, vertical=True, scale=alt.Scale(nice=True), picked=picked)
    even = alt.Chart(table).mark_rule(strokeDash=[4, 3]).encode(y="mean(value):Q", color=hues.colour, opacity=faded(picked))
    text = extent(table, ["label", "defence"], "Drop of the clean accuracy of a class", "points", digits=1)
    chart = alt.layer(even, dots).properties(width=560, height=190).add_params(picked)
    return described(chart, "Which classes lose clean accuracy to adversarial training", text)


def by_accuracy(bounds: xr.DataArray) -> Any:
    """Return the mean similarity of networks over their clean accuracy: standard trainings of several lengths, and others.

    bounds: dimensions quantity ("accuracy", "similarity"), network and bound; the coordinate `epochs` of standard trainings, 0 of
    others.
    """
    parts = [wide_bounds(bounds.sel(quantity=name, drop=True)).set_index("network") for name in ("accuracy", "similarity")]
    table = (
        parts[1]
        .join(parts[0].rename(columns={"value": "accuracy", "low": "accuracy, low", "high": "accuracy, high"}))
        .reset_index()
    )
    table = table.merge(pd.DataFrame({"network": names_of(bounds, "network"), "epochs": bounds.epochs.values}))
    colour = Category("defence", ["standard", *table["network"][table["epochs"] == 0]]).scale
    base = alt.Chart(table).transform_calculate(kind="datum.epochs > 0 ? 'standard' : datum.network")
    words = base.transform_filter("datum.epochs > 0").mark_text(dy=-12)
    base = base.encode(color=alt.Color("kind:N", scale=colour, title=None, legend=alt.Legend(symbolOpacity=1)))
    x = alt.X("accuracy:Q", title="clean accuracy, %", scale=alt.Scale(zero=False, nice=True))
    y = alt.Y("low:Q", title="mean largest cosine", scale=alt.Scale(zero=False))
    tips = tooltip("network", value="mean largest cosine|.3f", accuracy="clean accuracy, %")
    lines = base.mark_rule(strokeWidth=2).encode(x=x, y=y, y2="high:Q")
    spans = base.mark_rule(strokeWidth=1).encode(
        x=alt.X("accuracy, low:Q", title="clean accuracy, %"), x2="accuracy, high:Q", y="value:Q"
    )
    dots = base.mark_point(filled=True, size=60, opacity=1).encode(x=x, y="value:Q", tooltip=tips)
    path = base.transform_filter("datum.epochs > 0").mark_line(strokeDash=[3, 3]).encode(x=x, y="value:Q", order="epochs:Q")
    words = words.encode(x=x, y="high:Q", text="epochs:Q")
    text = extent(table, ["network"], "Mean largest cosine", "", digits=3)
    chart = alt.layer(path, lines, spans, dots, words).properties(width=560, height=240)
    return described(chart, "Similarity of networks of the same clean accuracy", text, "Numbers: epochs of standard training.")
