import json
from dataclasses import fields, replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classwise.core.errors import UserError
from classwise.core.identity import exact_radius, radius_name, radius_text, radius_value, scaled_radius
from classwise.core.spec import Evaluation, Spec


def spec(**changed):
    return Spec(**{"dataset": "digits", "eps": "0.2", **changed})


def test_ids_are_kept():
    """A new id orphans every stored run: raise TRAINING_VERSION for changed mathematics, add fields with a default otherwise."""
    assert spec().id == "568a943fc7"
    assert spec(defence="trades", options={"beta": 2.0}, eps="8/255", seed=3).id == "deafca85d6"
    assert Evaluation(attack="pgd-20").resolve_for(spec()).id == "d639574598"


def test_an_id_follows_content_not_notation():
    assert spec(eps="0.20").id == spec(eps=0.2).id == spec(eps="1/5").id == spec(seed=0, epochs=24).id
    assert spec(options={"beta": 2.0}).id == spec(options={"beta": 2}).id
    assert spec(classes=("8", "3")).id == spec(classes=("3", "8")).id
    others = [spec(eps="0.21"), spec(seed=1), spec(defence="trades"), spec(options={"beta": 1}), spec(classes=("3", "5"))]
    assert len({spec().id, *(other.id for other in others)}) == 6
    assert len({radius_text("8/255"), radius_text("0.031"), radius_text("0.03125")}) == 3


def test_averages_have_no_order_and_no_substitute_keeps_them():
    both = spec(averages=("fawa", "ema"))
    assert both == spec(averages=("ema", "fawa"))
    assert both.id == spec(averages=("ema", "fawa")).id != spec().id
    assert both.canonical()["averages"] == ("ema", "fawa")
    assert Spec.from_json(both.json()) == both
    assert both.substitute("standard") == spec().substitute("standard")


def test_the_radius_of_the_measurements_is_that_of_the_run_unless_it_differs():
    at_half = spec(probe_eps="0.10")
    assert (spec().measured_eps, at_half.measured_eps, at_half.probe_eps) == ("0.2", "0.1", "0.1")
    assert spec(probe_eps="1/5") == spec()
    assert at_half.id == spec(probe_eps="1/10").id != spec().id
    assert at_half.canonical()["probe_eps"] == "1/10"
    assert Spec.from_json(at_half.json()) == at_half


def test_every_field_is_hashed_but_not_at_its_default():
    for field in fields(Spec):
        if field.name not in ("dataset", "eps"):
            assert field.name not in spec().canonical()
    assert spec(epochs=25).canonical() == {"dataset": "digits", "eps": "1/5", "epochs": 25}


@given(eps=st.fractions(0, 1).filter(lambda eps: eps < 1), seed=st.integers(0, 99), width=st.integers(1, 64))
def test_json_comes_back(eps, seed, width):
    steps = {"milestones": (75, 90), "schedule": "step", "epochs": 100}
    radius = f"{eps.numerator}/{eps.denominator}"
    original = spec(eps=radius, seed=seed, width=width, classes=("1", "2"), options={"beta": 2.5}, **steps)
    assert Spec.from_json(original.json()) == original
    assert original.canonical()["milestones"] == (75, 90)
    assert hash(Spec.from_json(original.json())) == hash(original)


def test_an_unknown_field_is_refused_by_name():
    with pytest.raises(UserError, match="unknown field of Spec 'tomorrow'"):
        Spec.from_json(json.dumps({"dataset": "digits", "eps": "0.1", "tomorrow": "flip"}))


@pytest.mark.parametrize(("given", "kept"), [(0.2, "0.2"), ("0.20", "0.2"), ("8/255", "8/255"), (1e-3, "0.001"), (0, "0")])
def test_radii_keep_their_notation(given, kept):
    assert radius_text(given) == kept


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"eps": 8}, "did you mean 8/255"),
        ({"eps": "2.0"}, "did you mean 2/255"),
        ({"eps": -0.1}, "negative"),
        ({"eps": "much"}, "not a number"),
        ({"eps": "1/0"}, "not a number"),
        ({"probe_eps": 8}, "probe_eps=8 covers the whole range of a pixel, 0 to 1; did you mean 8/255"),
        ({"options": [1]}, "options must be a mapping of str to str"),
        ({"options": {"beta": [1]}}, "options must be a mapping of str to str"),
        ({"milestones": (True,)}, "milestones must be a tuple of int"),
        ({"attack": 3}, r"attack must be str \| None, got 3"),
        ({"classes": "35"}, r"classes must be a tuple of str, got '35' \(str\)"),
        ({"milestones": (9, 5), "schedule": "step"}, "in rising order"),
        ({"milestones": (0, 5), "schedule": "step"}, "counted from 1"),
        ({"milestones": (5,)}, "belong to schedule='step'"),
        ({"test_selected": True}, "set select='pgd-10'"),
        ({"keep_last": 5, "epochs": 4}, "more than its 4 epochs"),
        ({"averages": ("ema",), "select_averages_every": 5, "epochs": 4}, "every=5 is beyond the end of its 4 epochs"),
        ({"averages": ("ema", "fawa", "ema")}, "names 'ema' twice; write each once"),
    ],
)
def test_errors_are_named(values, message):
    with pytest.raises(UserError, match=message):
        spec(**values)


@pytest.mark.parametrize(
    ("eps", "factor", "product"),
    [("8/255", "1/2", "4/255"), ("3/255", "1/2", "1/170"), ("0.2", "3/4", "0.15"), ("1.5", "2", "3"), ("0.2", "1", "0.2")],
)
def test_multiples_of_a_radius_keep_its_notation(eps, factor, product):
    assert scaled_radius(eps, Fraction(factor)) == product


@pytest.mark.parametrize(("eps", "name"), [("1/510", "0.5/255"), ("1/170", "1.5/255"), ("8/255", "8/255"), ("0.05", "0.05")])
def test_sentences_write_radii_in_255ths_where_they_are_fractions(eps, name):
    assert radius_name(eps) == name
    assert exact_radius(name) == exact_radius(eps)
    assert Fraction(radius_text(name)) == exact_radius(eps)


@given(count=st.integers(0, 254), denominator=st.integers(255, 999), decimal=st.decimals(0, 5, places=4))
def test_a_radius_has_one_float_value_whatever_its_notation(count, denominator, decimal):
    """A Euclidean one may exceed one."""
    assert radius_value(radius_text(f"{count}/{denominator}")) == count / denominator
    assert radius_value(radius_text(str(decimal), "l2")) == float(decimal)
    for eps in (f"{count}/{denominator}", radius_text(str(decimal), "l2")):
        assert exact_radius(radius_text(eps, "l2")) == exact_radius(eps)
        assert exact_radius(scaled_radius(eps, Fraction(3, 4))) == exact_radius(eps) * Fraction(3, 4)


def test_an_evaluation_inherits_the_radius_of_its_run_whose_norm_decides_the_range():
    evaluation = Evaluation(attack="pgd-20").resolve_for(spec(norm="l2", eps="1.5"))
    assert (evaluation.eps, evaluation.norm) == ("1.5", "l2")
    assert replace(evaluation, eps="0.1").resolve_for(spec()).eps == "0.1"
    assert Evaluation(eps=2).resolve_for(spec(norm="l2", eps=3)).eps == "2"
    with pytest.raises(UserError, match="eval_eps=8 covers"):
        Evaluation(eps=8).resolve_for(spec())
