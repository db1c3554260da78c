"""Charts with controls: one explorer in two dresses.

In a static page the controls are the chart's own and need no kernel. In JupyterLab they are ipywidgets, which can also show what
only a kernel can compute. `live` decides; None asks `charts.live()`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import xarray as xr

from classwise.charts import style
from classwise.stats import aggregate, metrics

Show = Callable[..., object]

# The Wilson interval at 95 %, written for Vega.
_WILSON = (
    "({z2} + 2 * datum.count {sign} {z} * sqrt({z2} + 4 * datum.count * (1 - datum.count / datum.images)))"
    " / (2 * (datum.images + {z2})) * 100"
)


@dataclass(frozen=True)
class Choice:
    """One control: a drop-down of `options`, or a slider where these are numbers in even steps.

    name: of the chart's parameter, unlike any column of its rows; label: what the reader sees.
    """

    name: str
    options: Sequence[Any]
    value: Any
    label: str

    @property
    def slider(self) -> tuple[float, float, float] | None:
        """Lowest, highest and step of a slider; None for a drop-down."""
        numbers = [one for one in self.options if isinstance(one, int | float)]
        steps = {round(after - before, 9) for before, after in pairwise(numbers)}
        return (numbers[0], numbers[-1], steps.pop()) if len(numbers) == len(self.options) and len(steps) == 1 else None

    def param(self, *, bound: bool) -> alt.Parameter:
        """Return the chart's parameter, with its own control if `bound`."""
        if not bound:
            return alt.param(name=self.name, value=self.value)
        if self.slider:
            low, high, step = self.slider
            return alt.param(
                name=self.name, value=self.value, bind=alt.binding_range(min=low, max=high, step=step, name=self.label)
            )
        return alt.param(name=self.name, value=self.value, bind=alt.binding_select(options=list(self.options), name=self.label))

    def widget(self) -> Any:
        """Return the ipywidget."""
        import ipywidgets

        if self.slider:
            return ipywidgets.SelectionSlider(options=list(self.options), value=self.value, description=self.label)
        return ipywidgets.Dropdown(options=list(self.options), value=self.value, description=self.label)


def explorer(chart: Any, choices: Sequence[Choice], show: Show | None = None, live: bool | None = None) -> Any:
    """Return a chart with controls; in a live kernel `show(**choices)` is displayed below it and again after each change."""
    if not (style.live() if live is None else live):
        return chart.add_params(*[choice.param(bound=True) for choice in choices])
    import ipywidgets
    from IPython.display import display

    alt.JupyterChart.enable_offline(True)
    view = alt.JupyterChart(chart.add_params(*[choice.param(bound=False) for choice in choices]))
    boxes, below = {choice.name: choice.widget() for choice in choices}, ipywidgets.Output()

    def again(*_: object) -> None:
        if show is not None:
            with below:
                below.clear_output(wait=True)
                display(show(**{name: box.value for name, box in boxes.items()}))

    for name, box in boxes.items():
        ipywidgets.link((box, "value"), (view.params, name))
        box.observe(again, "value")
    again()
    return ipywidgets.VBox([ipywidgets.HBox(list(boxes.values()), layout={"flex_flow": "row wrap"}), view, below])


def _tidy(count: xr.DataArray) -> pd.DataFrame:
    """Return counts as rows, seeds pooled; cells off the diagonal that are empty are left out."""
    table = aggregate.clean_and_attacked(count.sum("seed")).rename("count").to_dataframe()["count"].reset_index()
    where = [name for name in table.columns if name not in ("predicted", "count")]
    table["images"] = table.groupby(where)["count"].transform("sum")
    return table[(table["images"] > 0) & ((table["count"] > 0) | (table["label"] == table["predicted"]))]


