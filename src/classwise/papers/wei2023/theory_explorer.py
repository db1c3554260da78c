"""The Gaussian model of Wei et al. 2023 with sliders for its parameters, which need no kernel.

Its curves are Vega expressions of the controls, built as text here; tests compare them with `theory`.
"""

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from classwise.charts.descriptions import describe, panel_title
from classwise.charts.primitives import Choice, explorer
from classwise.charts.style import GREY, HIGHEST, LOWEST, PERCENT, tooltip
from classwise.papers.wei2023.theory import LABELS, Model

_FITTED = "with"
# What follows from the controls, each from those above it.
SIGNALS: Mapping[str, str] = {
    "noise": "sqrt(features * variance)",
    "training_radius": "trained_share * eta",
    "judging_radius": "judged_share * eta",
    "odds_easy": "log(p_easy / (1 - p_easy))",
    "odds_hard": "log(p_hard / (1 - p_hard))",
    "odds": f"intercept == '{_FITTED}' ? (odds_easy + odds_hard) / 2 : log((p_easy + p_hard) / (2 - p_easy - p_hard))",
    "shift": f"intercept == '{_FITTED}' ? log(p_easy * (1 - p_easy) / p_hard / (1 - p_hard)) / (odds_easy + odds_hard) : 0",
    "trained_weight": "variance * odds / (2 * (eta - training_radius))",
}
_SIGNS = dict(zip(LABELS, (1, -1), strict=True))
_RADII = {"clean": "0", "attacked": "judging_radius"}
CASES = tuple((label, kind) for label in LABELS for kind in _RADII)
# Weights in the curves as powers of ten.
_EXPONENTS = (-1.5, 1.51, 0.05)
_SIZE = {"width": 270, "height": 175}
_RADIUS = alt.X("radius:Q", title="training radius", axis=alt.Axis(tickCount=5))
_COLOUR = alt.Color(
    "label:N",
    scale=alt.Scale(domain=list(LABELS), range=[HIGHEST, LOWEST]),
    title="class",
    legend=alt.Legend(symbolOpacity=1, symbolStrokeWidth=3),
)
# Solid and dashed lines.
_DASHES = alt.StrokeDash(
    "images_are:N",
    scale=alt.Scale(domain=list(_RADII), range=[[1, 0], [5, 4]]),
    title="images",
    legend=alt.Legend(symbolStrokeWidth=2),
)


def accuracy(label: str, kind: str, weight: str) -> str:
    """Return the expression of the accuracy of a class in percent; weight: an expression. kind: "clean" or "attacked"."""
    p, centre, b = f"p_{label}", f"features * (eta - {_RADII[kind]})", f"{_SIGNS[label]} * shift"
    agrees = f"{p} * cumulativeNormal(({centre} + {weight} * (1 + {b})) / noise)"
    return f"100 * ({agrees} + (1 - {p}) * cumulativeNormal(({centre} - {weight} * (1 - {b})) / noise))"


def gap(kind: str, weight: str) -> str:
    """Return the expression of the points by which the easy class is ahead."""
    easy, hard = (accuracy(label, kind, weight) for label in LABELS)
    return f"{easy} - {hard}"


def signals() -> list[alt.Parameter]:
    """Return the parameters that follow from the controls."""
    return [alt.param(name=name, expr=expression) for name, expression in SIGNALS.items()]


def _steps(low: float, high: float, step: float) -> list[float]:
    return [round(float(value), 6) for value in np.arange(low, high + step / 2, step)]


def controls(model: Model) -> list[Choice]:
    """Return the controls, at the parameters of a model; training against eta / 2, and an attack of radius 2 eta."""
    return [
        Choice("p_easy", _steps(0.55, 0.95, 0.01), model.p_easy, "p of the easy class"),
        Choice("p_hard", _steps(0.55, 0.95, 0.01), model.p_hard, "p of the hard class"),
        Choice("eta", _steps(0.1, 0.48, 0.01), model.eta, "η"),
        Choice("variance", _steps(0.1, 2, 0.1), model.variance, "variance"),
        Choice("features", list(range(1, 11)), model.d, "non-robust features d"),
        Choice("trained_share", _steps(0, 0.95, 0.05), 0.5, "training radius / η"),
        Choice("judged_share", _steps(0, 2, 0.1), 2.0, "radius of the attack / η"),
        Choice("intercept", ["without", _FITTED], "without", "intercept"),
    ]


def _curves() -> Any:
    names: list[Any] = [" ".join(case) for case in CASES]
    x = alt.X(
        "weight:Q", title="weight w", scale=alt.Scale(type="log", domain=[0.03, 32], nice=False), axis=alt.Axis(tickCount=4)
    )
    y = alt.Y("value:Q", title="accuracy, %", scale=PERCENT)
    tips = tooltip("label", "images_are", weight="weight|.2f", value="accuracy, %")
    line = alt.Chart(alt.sequence(*_EXPONENTS, as_="exponent")).transform_calculate(weight="pow(10, datum.exponent)")
    line = line.transform_calculate(**{name: accuracy(*case, "datum.weight") for name, case in zip(names, CASES, strict=True)})
    line = line.transform_fold(names, as_=["case", "value"]).transform_calculate(
        **{name: f"split(datum.case, ' ')[{place}]" for place, name in enumerate(("label", "images_are"))}
    )
    lines = line.mark_line(strokeWidth=2.2).encode(x, y, _COLOUR, _DASHES, tooltip=tips)
    rule = _one_row(weight="trained_weight").mark_rule(color=GREY, strokeDash=[2, 3]).encode(x="weight:Q")
    return (lines + rule).properties(**_SIZE, title=panel_title("accuracy over the weight"))


