"""Runs: computed once, found again, resumed bit by bit after a kill, and never read when damaged."""

import io
import json
import math
import os
import re
import shutil
import time
from dataclasses import replace

import mocks
import numpy as np
import pytest
import safetensors.torch
import torch
from rich.console import Console

from classwise import runs
from classwise.core import results
from classwise.core.errors import UserError
from classwise.core.results import Damaged
from classwise.core.spec import LAST5, Evaluation, Spec
from classwise.defences import training
from classwise.defences.averaging import AVERAGINGS, FAWA
from classwise.defences.training import Diverged
from classwise.images import corrupt
from classwise.papers import registry, sections
from classwise.runs import describe, load, store
from classwise.runs.compute import evaluate, networks, resume, train, validate
from classwise.runs.compute.networks import network_of
from classwise.runs.schedule import plan, pool
from classwise.stats import aggregate, confidence, metrics

PGD = Evaluation(attack="pgd-10", options={"steps": 2})


def weights(spec):
    return safetensors.torch.load_file(store.run_folder(spec) / store.WEIGHTS)


def test_a_run_leaves_its_files_in_the_vocabulary(data, small, done):
    folder = store.run_folder(small)
    assert folder == data / "runs" / "digits" / "small-cnn" / f"pgd-at-{small.id}"
    assert {path.name for path in folder.iterdir()} - {".lock"} == {"history.nc", "spec.json", "weights.safetensors"}
    history = store.Key(small).read()
    images = history["count"].sum(["label", "predicted"])
    assert (images.sel(split="train", attack="pgd-10 steps=2") == 1077).all()
    assert (images.sel(split="train", attack="clean") == 0).all()
    assert (images.sel(split="test", attack=["clean", "pgd-10"]) == 360).all()
    assert np.allclose(history.radius, 0.2)
    assert history.attrs["device"]
    assert Spec.from_json((folder / "spec.json").read_text()) == small


def test_a_history_has_the_counts_and_the_entropy_of_what_it_measures_and_may_lack_the_latter(data, small):
    spec = replace(small, epochs=5, measure=3)
    train.train(spec)
    history = store.Key(spec).read()
    assert aggregate.measured_epochs(history["count"].sel(split="valid")).epoch.values.tolist() == [1, 3, 5]
    nats = history.uncertainty.sel(split="test", epoch=5, attack="clean")
    outcomes = runs.outcomes([spec], [Evaluation()]).isel(defence=0, seed=0, attack=0)
    expected = confidence.entropy(outcomes).groupby(outcomes.truth).mean()
    assert np.allclose(nats, expected, atol=1e-5)
    assert history.uncertainty.sel(split="test", epoch=2).isnull().all()
    assert history.uncertainty.sel(split="train").isnull().all()
    results.save(history.drop_vars("uncertainty"), store.HISTORY, store.run_folder(spec) / "history.nc")
    both = runs.history([spec, replace(spec, seed=spec.seed + 1)])
    assert both.uncertainty.notnull().any(["epoch", "split", "attack", "label"]).values.ravel().tolist() == [False, True]


def test_a_run_is_never_computed_twice(data, small, done):
    runs.outcomes([small], [PGD])
    files = [key.file for key in store.outcomes_of([(small, [PGD])])]
    before = [file.stat().st_mtime_ns for file in files]
    runs.history([small])
    runs.outcomes([small], [Evaluation(attack="clean"), PGD])
    assert [file.stat().st_mtime_ns for file in files] == before
    assert plan.missing([(small, [PGD])]) == {}


def test_a_transfer_attack_trains_its_substitute_and_is_weaker_than_one_on_the_network_itself(data, small, done):
    transfer = replace(PGD, substitute="standard")
    both = runs.outcomes([small], [PGD, transfer])
    assert store.Key(small.substitute("standard")).read() is not None
    overall = metrics.overall(aggregate.counts(both)).squeeze()
    assert float(overall.sel(substitute="standard")) > float(overall.sel(substitute="None"))
    with pytest.raises(UserError, match="'standrad'"):
        runs.outcomes([small], [replace(PGD, substitute="standrad")])


def test_recorded_results_are_found_without_weights(data, small, done):
    runs.outcomes([small], [PGD])
    recorded = data / "recorded" / "digits" / "small-cnn" / small.name
    recorded.parent.mkdir(parents=True)
    store.run_folder(small).rename(recorded)
    (recorded / store.WEIGHTS).unlink()
    assert pool.ensure_runs([(small, [PGD])]) == 0
    assert runs.outcomes([small], [PGD]).sizes["image"] == 360
    with pytest.raises(UserError, match=r"the weights of .* are not here"):
        networks.network_of(small)
    # Another evaluation trains it again.
    assert runs.outcomes([small], [replace(PGD, eps="0.1")]).sizes["image"] == 360
    assert store.weights(small) is not None


