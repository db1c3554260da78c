"""Attacks followed step by step: what is kept is what the attack did, and it comes along with recorded runs."""

import shutil
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr

from classwise import attacks, runs
from classwise.attacks.balls import Linf
from classwise.charts import style
from classwise.core.errors import UserError
from classwise.core.spec import Evaluation
from classwise.papers import registry
from classwise.papers.tian2021 import temperature, trace_explorer
from classwise.runs import artifacts, store
from classwise.runs.compute import evaluate, tracing
from classwise.runs.compute.networks import network_of
from classwise.runs.record import archive, queue, recorder
from classwise.runs.record.budget import Budget
from classwise.runs.record.queue import Item
from classwise.runs.schedule import pool

PGD = Evaluation(attack="pgd-20", options={"steps": 4}, per_class=2)
HOT = Evaluation(attack="temperature-pgd-20", options={"steps": 4, "inverse": 5, "form": "stable"}, per_class=2)


@pytest.fixture
def trained(data, small):
    pool.ensure_runs([(small, [])], workers=1)
    return small


def test_every_step_of_a_course_is_a_shorter_attack_of_the_same_steps(trained):
    asked = replace(PGD, options={"steps": 4, "step": 0.05})
    course = tracing.trace_attack(trained, asked.resolved_for(trained))
    images, _, ball = evaluate.problem(trained, asked)
    x, y = images.batch(slice(None))
    model = network_of(trained)
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


def test_a_course_is_computed_once_and_a_damaged_one_again(trained, data):
    first = artifacts.trace(trained, PGD, per_class=2)
    (file,) = (store.run_folder(trained) / "courses").iterdir()
    written = file.stat().st_mtime_ns
    assert artifacts.trace(trained, PGD, per_class=2).identical(store.find(trained, PGD.resolved_for(trained), store.TRACE))
    assert file.stat().st_mtime_ns == written
    file.write_bytes(file.read_bytes()[:100])
    np.testing.assert_array_equal(artifacts.trace(trained, PGD, per_class=2).logits, first.logits)


def test_an_attack_without_common_steps_is_refused(trained):
    with pytest.raises(UserError, match="no steps that all images share"):
        tracing.trace_attack(trained, Evaluation(attack="apgd-ce", per_class=1).resolved_for(trained))
    with pytest.raises(UserError, match="no steps that all images share"):
        tracing.trace_attack(trained, Evaluation(attack="pgd-20", options={"success": "any"}, per_class=1).resolved_for(trained))


def test_what_is_followed_climbs_on_the_network_itself_in_whole_arithmetic():
    request = registry.request("tian2021/5-temperature-pgd")
    for spec, evaluations in request.pairs:
        found = artifacts.traced_evaluations(evaluations)
        assert [temperature.inverse(one.options.get("inverse")) for one in found] == ["1", "2", "5", "10", "50"] * (
            1 + (spec.defence == "pgd-he")
        )
    rows = registry.request("tian2021/4-3-attacks-and-defences").pairs[-1][1]
    assert [one.attack for one in artifacts.traced_evaluations(rows)] == ["pgd-20"]


def test_courses_stand_side_by_side_by_network_and_temperature(trained):
    found = runs.traces([(trained, (Evaluation(), PGD, HOT))], per_class=2)
    assert found.logits.dims == ("network", "inverse", "image", "step", "predicted")
    assert list(found.network.values) == ["pgd-at"]
    assert list(found.inverse.values) == ["1", "5"]
    assert dict(found.sizes) | {"image": 20, "step": 5, "predicted": 10} == dict(found.sizes)
    own = artifacts.trace(trained, HOT, per_class=2)
    np.testing.assert_array_equal(found.logits.sel(network="pgd-at", inverse="5"), own.logits)


def test_courses_come_along_with_a_recorded_run(trained, data, tmp_path):
    item = Item(trained, (PGD.resolved_for(trained),), "a test", traces=(PGD.resolved_for(trained),))
    recorder.record([item], tmp_path / "out", Budget(600, time.monotonic()), say=lambda line: None)
    asked = [(trained, (PGD,))]
    seen = runs.traces(asked)
    shutil.rmtree(data / "runs")
    assert archive.unpack(tmp_path / "out" / "recorded-1.tar")[0]
    assert store.lacks_weights(trained)
    xr.testing.assert_identical(runs.traces(asked), seen)
    assert runs.traces([(trained, (replace(PGD, eps="0.05"),))]) is None
    assert "no failed attack to follow" in trace_explorer.explore(None, {}).data


