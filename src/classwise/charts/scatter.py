"""A scatter of two metrics of defences, with intervals, names that do not collide, and the cost of a training as size."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.explorer import Choice
from classwise.charts.primitives import NONE
from classwise.charts.style import CHOSEN, GREY, HIGHEST, titled, tooltip, wide_bounds

# The plot and the height and mean width of a letter, in pixels.
_WIDTH, _HEIGHT, _LINE, _LETTER = 580, 420, 13, 6.2
# Where a name may stand, by alignment and offset: first the corners of its dot, between its two intervals.
_PLACES: tuple[tuple[Any, int, int], ...] = (
    ("left", 6, -6),
    ("right", -6, -6),
    ("left", 6, 14),
    ("right", -6, 14),
    ("center", 0, -10),
    ("center", 0, 18),
)
# The share of its width that a name keeps off others on either side: on a phone, names that touch are hidden.
_SPARE = 0.25
# A defence with less than this share of the highest value is named in the subtitle instead of drawn.
_LEAST = 0.35
_PARAMETER = "highlighted_defence"


def metric_scatter(
    horizontal: xr.DataArray,
    vertical: xr.DataArray,
    cost: xr.DataArray | None = None,
    *,
    by: str = "defence",
    titles: Sequence[str] = ("overall", "worst"),
    named: Sequence[str] = (),
) -> Any:
    """Return a metric against another, a dot with two intervals for each member of `by`.

    horizontal, vertical: metrics with the dimensions bound ("low", "value", "high") and `by`; higher is better in both. cost:
    seconds of a training of each, drawn as the area of its dot. Blue are those that no other exceeds in both metrics; a control
    highlights one. Names that would cover others are left to the tooltip, but for those of `named`.
    """
    table = _joined(horizontal, vertical, cost, by)
    drawn = table[table["value"] >= _LEAST * table["value"].max()].reset_index(drop=True)
    domains = [_domain(drawn, end) for end in ("", "2")]
    drawn = _with_names(drawn, by, domains, named)
    axes, scales = [titled(name) for name in titles], [alt.Scale(domain=domain, nice=False, zero=False) for domain in domains]
    base = alt.Chart(drawn).transform_calculate(kind=f"datum.{by} == {_PARAMETER} ? 'chosen' : datum.front")
    scale = alt.Scale(domain=["chosen", "best", "other"], range=[CHOSEN, HIGHEST, GREY])
    tips = tooltip(by, value=axes[0], low="", high="", value2=axes[1], low2="", high2="", cost="training, seconds|.0f")
    base = base.encode(tooltip=tips if cost is not None else tips[:-1])
    hued = base.encode(color=alt.Color("kind:N", scale=scale, legend=None))
    x, y = (
        alt.X("value:Q", title=axes[0], scale=scales[0]),
        alt.Y("value2:Q", title=axes[1], scale=scales[1]),
    )
    strong = alt.condition("datum.kind == 'other'", alt.value(0.25), alt.value(0.8))
    rules = hued.mark_rule(strokeWidth=1.2).encode(opacity=strong)
    dots = hued.mark_circle(opacity=0.9).encode(x=x, y=y, size=_size(cost))
    marks = [
        rules.encode(x=alt.X("low:Q", title=axes[0], scale=scales[0]), x2="high:Q", y=y),
        rules.encode(x=x, y=alt.Y("low2:Q", title=axes[1], scale=scales[1]), y2="high2:Q"),
        dots,
    ]
    align: Any
    for align, dx, dy in _PLACES:
        words = base.transform_filter(f"datum.align == '{align}' && datum.dy == {dy}")
        words = words.mark_text(align=align, dx=dx, dy=dy, baseline="alphabetic")
        marks.append(words.encode(x=x, y=y, text=f"{by}:N"))
    choice = Choice(_PARAMETER, [NONE, *sorted(drawn[by])], NONE, f"highlighted {by}").param(bound=True)
    left = table[~table[by].isin(drawn[by])]
    chart = alt.layer(*marks).add_params(choice).properties(width=_WIDTH, height=_HEIGHT)
    return described(
        chart, f"{_short(axes[1])} against {axes[0].partition(', ')[0]}", _finding(table, by, axes), _subtitle(left, by, cost)
    )


def _short(title: str) -> str:
    text = title.partition(",")[0]
    return text[:1].upper() + text[1:]


def _joined(horizontal: xr.DataArray, vertical: xr.DataArray, cost: xr.DataArray | None, by: str) -> pd.DataFrame:
    """Return a row for each member: value, low, high, value2, low2, high2, cost (1 without one) and whether it is best."""
    table = wide_bounds(horizontal).merge(wide_bounds(vertical), on=by, suffixes=("", "2"))
    seconds = {} if cost is None else dict(zip(cost[by].values.astype(str), cost.values.astype(float), strict=True))
    x, y = table["value"].to_numpy(), table["value2"].to_numpy()
    worse = (x[:, None] <= x) & (y[:, None] <= y) & ((x[:, None] < x) | (y[:, None] < y))
    return table.assign(cost=table[by].map(seconds).fillna(1.0), front=np.where(worse.any(1), "other", "best"))


def _domain(table: pd.DataFrame, end: str) -> tuple[float, float]:
    low, high = float(table[f"low{end}"].min()), float(table[f"high{end}"].max())
    return low - 0.04 * (high - low), high + 0.04 * (high - low)


def _with_names(table: pd.DataFrame, by: str, domains: Sequence[tuple[float, float]], named: Sequence[str] = ()) -> pd.DataFrame:
    """Add the columns align and dy, of the place of each name; "" where it would cover a dot or another name.

    named: those that are placed first, and if need be on a dot.
    """
    (left, right), (low, high) = domains
    x = (table["value"] - left) / (right - left) * _WIDTH
    y = (high - table["value2"]) / (high - low) * _HEIGHT
    taken = [(px - 6, py - 6, px + 6, py + 6) for px, py in zip(x, y, strict=True)]
    places: dict[int, tuple[str, int]] = {}
    order = sorted(table.index, key=lambda row: (table["front"][row] != "best", -table["value2"][row]))
    for row in sorted(order, key=lambda row: table[by][row] not in named):
        wide = _LETTER * len(str(table[by][row]))
        for align, dx, dy in _PLACES:
            start = x[row] + dx - {"left": 0.0, "center": wide / 2, "right": wide}[align]
            box = (start, y[row] + dy - _LINE + 2, start + wide, y[row] + dy + 2)
            inside = box[0] >= 0 and box[2] <= _WIDTH and box[1] >= 0 and box[3] <= _HEIGHT
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append((box[0] - _SPARE * wide, box[1], box[2] + _SPARE * wide, box[3]))
                places[row] = (align, dy)
                break
        else:
            if table[by][row] in named:
                places[row] = (_PLACES[0][0], _PLACES[0][2])
    chosen = [places.get(row, ("", 0)) for row in table.index]
    return table.assign(align=[align for align, _ in chosen], dy=[dy for _, dy in chosen])


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _size(cost: xr.DataArray | None) -> Any:
    if cost is None:
        return alt.value(70)
    scale = alt.Scale(range=[20, 220], domainMin=0)
    legend = alt.Legend(values=_steps(float(cost.max())), format="~s", symbolFillColor=GREY, symbolStrokeWidth=0)
    return alt.Size("cost:Q", title="training, seconds", scale=scale, legend=legend)


def _steps(most: float) -> list[float]:
    """Return three round numbers up to the largest."""
    unit = 10.0 ** np.floor(np.log10(max(most, 1e-9)))
    top = float(np.floor(most / unit) * unit)
    return [top / 4, top / 2, top]


def _finding(table: pd.DataFrame, by: str, axes: Sequence[str]) -> str:
    best = ", ".join(table[table["front"] == "best"][by])
    parts = [extent(table, [by], axes[0], ""), extent(table, [by], axes[1], "", "value2")]
    return f"{' '.join(parts)} Exceeded by no other in both: {best}."


def _subtitle(left: pd.DataFrame, by: str, cost: xr.DataArray | None) -> str:
    parts = ["Lines: 95 % intervals. Blue: no other is better in both."]
    if cost is not None:
        parts.append("Area: seconds of a training.")
    if len(left):
        names = [f"{row[by]} ({row['value']:.0f} and {row['value2']:.0f})" for _, row in left.iterrows()]
        parts.append(f"Not drawn: {', '.join(names)}.")
    return " ".join(parts)
