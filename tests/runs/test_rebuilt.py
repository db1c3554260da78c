"""Runs on rebuilt training images: after the run that makes them, resumed to the same bits, refused without its weights."""

import time
from dataclasses import replace

import mocks
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from classwise import runs
from classwise.core import results
from classwise.core.errors import NotRecorded, UserError
from classwise.core.spec import Evaluation, Spec
from classwise.runs import store
from classwise.runs.compute import rebuild, train, validate
from classwise.runs.compute.budget import Budget
from classwise.runs.record import archive, recorder
from classwise.runs.record.queue import Item
from classwise.runs.schedule import cost, plan, pool


@pytest.fixture
def usual() -> Spec:
    spec = Spec(dataset="digits", eps="0.2", defence="standard", model="resnet18", width=2, epochs=2)
    return replace(spec, train_per_class=6, measure=9)


@pytest.fixture
def robust(usual) -> Spec:
    return replace(usual, rebuilt="features", images_by="pgd-at", attack_options={"steps": 1})


def test_the_fields_leave_all_ids_alone(small):
    assert replace(small, rebuilt="none", images_by=None, train_per_class=None).id == small.id
    assert "rebuilt" not in small.canonical()
    assert len({small.id, replace(small, train_per_class=5).id, replace(small, rebuilt="next", images_by="standard").id}) == 3


def test_the_source_is_the_same_training_with_another_defence(usual, robust):
    source = robust.image_source
    assert source == replace(usual, defence="pgd-at", attack_options={"steps": 1}, train_per_class=None)
    assert (source.seed, source.redraw) == (robust.seed, robust.redraw)
    assert usual.image_source is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rebuilt": "features"}, "needs images_by"),
        ({"images_by": "pgd-at"}, "rebuilds nothing"),
        ({"rebuilt": "feature", "images_by": "pgd-at"}, "features"),
        ({"rebuilt": "next", "images_by": "standard", "extra": "folder"}, "extra images are not rebuilt"),
        ({"train_per_class": 0}, "train_per_class must be 1 or more"),
    ],
)
def test_fields_that_do_not_fit_are_refused(usual, changed, message):
    with pytest.raises(UserError, match=message):
        replace(usual, **changed)


def test_the_run_that_makes_the_images_is_planned_and_trained_first(data, robust):
    source = robust.image_source
    left = plan.missing([(robust, [Evaluation()])])
    assert list(left) == [store.Key(source), store.Key(robust), store.Key(robust, store.OUTCOMES, Evaluation())]
    assert left[store.Key(robust)] == (store.Key(source),)
    pool.ensure_runs([(robust, [Evaluation()])], workers=1)
    assert store.weights(source) is not None
    assert plan.missing([(robust, [Evaluation()])]) == {}


def test_only_training_images_are_rebuilt_and_as_many_as_the_run_takes(data, robust, ready):
    ready(robust.image_source, robust)
    made = runs.rebuilt(robust)
    usual = validate.images_of(robust, "train")
    assert made.sizes["image"] == len(usual) == 60
    assert np.array_equal(made.image, usual.index)
    assert np.array_equal(made.truth, usual.labels)
    assert not set(made.image.values) & set(validate.images_of(robust, "test").index.tolist())
    assert int(store.Key(robust).read()["count"].isel(epoch=-1).sel(split="train", attack="clean").sum()) == 60
    # Nearer to its target than before, and the shown ones are images of the split.
    assert float((made.to_target < made.apart).mean()) > 0.8
    assert made.sizes["shown"] == 10 * rebuild.SHOWN_PER_CLASS
    targets = usual.pixels[[usual.index.tolist().index(number) for number in made.shown.values]].float() / 255
    assert np.allclose(made.pixels.sel(form="target"), targets)
    assert not np.allclose(made.pixels.sel(form="start"), targets)


@pytest.mark.parametrize("kind", ["next", "random"])
def test_perturbed_images_have_their_target_class_as_label(data, usual, kind):
    spec = replace(usual, rebuilt=kind, images_by="standard")
    train.train(spec)
    made, labels = runs.rebuilt(spec), validate.images_of(spec, "train").labels.numpy()
    assert np.array_equal(made.original, labels)
    assert np.array_equal(made.truth, (labels + 1) % 10) if kind == "next" else len(set(made.truth.values - labels)) > 5
    change = abs(made.pixels.sel(form="rebuilt") - made.pixels.sel(form="target"))
    assert 0.1 < float(change.max()) <= 0.2 + 1 / 255


