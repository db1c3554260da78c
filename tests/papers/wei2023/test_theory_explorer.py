"""The explorer of the Gaussian model: what Vega computes of its controls is what Python computes, and moves with them."""

import re

import altair as alt
import numpy as np
import pandas as pd
import pytest
from drawing import drawn, width_of

from classwise.book import figures
from classwise.book.data import KEYS, MEASURES
from classwise.charts import style
from classwise.papers.wei2023 import theory, theory_explorer
from classwise.papers.wei2023.theory import Model

PAGE = Model(p_easy=0.85, p_hard=0.7, eta=0.4, variance=0.6, d=1)
# How far apart numbers with eight decimals may be; Vega's normal distribution function is an approximation.
CLOSE = 1e-5


def settings(number, seed=0):
    """Return parameters of controls, drawn at random."""
    rng = np.random.default_rng(seed)
    for _ in range(number):
        p_hard, p_easy = np.sort(rng.uniform(0.55, 0.95, 2))
        eta, variance, d = rng.uniform(0.1, 0.48), rng.uniform(0.1, 2), int(rng.integers(1, 11))
        model = Model(p_easy=p_easy, p_hard=p_hard, eta=eta, variance=variance, d=d)
        yield model, {"trained_share": rng.uniform(0, 0.95), "judged_share": rng.uniform(0, 2)}, rng.uniform(0.1, 5)


def evaluated(expressions, values):
    """Return what Vega computes of expressions, by name, at values of the controls."""
    rows = pd.DataFrame({"row": [0]})
    chart = alt.Chart(rows).transform_calculate(**expressions).transform_fold(list(expressions), as_=["name", "value"])
    chart = chart.transform_calculate(line="datum.name + ' is ' + format(datum.value, '.8f')")
    controls = (alt.param(name=name, value=value) for name, value in values.items())
    chart = chart.mark_text().encode(text="line:N", y="name:N").add_params(*theory_explorer.signals(), *controls)
    found = re.findall(r">(\w+) is ([^<]+)<", drawn(chart))
    return {name: float(value.replace("\u2212", "-")) for name, value in found}


@pytest.mark.parametrize("intercept", ["without", "with"])
def test_the_expressions_are_the_formulas_at_random_parameters(intercept):
    for model, shares, weight in settings(6, seed=len(intercept)):
        fitted, eps = intercept == "with", shares["trained_share"] * model.eta
        judged, b = shares["judged_share"] * model.eta, model.intercept if intercept == "with" else 0.0
        trained = float(model.trained_weight(eps, intercept=fitted))
        expected = {"shift": b, "trained_weight": trained, "training_radius": eps}
        expressions = {f"of_{name}": name for name in expected}
        for kind, radius in (("clean", 0.0), ("attacked", judged)):
            rates, after = model.accuracy(weight, radius, b), model.accuracy(trained, radius, b)
            for label in theory.LABELS:
                expressions[f"of_{label}_{kind}"] = theory_explorer.accuracy(label, kind, f"{weight}")
                expected[f"{label}_{kind}"] = float(rates.sel(label=label))
            expressions[f"of_gap_{kind}"] = theory_explorer.gap(kind, "trained_weight")
            expected[f"gap_{kind}"] = float(after.sel(label="easy") - after.sel(label="hard"))
        parameters = {"features" if name == "d" else name: value for name, value in vars(model).items()}
        computed = evaluated(expressions, parameters | shares | {"intercept": intercept})
        assert {name.removeprefix("of_"): value for name, value in computed.items()} == pytest.approx(expected, abs=CLOSE)


def test_the_controls_are_sliders_at_the_parameters_of_the_model():
    spec = theory_explorer.model_explorer(PAGE, 100).to_dict()
    bound = {one["name"]: one for one in spec["params"] if "bind" in one}
    expected = {"features" if name == "d" else name: value for name, value in vars(PAGE).items()}
    expected |= {"trained_share": 0.5, "judged_share": 2.0, "intercept": "without"}
    assert {name: one["value"] for name, one in bound.items()} == expected
    assert [name for name, one in bound.items() if one["bind"]["input"] != "range"] == ["intercept"]
    # All that the model supposes holds wherever the sliders stand, and some weight is best.
    assert bound["p_hard"]["bind"]["min"] > 0.5
    assert bound["eta"]["bind"]["max"] < 0.5
    assert bound["trained_share"]["bind"]["max"] < 1


def test_parameters_between_the_steps_of_a_slider_are_those_at_first():
    odd = Model(p_easy=0.853, p_hard=0.7, eta=0.41, variance=0.65, d=2)
    spec = theory_explorer.model_explorer(odd, 50).to_dict()
    assert next(one["value"] for one in spec["params"] if one["name"] == "p_easy") == 0.853


def test_a_control_moves_curves_and_points():
    chart = theory_explorer.model_explorer(PAGE, 100)
    before = drawn(chart)
    for name, value in (("eta", 0.2), ("p_easy", 0.9), ("features", 5), ("intercept", "with"), ("trained_share", 0.1)):
        moved = theory_explorer.model_explorer(PAGE, 100)
        next(param for param in moved.params if param.name == name).value = value
        after = drawn(moved)
        assert after != before, name
        assert "NaN" not in after


def test_in_jupyterlab_the_controls_are_widgets(jupyter):
    view = theory_explorer.model_explorer(PAGE, 20)
    boxes = {box.description: box for box in view.children[0].children}
    assert boxes["η"].value == 0.4
    assert boxes["intercept"].value == "without"


OTHER = Model(p_easy=0.95, p_hard=0.55, eta=0.1, variance=2.0, d=10)


def test_the_explorer_is_drawn_at_any_parameters():
    svg = drawn(theory_explorer.model_explorer(OTHER, 50))
    assert "NaN" not in svg
    assert width_of(svg) <= style.COLUMN


def test_the_columns_of_its_data_are_in_the_dictionary():
    spec = theory_explorer.model_explorer(PAGE, 50).to_dict()
    assert set(figures.table(spec)) <= {*KEYS, *MEASURES}