def test_a_run_that_diverges_names_its_last_good_checkpoint(data, small, monkeypatch):
    real = training.train

    def later(state, *rest):
        for epoch in real(state, *rest):
            if epoch.number == 3:
                raise Diverged("the loss became nan in epoch 3")
            yield epoch

    monkeypatch.setattr(training, "train", later)
    monkeypatch.setattr(resume, "SAVE_AFTER", 0.0)
    with pytest.raises(Diverged, match=r"epoch 3; the last good state is .*checkpoint.pt \(epoch 2\)"):
        train.train(small)


@pytest.mark.parametrize("spoil", ["variable", "attribute", "dimension"])
def test_a_damaged_file_is_refused_or_repaired(data, small, done, spoil):
    runs.outcomes([small], [PGD])
    key = store.Key(small, store.OUTCOMES, PGD)
    path, whole = key.file, key.read()
    less = {"variable": whole.drop_vars("logits"), "attribute": whole.drop_attrs().assign_attrs(schema=store.OUTCOMES)}
    less["dimension"] = whole.assign(logits=whole.logits[:, 0].drop_vars("predicted"))
    path.write_bytes(bytes(less[spoil].to_netcdf(engine="h5netcdf")))
    with pytest.raises(Damaged, match="delete it and run again"):
        key.read()
    told = io.StringIO()
    assert pool.ensure_runs([(small, [PGD])], repair=True, console=Console(file=told, width=1000)) == 1
    assert f"{path} was damaged: recomputed" in told.getvalue()
    assert path.with_suffix(".damaged").exists()
    assert key.read().drop_attrs().identical(whole.drop_attrs())
    assert pool.ensure_runs([(small, [PGD])], repair=True) == 0


def test_damaged_weights_are_trained_again_where_only_an_evaluation_is_missing(data, small, done):
    whole, path = weights(small), store.weights(small)
    path.unlink()  # which is read in place
    path.write_bytes(b"nothing")
    assert pool.ensure_runs([(small, [PGD])], workers=1, repair=True) == 1
    assert all(torch.equal(value, whole[name]) for name, value in weights(small).items())


def test_a_damaged_checkpoint_is_refused_or_set_aside_and_leaves_nothing_behind(data, small, done, tmp_path, monkeypatch):
    """Also one that would run code, and one whose network can be read and whose history cannot."""

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "owned"),)

    whole = weights(small)
    monkeypatch.setenv("CLASSWISE_DATA", str(tmp_path / "other"))
    checkpoint = store.run_folder(small) / store.CHECKPOINT
    checkpoint.parent.mkdir(parents=True)
    torch.save({"spec": small.json(), "state": Evil(), "recorded": {}}, checkpoint)
    for _ in range(2):
        with pytest.raises(Damaged, match="delete it to train"):
            train.train(small)
        checkpoint.write_bytes(b"PK\x03\x04 not a checkpoint")
    assert not (tmp_path / "owned").exists()
    splits = {name: validate.images_of(small, name) for name in ("train", "valid", "test")}
    config, state, _ = train._begin(small, splits)
    next(iter(training.train(state, splits["train"], config)))
    torch.save({"spec": small.json(), "state": state.state_dict()}, checkpoint)
    pool.ensure_runs([(small, [])], repair=True)
    assert all(torch.equal(value, whole[name]) for name, value in weights(small).items())
    assert np.isfinite(store.Key(small).read().loss).all()


def test_files_of_another_run_are_refused(data, small, ready):
    wide, other = replace(small, width=6), replace(small, seed=1)
    ready(small, wide)
    store.weights(wide).replace(store.weights(small))
    with pytest.raises(Damaged, match="does not hold the weights"):
        networks.network_of(small)
    store.run_folder(other).mkdir(parents=True)
    store.Key(small).file.rename(store.Key(other).file)
    with pytest.raises(Damaged, match="holds another spec than its name says"):
        store.Key(other).read()


def test_several_runs_become_one_dataset(data, small, ready):
    specs = [replace(small, defence=defence, seed=seed) for defence in ("trades", "pgd-at") for seed in (1, 0)]
    ready(*specs)
    history = runs.history(specs)
    sizes = {"defence": 2, "seed": 2, "epoch": 3, "split": 3, "label": 10, "predicted": 10}
    assert dict(history.sizes) == sizes | {"attack": history.sizes["attack"]}
    assert history.defence.values.tolist() == ["trades", "pgd-at"]
    assert history.seed.values.tolist() == [1, 0]
    one = store.Key(specs[2]).read()["count"]
    assert (history["count"].sel(defence="pgd-at", seed=1, attack=one.attack) == one).all()
    outcomes = runs.outcomes(specs, [Evaluation(), PGD])
    assert outcomes.attack.values.tolist() == ["clean", "pgd-10"]
    alone = store.Key(specs[3], store.OUTCOMES, PGD.resolve_for(specs[3])).read()
    both = aggregate.counts(outcomes).sel(defence="pgd-at", seed=0, attack="pgd-10")
    assert (both == aggregate.counts(alone)).all()
    images = [len(validate.images_of(spec, "test")) for spec in specs[:2]]
    assert (aggregate.counts(outcomes).sum(["label", "predicted"]) == outcomes.seed.copy(data=images)).all()


