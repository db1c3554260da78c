"""The explorer of a class: over epochs, over the radius of an attack, or by any categories.

Above, the accuracy of the chosen class and of all others; below, the classes that its images are predicted as.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise.charts.curves import EPOCH
from classwise.charts.descriptions import LINES, describe, extent, panel_title
from classwise.charts.primitives import Choice, Show, class_lines, explorer, highlight, lines_with_bands
from classwise.charts.style import CHOSEN, GREY, PERCENT, Category, display_name, frame, label_angle, names_of, tooltip
from classwise.core.identity import radius_name
from classwise.core.markup import printed_name
from classwise.stats import aggregate, intervals, metrics

# As many predicted classes have a bar.
_MOST_BARS = 12
# Of `category_explorer`, in pixels: a row, which a phone names in two lines; names and plot together; a letter; the least plot.
_ROW, _WIDTH, _NAME, _LEAST_WIDTH = 31, 600, 7, 320
_TICKS, _RIGHT = list(range(0, 101, 20)), "datum.label == datum.predicted"
_ABOVE = "accuracy of the chosen class, with its 95 % interval; grey: the other classes"
_INTERVAL: dict[str, str] = {"low": "", "high": "", "count": "images predicted so|.0f", "images": "images of the class|.0f"}


def rows(count: xr.DataArray, design: float = 1.0) -> pd.DataFrame:
    """Return counts as rows with images, share and its Wilson interval, in percent; empty cells off the diagonal are left out.

    design: by how much the variance of shares exceeds that of independent images (`pooling.design_effect`).
    """
    columns = ["count", *(["eps"] if "eps" in set(count.coords) - set(count.dims) else [])]
    table = count.rename("count").to_dataframe()[columns].reset_index()
    cell = [str(dim) for dim in count.dims if dim != "predicted"]
    table["images"] = table.groupby(cell)["count"].transform("sum")
    table = table[(table["images"] > 0) & ((table["count"] > 0) | (table["label"] == table["predicted"]))]
    low, high = intervals.proportion(table["count"] / design, table["images"] / design)
    return table.assign(value=100 * table["count"] / table["images"], low=low.round(1), high=high.round(1))


@dataclass(frozen=True)
class Along:
    """The axis of an explorer: its name, the column of its places, and whether the places between them can be chosen, too."""

    x: alt.X
    name: str
    column: str
    between: bool = False

    def chart_at(self, base: alt.Chart) -> alt.Chart:
        """Return the chart at the chosen place; an epoch that was not measured shows the last before it that was."""
        if not self.between:
            return base.transform_filter(f"datum.{self.column} == chosen_{self.name}")
        past = base.transform_filter(f"datum.{self.column} <= chosen_{self.name}")
        past = past.transform_joinaggregate(latest=f"max({self.column})")
        return past.transform_filter(f"datum.{self.column} == datum.latest")


def epoch_explorer(history: xr.Dataset, show: Show | None = None, design: float = 1.0, start: str | None = None) -> Any:
    """Return the explorer of a class over the epochs.

    history: schema "history 1" along defence and seed, which are pooled. The reader chooses class, defence, clean or attacked
    images, split and epoch. start: the defence at first, with its least robust class; None is the last one.
    """
    count = aggregate.clean_and_attacked(history["count"].sum("seed"))
    count = count.sel(epoch=aggregate.measured_epochs(history["count"].sel(split="test", drop=True)).epoch)
    labels, defences = names_of(count), names_of(count, "defence")
    first = start if start in defences else defences[-1]
    last = metrics.accuracy(count.sel(defence=first).isel(epoch=-1).sel(split="test", images_are="attacked"))
    epochs = [int(epoch) for epoch in count.epoch.values]
    choices = [
        Choice("chosen_class", labels, str(last.idxmin("label").values), "class"),
        Choice("chosen_defence", defences, first, "defence"),
        Choice("chosen_images", ["clean", "attacked"], "attacked", "images"),
        Choice("chosen_split", names_of(count, "split"), "test", "split"),
        Choice("chosen_epoch", list(range(epochs[0], epochs[-1] + 1)), epochs[-1], "epoch"),
    ]
    shown = "datum.defence == chosen_defence && datum.images_are == chosen_images && datum.split == chosen_split"
    along = Along(EPOCH, "epoch", "epoch", between=True)
    text = extent(frame(last), ["label"], f"Robust accuracy of {printed_name(first)} on test images after the last epoch")
    chart = panels_along(rows(count, design), labels, along, shown)
    return explorer(describe(chart, "One class over the epochs", text), choices, show)


def radius_explorer(count: xr.DataArray, shown: Sequence[str], eps: str, show: Show | None = None) -> Any:
    """Return the explorer of a class over the radius of an attack.

    count: of `radius_counts`. shown: the classes that can be chosen, first the one at the start. eps: the radius at the start.
    """
    written, at = names_of(count, "eps"), radius_name(eps)
    choices = [
        Choice("chosen_class", list(shown), shown[0], "class"),
        Choice("chosen_radius", written, at if at in written else written[-1], "radius"),
    ]
    table = rows(count.sel(label=[name for name in names_of(count) if name in shown]))
    start = table[(table["eps"] == choices[1].value) & (table["label"] == table["predicted"])]
    text = extent(start, ["label"], f"Accuracy at radius {choices[1].value}")
    chart = panels_along(table, names_of(count, "predicted"), Along(_radius(count), "radius", "eps"))
    return explorer(describe(chart, "One class over the radius of the attack", text), choices, show)


def category_explorer(count: xr.DataArray, by: Category, start: str | None = None) -> Any:
    """Return the explorer of a class by networks, optimisers, training sets, corruptions or other settings without an order.

    count: pooled, with the dimension of `by`, label and predicted; of further ones, such as defence, the reader chooses a member,
    at first the last. by: the settings as drawn, with their title in the singular. start: the setting at first, with its least
    accurate class; None is the first one.
    """
    labels, values, title = names_of(count), list(by.values), by.title or by.field
    further = {str(dim): names_of(count, str(dim)) for dim in count.dims if dim not in (by.field, "label", "predicted")}
    first = {by.field: values[0] if start is None else start, **{dim: names[-1] for dim, names in further.items()}}
    last = metrics.accuracy(count.sel(first, drop=True))
    choices = [
        Choice("chosen_class", labels, str(last.idxmin("label").values), "class"),
        *(Choice(f"chosen_{display_name(dim)}", names, first[dim], display_name(dim)) for dim, names in further.items()),
        Choice(f"chosen_{by.field}", values, first[by.field], title),
    ]
    shown = " && ".join(f"datum.{dim} == chosen_{display_name(dim)}" for dim in further) or "true"
    base, of_class = _counted(rows(count.sel({by.field: values})), shown)
    now = of_class.transform_filter(f"datum.{by.field} == chosen_{by.field}")
    text = extent(frame(last), ["label"], f"Accuracy, {printed_name(', '.join(first.values()))}")
    wide = max(_LEAST_WIDTH, _WIDTH - _NAME * max(map(len, by.printed)))
    shares = _predictions(now, names_of(count, "predicted"), by.field, title)
    chart = _by_row(base, of_class, by).properties(width=wide) & shares.properties(width=wide)
    return explorer(describe(chart, f"One class by {title}", text), choices)


def _counted(table: pd.DataFrame, shown: str) -> tuple[alt.Chart, alt.Chart]:
    """Return the charts of the shown rows and of those of the chosen class; Vega computes shares, as the page is smaller so."""
    base = alt.Chart(table.drop(columns="value")).transform_filter(shown)
    base = base.transform_calculate(value="100 * datum.count / datum.images")
    return base, base.transform_filter("datum.label == chosen_class")


def _by_row(base: alt.Chart, of_class: alt.Chart, by: Category) -> Any:
    """Return the accuracies of all classes as ticks, a row for each member of `by`, and of the chosen class with intervals."""
    axis = alt.Axis(labelLimit=260, labelPadding=8, ticks=False, grid=True, labelExpr=by.label_text)
    y = alt.Y(by.encoding, sort=list(by.values), scale=alt.Scale(domain=list(by.values)), title=None, axis=axis)
    x, low = (alt.X(name, title="accuracy, %", scale=PERCENT, axis=alt.Axis(values=_TICKS)) for name in ("value:Q", "low:Q"))
    tips = tooltip("label", by.field, value="accuracy, %", **_INTERVAL)
    of_class = of_class.transform_filter(_RIGHT).encode(y=y, tooltip=tips)
    # The row of the chosen member is shaded from end to end.
    row = of_class.transform_filter(f"datum.{by.field} == chosen_{by.field}").mark_rect(color=GREY, opacity=0.18, aria=False)
    others = base.transform_filter(f"{_RIGHT} && datum.label != chosen_class").encode(x=x, y=y, tooltip=tips)
    others = others.mark_tick(color=GREY, thickness=2, size=15, opacity=0.7)
    ends = of_class.mark_rule(strokeWidth=2, color=CHOSEN).encode(x=low, x2="high:Q")
    dots = of_class.mark_point(filled=True, size=65, opacity=1, color=CHOSEN).encode(x=x)
    return alt.layer(row, others, ends, dots).properties(height=_ROW * len(by.values), title=panel_title(_ABOVE))


def panels_along(table: pd.DataFrame, labels: Sequence[str], along: Along, shown: str = "true") -> Any:
    """Return the accuracies of `rows` along an axis, above what the images of the chosen class are predicted as at one place."""
    base, of_class = _counted(table, shown)
    y = alt.Y("value:Q", title="accuracy, %", scale=PERCENT)
    tips = tooltip("label", along.column, value="accuracy, %", **_INTERVAL)
    others = base.transform_filter(_RIGHT).mark_line(strokeWidth=1.2, opacity=0.55, color=GREY)
    others = others.encode(x=along.x, y=y, detail="label:N", tooltip=tips)
    chosen = lines_with_bands(of_class.transform_filter(_RIGHT), along.x, "accuracy, %", alt.value(CHOSEN), tips, scale=PERCENT)
    now = along.chart_at(of_class.transform_filter(_RIGHT)).mark_rule(strokeDash=[3, 3], color="#888").encode(x=along.x)
    above = alt.layer(others, now, chosen).properties(width=600, height=220, title=panel_title(_ABOVE))
    return above & _predictions(along.chart_at(of_class), labels, along.column, display_name(along.name))


def _predictions(now: alt.Chart, labels: Sequence[str], column: str, chosen: str) -> Any:
    order: Any = list(labels)
    domain = alt.Scale(domain=order)
    if len(labels) > _MOST_BARS:
        now = now.transform_window(place="rank()", sort=[alt.SortField("count", order="descending")])
        now, domain = now.transform_filter(f"datum.place <= {_MOST_BARS}"), alt.Scale()
        order = alt.EncodingSortField("value", op="max", order="descending")
    axis = alt.Axis(labelAngle=label_angle(labels))
    base = now.encode(
        x=alt.X("predicted:N", sort=order, scale=domain, title="predicted class", axis=axis),
        tooltip=tooltip("predicted", column, value="share of the class, %", **_INTERVAL),
    )
    bars = base.mark_bar().encode(
        y=alt.Y("value:Q", title="share of the class, %", scale=PERCENT),
        color=alt.condition(_RIGHT, alt.value(CHOSEN), alt.value(GREY)),
    )
    ends = base.mark_rule(strokeWidth=1.5, color="#777").encode(y="low:Q", y2="high:Q")
    title = panel_title(f"predictions for its images at the chosen {chosen}; grey: mistakes")
    return alt.layer(bars, ends).properties(width=600, height=170, title=title)


def radius_counts(outcomes: xr.Dataset, curve: xr.Dataset) -> xr.DataArray:
    """Return count(radius, label, predicted) of one network: clean images at radius 0, then the radii of a curve, cumulative.

    radius: numbers in pixels of 0 to 1, with the coordinate `eps`, the radii as they were written. Both Datasets have a dimension
    network of one member; `outcomes` has "clean" among its attacks, `curve` one attack and the dimension eval_eps.
    """
    variables = ["truth", "prediction", "misclassified"]
    radii = curve.eval_eps.copy(data=[float(Fraction(eps)) for eps in names_of(curve, "eval_eps")])
    clean = outcomes[variables].sel(attack="clean", drop=True).isel(network=0, drop=True)
    attacked = curve[variables].isel(network=0, attack=0, drop=True).sortby(radii)
    # An image that is misclassified without an attack lies in every ball.
    both = xr.concat([clean.expand_dims(eval_eps=["0"]), attacked], "eval_eps").assign_coords(predicted=curve.predicted)
    count = aggregate.counts(aggregate.cumulative_over_radius(both))
    eps = names_of(count, "eval_eps")
    written = [radius_name(name) for name in eps]
    count = count.assign_coords(radius=("eval_eps", [float(Fraction(name)) for name in eps]), eps=("eval_eps", written))
    return count.swap_dims(eval_eps="radius").drop_vars("eval_eps")


def _radius(count: xr.DataArray) -> alt.X:
    names = {f"{radius:.6g}": eps for radius, eps in zip(count.radius.values, count.eps.values, strict=True)}
    words = " : ".join(f"format(datum.value, '.6') === format({number}, '.6') ? '{eps}'" for number, eps in names.items())
    values = [float(radius) for radius in count.radius.values]
    axis = alt.Axis(values=values, labelExpr=f"{words} : ''", labelOverlap=True, grid=False)
    # The ends of the axis do not depend on layers, which may have no row.
    scale = alt.Scale(domain=[0.0, max(values)])
    return alt.X("radius:Q", title="radius of the attack", axis=axis, scale=scale)


def radius_curves(count: xr.DataArray, shown: Sequence[str]) -> Any:
    """Return the robust accuracy of some classes over the radius, and of all images together, dashed.

    count: of `radius_counts`. A control highlights a class.
    """
    table = rows(count.sel(label=[name for name in names_of(count) if name in shown]))
    table = table[table["label"] == table["predicted"]]
    overall = frame(metrics.overall(count).drop_vars("eps"))
    y, x = alt.Y("value:Q", title="accuracy, %", scale=PERCENT), _radius(count)
    tips = tooltip("label", "eps", value="accuracy, %", **_INTERVAL)
    lines = class_lines(table, x, y, tips, point=True)
    mean = alt.Chart(overall).mark_line(strokeDash=[5, 4], color="#888", strokeWidth=2).encode(x=x, y=y)
    chart = alt.layer(mean, lines).properties(width=580, height=280).add_params(highlight(list(shown)))
    last = table[table["radius"] == table["radius"].max()]
    colours = LINES if last["value"].nunique() > 1 else "Grey: each class."
    text = extent(last, ["label"], "Accuracy at the largest radius")
    return describe(chart, "Accuracy of each class over the radius of the attack", text, f"{colours} Dashed: all images.")
