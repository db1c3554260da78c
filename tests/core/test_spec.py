import json
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classwise.core.errors import UserError
from classwise.core.identity import radius
from classwise.core.spec import Evaluation, Spec


def spec(**changed):
    return Spec(**{"dataset": "digits", "eps": "0.2", **changed})


def test_ids_are_kept():
    """A new id orphans every stored run: raise RECIPE for changed mathematics, add fields with a default for the rest."""
    assert spec().id == "568a943fc7"
    assert spec(defence="trades", options={"beta": 2.0}, eps="8/255", seed=3).id == "deafca85d6"
    assert Evaluation(attack="pgd-20").of(spec()).id == "d639574598"


def test_an_id_tells_content_not_spelling():
    assert spec(eps="0.20").id == spec(eps=0.2).id == spec(eps="1/5").id == spec(seed=0, epochs=24).id
    assert spec(options={"beta": 2.0}).id == spec(options={"beta": 2}).id
    others = [spec(eps="0.21"), spec(seed=1), spec(defence="trades"), spec(options={"beta": 1}), spec(classes=("3", "5"))]
    assert len({spec().id, *(other.id for other in others)}) == 6
    assert len({radius("8/255"), radius("0.031"), radius("0.03125")}) == 3


def test_every_field_counts_but_not_at_its_default():
    for each in fields(Spec):
        if each.name not in ("dataset", "eps"):
            assert each.name not in spec().canonical()
    assert spec(epochs=25).canonical() == {"dataset": "digits", "eps": "1/5", "epochs": 25}


@given(eps=st.fractions(0, 1).filter(lambda one: one < 1), seed=st.integers(0, 99), width=st.integers(1, 64))
def test_json_comes_back(eps, seed, width):
    one = spec(eps=f"{eps.numerator}/{eps.denominator}", seed=seed, width=width, classes=("1", "2"), options={"beta": 2.5})
    assert Spec.from_json(one.json()) == one
    assert hash(Spec.from_json(one.json())) == hash(one)


def test_a_field_of_tomorrow_is_refused_by_name():
    with pytest.raises(UserError, match="unknown field of Spec 'tomorrow'"):
        Spec.from_json(json.dumps({"dataset": "digits", "eps": "0.1", "tomorrow": "flip"}))


def test_an_evaluation_takes_over_the_radius_of_its_run():
    asked = Evaluation(attack="pgd-20").of(spec(norm="l2", eps="1.5"))
    assert (asked.eps, asked.norm) == ("1.5", "l2")
    assert replace(asked, eps="0.1").of(spec()).eps == "0.1"


@pytest.mark.parametrize(("given", "kept"), [(0.2, "0.2"), ("0.20", "0.2"), ("8/255", "8/255"), (1e-3, "0.001"), (0, "0")])
def test_radii_are_shown_as_given(given, kept):
    assert radius(given) == kept


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"eps": 8}, "did you mean 8/255"),
        ({"eps": "2.0"}, "did you mean 2.0/255"),
        ({"eps": -0.1}, "negative"),
        ({"eps": "much"}, "not a number"),
        ({"eps": "1/0"}, "not a number"),
        ({"norm": "linff"}, "did you mean 'linf'"),
        ({"seed": "0"}, "seed must be int, got '0'"),
        ({"seed": -1}, "seed must be 0 or more"),
        ({"epochs": 1.5}, "epochs must be int"),
        ({"epochs": True}, "epochs must be int"),
        ({"lr": float("nan")}, "lr must be 0 or more"),
        ({"momentum": 1.5}, "momentum must be below 1"),
        ({"options": [1]}, "options must be a mapping"),
        ({"classes": "35"}, "classes must be names"),
        ({"milestones": (1.5,)}, "milestones must be numbers of epochs"),
        ({"milestones": (9, 5), "schedule": "step"}, "in rising order"),
        ({"milestones": (0, 5), "schedule": "step"}, "counted from 1"),
        ({"milestones": (5,)}, "belong to schedule='step'"),
        ({"test_selected": True}, "set select='pgd-10'"),
        ({"keep_last": 5, "epochs": 4}, "more than its 4 epochs"),
    ],
)
def test_slips_are_named(values, says):
    with pytest.raises(UserError, match=says):
        spec(**values)


def test_a_euclidean_radius_may_exceed_one():
    assert spec(norm="l2", eps=3).eps == "3"


def test_the_norm_of_the_run_decides_the_range_of_an_evaluation():
    assert Evaluation(eps=2).of(spec(norm="l2", eps=3)).eps == "2"


def test_the_order_of_classes_does_not_matter():
    assert spec(classes=("8", "3")).id == spec(classes=("3", "8")).id


def test_slips_of_an_evaluation_are_named():
    with pytest.raises(UserError, match="eval_eps=8 covers"):
        Evaluation(eps=8).of(spec())
    with pytest.raises(UserError, match="per_class must be 1 or more"):
        Evaluation(per_class=0)


def test_milestones_come_back_as_they_were():
    one = spec(milestones=(75, 90), schedule="step", epochs=100)
    assert Spec.from_json(one.json()) == one
    assert one.canonical()["milestones"] == (75, 90)
