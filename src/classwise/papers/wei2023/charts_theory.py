"""Charts of the Gaussian model of Wei et al. 2023, section 2: points, accuracies over the weight, radii and weights.

Columns: weight, training (the radius of the training), images_are (clean or attacked), classifier (with or without an intercept).
"""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import xarray as xr

from classwise.charts.descriptions import described, extent
from classwise.charts.style import GREY, HIGHEST, LOWEST, PERCENT, SERIES_COLOURS, frame, panel_title, tooltip
from classwise.papers.wei2023 import theory
from classwise.papers.wei2023.theory import LABELS, Model

# Heights of the charts: those with panels as in the paper's Figure 1, and all others.
_TALL, _LOW = 250, 165
# Points of each class in a scatter plot, and how far they are scattered about -1 and 1.
_POINTS, _WIDE = 100, 0.5
_WEIGHT = "weight w of the robust feature"
_KINDS = ("clean", "attacked")
_DASHES = ([1, 0], [5, 4])
_CLASSIFIERS = ("without intercept", "with intercept")
# Training goes up to this share of eta, where the best weight is not yet far beyond all others.
_FURTHEST = 0.9


def class_colour(legend: bool = True) -> alt.Color:
    """Return the colour of the easy class (blue) and of the hard class (orange)."""
    scale = alt.Scale(domain=list(LABELS), range=[HIGHEST, LOWEST])
    shown = alt.Legend(symbolOpacity=1, symbolStrokeWidth=3) if legend else None
    return alt.Color("label:N", scale=scale, title="class", legend=shown)


def dashed(field: str, names: tuple[str, str], title: str, legend: bool = True) -> alt.StrokeDash:
    """Return solid and dashed lines for two members of a column."""
    shown = alt.Legend(symbolStrokeWidth=2) if legend else None
    return alt.StrokeDash(f"{field}:N", scale=alt.Scale(domain=list(names), range=list(_DASHES)), title=title, legend=shown)


def weight_axis(log: bool = True) -> alt.X:
    return alt.X("weight:Q", title=_WEIGHT, scale=alt.Scale(type="log" if log else "linear", nice=False))


def _by_kind(arrays: list[xr.DataArray], names: tuple[str, str] = _KINDS, dim: str = "images_are") -> pd.DataFrame:
    """Return two arrays as one table whose column `dim` names them; the dimension w is called weight."""
    both = xr.concat(arrays, pd.Index(names, name=dim))
    return frame(both.rename(w="weight") if "w" in both.dims else both)


def points(model: Model, drawn: xr.Dataset, weight: float) -> Any:
    """Return the first points of each class, and the sum S above which they are predicted as easy: -w x1 (Figure 1a).

    drawn: of `theory.draw`. The sideways scatter of x1, which is -1 or 1, has no meaning.
    """
    few = drawn.isel(point=slice(_POINTS))
    table = few[["x1", "total"]].to_dataframe().reset_index()
    table["across"] = table["x1"] + _WIDE * (few.chance.values.ravel() * 7 % 1 - 0.5)
    levels = pd.DataFrame({"across": [-1.3, 0.7], "end": [-0.7, 1.3], "height": [weight, -weight]})
    axis = alt.Axis(values=[-1, 1], format="d")
    x = alt.X("across:Q", title="robust feature x1 (scattered sideways)", scale=alt.Scale(domain=[-1.5, 1.5]), axis=axis)
    y = alt.Y("total:Q", title="non-robust features" if model.d == 1 else "sum of the non-robust features")
    tips = tooltip("label", x1="robust feature", total="sum of the others|.2f")
    dots = alt.Chart(table).mark_circle(size=32, opacity=0.75).encode(x=x, y=y, color=class_colour(), tooltip=tips)
    rules = alt.Chart(levels).mark_rule(color=GREY, strokeWidth=2.5).encode(x=x, x2="end:Q", y="height:Q")
    right = (theory.SIGN * (few.x1 + few.total / weight) > 0).mean("point")
    shares = ", ".join(f"{100 * float(right.sel(label=name)):.0f} % of the {name} class" for name in LABELS)
    text = f"{_POINTS} points of each class; above the bars, at w = {weight:.2f}, they are predicted as easy. Correct: {shares}."
    chart, title = (dots + rules).properties(width=200, height=_TALL), f"{_POINTS} points of each class"
    return described(chart, title, text, "Bars: points above are predicted as easy.")


