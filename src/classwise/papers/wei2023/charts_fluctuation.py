"""The explorer of FAWA's threshold: which epochs it accepts. Rates are in percent."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.explorer import Choice, explorer
from classwise.charts.style import GREY, HIGHEST, LOWEST, PERCENT, frame, label_angle, names_of, panel_title, tooltip
from classwise.stats import intervals, metrics

_EPOCH = alt.X("epoch:Q", title="epoch", axis=alt.Axis(tickMinStep=1))
_ACCURACY = "robust accuracy, %"
# FAWA's threshold in the paper, in percent.
_THRESHOLD = 20


def threshold_explorer(count: xr.DataArray, live: bool | None = None) -> Any:
    """Return the explorer of FAWA's threshold: which epochs it accepts by the worst class of the validation images.

    count: of `fluctuation.validated`. The reader chooses the threshold, the seed, and an epoch whose classes are shown. `live` as
    for `explorer.explorer`.
    """
    table, seeds = _class_rows(count), [f"seed {name}" for name in names_of(count, "seed")]
    epochs = [int(epoch) for epoch in count.epoch.values]
    choices = [
        Choice("threshold", list(range(81)), _THRESHOLD, "threshold, %"),
        Choice("chosen_seed", seeds, seeds[0], "run"),
        Choice("chosen_epoch", list(range(epochs[0], epochs[-1] + 1)), epochs[-1], "epoch"),
    ]
    text = extent(table[table["worst"]], ["epoch", "run"], "Worst class of the validation images")
    chart = _gate(table) & _classes(table, names_of(count))
    return explorer(described(chart, "Which epochs enter the average?", text), choices, live=live)


def _class_rows(count: xr.DataArray) -> pd.DataFrame:
    """Return a row for each class, epoch and seed that was measured: value, low, high, and whether it is the worst class."""
    ends = intervals.wilson(count)
    table = frame(metrics.accuracy(count))
    for end in ("low", "high"):
        table = table.merge(frame(ends.sel(bound=end, drop=True), end))
    table["worst"] = table.index == table.groupby(["seed", "epoch"])["value"].transform("idxmin")
    return table.assign(run="seed " + table["seed"].astype(str))


_ACCEPTED = "datum.value >= threshold"


def _gate(table: pd.DataFrame) -> Any:
    """Return the worst class after each epoch, coloured by whether it reaches the threshold, and how many epochs do."""
    of_run = alt.Chart(table[table["worst"]]).transform_filter("datum.run == chosen_seed")
    base = of_run.transform_calculate(gate=f"{_ACCEPTED} ? 'accepted' : 'rejected'")
    scale = alt.Scale(domain=["accepted", "rejected"], range=[HIGHEST, LOWEST])
    base = base.encode(
        x=_EPOCH,
        y=alt.Y("value:Q", title="worst class, %", scale=PERCENT),
        color=alt.Color("gate:N", scale=scale, title=None, legend=alt.Legend(symbolOpacity=1)),
        tooltip=tooltip("epoch", "label", "gate", value="worst class, %", low="", high=""),
    )
    dots = base.mark_point(filled=True, size=60, opacity=1)
    bounds = base.mark_rule(opacity=0.45).encode(y="low:Q", y2="high:Q")
    now = base.transform_filter("datum.epoch == chosen_epoch").mark_point(size=190, strokeWidth=2)
    number = of_run.transform_calculate(passed=f"{_ACCEPTED} ? 1 : 0").transform_aggregate(passed="sum(passed)", all="count()")
    number = number.transform_calculate(words="datum.passed + ' of ' + datum.all + ' epochs accepted'")
    words = number.mark_text(align="left", fontSize=13, fontWeight="bold", color=HIGHEST).encode(
        x=alt.value(8), y=alt.value(12), text="words:N"
    )
    title = panel_title("worst class of the validation images after each epoch, with its 95 % interval")
    return alt.layer(bounds, dots, now, _line(), words).properties(width=600, height=220, title=title)


def _line() -> Any:
    """Return the line of the chosen threshold."""
    line = alt.Chart(pd.DataFrame({"at": [0]})).transform_calculate(at="threshold")
    return line.mark_rule(strokeDash=[5, 4], color="#888", strokeWidth=2).encode(y=alt.Y("at:Q"))


def _classes(table: pd.DataFrame, labels: Sequence[str]) -> Any:
    """Return the accuracy of each class after the chosen epoch; grey: all but the worst one."""
    base = alt.Chart(table).transform_filter("datum.run == chosen_seed && datum.epoch == chosen_epoch")
    base = base.encode(
        x=alt.X("label:N", sort=list(labels), title="class", axis=alt.Axis(labelAngle=label_angle(labels))),
        tooltip=tooltip("label", "epoch", value=_ACCURACY, low="", high=""),
    )
    colour = alt.condition("datum.worst", alt.value(LOWEST), alt.value(GREY))
    bars = base.mark_bar().encode(y=alt.Y("value:Q", title=_ACCURACY, scale=PERCENT), color=colour)
    ends = base.mark_rule(strokeWidth=1.5, color="#777").encode(y="low:Q", y2="high:Q")
    title = panel_title("each class after the chosen epoch; orange: the worst one")
    return alt.layer(bars, ends, _line()).properties(width=600, height=170, title=title)