def test_an_interrupted_training_ends_with_the_same_weights(data, robust, ready, tmp_path, monkeypatch):
    monkeypatch.setattr(rebuild, "BATCH", 25)
    ready(robust.image_source)
    train.train(robust)
    expected, pictures = load_file(store.weights(robust)), runs.rebuilt(robust)
    monkeypatch.setenv("CLASSWISE_DATA", str(tmp_path / "again"))
    ready(robust.image_source)

    interrupted(robust, monkeypatch)  # between two batches of images
    assert (store.run_folder(robust) / rebuild.PART).exists()
    batches = counted(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        train.train(robust, mocks.interrupt_after_an_epoch)  # between two epochs
    train.train(robust)
    assert len(batches) == 2  # of three: nothing is made again
    weights = load_file(store.weights(robust))
    assert all(torch.equal(weights[name], value) for name, value in expected.items())
    assert np.array_equal(runs.rebuilt(robust).pixels, pictures.pixels)
    assert not (store.run_folder(robust) / rebuild.PART).exists()


def counted(monkeypatch):
    """Return a list with a member for each batch of images that is made from now on."""
    made, batches = rebuild._made, []
    monkeypatch.setattr(rebuild, "_made", lambda *given: batches.append(1) or made(*given))
    return batches


def interrupted(robust, monkeypatch):
    """Interrupt a training after the first of three batches of its images."""
    made, batches = rebuild._made, []

    def once(*given):
        batches.append(1)
        if len(batches) == 2:
            raise KeyboardInterrupt
        return made(*given)

    with monkeypatch.context() as changed:
        changed.setattr(rebuild, "_made", once)
        with pytest.raises(KeyboardInterrupt):
            train.train(robust)


@pytest.mark.parametrize("changed", ["nothing", "images", "settings", "batch", "weights"])
def test_only_what_was_made_of_the_same_images_by_the_same_settings_is_continued(data, robust, ready, monkeypatch, changed):
    ready(robust.image_source)
    monkeypatch.setattr(rebuild, "BATCH", 25)
    interrupted(robust, monkeypatch)
    if changed == "images":
        monkeypatch.setattr(train, "folder_digest", lambda dataset: "another")
    elif changed == "settings":
        monkeypatch.setattr(rebuild.feature_inversion, "INVERSION", rebuild.feature_inversion.Inversion(steps=99))
    elif changed == "batch":
        monkeypatch.setattr(rebuild, "BATCH", 24)
    elif changed == "weights":
        weights = load_file(store.weights(robust.image_source))
        save_file({name: value + (name == "head.bias") for name, value in weights.items()}, store.weights(robust.image_source))
    batches = counted(monkeypatch)
    train.train(robust)
    assert len(batches) == (2 if changed == "nothing" else 3)
    assert not (store.run_folder(robust) / rebuild.PART).exists()


def test_pictures_of_other_images_are_replaced(data, robust, ready):
    ready(robust.image_source, robust)
    pictures, place = runs.rebuilt(robust), store.Key(robust, store.REBUILT).file
    foreign = pictures.assign(pixels=0 * pictures.pixels)
    # The weights are lost, and what is stored is of another source.
    results.save(foreign.drop_attrs().assign_attrs(pictures.attrs), store.REBUILT, place)
    assert float(runs.rebuilt(robust).pixels.max()) == 0
    store.weights(robust).unlink()
    train.train(robust)
    assert np.array_equal(runs.rebuilt(robust).pixels, pictures.pixels)


def test_a_source_that_is_recorded_without_weights_is_refused_at_the_door(data, robust):
    mocks.record(robust.image_source)
    with pytest.raises(UserError, match="recorded without its weights; import an archive that has them"):
        pool.check([(robust, [Evaluation()])])
    # What is there of the run itself can be read.
    mocks.record(robust, Evaluation())
    pool.check([(robust, [Evaluation()])])
    assert runs.rebuilt(robust).sizes["shown"] == 40
    (store.recorded_folder(robust) / store.Key(robust, store.REBUILT).name).unlink()
    with pytest.raises(NotRecorded, match="rebuilt images of"):
        runs.rebuilt(robust)


def test_a_run_on_images_as_they_are_has_no_rebuilt_ones(usual):
    with pytest.raises(UserError, match="images as they are"):
        runs.rebuilt(usual)


def test_rebuilding_is_in_the_estimate_of_the_cost(usual, robust):
    work = [cost.training_operations(spec) for spec in (usual, replace(robust, attack_options={}))]
    per_image = work[1] - work[0]
    assert per_image > 0
    more = cost.training_operations(replace(robust, attack_options={}, train_per_class=12))
    assert more - cost.training_operations(replace(usual, train_per_class=12)) == pytest.approx(2 * per_image)


def test_recording_trains_the_source_first_and_packs_the_pictures(data, robust, tmp_path, monkeypatch):
    evaluation = Evaluation().resolve_for(robust)
    lines, budget = [], Budget(300, time.monotonic())
    assert recorder.record([Item(robust, (evaluation,), "a test")], tmp_path / "out", budget, say=lines.append) == []
    trained = [line for line in lines if line.startswith("trained")]
    assert robust.image_source.name in trained[0]
    assert robust.name in trained[1]
    made = runs.rebuilt(robust)
    monkeypatch.setenv("CLASSWISE_DATA", str(tmp_path / "elsewhere"))
    archive.unpack(next((tmp_path / "out").glob("*.tar")))
    assert runs.rebuilt(robust).identical(made.assign_attrs(recorded="recorded"))