def test_fields_and_options_that_vary_become_dimensions(data, small, ready):
    ready(small, replace(small, width=6))
    history = runs.history([replace(small, width=width) for width in (4, 6)])
    assert history.width.values.tolist() == [4, 6]
    outcomes = runs.outcomes([small], [replace(PGD, eps=eps) for eps in ("0.1", "0.3")])
    assert outcomes.eval_eps.values.tolist() == ["0.1", "0.3"]
    overall = metrics.overall(aggregate.counts(outcomes)).squeeze()
    assert float(overall.sel(eval_eps="0.1")) > float(overall.sel(eval_eps="0.3"))
    grid = runs.outcomes([small], Evaluation(attack="temperature-pgd-20", options={"steps": 2}).grid(inverse=[2.0, 50.0]))
    assert grid.inverse.values.tolist() == [2.0, 50.0]
    best = aggregate.strongest(grid, "inverse")
    assert int(best.misclassified.sum()) == int(grid.misclassified.sum("image").max())


@pytest.mark.parametrize(
    ("field", "values"),
    [("eps", ("0.1", "0.2")), ("seed", (0, 1)), ("norm", ("linf", "l2")), ("precision", ("float32", "bfloat16"))],
)
def test_a_dimension_of_evaluations_has_one_name_whatever_trainings_vary_in(small, field, values):
    under = [replace(PGD, **{field: value}) for value in values]
    for varied in ((small,), tuple(replace(small, **{field: value}) for value in values), (small, replace(small, width=6))):
        places = load._keys([(spec, under) for spec in varied])
        assert [place[f"eval_{field}"] for place in places.values()] == list(values) * len(varied)


def test_options_with_a_name_of_the_results_have_another_one(data, small):
    small = replace(small, epochs=1)
    attacked = [replace(small, defence="single-class-at", options={"label": label}) for label in (1, 3)]
    several = runs.outcomes(attacked, [Evaluation(), PGD])
    assert several.option_label.values.tolist() == [1, 3]
    count = aggregate.counts(several)
    for spec in attacked:
        alone = aggregate.counts(store.Key(spec, store.OUTCOMES, PGD).read())
        both = count.sel(option_label=spec.options["label"], attack="pgd-10").squeeze(drop=True)
        assert int(alone.sum()) > 300
        assert (both == alone).all()
    history = runs.history(attacked)
    stored = store.Key(attacked[1]).read()["count"]
    assert (history["count"].sel(option_label=3).squeeze(drop=True).sel(attack=stored.attack) == stored).all()
    weaker = runs.history([replace(small, defence="trades", options={"beta": beta}) for beta in (1.0, 2.0)])
    assert weaker.option_beta.values.tolist() == [1.0, 2.0]
    assert (weaker.beta.sel(option_beta=2.0) == 2).all()
    inner = [replace(small, attack=attack) for attack in ("pgd-10", "pgd-20")]
    assert runs.history(inner).training_attack.values.tolist() == ["pgd-10", "pgd-20"]
    evaluated = runs.outcomes(inner, [Evaluation(), PGD])
    assert evaluated.sizes["training_attack"] == 2
    assert evaluated.attack.values.tolist() == ["clean", "pgd-10"]


def test_a_combination_that_was_not_asked_for_is_empty_not_wrong(data, small, ready):
    specs = [small, replace(small, seed=1), replace(small, defence="trades")]
    ready(*specs)
    history = runs.history(specs)
    assert int(history["count"].sel(defence="trades", seed=1).sum()) == 0
    assert np.isnan(metrics.accuracy(history["count"].sel(defence="trades", seed=1, split="test"))).all()


def test_a_subset_of_classes_is_trained_and_named(data, small, done):
    pair = replace(small, classes=("3", "8"))
    outcomes = runs.outcomes([pair], [PGD])
    assert outcomes.predicted.values.tolist() == ["3", "8"]
    alone = aggregate.counts(outcomes).squeeze(drop=True)
    both = aggregate.counts(runs.outcomes([small, pair], [PGD])).squeeze(drop=True).isel(classes=1, drop=True)
    assert (both.sel(label=["3", "8"], predicted=["3", "8"]) == alone).all()
    assert int(both.sum()) == int(alone.sum())


def test_examples_are_kept_and_the_attacker_attacks_now(data, small, done):
    examples = runs.examples(small, PGD, per_class=2)
    assert dict(examples.sizes) == {"image": 20, "form": 2, "channel": 1, "row": 8, "column": 8, "predicted": 10}
    assert runs.examples(small, PGD, per_class=2).equals(examples)
    delta = (examples.pixels.sel(form="attacked") - examples.pixels.sel(form="clean")).values
    assert np.abs(delta).max() == pytest.approx(0.2, abs=1e-6)
    attack = runs.attack_function(small, PGD)
    some = attack(label="8", count=3, eps=0.05)
    assert some.truth.values.tolist() == [8, 8, 8]
    assert float(abs(some.pixels.diff("form")).max()) == pytest.approx(0.05, abs=1e-6)
    with pytest.raises(UserError, match="unknown class '10'"):
        attack(label="10")