def test_the_queue_follows_what_the_page_follows():
    items = {item.spec: item for item in queue.read(queue.default())}
    for spec, evaluations in registry.request("tian2021/5-temperature-pgd", "short").pairs:
        wanted = set(artifacts.traced_evaluations(evaluations)) if spec.seed == 0 else set()
        assert set(items[spec].traces) == wanted


def course(truth, ends, inverse):
    """Return courses of two steps of one network: logits of three classes that end as given, by temperature."""
    logits = np.zeros((1, len(inverse), len(truth), 2, 3), dtype="f4")
    logits[0, :, :, 1] = ends
    coords = {"network": ["a"], "inverse": inverse, "image": np.arange(len(truth)) + 10, "step": [0, 1], "predicted": list("xyz")}
    values = {
        "truth": ("image", np.array(truth, dtype="i2")),
        "logits": (("network", "inverse", "image", "step", "predicted"), logits),
    }
    return xr.Dataset(values, coords)


ENDS = [
    [[3, 0, 0], [0, 3, 0], [1, 0, 0], [2, 0, 0]],  # PGD: the second image, of class x, is lost
    [[3, 0, 0], [0, 3, 0], [3, 0, 0], [0, 2, 0]],  # 1 / T = 5: so is the fourth
]


def test_failed_attacks_come_in_the_order_of_what_a_temperature_breaks():
    whole = course([0, 0, 0, 0], ENDS, ["1", "5"])
    assert trace_explorer.failed_pgd(whole).transpose("network", "image").values.tolist() == [[True, False, True, True]]
    assert list(trace_explorer.select_images(whole).image.values) == [13, 12, 10]
    assert list(trace_explorer.select_images(whole, most=1).image.values) == [13]


def test_an_image_counts_where_one_network_withstands_pgd():
    other = course([0, 0, 0, 0], [[[0, 3, 0]] * 4, [[3, 0, 0]] * 4], ["1", "5"]).assign_coords(network=["b"])
    both = xr.concat(
        [other, course([0, 0, 0, 0], ENDS, ["1", "5"])], "network", data_vars=["logits"], coords="minimal", compat="override"
    )
    assert list(trace_explorer.select_images(both).image.values) == [13, 12, 10]
    params = {one["name"]: one for one in trace_explorer.explore(both, {}, live=False).to_dict()["params"] if "bind" in one}
    assert (params["followed_network"]["value"], params["followed_inverse"]["value"]) == ("a", "5")


def test_confidences_are_shares_and_missing_networks_have_none():
    whole = course([0, 0, 0, 0], ENDS, ["1", "5"])
    gap = whole.assign(logits=whole.logits * np.nan).assign_coords(network=["b"])
    table = trace_explorer.confidences(
        xr.concat([whole, gap], "network", data_vars=["logits"], compat="override", coords="minimal")
    )
    assert set(table["network"]) == {"a"}
    assert np.allclose(table[["x", "y", "z"]].sum(axis=1), 100, atol=0.2)
    last = table.query("image == 'x, no. 10' and step == 1 and inverse == '1'")
    assert last["x"].item() == pytest.approx(100 * np.exp(3) / (np.exp(3) + 2), abs=0.1)


def test_the_explorer_offers_each_image_and_is_drawn():
    style.setup()
    chart = trace_explorer.explore(course([0, 0, 0, 0], ENDS, ["1", "5"]), {}, live=False)
    params = {one["name"]: one for one in chart.to_dict()["params"] if "bind" in one}
    assert params["followed_image"]["bind"]["options"] == ["x, no. 13", "x, no. 12", "x, no. 10"]
    assert params["followed_step"]["value"] == 1
    assert (params["followed_network"]["value"], params["followed_inverse"]["value"]) == ("a", "5")
    assert trace_explorer.explore(course([1, 1, 1, 1], [[[3, 0, 0]] * 4] * 2, ["1", "5"]), {}).data.startswith(
        "There is no failed"
    )
