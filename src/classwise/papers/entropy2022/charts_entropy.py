"""Charts of the entropy of predictions, in nats (Entropy 2022, Figure 7)."""

import math
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise.charts.curves import EPOCH
from classwise.charts.descriptions import described, extent
from classwise.charts.explorer import Choice, explorer
from classwise.charts.primitives import from_legend, lines_with_bands, panels
from classwise.charts.style import (
    CHOSEN,
    GREY,
    SERIES_COLOURS,
    Category,
    frame,
    names_of,
    tooltip,
    wide_bounds,
)

_ENTROPY = "entropy, nats"
# As those of a chart with the two as its series.
_SIDES = dict(zip(("right", "wrong"), SERIES_COLOURS[:2], strict=True))


def _limit(table: pd.DataFrame, classes: int) -> tuple[Any, Any]:
    """Return the line of the largest entropy, and its name, in each panel."""
    base = alt.Chart(table).transform_aggregate(rows="count()", groupby=["images_are"]).encode(y=alt.datum(math.log(classes)))
    words = base.mark_text(align="right", baseline="bottom", dy=-3, text=f"ln {classes}")
    return base.mark_rule(strokeDash=[5, 4], color="#888", strokeWidth=2, aria=False), words.encode(x=alt.value("width"))


def course(entropy: xr.DataArray, classes: int) -> Any:
    """Return the mean entropy over the epochs, of clean and of attacked images, with the range of the seeds.

    entropy: of `maximum_entropy.course`. Of a single epoch each network is a dot.
    """
    parts = {"low": entropy.min("seed"), "value": entropy.mean("seed"), "high": entropy.max("seed")}
    ends = xr.concat(parts.values(), "bound").assign_coords(bound=list(parts))
    table = wide_bounds(ends)
    picked, hues = from_legend(Category.of(entropy, "defence"))
    tips = tooltip("defence", "epoch", value=f"{_ENTROPY}|.2f", low="lowest seed|.2f", high="highest seed|.2f")
    scale = alt.Scale(domain=[0, 1.05 * math.log(classes)])
    lines = lines_with_bands(table, EPOCH, _ENTROPY, hues.colour, tips, scale=scale, picked=picked)
    chart = alt.layer(*_limit(table, classes), lines).properties(width=270, height=230)
    chart = panels(chart, Category("images_are", names_of(entropy, "images_are")), 2).add_params(picked)
    last = table[table["epoch"] == table["epoch"].max()]
    text = extent(last, ["defence", "images_are"], "Mean entropy after the last epoch", "nats", digits=2)
    return described(chart, "Mean entropy of clean and of attacked test images", text, "Band: lowest to highest seed.")


def distribution(count: xr.DataArray, start: str, live: bool | None = None) -> Any:
    """Return the explorer of a class and a network: how many of its images have which entropy.

    count: of `maximum_entropy.bins`. start: the network at first, with its class of the most mistakes under attack. `live` as for
    `explorer.explorer`.
    """
    names, labels = names_of(count, "defence"), names_of(count)
    wrong = count.sel(defence=start, attack="attacked", images_are="wrong").sum("bin")
    choices = [
        Choice("chosen_class", ["all", *labels], str(wrong.idxmax("label").values), "class"),
        Choice("chosen_network", names, start, "network"),
        Choice("chosen_images", ["clean", "attacked"], "attacked", "images"),
    ]
    table = frame(count.where(count > 0)).rename(columns={"attack": "form"})
    bins = count.bin.values
    base = alt.Chart(table).transform_filter("chosen_class == 'all' || datum.label == chosen_class")
    base = base.transform_filter("datum.defence == chosen_network && datum.form == chosen_images")
    base = base.transform_calculate(end=f"datum.bin + {bins[1] - bins[0]}")
    hues = alt.Color(
        "images_are:N",
        scale=alt.Scale(domain=list(_SIDES), range=list(_SIDES.values())),
        legend=alt.Legend(title=None, symbolOpacity=1),
    )
    bars = base.mark_bar(binSpacing=1).encode(
        x=alt.X("bin:Q", title=_ENTROPY, scale=alt.Scale(domain=[0, math.log(len(labels))], nice=False), bin="binned"),
        x2="end",
        y=alt.Y("sum(value):Q", title="images", axis=alt.Axis(format="d", tickMinStep=1)),
        color=hues,
        tooltip=[
            *tooltip("images_are", bin="entropy, from|.2f", end="to|.2f"),
            alt.Tooltip("sum(value):Q", title="images"),
        ],
    )
    text = f"Of {start} under attack, {int(wrong.sum())} images are wrong, most of them of class {choices[0].value}."
    described_bars = bars.properties(width=585, height=190) & _means(table, names, bins)
    return explorer(described(described_bars, "Entropy of the images of a class", text), choices, live=live)


def _means(table: pd.DataFrame, names: list[str], bins: Any) -> Any:
    """Return the mean entropy of the chosen class in all networks, the chosen one marked."""
    middle = float(bins[1] - bins[0]) / 2
    base = alt.Chart(table).transform_filter(
        "(chosen_class == 'all' || datum.label == chosen_class) && datum.form == chosen_images"
    )
    base = base.transform_calculate(weighted=f"datum.value * (datum.bin + {middle})")
    base = base.transform_aggregate(total="sum(weighted)", images="sum(value)", groupby=["defence", "images_are"])
    base = base.transform_calculate(mean="datum.total / datum.images")
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(
        y=alt.Y("defence:N", sort=names, title=None, axis=alt.Axis(labelLimit=260, grid=True)),
        x=alt.X("mean:Q", title="mean entropy of the chosen images, nats", scale=alt.Scale(zero=True)),
        color=alt.Color("images_are:N"),
        stroke=alt.condition("datum.defence == chosen_network", alt.value(CHOSEN), alt.value(GREY)),
        tooltip=tooltip("defence", "images_are", mean=f"{_ENTROPY}|.2f", images="images|.0f"),
    )
    return dots.properties(width=585, height=22 * len(names))