def test_an_evaluation_that_was_cut_short_goes_on_where_it_was(data, small, done):
    asked = Evaluation(attack="square", options={"queries": 40}, batch=100).resolve_for(small)
    evaluate.evaluate_run(small, asked)
    key = store.Key(small, store.OUTCOMES, asked)
    whole = key.read()
    key.file.unlink()

    def cut(_, done, total):
        if done == 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate.evaluate_run(small, asked, cut)
    assert key.file.with_suffix(".part").exists()
    assert key.read() is None
    seen = []
    evaluate.evaluate_run(small, asked, lambda _, done, total: seen.append(done))
    assert seen == [200, 300, 360]
    assert not key.file.with_suffix(".part").exists()
    assert key.read().drop_attrs().identical(whole.drop_attrs())
    assert "queries" in whole


def test_a_checkpoint_with_the_weights_of_another_has_its_outcomes(data, small, monkeypatch):
    spec, last = replace(small, epochs=1, select="pgd-5"), PGD
    train.train(spec)
    evaluate.evaluate_run(spec, last)
    shutil.copy(store.weights(spec), store.weights(spec, "best"))
    best = replace(last, checkpoint="best")
    with monkeypatch.context() as patch:
        patch.setattr(evaluate.evaluate, "batches", None)
        evaluate.evaluate_run(spec, best)
    one, other = (store.Key(spec, store.OUTCOMES, some).read() for some in (last, best))
    assert one.drop_attrs().identical(other.drop_attrs())
    assert {name for name in one.attrs if one.attrs[name] != other.attrs[name]} == {"evaluation"}


def test_what_an_evaluation_had_done_is_refused_or_repaired_when_it_is_damaged_or_foreign(data, small, done):
    asked, other = (Evaluation(attack="pgd-10", options={"steps": steps}).resolve_for(small) for steps in (1, 2))
    key = store.Key(small, store.OUTCOMES, asked)
    part = key.file.with_suffix(".part")
    part.parent.mkdir()
    part.write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(Damaged, match="truncated or foreign; delete it to attack from the start"):
        evaluate.evaluate_run(small, asked)
    torch.save({"spec": small.json(), "evaluation": other.json(), "stamp": "", "rows": []}, part)
    with pytest.raises(Damaged, match="belongs to another evaluation"):
        evaluate.evaluate_run(small, asked)
    evaluate.evaluate_run(small, asked, repair=True)
    assert key.read() is not None
    # Batches of other code or weights are not joined with new ones.
    key.file.unlink()
    torch.save({"spec": small.json(), "evaluation": asked.json(), "stamp": "other", "rows": [{"index": torch.arange(9)}]}, part)
    evaluate.evaluate_run(small, asked)
    assert key.read().sizes["image"] == 360


def test_every_evaluation_carries_what_makes_it_believable(data, small, done):
    ask = [Evaluation(attack=name, options={"steps": 3}) for name in ("pgd-10", "strong")]
    found = runs.outcomes([small], ask)
    for one in ask:
        checks = json.loads(store.Key(small, store.OUTCOMES, one).read().attrs["checks"])
        assert checks["farthest"] == pytest.approx(0.2, abs=1e-6)
        assert checks["training"] == []
        assert ("broken_by" in checks) == (one.attack == "strong")
    assert runs.sanity_summary(found) == "All sanity checks passed."
    assert found.member.sel(attack="pgd-10").isin([-1]).all()
    assert found.member.sel(attack="strong").isin([-1, 0, 1]).all()
    assert runs.sanity_summary(found.drop_attrs()) == "No sanity checks were made."
    doubtful = found.assign_attrs(warnings=json.dumps({"gradients vanish": ["standard under pgd-20"]}))
    assert runs.sanity_summary(doubtful) == "Sanity warnings: gradients vanish (standard under pgd-20)."


def test_a_black_box_that_is_ahead_of_gradients_is_said(data, small, done):
    asked = [Evaluation(attack=name, options=given) for name, given in (("pgd-10", {"steps": 1}), ("square", {"queries": 5}))]
    runs.outcomes([small], asked)
    rows = [({"defence": "pgd-at", "attack": one.attack}, store.Key(small, store.OUTCOMES, one).read()) for one in asked]
    nothing = rows[0][1].assign(misclassified=rows[0][1].misclassified & False)
    everything = rows[1][1].assign(misclassified=~(rows[1][1].misclassified & False))
    said = describe.collected_warnings([(rows[0][0], nothing), (rows[1][0], everything)])
    assert said == {"a black-box attack breaks images that no white-box attack breaks": ["pgd-at under square"]}
    assert describe.collected_warnings([(rows[0][0], everything.assign_attrs(nothing.attrs)), (rows[1][0], everything)]) == {}
    unchecked = rows[1][1].assign_attrs(checks="")
    assert describe.collected_warnings([(rows[1][0], unchecked)]) == {"not checked": ["pgd-at under square"]}


