"""Charts of networks with two features, each attacked in one class alone (Entropy 2022, section 2.1)."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.explorer import Choice, explorer
from classwise.charts.style import CHOSEN, HIGHEST, PERCENT, class_colour, label_angle, names_of, tooltip
from classwise.core.spec import Spec
from classwise.stats import aggregate

# The two panels, of which the reader chooses the class, and the end of their axes: directions have length 1.
_SIDES, _END = ("left", "right"), 1.2
_WIDE = 285
_KINDS = {"clean": HIGHEST, "attacked": CHOSEN}
_CROSS = "M-.6,-.6L.6,.6M.6,-.6L-.6,.6"


def planes(
    by_run: Mapping[Spec, Sequence[xr.Dataset]], outcomes: xr.Dataset, shown: Mapping[str, str], live: bool | None = None
) -> Any:
    """Return the features of images in the plane of two networks, each of a chosen class that is attacked alone.

    Below each, what the images of this class are predicted as. by_run: by a run, its features (`runs.features`) of clean images,
    and of attacked ones. outcomes: along attacked. shown: the classes at first, the one on the left first. For `live` see
    `explorer.explorer`.
    """
    count = aggregate.counts(outcomes).sum("seed").isel(defence=0, drop=True)
    count = aggregate.clean_and_attacked(count.sel(attacked=[name for name in names_of(count, "attacked") if name]))
    places, directions = _places(by_run), _directions(by_run)
    labels, names = names_of(count), names_of(count, "attacked")
    shares = _shares(count)
    panels = [
        alt.vconcat(_plane(places, directions, labels, side), _predictions(shares, labels, side), spacing=12) for side in _SIDES
    ]
    panels = [panel.resolve_scale(color="independent") for panel in panels]
    sides = zip(_SIDES, shown.values(), strict=True)
    choices = [Choice(f"{side}_class", names, start, f"attacked class, {side}") for side, start in sides]
    chart = alt.hconcat(*panels, spacing=36).resolve_scale(color="independent")
    right = shares[(shares["label"] == shares["predicted"]) & shares["label"].isin(shown.values())]
    text = extent(right, ["label", "images_are"], "Correct predictions of the attacked class")
    subtitle = "Dots: clean test images; crosses: the attacked class under attack. Rays: means of the classes."
    return explorer(described(chart, "Features in networks of which one class is attacked", text, subtitle), choices, live=live)


def _shares(count: xr.DataArray) -> pd.DataFrame:
    """Return the share of the images of each attacked class that are predicted as each class, a row each."""
    parts = [
        count.sel(attacked=name, label=name, drop=True).to_dataframe("count").assign(label=name)
        for name in names_of(count, "attacked")
    ]
    table = pd.concat(parts).reset_index()
    total = table.groupby(["label", "images_are"])["count"].transform("sum")
    return table.assign(value=100 * table["count"] / total)


def _plane(places: pd.DataFrame, directions: pd.DataFrame, labels: list[str], side: str) -> Any:
    chosen, colour = f"datum.attacked == {side}_class", class_colour(labels)
    axis = alt.Axis(labels=False, ticks=False, values=[0], gridColor="#8886", domain=False)
    scale = alt.Scale(domain=[-_END, _END], nice=False)
    x, y = alt.X("x:Q", scale=scale, axis=axis, title="feature 1"), alt.Y("y:Q", scale=scale, axis=axis, title="feature 2")
    images = alt.Chart(places).transform_filter(chosen).encode(x=x, y=y, color=colour)
    images = images.encode(tooltip=tooltip("label", "kind", "answer"))
    is_attacked = "datum.label == datum.attacked"
    dots = images.transform_filter("datum.kind == 'clean'").mark_circle(clip=True)
    size, opacity = ((alt.value(large), alt.value(small)) for large, small in ((34, 14), (0.9, 0.4)))
    dots = dots.encode(size=alt.condition(is_attacked, *size), opacity=alt.condition(is_attacked, *opacity))
    crosses = images.transform_filter("datum.kind == 'attacked'").mark_point(shape=_CROSS, size=60, strokeWidth=1.5, clip=True)
    means = alt.Chart(directions).transform_filter(chosen)
    rays = means.transform_calculate(start="0").mark_rule().encode(color=colour)
    rays = rays.encode(x=alt.X("start:Q", scale=scale, axis=axis, title="feature 1"), x2="x:Q")
    rays = rays.encode(y=alt.Y("start:Q", scale=scale, axis=axis, title="feature 2"), y2="y:Q")
    rays = rays.encode(strokeWidth=alt.condition(is_attacked, alt.value(3), alt.value(1.2)))
    words = means.transform_calculate(far="1.1 * datum.x", high="1.1 * datum.y").mark_text(fontWeight="bold")
    words = words.encode(x=alt.X("far:Q", scale=scale, axis=axis), y=alt.Y("high:Q", scale=scale, axis=axis), text="label:N")
    return alt.layer(rays, dots, crosses, words).properties(width=_WIDE, height=_WIDE)


def _predictions(shares: pd.DataFrame, labels: list[str], side: str) -> Any:
    kinds = list(_KINDS)
    scale = alt.Scale(domain=kinds, range=list(_KINDS.values()))
    bars = alt.Chart(shares).transform_filter(f"datum.label == {side}_class").mark_bar()
    bars = bars.encode(
        x=alt.X("predicted:N", sort=labels, title="predicted class", axis=alt.Axis(labelAngle=label_angle(labels))),
        xOffset=alt.XOffset("images_are:N", sort=kinds),
        y=alt.Y("value:Q", title="share, %", scale=PERCENT),
        color=alt.Color("images_are:N", scale=scale, title="images of the attacked class"),
        tooltip=tooltip("predicted", "images_are", value="share of the class, %"),
    )
    return bars.properties(width=_WIDE, height=90)


def _places(by_run: Mapping[Spec, Sequence[xr.Dataset]], most: int = 100) -> pd.DataFrame:
    """Return the features of images in the plane, a row for each: attacked (class), kind, label, answer, x, y.

    Attacked ones of the class that a run was attacked in alone, and at most so many images of each class. Lengths are shares of
    the largest but 2 % of a network.
    """
    parts = []
    for spec, (clean, moved) in by_run.items():
        names = [str(name) for name in clean.label.values]
        label = names[int(str(spec.options["label"]))]
        length = float(np.quantile(np.hypot(*clean.place.values.T), 0.98))
        for kind, data in (("clean", clean), ("attacked", moved)):
            table = pd.DataFrame(data.place.values / length, columns=["x", "y"])
            table = table.assign(label=np.array(names)[data.truth.values], answer=np.array(names)[data.answer.values])
            table = table[table["label"] == label] if kind == "attacked" else table
            parts.append(table.groupby("label").head(most).assign(attacked=label, kind=kind))
    return pd.concat(parts, ignore_index=True)


def _directions(by_run: Mapping[Spec, Sequence[xr.Dataset]]) -> pd.DataFrame:
    """Return the direction of the mean of each class on clean images, of length 1: attacked, label, x, y."""
    parts = []
    for spec, (clean, _) in by_run.items():
        mean = clean.total.sum("block") / clean.images.sum("block")
        unit = mean / np.hypot(*mean.transpose("feature", "label").values).clip(1e-12)[:, None]
        names = [str(name) for name in clean.label.values]
        table = pd.DataFrame(unit.transpose("label", "feature").values, columns=["x", "y"])
        parts.append(table.assign(label=names, attacked=names[int(str(spec.options["label"]))]))
    return pd.concat(parts, ignore_index=True)