def curves(model: Model, drawn: xr.Dataset, eps: float) -> Any:
    """Return the accuracy of both classes over the weight, clean and at radius 2 eta, and of drawn points (Figure 1b).

    Rules: the weights that training without an attack and against radius eps leads to.
    """
    w, some = theory.weights(model), theory.weights(model, 9)
    table = _by_kind([model.accuracy(w, radius) for radius in (0, 2 * model.eta)])
    sampled = _by_kind([theory.simulated(model, drawn, some, radius) for radius in (0, 2 * model.eta)])
    dots = sampled.pivot(index=["images_are", "label", "weight"], columns="bound", values="value").reset_index()
    dash, y = dashed("images_are", _KINDS, "images"), alt.Y("value:Q", title="accuracy, %", scale=PERCENT)
    tips = tooltip("label", "images_are", weight="weight|.2f", value="accuracy, %")
    lines = alt.Chart(table).mark_line(strokeWidth=2.4).encode(weight_axis(), y, class_colour(), dash, tooltip=tips)
    base = alt.Chart(dots).encode(weight_axis(), color=class_colour(), tooltip=[*tips, *tooltip(low="", high="")])
    whiskers = base.mark_rule(strokeWidth=1.5).encode(y="low:Q", y2="high:Q")
    circles = base.mark_circle(size=36, opacity=1).encode(y="value:Q")
    marked = {f"{name}": float(model.trained(radius)) for name, radius in (("no attack", 0.0), (f"radius {eps:.2g}", eps))}
    chosen = pd.DataFrame({"weight": marked.values(), "text": marked.keys()})
    rules = alt.Chart(chosen).mark_rule(color=GREY, strokeDash=[2, 3]).encode(x="weight:Q")
    # One above the other, where the rules lie close together.
    lifted = alt.expr("datum.text == 'no attack' ? -14 : 0")
    words = alt.Chart(chosen).mark_text(align="left", dx=4, dy=lifted, baseline="bottom")
    words = words.encode(x="weight:Q", y=alt.value(_TALL - 4), text="text:N")
    layers = alt.layer(lines, whiskers, circles, rules, words).properties(width=320, height=_TALL)
    first, last = (model.accuracy(weight) for weight in marked.values())
    gaps = [float(one.sel(label="easy") - one.sel(label="hard")) for one in (first, last)]
    text = (
        f"Clean gap between the classes: {gaps[0]:.1f} points after training without an attack, {gaps[1]:.1f} against {eps:.2g}."
    )
    subtitle = "Lines: closed form. Dots: drawn points with 95 % intervals. Grey: weights that training leads to."
    return described(layers, "Accuracy of both classes over the weight", text, subtitle)


def figure_1(model: Model, drawn: xr.Dataset, eps: float) -> Any:
    """Return `points` and `curves` next to each other, as in the paper's Figure 1; both mark the training against radius eps."""
    both = points(model, drawn, float(model.trained(eps))), curves(model, drawn, eps)
    titles = ("(a) points; above the bars: predicted as easy", "(b) accuracy over the weight")
    panels = [chart.properties(title=panel_title(title)) for chart, title in zip(both, titles, strict=True)]
    text = " ".join(str(chart.description) for chart in both)
    subtitle = "Lines: closed form. Dots in (b): drawn points with 95 % intervals. Dotted: weights that training leads to."
    return described(alt.hconcat(*panels), "The model, as in the paper's Figure 1", text, subtitle)


def optimum(model: Model) -> Any:
    """Return the weight that training leads to over its radius, and the weights that are best for each class (Theorems 2, 3)."""
    eps = xr.DataArray(np.linspace(0, _FURTHEST * model.eta, 60), dims="training")
    weights = eps.copy(data=model.trained(eps.values)).assign_coords(training=eps.values)
    table, peaks = frame(weights, "weight"), frame(model.peaks(), "weight")
    x = alt.X("training:Q", title="training radius", scale=alt.Scale(nice=False))
    ends = [0.8 * float(model.peaks().min()), float(weights.max())]
    y = alt.Y("weight:Q", title="weight w", scale=alt.Scale(type="log", domain=ends))
    tips = tooltip(training="training radius|.3f", weight="weight|.2f")
    line = alt.Chart(table).mark_line(strokeWidth=2.6, color=GREY).encode(x, y, tooltip=tips)
    levels = alt.Chart(peaks).mark_rule(strokeWidth=2, strokeDash=[6, 4]).encode(y=y, color=class_colour())
    premise = (
        alt.Chart(pd.DataFrame({"training": [model.premise]})).mark_rule(color=GREY, strokeDash=[2, 3]).encode(x="training:Q")
    )
    text = extent(table, ["training"], "weight that training leads to", "", "weight", 2)
    subtitle = (
        "Grey: both classes. Dashed: best for the clean images of each class. Dotted: Theorem 4's premise holds right of it."
    )
    layers = alt.layer(line, levels, premise).properties(width=480, height=_LOW)
    return described(layers, "The weight over the radius of the training", text, subtitle)


