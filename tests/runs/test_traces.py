"""Attacks followed step by step: what is kept is what the attack did, and it comes along with recorded runs."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from classwise import attacks, runs
from classwise.attacks.balls import Linf
from classwise.core.errors import UserError
from classwise.core.spec import Evaluation
from classwise.papers import registry
from classwise.runs import ensure, store
from classwise.runs.compute import evaluate
from classwise.runs.compute.networks import network_of
from classwise.runs.schedule import plan
from classwise.stats.combine import inverse_name

PGD = Evaluation(attack="pgd-20", options={"steps": 4}, per_class=2)
HOT = Evaluation(attack="temperature-pgd-20", options={"steps": 4, "inverse": 5, "form": "stable"}, per_class=2)


def test_every_step_of_a_trace_is_a_shorter_attack_of_the_same_steps(small, done):
    asked = replace(PGD, options={"steps": 4, "step": 0.05})
    course = evaluate.trace_attack(small, asked.resolve_for(small))
    images, _, ball = evaluate.attack_inputs(small, asked)
    x, y = images.batch(slice(None))
    model = network_of(small)
    for steps in (1, 3, 4):
        attack = attacks.build("pgd-20", {"steps": steps, "step": 0.05})
        found = attack(model, x, y, ball, torch.Generator().manual_seed(0))
        with torch.no_grad():
            logits = model(found).numpy()
        np.testing.assert_allclose(course.logits.sel(step=steps).values, logits, atol=1e-5)
    start = Linf(0.2)
    moved = start.project(start.sample(x, torch.Generator().manual_seed(0)), x)
    with torch.no_grad():
        np.testing.assert_allclose(course.logits.sel(step=0).values, model(moved).numpy(), atol=1e-5)
    assert (course.truth.values == y.numpy()).all()
    assert not model.training


def test_a_trace_is_computed_once_and_a_damaged_one_again(small, done, data):
    first = ensure.get(store.Key(small, store.TRACE, PGD, 2))
    (file,) = (store.run_folder(small) / "courses").iterdir()
    written = file.stat().st_mtime_ns
    assert ensure.get(store.Key(small, store.TRACE, PGD, 2)).identical(store.Key(small, store.TRACE, PGD, 2).read())
    assert file.stat().st_mtime_ns == written
    file.write_bytes(file.read_bytes()[:100])
    np.testing.assert_array_equal(ensure.get(store.Key(small, store.TRACE, PGD, 2)).logits, first.logits)


def test_an_attack_whose_images_take_different_steps_cannot_be_traced(small, done):
    with pytest.raises(UserError, match="no steps that all images share"):
        evaluate.trace_attack(small, Evaluation(attack="apgd-ce", per_class=1).resolve_for(small))
    with pytest.raises(UserError, match="no steps that all images share"):
        evaluate.trace_attack(small, Evaluation(attack="pgd-20", options={"success": "any"}, per_class=1).resolve_for(small))


def test_white_box_attacks_in_the_stable_form_are_traced():
    request = registry.request("tian2021/5-temperature-pgd")
    for spec, evaluations in request.pairs:
        found = plan.traced_evaluations(evaluations)
        grid = ["1", "2", "5", "10", "50"] * (1 + (spec.defence == "pgd-he"))
        assert [inverse_name(one.options.get("inverse")) for one in found] == grid
    rows = registry.request("tian2021/4-3-attacks-and-defences").pairs[-1][1]
    assert [one.attack for one in plan.traced_evaluations(rows)] == ["pgd-20"]


def test_traces_are_combined_by_network_and_temperature(small, done):
    found = runs.traces([(small, (Evaluation(), PGD, HOT))], per_class=2)
    assert found.logits.dims == ("network", "inverse", "image", "step", "predicted")
    assert list(found.network.values) == ["pgd-at"]
    assert list(found.inverse.values) == ["1", "5"]
    assert dict(found.sizes) | {"image": 20, "step": 5, "predicted": 10} == dict(found.sizes)
    own = ensure.get(store.Key(small, store.TRACE, HOT, 2))
    np.testing.assert_array_equal(found.logits.sel(network="pgd-at", inverse="5"), own.logits)