def test_images_are_corrupted_before_an_evaluation(data, small, done):
    """Against the network's answers on images that are corrupted here."""
    noisy = Evaluation(transform="gaussian-noise-3", seed=2)
    found = runs.outcomes([small], [Evaluation(), replace(noisy, seed=0), noisy])
    assert found.transform.values.tolist() == ["none", "gaussian-noise-3"]
    images = validate.images_of(small, "test")
    x, _ = corrupt(images, "gaussian-noise", 3, seed=2).batch(slice(None))
    with torch.no_grad():
        own = network_of(small, noisy)(x)
    logits = found.logits.sel(transform="gaussian-noise-3", image=images.index.numpy()).squeeze()
    assert np.allclose(logits.sel(eval_seed=2), own, atol=1e-5)
    assert not np.allclose(logits.sel(eval_seed=0), own, atol=1e-2)


# Fields of a run that name a member of a table.
NAMED = ("model", "attack", "probe", "schedule", "optimiser", "head", "batch_norm", "decay", "select", "select_by", "layer")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        *[({name: "nonesuch"}, "unknown .*'nonesuch'") for name in NAMED],
        ({"model": "mnist-cnn"}, "mnist-cnn needs images of 16x16 pixels or more, got 8x8; these models fit: small-cnn"),
        ({"model": "densenet121", "width": 7}, "densenet121 cannot be 7 channels wide"),
        ({"classes": ("3", "eight")}, "unknown class 'eight'"),
        ({"defence": "at-per-class", "options": {"weights": "10:5"}}, "class 10, which does not exist"),
        ({"defence": "at-per-class", "options": {"radii": "3:5"}}, "radii give class 3 the radius 1, and 1 covers every"),
        ({"defence": "at-per-class", "options": {"radius": "3:5"}}, "unknown option .* 'radius'"),
        ({"defence": "dafa", "options": {"warm_up": 70}}, "warm_up must be a share of the training, 0 to 1, got 70"),
        ({"defence": "targeted-at", "attack": None, "attack_options": {"target": 10}}, "target 10 does not exist: .* 0 to 9"),
        ({"norm": "l2", "eps": "1", "probe_eps": "8"}, "probe_eps=8 covers every image of digits"),
        ({"norm": "l2", "eps": "8"}, "eps=8 covers every image of digits: none are 8 apart; write a smaller radius"),
        ({"augment": "flip-crop"}, "there are: none, crop-flip"),
        ({"precision": "bf16"}, "unknown precision 'bf16'"),
        ({"averages": ("ema", "fava")}, "unknown average 'fava'"),
        *[({name: "n-fgsm"}, "'n-fgsm' leaves the ball, so that it may only train") for name in ("probe", "select")],
        ({"defence": "trades", "attack": "margin-20", "attack_options": {}}, "needs labels"),
        ({"defence": "standard", "attack": None, "attack_options": {"steps": 3}}, "attacks nothing"),
        ({"defence": "standard", "attack_options": {}, "rebuilt": "features", "images_by": "pgd"}, "images_by"),
    ],
)
def test_mistakes_are_named_before_anything_runs(data, small, changed, says):
    with pytest.raises(UserError, match=says):
        pool.ensure_runs([(small, []), (replace(small, **changed), [])])
    assert not data.exists()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"eps": "9", "norm": "l2"}, "eval_eps=9 covers every image of digits"),
        ({"attack": "targeted-pgd-20", "options": {"target": 10}}, "target 10 does not exist"),
        ({"attack": "n-fgsm", "options": {}}, r"may only train \(attack='n-fgsm'\); evaluate with pgd-20"),
        ({"attack": "targeted-pgd-20", "options": {"target": "0 1"}}, "names 2 classes of 10"),
        ({"transform": "gausian-noise-3"}, "unknown transform .*contrast, .* with -1 to -5"),
        ({"transform": "fog"}, "transform 'fog' needs a severity from 1 to 5; write 'fog-3'"),
        ({"transform": "saturate-3"}, "saturate needs images in colour"),
        ({"checkpoint": "ema"}, r"unknown checkpoint .* 'ema'.*; ema needs averages=\('ema',\)$"),
        ({"checkpoint": "fawa-2"}, r"fawa-2 needs averages=\('fawa',\) and keep_last=3$"),
        ({"checkpoint": "best-ema"}, r"best-ema needs averages=\('ema',\) and select='pgd-10'$"),
        ({"checkpoint": "emma"}, r"average a defence that averages, ema averages=\('ema',\)$"),
    ],
)
def test_wrong_evaluations_are_named_before_anything_runs(data, small, changed, says):
    with pytest.raises(UserError, match=says):
        pool.ensure_runs([(small, [replace(PGD, **changed)])])
    assert not data.exists()


