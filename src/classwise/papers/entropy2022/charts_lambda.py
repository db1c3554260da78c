"""The explorer of a class of TRADES over lambda (Entropy 2022, Figure 9)."""

from typing import Any

import altair as alt
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.explorer import Choice, explorer
from classwise.charts.style import CHOSEN, GREY, frame, names_of, panel_title, tooltip

QUANTITIES = {
    "similarity": "largest cosine",
    "variance": "variance",
    "clean": "clean accuracy, %",
    "robust": "robust accuracy, %",
    "entropy": "entropy, clean, nats",
}


def one_class(values: xr.DataArray) -> Any:
    """Return the explorer of a class over lambda: what is measured of it, and of the other classes in grey.

    values: along quantity (QUANTITIES), label and `lambda`. The class at first is the most similar one with the largest lambda.
    """
    labels, start = names_of(values), str(values.sel(quantity="similarity").isel({"lambda": -1}).idxmax("label").item())
    choices = [Choice("chosen_class", labels, start, "class")]
    table, places = frame(values), [float(value) for value in values["lambda"].values]
    x = alt.X("lambda:Q", title="λ", scale=alt.Scale(type="log", nice=False, padding=12), axis=alt.Axis(values=places))
    panels = []
    for name, title in QUANTITIES.items():
        part = table[table["quantity"] == name]
        y = alt.Y("value:Q", title=None, scale=alt.Scale(zero=False))
        base = alt.Chart(part).encode(x=x, y=y, detail="label:N", tooltip=tooltip("label", "lambda", value=f"{name}|.3f"))
        others = base.transform_filter("datum.label != chosen_class").mark_line(color=GREY, strokeWidth=1, opacity=0.5)
        chosen = base.transform_filter("datum.label == chosen_class").mark_line(
            color=CHOSEN, strokeWidth=3, point={"color": CHOSEN}
        )
        panels.append(alt.layer(others, chosen).properties(width=165, height=140, title=panel_title(title)))
    first = table[(table["label"] == start) & (table["quantity"] == "similarity")]
    text = extent(first, ["lambda"], f"Largest cosine of class {start}", "", digits=3)
    return explorer(described(alt.concat(*panels, columns=3, spacing=14), "One class of TRADES over λ", text), choices)
