"""Robustness over the radius, class by class: the curve, and an explorer that moves along it.

Counts have the dimension radius, numbers in pixels of 0 to 1, with the coordinate `eps`, the radii as they were written.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise.charts import explorer, gallery, style
from classwise.charts.explorer import Choice, Show
from classwise.stats import aggregate, intervals, metrics


def counts(outcomes: xr.Dataset, curve: xr.Dataset) -> xr.DataArray:
    """Return count(radius, label, predicted) of one network: clean images at radius 0, then the radii of a curve, nested.

    Both Datasets have a dimension network of one member; `outcomes` has "clean" among its attacks, `curve` one attack and the
    dimension eval_eps.
    """
    written = [str(one) for one in curve.eval_eps.values]
    clean = outcomes[["truth", "answer", "flipped"]].sel(attack="clean", drop=True).isel(network=0, drop=True)
    attacked = curve[["truth", "answer", "flipped"]].isel(network=0, attack=0, drop=True).sortby(_numbers(written, curve))
    # What is misclassified as it is lies in every ball.
    whole = xr.concat([clean.expand_dims(eval_eps=["0"]), attacked], "eval_eps").assign_coords(predicted=curve.predicted)
    count = aggregate.counts(aggregate.cumulative_over_radius(whole))
    eps = [str(one) for one in count.eval_eps.values]
    radius = [float(Fraction(one)) for one in eps]
    return (
        count.assign_coords(radius=("eval_eps", radius), eps=("eval_eps", eps)).swap_dims(eval_eps="radius").drop_vars("eval_eps")
    )


def _numbers(written: Sequence[str], curve: xr.Dataset) -> xr.DataArray:
    return xr.DataArray([float(Fraction(one)) for one in written], dims="eval_eps", coords={"eval_eps": curve.eval_eps})


def rows(count: xr.DataArray) -> pd.DataFrame:
    """Return counts as rows with images, share and its Wilson interval; empty cells off the diagonal are left out."""
    table = count.rename("count").to_dataframe()[["eps", "count"]].reset_index()
    table["images"] = table.groupby(["radius", "label"])["count"].transform("sum")
    table = table[(table["images"] > 0) & ((table["count"] > 0) | (table["label"] == table["predicted"]))]
    low, high = intervals.proportion(table["count"], table["images"])
    return table.assign(share=100 * table["count"] / table["images"], low=low, high=high)


def _axis(count: xr.DataArray) -> alt.X:
    """Return the axis of the radius, with a mark at each that was asked for, as it was written."""
    names = {f"{radius:.6g}": eps for radius, eps in zip(count.radius.values, count.eps.values, strict=True)}
    words = " : ".join(f"format(datum.value, '.6') === format({number}, '.6') ? '{eps}'" for number, eps in names.items())
    axis = alt.Axis(values=[float(one) for one in count.radius.values], labelExpr=f"{words} : ''", labelOverlap=True, grid=False)
    return alt.X("radius:Q", title="radius of the attack", axis=axis)


def _tips(*names: str) -> list[Any]:
    return [
        *(f"{name}:N" for name in names),
        *(alt.Tooltip(f"{one}:Q", format=".1f") for one in ("low", "share", "high")),
        "images:Q",
    ]


def curve(count: xr.DataArray, shown: Sequence[str]) -> Any:
    """Return the robust accuracy of some classes over the radius, and of all images together, dashed.

    A click in the legend picks classes.
    """
    table = rows(count)
    right = table[(table["label"] == table["predicted"]) & table["label"].isin(shown)]
    overall = style.frame(metrics.overall(count).drop_vars("eps"), "share")
    picked = alt.selection_point(fields=["label"], bind="legend")
    percent = alt.Y("share:Q", title="accuracy, %", scale=alt.Scale(domain=[0, 100]))
    lines = (
        alt.Chart(right)
        .mark_line(point=True, strokeWidth=1.8)
        .encode(
            x=_axis(count),
            y=percent,
            color=style.by_class(list(shown)),
            opacity=alt.condition(picked, alt.value(1), alt.value(0.12)),
            tooltip=_tips("label", "eps"),
        )
        .add_params(picked)
    )
    whole = alt.Chart(overall).mark_line(strokeDash=[5, 4], color="#888", strokeWidth=2).encode(x=_axis(count), y=percent)
    return alt.layer(whole, lines).properties(width=520, height=280)


def per_class(count: xr.DataArray, shown: Sequence[str], eps: str, show: Show | None = None, live: bool | None = None) -> Any:
    """Return the explorer of a class: its accuracy over the radius against the others, and what it is taken for at one radius.

    shown: the classes that can be chosen, the first one at the start; eps: the radius at the start. `show` and `live` are
    described at `explore.explorer`.
    """
    labels = [str(name) for name in count.predicted.values]
    written = [str(one) for one in count.eps.values]
    choices = [
        Choice("audited_class", list(shown), shown[0], "class"),
        Choice("audited_radius", written, eps if eps in written else written[-1], "radius"),
    ]
    table = rows(count)
    base = alt.Chart(table[table["label"].isin(shown)])
    return explorer.explorer(_over_radii(base, count) & _taken_for(base, labels), choices, show, live)


def _title(text: str) -> alt.Title:
    return alt.Title(text, anchor="start", fontWeight="normal", fontSize=12)


def _over_radii(base: alt.Chart, count: xr.DataArray) -> Any:
    rates = base.transform_filter("datum.label == datum.predicted").encode(x=_axis(count))
    percent = alt.Y("share:Q", title="accuracy, %", scale=alt.Scale(domain=[0, 100]))
    chosen = rates.transform_filter("datum.label == audited_class")
    others = rates.mark_line(strokeWidth=1, opacity=0.45, color="#999")
    band = chosen.mark_area(opacity=0.25, color="#e45756").encode(y=alt.Y("low:Q", title="accuracy, %"), y2="high:Q")
    line = chosen.mark_line(strokeWidth=3, point={"color": "#e45756"}, color="#e45756").encode(
        y=percent, tooltip=_tips("label", "eps")
    )
    now = chosen.transform_filter("datum.eps == audited_radius").mark_rule(strokeDash=[3, 3], color="#888")
    text = "the chosen class over the radius, with its 95 % interval; grey: the others"
    layers = others.encode(y=percent, detail="label:N", tooltip=_tips("label", "eps")), band, now, line
    return alt.layer(*layers).properties(width=520, height=230, title=_title(text))


def _taken_for(base: alt.Chart, labels: Sequence[str]) -> Any:
    now = base.transform_filter("datum.label == audited_class && datum.eps == audited_radius")
    most = now.transform_window(place="rank()", sort=[alt.SortField("count", order="descending")]).transform_filter(
        "datum.place <= 12"
    )
    order = alt.EncodingSortField("share", op="max", order="descending")
    y = alt.Y("predicted:N", sort=order, title=None)
    bars = most.mark_bar().encode(
        x=alt.X("share:Q", title="share, %", scale=alt.Scale(domain=[0, 100])),
        y=y,
        color=alt.condition("datum.label == datum.predicted", alt.value("#4c78a8"), alt.value("#e45756")),
        tooltip=["predicted:N", "count:Q", *_tips()],
    )
    ends = most.mark_rule(strokeWidth=1.5, color="#777").encode(x="low:Q", x2="high:Q", y=y)
    text = "what its images are answered as at the chosen radius"
    return alt.layer(bars, ends).properties(width=520, height=alt.Step(20), title=_title(text))


def attacked_now(attack: Callable[..., xr.Dataset], name: str, count: int = 4) -> Show:
    """Return what `per_class` shows in a live kernel: images of the chosen class, attacked now at the chosen radius.

    `attack` comes from `run.attacker`; `name` is the network's.
    """

    def show(audited_class: str, audited_radius: str) -> Any:
        found = attack(label=audited_class, count=count, eps=audited_radius)
        return gallery.shown(pd.DataFrame(gallery.pictures(found, name)))

    return show