def per_class(history: xr.Dataset, show: Show | None = None, live: bool | None = None, design: float = 1.0) -> Any:
    """Return the explorer of a class: its accuracy over the epochs against all others, and what it is taken for.

    `history` is of schema "history 1" with the dimensions defence and seed (seeds are pooled). Choose the class, the defence,
    clean or attacked images, the split and the epoch. `show` is described at `explorer`. design: by what the intervals' variance
    exceeds that of independent images, where seeds share theirs (`intervals.design`).
    """
    count, z = history["count"], 1.96 * design**0.5
    table = _tidy(count.sel(epoch=aggregate.measured_epochs(count.sel(split="test", drop=True)).epoch))
    labels = [str(name) for name in count.label.values]
    ends = {name: _WILSON.format(z=z, z2=z**2, sign=sign) for name, sign in (("low", "-"), ("high", "+"))}
    seen = [int(epoch) for epoch in np.unique(table["epoch"])]
    defences = [str(name) for name in count.defence.values]
    weakest = metrics.accuracy(aggregate.clean_and_attacked(count.isel(defence=-1, epoch=-1).sel(split="test").sum("seed")))
    first = str(weakest.sel(images_are="attacked").idxmin("label").values)
    choices = [
        Choice("chosen_class", labels, first, "class"),
        Choice("chosen_defence", defences, defences[-1], "defence"),
        Choice("chosen_images", ["clean", "attacked"], "attacked", "images"),
        Choice("chosen_split", [str(name) for name in count.split.values], "test", "split"),
        Choice("chosen_epoch", list(range(seen[0], seen[-1] + 1)), seen[-1], "epoch"),
    ]
    base = (
        alt.Chart(table)
        .transform_filter("datum.defence == chosen_defence && datum.images_are == chosen_images && datum.split == chosen_split")
        .transform_calculate(share="100 * datum.count / datum.images", **ends)
    )
    return explorer(_over_epochs(base, labels) & _taken_for(base, labels), choices, show, live)


def _latest(base: alt.Chart) -> Any:
    """Return the chart at the chosen epoch; one that was not measured shows the last before it that was."""
    past = base.transform_filter("datum.epoch <= chosen_epoch").transform_joinaggregate(latest="max(epoch)")
    return past.transform_filter("datum.epoch == datum.latest")


def _over_epochs(base: alt.Chart, labels: Sequence[str]) -> Any:
    rates = base.transform_filter("datum.label == datum.predicted").encode(
        x=alt.X("epoch:Q", axis=alt.Axis(tickMinStep=1)),
    )
    chosen = rates.transform_filter("datum.label == chosen_class")
    percent = alt.Y("share:Q", title="accuracy, %", scale=alt.Scale(domain=[0, 100]))
    tooltip = [
        "label:N",
        "epoch:Q",
        *(alt.Tooltip(f"{name}:Q", format=".1f") for name in ("low", "share", "high")),
        "images:Q",
    ]
    others = rates.mark_line(strokeWidth=1, opacity=0.45, color="#999").encode(y=percent, detail="label:N", tooltip=tooltip)
    band = chosen.mark_area(opacity=0.25).encode(
        y=alt.Y("low:Q", title="accuracy, %"), y2="high:Q", color=style.by_class(labels, legend=None)
    )
    line = chosen.mark_line(strokeWidth=3, point=True).encode(
        y=percent, color=style.by_class(labels, legend=None), tooltip=tooltip
    )
    now = _latest(rates.transform_filter("datum.label == chosen_class")).mark_rule(strokeDash=[3, 3], color="#888")
    title = alt.Title(
        "the chosen class over the epochs, with its 95 % interval; grey: the others",
        anchor="start",
        fontWeight="normal",
        fontSize=12,
    )
    return alt.layer(others, band, now, line).properties(width=520, height=230, title=title)


def _taken_for(base: alt.Chart, labels: Sequence[str]) -> Any:
    now = _latest(base.transform_filter("datum.label == chosen_class")).encode(
        x=alt.X(
            "predicted:N",
            sort=list(labels),
            scale=alt.Scale(domain=list(labels)),
            title="answered as",
            axis=alt.Axis(labelAngle=0),
        ),
        tooltip=[
            "predicted:N",
            "epoch:Q",
            "count:Q",
            "images:Q",
            *(alt.Tooltip(f"{n}:Q", format=".1f") for n in ("low", "share", "high")),
        ],
    )
    hue = style.by_class(labels, "predicted", legend=None)
    bars = now.mark_bar().encode(y=alt.Y("share:Q", title="share, %", scale=alt.Scale(domain=[0, 100])), color=hue)
    ends = now.mark_rule(strokeWidth=1.5, color="#777").encode(y="low:Q", y2="high:Q")
    title = alt.Title("what its images are answered as, at the chosen epoch", anchor="start", fontWeight="normal", fontSize=12)
    return alt.layer(bars, ends).properties(width=520, height=180, title=title)