def test_a_checkpoint_of_another_run_or_network_is_named(data, small, monkeypatch):
    """Half a training of one width, put where that of another begins; then the same under the right name."""
    other = replace(small, width=6)
    source = store.run_folder(other) / store.CHECKPOINT
    with pytest.raises(KeyboardInterrupt):
        train.train(other, mocks.interrupt_after_an_epoch)
    store.run_folder(small).mkdir(parents=True)
    target = store.run_folder(small) / store.CHECKPOINT
    target.write_bytes(source.read_bytes())
    with pytest.raises(Damaged, match="cannot be resumed from: it belongs to another run; delete it to train"):
        train.train(small)
    saved = torch.load(target, weights_only=True)
    torch.save(saved | {"spec": small.json()}, target)
    with pytest.raises(Damaged, match="cannot be resumed from: it is truncated or foreign; delete it to train"):
        train.train(small)


def test_every_checkpoint_of_a_run_can_be_asked(data, small):
    spec = replace(small, defence="at-fawa", select="pgd-10", select_by="average", keep_last=3, epochs=4, test_selected=True)
    spec = replace(spec, options={"threshold": 0.0, "average_from": 0.0})
    names = ["last", "last-1", "last-2", "best", "average", "test-selected"]
    assert validate.checkpoints(spec) == names
    found = runs.outcomes([spec], [Evaluation(checkpoint=name) for name in names])
    assert found.checkpoint.values.tolist() == names
    logits = found.logits.squeeze(drop=True)
    assert len({logits.sel(checkpoint=name).values.tobytes() for name in names}) >= 4
    files = sorted(path.name for path in store.run_folder(spec).glob("*.safetensors"))
    assert files == sorted(["weights.safetensors", *(f"weights-{name}.safetensors" for name in names[1:])])
    history = store.Key(spec).read()
    assert history.averaged.all()
    assert (history["count"].sel(split="valid", attack="pgd-10").sum(["label", "predicted"]) == 360).all()


def test_averages_next_to_a_run_are_those_of_the_defences_alone(data, small, monkeypatch):
    """Both gates let some epochs in; "last" is the network of the run without averages."""
    monkeypatch.setitem(AVERAGINGS, "fawa", FAWA(threshold=0.02))
    both = replace(small, epochs=4, keep_last=2, select="pgd-10", averages=("fawa", "ema"))
    names = ["last", "last-1", "best"]
    averaged = [f"{name}{ending}" for name in ("ema", "fawa") for ending in ("", "-1")]
    assert validate.checkpoints(both) == [*names, *averaged[:2], "best-ema", *averaged[2:], "best-fawa"]
    ema = replace(both, defence="at-ema", averages=(), options={"average_from": 0.25})
    fawa = replace(both, defence="at-fawa", averages=(), options={"threshold": 0.02})
    plain = replace(both, averages=())
    for spec in (both, ema, fawa, plain):
        train.train(spec)
    pairs = [(name, plain, name) for name in names] + [("ema", ema, "average"), ("fawa", fawa, "average")]
    for name, other, checkpoint in pairs:
        assert store.weights(both, name).read_bytes() == store.weights(other, checkpoint).read_bytes(), name
    files = {path.name for path in store.run_folder(both).glob("*.safetensors")}
    assert {"weights-ema.safetensors", "weights-fawa-1.safetensors", "weights-best-fawa.safetensors"} <= files
    history = store.Key(both).read()
    assert history.taken.dims == ("epoch", "average")
    assert not history.averaged.any()
    assert "taken" not in store.Key(plain).read()
    assert history["count"].equals(store.Key(plain).read()["count"])
    evaluations = [replace(PGD, checkpoint=name) for name in ("last", "ema", "fawa")]
    found = runs.outcomes([both], evaluations).squeeze(drop=True)
    for name, other in (("ema", ema), ("fawa", fawa)):
        assert history.taken.sel(average=name).values.tolist() == store.Key(other).read().averaged.values.tolist()
        alone = runs.outcomes([other], [replace(PGD, checkpoint="average")]).squeeze(drop=True)
        assert np.array_equal(found.logits.sel(checkpoint=name), alone.logits)
    joined = runs.history([plain, both])
    assert joined.taken.sel(averages="()").sum() == 0
    assert joined.taken.sel(averages="('ema', 'fawa')", average="ema").all()


def test_probe_eps_is_the_radius_of_all_measurements_and_of_no_training_step(data, small):
    """At radius 0 an attack finds what clean images give."""
    plain = replace(small, epochs=1, select="pgd-20")
    at_zero = replace(plain, probe_eps="0")
    for spec in (plain, at_zero):
        train.train(spec)
    assert store.weights(plain).read_bytes() == store.weights(at_zero).read_bytes()
    ours, theirs = (store.Key(spec).read()["count"].sel(epoch=1) for spec in (at_zero, plain))
    for split, attack in (("valid", "pgd-20"), ("valid", "pgd-10"), ("test", "pgd-10")):
        assert ours.sel(split=split, attack=attack).sum() > 0
        assert ours.sel(split=split, attack=attack).equals(ours.sel(split=split, attack="clean").assign_coords(attack=attack))
        assert not ours.sel(split=split, attack=attack).equals(theirs.sel(split=split, attack=attack))
    assert ours.sel(split="train").equals(theirs.sel(split="train"))


