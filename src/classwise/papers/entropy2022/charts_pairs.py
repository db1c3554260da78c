"""Charts of networks of two classes: errors by similarity, and the victim next to its partner. Errors are in percent."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.explorer import Choice, explorer
from classwise.charts.primitives import dots_with_intervals, from_legend, panels
from classwise.charts.style import Category, tooltip, wide_bounds
from classwise.papers.entropy2022.pairs import KINDS

_ERROR, _SIMILARITY = "error of the pair, %", "cosine with the victim"
_SOURCES = {"features": "mean features, standard training", "pixels": "mean images"}


def errors_along(table: pd.DataFrame, order: Sequence[str]) -> Any:
    """Return errors of pairs, in the order of similarity, with their intervals: a panel a training.

    table: of `pairs.error_table`. A click in the legend picks an attack.
    """
    both = table[table["images of"] == "both"].assign(kind=lambda rows: rows["attack"].map(KINDS))
    picked, hues = from_legend(Category("kind", list(KINDS.values()), "error"))
    along = Category("partner", list(order), "partner, from the least to the most similar")
    scale = alt.Scale(domain=[0, max(60.0, float(both["high"].max()))])
    chart = dots_with_intervals(both, along, _ERROR, hues, vertical=True, scale=scale, picked=picked)
    chart = panels(chart.properties(width=260, height=230), _trainings(both)).add_params(picked)
    text = extent(both, ["partner", "kind", "defence"], "Error of a pair")
    return described(chart, "Errors of pairs of classes, in the order of their similarity", text)


def similarity_dots(similarity: xr.DataArray, order: Sequence[str]) -> Any:
    """Return the cosine of the victim with each partner, of features and of images: along source, partner and bound."""
    table = wide_bounds(similarity).assign(source=lambda rows: rows["source"].map(_SOURCES))
    picked, hues = from_legend(Category("source", [_SOURCES[str(name)] for name in similarity.source.values], "cosine of"))
    scale = alt.Scale(zero=False)
    rows = Category("partner", list(order)[::-1], "partner")
    chart = dots_with_intervals(table, rows, f"{_SIMILARITY}|.3f", hues, scale=scale, picked=picked)
    chart = chart.add_params(picked).properties(width=470, height=22 * len(order))
    return described(
        chart, "How similar each class is to the victim", extent(table, ["partner", "source"], _SIMILARITY, "", digits=2)
    )


def victim_and_partner(table: pd.DataFrame, order: Sequence[str], victim: str, attack: str = "pgd-20") -> Any:
    """Return the error of the victim and of its partner in the network of each pair, under an attack: a panel a training."""
    names = _named(victim)
    rows = table[(table["images of"] != "both") & (table["attack"] == attack)]
    rows = rows.assign(who=rows["images of"].map(names))
    picked, hues = from_legend(Category("who", list(names.values()), "images of"))
    chart = dots_with_intervals(rows, Category("partner", list(order), "partner"), "error, %", hues, vertical=True, picked=picked)
    chart = panels(chart.properties(width=260, height=180), _trainings(rows)).add_params(picked)
    text = extent(rows, ["who", "partner", "defence"], f"Error of single classes {KINDS[attack]}")
    return described(chart, f"Errors of the victim and of its partner {KINDS[attack]}", text)


def _trainings(rows: pd.DataFrame) -> Category:
    return Category("defence", list(dict.fromkeys(rows["defence"])))


def _named(victim: str) -> Mapping[str, str]:
    return {"victim": f"class {victim}", "partner": "the partner"}


def pair_explorer(table: pd.DataFrame, order: Sequence[str], victim: str, live: bool | None = None) -> Any:
    """Return the explorer of a pair: the errors of its two classes by training and attack, for the partner that is chosen.

    It begins with the most similar partner. For `live` see `charts.explorer.explorer`.
    """
    rows = table[table["images of"] != "both"].assign(kind=lambda some: some["attack"].map(KINDS))
    rows["who"] = rows["images of"].map(_named(victim))
    choice = Choice("chosen_partner", list(order), order[-1], "partner")
    hues = Category("who", list(_named(victim).values()), "images of")
    base = alt.Chart(rows).transform_filter("datum.partner == chosen_partner")
    base = base.encode(
        y=alt.Y("kind:N", sort=list(KINDS.values()), title=None),
        yOffset=alt.YOffset("who:N", sort=list(hues.values)),
        color=hues.colour,
        tooltip=tooltip("partner", "defence", "kind", "who", value="error, %", low="", high="", images="images|.0f"),
    )
    x = alt.X("value:Q", title="error, %", scale=alt.Scale(domain=[0, 100]))
    bars = base.mark_bar(opacity=0.75).encode(x=x)
    rules = base.mark_rule(strokeWidth=1.5, color="#555").encode(
        x=alt.X("low:Q", title="error, %"), x2="high:Q", color=alt.value("#555")
    )
    chart = panels(alt.layer(bars, rules).properties(width=250, height=120), _trainings(rows))
    first = rows[rows["partner"] == order[-1]]
    text = extent(first, ["who", "kind", "defence"], f"Errors with partner {order[-1]}")
    return explorer(described(chart, f"Class {victim} and one other class", text), [choice], live=live)