def _one_row(**columns: str) -> alt.Chart:
    return alt.Chart(alt.InlineData(values=[{}])).transform_calculate(**columns)


def _scatter(drawn: pd.DataFrame) -> Any:
    few = alt.Chart(drawn).transform_calculate(
        sign="datum.label == 'easy' ? 1 : -1",
        x1="datum.chance < (datum.label == 'easy' ? p_easy : p_hard) ? datum.sign : -datum.sign",
        total="datum.sign * features * eta + noise * datum.normal",
        across="datum.x1 + 0.6 * (7 * datum.chance % 1 - 0.5)",
    )
    axis = alt.Axis(values=[-1, 1], format="d")
    x = alt.X("across:Q", title="robust feature (scattered sideways)", scale=alt.Scale(domain=[-1.5, 1.5]), axis=axis)
    y = alt.Y("total:Q", title="sum of the non-robust features")
    dots = few.mark_circle(size=28, opacity=0.75).encode(x, y, _COLOUR)
    levels = alt.Chart(alt.InlineData(values=[{"x1": -1}, {"x1": 1}])).transform_calculate(
        across="datum.x1 - 0.35", end="datum.x1 + 0.35", total="-trained_weight * (datum.x1 + shift)"
    )
    bars = levels.mark_rule(color=GREY, strokeWidth=2.5, clip=True).encode(x=x, x2="end:Q", y=y)
    return (dots + bars).properties(**_SIZE, title=panel_title("points; those above the bars are predicted as easy"))


def _radii(y: alt.Y, title: str, *layers: Any) -> Any:
    rule = _one_row(radius="training_radius").mark_rule(color=GREY, strokeDash=[2, 3]).encode(x="radius:Q")
    return alt.layer(*layers, rule).properties(**_SIZE, title=panel_title(title))


def _over_radius(**columns: str) -> alt.Chart:
    """Return expressions of `datum.best`, the weight that training against `datum.radius` leads to."""
    base = alt.Chart(alt.sequence(0, 0.951, 0.025, as_="share")).transform_calculate(radius="datum.share * eta")
    return base.transform_calculate(best="variance * odds / (2 * (eta - datum.radius))").transform_calculate(**columns)


def _weights() -> Any:
    y = alt.Y("best:Q", title="weight w", scale=alt.Scale(type="log", nice=False), axis=alt.Axis(tickCount=4))
    line = _over_radius().mark_line(color=GREY, strokeWidth=2.4).encode(_RADIUS, y)
    peaks = alt.Chart(alt.InlineData(values=[{"label": label} for label in LABELS]))
    peaks = peaks.transform_calculate(best="variance * (datum.label == 'easy' ? odds_easy : odds_hard) / (2 * eta)")
    # With an intercept the best weight of a class has no closed form.
    seen = alt.condition(f"intercept == '{_FITTED}'", alt.value(0), alt.value(1))
    levels = peaks.mark_rule(strokeWidth=2, strokeDash=[6, 4]).encode(y=y, color=_COLOUR, opacity=seen)
    return _radii(y, "weight after training; dashed: best of each class", line, levels)


def _gaps() -> Any:
    y = alt.Y("value:Q", title="easy − hard class, points", axis=alt.Axis(tickCount=5))
    base = _over_radius(**{kind: gap(kind, "datum.best") for kind in _RADII})
    base = base.transform_fold(list(_RADII), as_=["images_are", "value"])
    tips = tooltip("images_are", radius="training radius|.3f", value="gap, points")
    lines = base.mark_line(color=GREY, strokeWidth=2.4).encode(_RADIUS, y, _DASHES, tooltip=tips)
    zero = alt.Chart(alt.InlineData(values=[{"zero": 0}])).mark_rule(color=GREY).encode(y="zero:Q")
    return _radii(y, "gap between the classes", zero, lines)


def summary() -> str:
    """Return the expression of the lines above the charts: the weight, and both accuracies and the gap, clean and attacked."""
    lines = ["'training radius ' + format(training_radius, '.2f') + ': weight ' + format(trained_weight, '.2f')"]
    for kind, words in zip(_RADII, ("clean, easy − hard", "attacked"), strict=True):
        easy, hard = (f"format({accuracy(label, kind, 'trained_weight')}, '.1f')" for label in LABELS)
        points = f"format({gap(kind, 'trained_weight')}, '.1f')"
        lines.append(f"'{words}: ' + {easy} + ' − ' + {hard} + ' = ' + {points}")
    return " + '\\n' + ".join(lines)


def model_explorer(model: Model, number: int = 100, seed: int = 0) -> Any:
    """Return the model with controls: accuracies over the weight, `number` points of each class, weights and gaps by radius."""
    rng = np.random.default_rng(seed)
    drawn = pd.DataFrame({"label": np.repeat(LABELS, number), "point": np.tile(np.arange(number), 2)})
    drawn = drawn.assign(chance=rng.random(2 * number), normal=rng.standard_normal(2 * number))
    text = _one_row(line=summary()).mark_text(align="left", lineBreak="\n", fontSize=12, lineHeight=17)
    words = text.encode(x=alt.value(0), y=alt.value(8), text="line:N").properties(width=_SIZE["width"], height=52)
    words = words.properties(view=alt.ViewBackground(stroke=None))
    charts = words & ((_curves() | _scatter(drawn)) & (_weights() | _gaps()))
    weights = (float(model.trained_weight(radius)) for radius in (0.0, model.eta / 2))
    plain, trained = (-float(model.accuracy(weight, 0.0).diff("label").item()) for weight in weights)
    title = f"At first, the easy class leads by {plain:.1f} points without attacks in training, by {trained:.1f} with them"
    chart = describe(charts.add_params(*signals()), title, f"{title}.")
    return explorer(chart, controls(model))