def test_the_mean_over_the_last_five_epochs_is_a_mean_over_checkpoints(data, small):
    spec = replace(small, defence="standard", attack=None, attack_options={}, epochs=5, keep_last=5)
    accuracy = metrics.overall(aggregate.counts(runs.outcomes([spec], [Evaluation(checkpoint=name) for name in LAST5])))
    assert accuracy.sizes["checkpoint"] == 5
    counts = store.Key(spec).read()["count"].sel(split="test", attack="clean")
    by_epoch = metrics.overall(counts)
    assert float(accuracy.mean("checkpoint").squeeze()) == pytest.approx(float(by_epoch.mean("epoch")))


def test_a_cosine_head_is_read_with_and_without_its_scale(data, small):
    spec = replace(small, defence="pgd-he")
    found = runs.outcomes([spec], [replace(PGD, readout=readout) for readout in ("logits", "cosines")])
    attacked = found.logits.squeeze(drop=True)
    assert float(abs(attacked.sel(readout="cosines")).max()) <= 1 + 1e-6
    assert float(abs(attacked.sel(readout="logits")).max()) > 1
    clean = runs.outcomes([spec], [Evaluation(readout=readout) for readout in ("logits", "cosines")]).logits.squeeze(drop=True)
    assert np.allclose(clean.sel(readout="logits"), 10 * clean.sel(readout="cosines"), atol=1e-4)
    with pytest.raises(UserError, match="has no cosines to read"):
        runs.outcomes([small], [Evaluation(readout="cosines")])


def test_a_warm_start_begins_with_the_weights_of_another_run(data, small, done):
    still = replace(small, lr=0.0, epochs=1, warm_start=small.id, weight_decay=0.0)
    train.train(still)
    assert torch.equal(weights(still)["head.weight"], weights(small)["head.weight"])
    with pytest.raises(UserError, match="is a run of another network"):
        train.train(replace(still, width=6))
    with pytest.raises(UserError, match="id of no finished run"):
        pool.ensure_runs([(replace(small, warm_start="0123456789"), [])])
    # Runs of several seeds start from several; only those that agree in all else are told apart by where they start.
    other = replace(still, seed=1, warm_start=None)
    assert "warm_start" not in runs.history([still, other]).dims
    assert runs.history([still, replace(still, warm_start=None)]).sizes["warm_start"] == 2


def test_a_run_trains_on_pseudo_labelled_images_too(data, small, tmp_path, monkeypatch):
    monkeypatch.setenv("CLASSWISE_IMAGES", str(tmp_path / "images"))
    mocks.pictures(tmp_path / "images" / "found", range(10), 2)
    spec = replace(small, defence="rst", extra="found", epochs=1)
    train.train(spec)
    count = store.Key(spec).read()["count"].sel(split="train", attack="clean")
    assert int(count.sum()) == math.ceil(1077 / 64) * 128
    with pytest.raises(UserError, match="put pseudo-labelled images there"):
        pool.ensure_runs([(replace(spec, extra="lost"), [])])


def test_a_summary_names_few_checkpoints_and_counts_many(data):
    spec = registry.request("wei2023/3-3-fluctuation").specs[0]
    for number, words in ((2, "pgd-10 (last-1 weights) and pgd-10"), (12, "pgd-10 (weights of 12 checkpoints)")):
        names = [f"last-{back}" for back in range(number - 1, 0, -1)]
        evaluations = tuple(Evaluation(attack="pgd-10", checkpoint=name) for name in (*names, "last"))
        assert describe._evaluated(sections.Request((spec,), evaluations)) == f"{words} at eps 0.2 on test"


def test_recorded_results_say_so(data, small, ready):
    ready(small, replace(small, seed=1))
    line = runs.sources(runs.history([small]))
    assert all(words in line for words in ("computed here", time.strftime("%Y-"), "device"))
    assert "\n" not in line
    recorded = store.recorded_folder(small)
    recorded.parent.mkdir(parents=True)
    store.run_folder(small).rename(recorded)
    assert "all results recorded, not computed here" in runs.sources(runs.history([small]))
    both = runs.history([small, replace(small, seed=1)])
    assert "1 of 2 recorded" in runs.sources(both)
    found = runs.outcomes([replace(small, seed=1)], [PGD])
    assert "wide networks" not in runs.summary(sections.Request((replace(small, seed=1),), (PGD,)), found)