def gaps(model: Model) -> Any:
    """Return the gap between the classes over the training radius, with and without an intercept, clean and at radius 2 eta."""
    parts = []
    for name in _CLASSIFIERS:
        fitted = name == _CLASSIFIERS[1]
        eps = xr.DataArray(np.linspace(0, _FURTHEST * model.eta, 40), dims="training")
        w = eps.copy(data=model.trained(eps.values, intercept=fitted)).assign_coords(training=eps.values)
        rates = [model.accuracy(w, radius, model.intercept if fitted else 0.0) for radius in (0, 2 * model.eta)]
        ahead = [rate.sel(label="easy", drop=True) - rate.sel(label="hard", drop=True) for rate in rates]
        parts.append(_by_kind(ahead).assign(classifier=name))
    table = pd.concat(parts, ignore_index=True)
    scale = alt.Scale(domain=list(_CLASSIFIERS), range=[GREY, SERIES_COLOURS[3]])
    colour = alt.Color("classifier:N", scale=scale, title=None, legend=alt.Legend(symbolStrokeWidth=3))
    x = alt.X("training:Q", title="training radius", scale=alt.Scale(nice=False))
    y = alt.Y("value:Q", title="easy less hard class, points")
    tips = tooltip("classifier", "images_are", training="training radius|.3f", value="gap, points")
    lines = alt.Chart(table).mark_line(strokeWidth=2.4).encode(x, y, colour, dashed("images_are", _KINDS, "images"), tooltip=tips)
    zero = alt.Chart(pd.DataFrame({"zero": [0]})).mark_rule(color=GREY).encode(y="zero:Q")
    text = extent(table, ["classifier", "images_are", "training"], "gap between the classes", "points", digits=1)
    chart = alt.layer(zero, lines).properties(width=480, height=_LOW)
    return described(
        chart, "The gap between the classes, with and without an intercept", text, "Below 0 the hard class is ahead."
    )


def preferred(model: Model) -> Any:
    """Return the training radius that is best for each class over the radius of the attack, where a radius is one."""
    eps = xr.DataArray(np.linspace(0, _FURTHEST * model.eta, 40), dims="radius")
    best = model.preferred(eps).assign_coords(radius=eps.values)
    table = frame(best.where(best >= 0))
    x = alt.X("radius:Q", title="radius of the attack", scale=alt.Scale(nice=False), axis=alt.Axis(tickCount=5))
    y = alt.Y("value:Q", title="best training radius")
    tips = tooltip("label", radius="radius of the attack|.3f", value="best training radius|.3f")
    lines = alt.Chart(table).mark_line(strokeWidth=2.6).encode(x, y, class_colour(), tooltip=tips)
    same = alt.Chart(pd.DataFrame({"radius": eps.values, "value": eps.values})).mark_line(color=GREY, strokeDash=[4, 4])
    text = extent(table, ["label", "radius"], "best training radius", "", digits=2)
    chart = alt.layer(same.encode(x, y), lines).properties(width=420, height=_LOW)
    return described(chart, "Which training radius each class prefers", text, "Dashed: the radius of the attack itself.")


def judged(model: Model, shares: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0)) -> Any:
    """Return the accuracy of the hard class over the weight under attacks of several radii, shares of eta."""
    w, radii = theory.weights(model), [share * model.eta for share in shares]
    names = [f"{radius:.2g}" for radius in radii]
    rates = xr.concat(
        [model.accuracy(w, radius).sel(label="hard", drop=True) for radius in radii], pd.Index(names, name="eval_eps")
    )
    table = frame(rates.rename(w="weight")).rename(columns={"eval_eps": "radius"})
    scale = alt.Scale(domain=names, range=[GREY, *SERIES_COLOURS[1 : len(names)]])
    colour = alt.Color("radius:N", scale=scale, sort=names, title="radius of the attack", legend=alt.Legend(symbolStrokeWidth=3))
    y = alt.Y("value:Q", title="accuracy of the hard class, %", scale=alt.Scale(zero=False))
    tips = tooltip("radius", weight="weight|.2f", value="accuracy, %")
    lines = alt.Chart(table).mark_line(strokeWidth=2.4).encode(weight_axis(), y, colour, tooltip=tips)
    half = float(model.peaks(model.eta / 2).sel(label="hard"))
    best, last = (float(model.accuracy(weight, model.eta / 2).sel(label="hard")) for weight in (half, np.inf))
    text = f"At radius η / 2 the hard class is best at w = {half:.2f}, with {best:.1f} %; large weights lead to {last:.1f} %."
    return described(lines.properties(width=480, height=_LOW), "The hard class under attacks of several radii", text, text)