def test_a_section_says_which_of_its_results_are_recorded(data, small, done):
    section = "tian2021/4-1-class-bias"
    nothing = "Recorded at scale short: 0 of 9 runs."
    assert runs.recorded_runs(section, "short") == nothing
    spec = registry.request(section, "short").specs[0]
    history = results.load(store.run_folder(small) / "history.nc", store.HISTORY)
    results.save(history.assign_attrs(device="a GPU", commit="abc"), store.HISTORY, store.recorded_folder(spec) / "history.nc")
    assert runs.recorded_runs(section, "short") == nothing
    for one in registry.request(section, "short").evaluations:
        path = store.recorded_folder(spec) / store.Key(spec, store.OUTCOMES, one).name
        results.save(mocks.dataset("outcomes 1"), store.OUTCOMES, path)
    words = runs.recorded_runs(section, "short")
    assert words.startswith("Recorded at scale short: 1 of 9 runs (a GPU, commit abc, 2")
    assert re.search(r"\d\.\d hours of training\)\.$", words)


def test_what_belongs_to_a_defence_or_an_attack_is_no_dimension(data, small, done):
    own = replace(small, defence="standard", attack=None, attack_options={}, epochs=2, lr=0.05)
    assert set(runs.history([small, own]).dims) - set(mocks.dataset().dims) == {"defence", "seed"}
    found = runs.outcomes([small], [Evaluation(), replace(PGD, per_class=3, batch=50)])
    assert set(found.dims) == {"defence", "seed", "attack", "image", "predicted"}
    assert runs.outcomes([small], [PGD, replace(PGD, per_class=3)]).per_class.size == 2


def test_other_luck_leaves_the_images_and_changes_the_weights():
    spec = Spec(dataset="digits", eps="0.2", width=2, seed=3)
    again = replace(spec, redraw=1)
    for split in ("train", "test"):
        assert torch.equal(validate.images_of(spec, split).index, validate.images_of(again, split).index)
    images = validate.images_of(spec, "train")
    first, other = (next(networks.network(one, images).parameters()) for one in (spec, again))
    assert not torch.equal(first, other)
    assert spec.id == replace(again, redraw=0).id != again.id


def test_a_background_is_painted_before_the_attack():
    spec = Spec(dataset="digits-cluttered", eps="0.2", width=2)
    plain, white = (evaluate.attack_inputs(spec, Evaluation(transform=name))[0] for name in ("none", "white-background"))
    assert torch.equal(plain.index, white.index)
    assert (white.pixels >= plain.pixels).all()
    assert (white.pixels > plain.pixels).float().mean() > 0.2


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A run of a folder of images of one's own."""
    monkeypatch.setenv("CLASSWISE_IMAGES", str(tmp_path))
    mocks.pictures(tmp_path / "signs", "ab", 5)
    return Spec(dataset="folder:signs", eps="0.1", width=2, epochs=2, batch=4, defence="standard", probe="fgsm")


def test_results_of_a_folder_are_refused_when_its_images_are_others(data, folder, tmp_path):
    assert runs.outcomes([folder], [Evaluation()]).predicted.values.tolist() == ["a", "b"]
    assert re.fullmatch(rf"folder-signs-[0-9a-f]{{8}}/small-cnn/{folder.name}", folder.relative_path)
    elsewhere = replace(folder, dataset="folder:/my own/signs?skip-bad=1")
    assert re.fullmatch(rf"folder-signs-[0-9a-f]{{8}}/small-cnn/{elsewhere.name}", elsewhere.relative_path)
    assert elsewhere.relative_path.split("/")[0] != folder.relative_path.split("/")[0]
    assert len(store.Key(folder).read().attrs["images"]) == 16
    shutil.copytree(tmp_path / "signs", tmp_path / "again")
    shutil.rmtree(tmp_path / "signs")
    shutil.copytree(tmp_path / "again", tmp_path / "signs", copy_function=shutil.copyfile)
    runs.outcomes([folder], [Evaluation()])  # copied files are the same
    shutil.copy(tmp_path / "signs" / "a" / "0.png", tmp_path / "signs" / "a" / "6.png")
    says = f"images in folder:signs have changed .*delete {store.run_folder(folder)} to compute"
    for ask in (lambda: runs.history([folder]), lambda: runs.outcomes([folder], [Evaluation()]), lambda: train.train(folder)):
        with pytest.raises(UserError, match=says):
            ask()
    with pytest.raises(pool.Failed, match="the images in folder:signs have changed"):
        runs.outcomes([folder], [Evaluation(attack="fgsm")])
    shutil.rmtree(tmp_path / "signs")
    assert runs.history([folder]).sizes["epoch"] == 2  # results can be shown where the images are not
    assert "images" not in store.provenance(Spec(dataset="digits", eps="0.1"), "cpu", 1)


def test_a_training_never_goes_on_with_other_images(data, folder, tmp_path, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        train.train(folder, mocks.interrupt_after_an_epoch)
    (tmp_path / "signs" / "a" / "0.png").write_bytes((tmp_path / "signs" / "b" / "0.png").read_bytes() + b" ")
    with pytest.raises(
        Damaged, match="cannot be resumed from: the images in folder:signs have changed, or code of yours; delete it to train"
    ):
        train.train(folder)
