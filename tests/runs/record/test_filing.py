"""Recorded runs with their weights: evaluated from data/recorded/, where their new results are filed."""

import io
import json
import re
import shutil
import tarfile
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import safetensors.torch
import torch
from rich.console import Console
from typer.testing import CliRunner

from classwise import defences, runs
from classwise.__main__ import app
from classwise.core import results
from classwise.core.errors import NotRecorded
from classwise.core.paths import checkout
from classwise.core.results import Damaged
from classwise.core.spec import Evaluation
from classwise.defences.training import Diverged
from classwise.papers import registry, scales
from classwise.runs import describe, ensure, store
from classwise.runs.compute import evaluate, networks, train
from classwise.runs.compute.budget import Budget
from classwise.runs.record import archive, queue, recorder, soundness
from classwise.runs.record.queue import Item
from classwise.runs.schedule import plan, pool

CLEAN, PGD = Evaluation(attack="clean"), Evaluation(attack="pgd-10", options={"steps": 2})
FURTHER = ((store.FEATURES, CLEAN), (store.EXAMPLES, PGD), (store.TRACE, PGD))
ALL = ["nothing is left: all 1 runs of the queue are recorded or packed"]


def item(spec, *evaluations, further=(), weights=False):
    stored = tuple(store.Key(spec, schema, one) for schema, one in further)
    return Item(spec, tuple(one.resolve_for(spec) for one in evaluations), "a test", stored, weights)


def record(items, out=None, seconds=600, **more):
    """Record and return the lines that are said."""
    lines = []
    failed = recorder.record(items, out, Budget(seconds, time.monotonic()), say=lines.append, **more)
    assert failed == [line.removeprefix("failed: ") for line in lines if line.startswith("failed")]
    return lines


@pytest.fixture
def filed(data, small, done):
    """A run that is recorded with its weights and a clean evaluation, and not in data/runs/."""
    record([item(small, CLEAN, weights=True)])
    shutil.rmtree(data / "runs")
    return small


@pytest.fixture
def packed(filed, tmp_path):
    """The same in an archive."""
    return archive.pack([(filed, [CLEAN.resolve_for(filed)])], tmp_path / "packed", weights="full")


def files(folder):
    """Return the files of a folder apart from locks."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock")}


# Weights in archives.


def test_full_weights_come_back_bit_by_bit_with_checksums(data, small, done, tmp_path):
    pool.ensure_runs([(small, [CLEAN])], workers=1)
    weights = store.weights(small).read_bytes()
    path = archive.pack([(small, [CLEAN.resolve_for(small)])], tmp_path, weights="full")
    shutil.rmtree(data / "runs")
    assert archive.unpack(path) == ([small.relative_path], [])
    assert store.weights(small) == store.recorded_folder(small) / store.WEIGHTS
    assert store.weights(small).read_bytes() == weights
    with tarfile.open(path) as tar:
        manifest = json.load(tar.extractfile(archive.MANIFEST))
    sums = json.loads((store.recorded_folder(small) / store.CHECKSUMS).read_text())
    assert sums == manifest["runs"][small.relative_path]["files"]
    assert set(sums) == {"history.nc", "spec.json", "weights.safetensors", f"outcomes/{CLEAN.resolve_for(small).name}.nc"}
    assert archive.unpack(path) == ([], [small.relative_path])


def test_weights_of_each_evaluated_checkpoint_come_along(data, small, ready, tmp_path):
    spec, average = replace(small, defence="at-ema"), replace(CLEAN, checkpoint="average")
    ready(spec)
    pool.ensure_runs([(spec, [average])], workers=1)
    record([item(spec, average, weights=True)])
    assert {path.name for path in store.recorded_folder(spec).glob("*.safetensors")} == {store.WEIGHTS}
    archived = archive.pack([(spec, [average.resolve_for(spec)])], tmp_path / "packed", weights="full")
    shutil.rmtree(data / "runs")
    archive.unpack(archived)
    names = {path.name for path in store.recorded_folder(spec).glob("*.safetensors")}
    assert names == {store.WEIGHTS, "weights-average.safetensors"}
    assert record([item(spec, average, replace(PGD, checkpoint="average"))])[0].startswith("evaluated")


# Where results go.


def test_new_results_of_a_recorded_network_are_filed_beside_it(data, filed):
    before = files(store.recorded_folder(filed))
    lines = record([item(filed, CLEAN, PGD, further=FURTHER)])
    done = [line.split(" at ")[0].split(" pgd")[0] for line in lines[:4]]
    assert done == ["stored features of", "stored examples of", "traced", "evaluated"]
    added = files(store.recorded_folder(filed)) - before
    assert {name.split("/")[0] for name in added} == {"outcomes", "examples", "courses", "features-2"}
    assert len(added) == 4
    sums = json.loads((store.recorded_folder(filed) / store.CHECKSUMS).read_text())
    assert added <= set(sums)
    assert not (data / "runs" / "digits").exists()
    assert record([item(filed, CLEAN, PGD, further=FURTHER)]) == ALL
    # What a page asks for is read, and is what a training here would have found.
    found = runs.outcomes([filed], [PGD])
    assert found.attrs["recorded"] == "all"
    assert runs.features(filed).attrs["schema"] == store.FEATURES
    assert set(runs.example_sets([filed], PGD)) == {filed.defence}
    assert runs.traces([(filed, [PGD])]) is not None


def test_a_run_evaluates_a_recorded_network_without_training_it(data, filed):
    assert pool.ensure_runs([(filed, [PGD])], workers=1) == 1
    assert (store.recorded_folder(filed) / store.Key(filed, store.OUTCOMES, PGD).name).exists()
    assert not store.run_folder(filed).exists()


def test_pages_compute_nothing_for_a_recorded_network(data, filed, monkeypatch):
    under = f"under {PGD.resolve_for(filed).name} are not recorded; `classwise record`"
    for says, get in {
        rf"outcomes of {filed.name} \(digits\) {under}": lambda: runs.outcomes([filed], [CLEAN, PGD]),
        "examples of": lambda: runs.examples(filed, PGD),
        "features of": lambda: runs.features(filed),
        "traces of": lambda: ensure.get(store.Key(filed, store.TRACE, PGD)),
    }.items():
        with pytest.raises(NotRecorded, match=says):
            get()
    assert runs.example_sets([filed], PGD) == {}
    assert runs.traces([(filed, [PGD])]) is None
    assert files(data / "recorded") == {f"{filed.relative_path}/{name}" for name in files(store.recorded_folder(filed))}
    assert not list((data / "runs").glob("*/*/*"))
    monkeypatch.setitem(scales.SCALES, "quick", replace(scales.SCALES["quick"], recorded_only=True))
    monkeypatch.setattr(registry, "scale_of", lambda spec: "quick")
    with pytest.raises(NotRecorded, match="`classwise record --scale quick` computes what is missing"):
        runs.outcomes([filed], [PGD])


def test_features_and_partial_runs_are_filed_with_weights(data, small, done):
    record([item(small, CLEAN, weights=True)])
    lines = record([item(small, CLEAN, PGD, further=FURTHER[:1], weights=True)])
    assert lines[-2] == f"filed {small.name} (seed 0) in {small.recorded_folder}"
    shutil.rmtree(data / "runs")
    assert store.complete(store.recorded_folder(small), store.outcomes_of([(small, [CLEAN, PGD])]))
    assert runs.features(small).sizes["label"] == 10


def test_a_run_filed_without_weights_is_not_trained_again(data, small, done):
    asked = item(small, CLEAN, further=FURTHER[:1])
    record([asked])
    assert not list(store.recorded_folder(small).glob("*.safetensors"))
    shutil.rmtree(data / "runs")
    assert record([asked]) == ALL
    shown = [store.Key(small, kind, one) for kind, one in FURTHER]
    assert plan.missing({small: [store.Key(small, store.OUTCOMES, CLEAN), *shown]}) == {}
    lacking = "0 runs of the queue are recorded or packed; 1 recorded without weights and without all evaluations"
    assert record([item(small, CLEAN, PGD)]) == [f"nothing is left: {lacking}"]
    assert not list((data / "runs").glob("*/*/*"))


def test_logits_are_filed_where_pages_read_them(data, small, done):
    asked = item(small, CLEAN, PGD, replace(CLEAN, eps="0.1"), Evaluation(attack="pgd-20@tian2021-a1"))
    record([asked])
    for evaluation, kept in zip(asked.evaluations, (True, False, False, True), strict=True):
        name, folders = store.Key(small, store.OUTCOMES, evaluation).name, (store.run_folder(small), store.recorded_folder(small))
        computed, filed = (results.load(folder / name, store.OUTCOMES) for folder in folders)
        assert filed.drop_vars("logits").identical(computed.drop_vars("logits"))
        assert filed.identical(computed) == kept
        assert bool(filed.logits.isnull().all()) != kept
    named = [name for claim in registry.CLAIMS if claim.values for attack in claim.attacks for name in attack.split("|")]
    assert set(named) == set(archive.WITH_LOGITS)


def test_a_checkpoint_that_was_not_filed_is_evaluated_first_and_not_missed_later(data, small, ready):
    spec = replace(small, defence="at-ema")
    ready(spec)
    asked = item(spec, PGD, replace(PGD, checkpoint="average"), weights=True)
    last, average = asked.evaluations
    said = "\n".join(record([asked]))
    assert said.index(average.name) < said.index(last.name)
    shutil.rmtree(data / "runs")
    (store.recorded_folder(spec) / store.Key(spec, store.OUTCOMES, average).name).unlink()
    assert record([asked]) == ALL


def test_weights_of_averages_are_filed_while_evaluations_of_them_are_missing(data, small, ready, monkeypatch):
    """In half precision: what is filed is what was evaluated, in this folder and in another."""
    spec = replace(small, averages=("ema",), epoch_images=300, half=True, renewed=True)
    ready(spec)
    asked = item(spec, CLEAN, replace(PGD, checkpoint="ema"), replace(PGD, checkpoint="ema-renewed"), weights=True)
    real = soundness.compute

    def only_last(key, report, *, repair):
        if key.evaluation is not None and key.evaluation.checkpoint != "last":
            raise soundness.Busy
        real(key, report, repair=repair)

    monkeypatch.setattr(soundness, "compute", only_last)
    assert record([asked])[-1].startswith("1 of 1 runs are left")
    names = {store.WEIGHTS, "weights-ema.safetensors", "weights-ema-renewed.safetensors"}
    assert {path.name for path in store.recorded_folder(spec).glob("*.safetensors")} == names
    stored = safetensors.torch.load_file(store.recorded_folder(spec) / store.WEIGHTS)
    assert {name.rpartition(".")[2]: value.dtype for name, value in stored.items()}["weight"] == torch.float16
    network = networks.network_of(spec).state_dict()
    assert all(network[name].equal(value.to(network[name].dtype)) for name, value in stored.items())
    shutil.rmtree(data / "runs")
    monkeypatch.setattr(soundness, "compute", real)
    assert not recorder._is_done(asked, None, "none")
    lines = record([asked])
    assert sum(line.startswith("evaluated") for line in lines) == 2
    assert lines[-1] == ALL[0]
    assert recorder._is_done(asked, None, "none")
    # Then the last weights remain alone.
    assert [path.name for path in store.recorded_folder(spec).glob("*.safetensors")] == [store.WEIGHTS]
    assert not [name for name in json.loads((store.recorded_folder(spec) / store.CHECKSUMS).read_text()) if "weights-" in name]
    # Filed at once, a run has the last weights alone; of too many checkpoints it waits until all evaluations are there.
    other = replace(spec, seed=1, keep_last=3)
    ready(other)
    names = ("last-1", "last-2", "ema-1", "ema-2", "ema-renewed")
    many = item(other, CLEAN, *(replace(PGD, checkpoint=name) for name in names), weights=True)
    monkeypatch.setattr(soundness, "compute", only_last)
    record([many])
    assert not store.recorded_folder(other).exists()
    monkeypatch.setattr(soundness, "compute", real)
    record([many])
    assert [path.name for path in store.recorded_folder(other).glob("*.safetensors")] == [store.WEIGHTS]


def test_no_recorded_run_keeps_weights_that_nothing_waits_for():
    items = {one.spec.relative_path: one for one in queue.read(queue.default("matched"))}
    root = checkout() / "data" / "recorded"
    for path in root.glob("*/*/*/weights-*.safetensors"):
        waiting = items[path.parent.relative_to(root).as_posix()]
        missing = [one for one in waiting.outcomes if not (path.parent / one.name).exists()]
        needed = {store.weights_file(path.parent, one.evaluation.checkpoint) for one in missing if one.evaluation}
        assert path in needed, f"git rm {path.relative_to(checkout())}: all evaluations of it are there"


def test_a_run_that_overfits_or_diverges_is_refused_and_not_tried_again(data, small, monkeypatch):
    # In place of two and twenty steps: an attack that is too weak to matter, and one that nothing withstands.
    weak, strong = (replace(one, eps=eps) for one, eps in zip(soundness._OVERFITTING, ("0.001", "0.9"), strict=True))
    monkeypatch.setattr(soundness, "_OVERFITTING", (weak, strong))
    standard = replace(small, defence="standard", attack=None, attack_options={})
    items = [item(small, CLEAN), item(replace(small, seed=1, lr=1e30), CLEAN), item(standard, CLEAN)]
    lines = record(items)
    reason = store.refusal(small)
    right = [100 * (1 - store.Key(small, store.OUTCOMES, one).read().misclassified.mean()) for one in (weak, strong)]
    assert reason == "catastrophic overfitting: {:.0f} % of the validation images withstand PGD-2, {:.0f} % PGD-20".format(*right)
    assert f"refused {small.name} (seed 0): {reason}" in lines
    assert "the loss became nan" in store.refusal(items[1].spec)
    assert lines[-1] == "nothing is left: 1 runs of the queue are recorded or packed; 2 refused"
    shutil.rmtree(data / "runs")
    assert record(items) == [lines[-1]]
    assert not (store.recorded_folder(small) / "history.nc").exists()
    transferred = item(items[2].spec, CLEAN, replace(PGD, substitute="pgd-at"))
    assert transferred.evaluations[1].substitute
    source = replace(small, defence="pgd-at", attack=None, attack_options={})
    store.refuse(source, "a reason", "cpu", 1)
    assert record([transferred]) == ALL
    asked = SimpleNamespace(pairs=2 * [(one.spec, one.evaluations) for one in items])  # as of a page with two parts
    monkeypatch.setattr(registry, "request", lambda section, scale: asked)
    text = describe.recorded_runs("tian2021/4-1-class-bias", "laptop")
    assert f"{small.name} (seed 0): {reason}" in text
    assert "1 of 3 runs (" in text


def test_results_of_one_run_are_computed_beside_each_other(data, small, done):
    kinds = [store.Key(small, kind, one) for kind, one in FURTHER]
    with kinds[0].lock():
        assert record([item(small, CLEAN, further=FURTHER[1:])])[-1] == ALL[0]
    assert all(key.path is not None for key in kinds[1:])
    assert len({key.lock().lock_file for key in (store.Key(small), *kinds)}) == 1 + len(kinds)


@pytest.mark.parametrize("diverges", [True, False])
def test_a_source_that_is_refused_takes_only_its_transfer_attacks_with_it(data, small, monkeypatch, diverges):
    weak, strong = (replace(one, eps=eps) for one, eps in zip(soundness._OVERFITTING, ("0.001", "0.9"), strict=True))
    monkeypatch.setattr(soundness, "_OVERFITTING", (weak, strong))
    real = train._train

    def trained(spec, *given, **more):
        if diverges and spec.defence == "pgd-at":
            raise Diverged("the loss became nan")
        return real(spec, *given, **more)

    monkeypatch.setattr(train, "_train", trained)
    standard = replace(small, defence="standard", attack=None, attack_options={})
    asked = item(standard, CLEAN, replace(PGD, substitute="pgd-at"))
    assert record([asked])[-1] == ALL[0]
    assert store.refusal(standard.substitute("pgd-at")).startswith("the loss" if diverges else "catastrophic")
    assert not store.refusal(standard)
    assert [path.stem for path in (store.recorded_folder(standard) / "outcomes").glob("*.nc")] == [asked.evaluations[0].name]


def test_a_damaged_recorded_result_and_one_that_fails_are_said_once_and_the_rest_is_computed(data, filed, monkeypatch):
    path = store.recorded_folder(filed) / store.Key(filed, store.OUTCOMES, CLEAN).name
    path.write_bytes(path.read_bytes()[:100])
    other, tried, real = replace(filed, seed=1), [], evaluate.evaluate_run

    def evaluated(spec, evaluation, *given, **more):
        tried.append(evaluation.attack)
        if evaluation.attack == "fgsm":
            raise RuntimeError("no memory")
        real(spec, evaluation, *given, **more)

    monkeypatch.setattr(evaluate, "evaluate_run", evaluated)
    lines = record([item(filed, CLEAN, weights=True, further=FURTHER), item(other, CLEAN, Evaluation(attack="fgsm"))])
    failed = [re.match(r"failed: \S+ \(seed (\d)\) under (\w+)-", line).groups() for line in lines if line.startswith("failed")]
    assert failed == [("0", "clean"), ("1", "fgsm")]
    assert tried.count("fgsm") == 1
    assert store.Key(other, store.OUTCOMES, CLEAN).path is not None


def test_runs_whose_images_are_not_here_are_named_and_skipped(data, small, done, tmp_path):
    absent = replace(small, dataset=f"folder:{tmp_path}/none")
    lines = record([item(absent, CLEAN), item(small, CLEAN)])
    assert lines[0].startswith(f"1 runs on {absent.dataset} are skipped: ")
    assert lines[-1].endswith("1 runs of the queue are recorded or packed; 1 skipped")
    other = item(replace(small, seed=2), CLEAN, PGD)
    for some, says in {
        (item(absent, CLEAN), other): r"(?s)are skipped.*a test +1 +1 +2 ",
        (item(absent, CLEAN),): "are skipped",
        (item(small, CLEAN),): "everything is there",
    }.items():
        out = Console(file=io.StringIO(), width=300)
        recorder.forecast(some, out)
        assert re.search(says, out.file.getvalue())
    entry = '[[entry]]\nwhy = "w"\ndefences = ["pgd-at"]\nseeds = [0]\nevaluations = ["few"]\n'
    entry += 'run = {{ dataset = "{}", eps = "0.2" }}\n'
    text = '[evaluations]\nfew = [{ attack = "clean" }]\n' + entry.format(absent.dataset) + entry.format("digits")
    (tmp_path / "queue.toml").write_text(text)
    given = ["record", "--out", str(tmp_path / "out"), "--queue", str(tmp_path / "queue.toml"), "--budget", "1s"]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, result.output
    assert f"1 runs on {absent.dataset} are skipped" in result.output


# Damage.


def test_damaged_recorded_weights_are_refused_by_name_and_the_rest_is_read(data, filed, packed):
    path = store.weights(filed)
    path.write_bytes(path.read_bytes()[:-4] + b"1234")
    with pytest.raises(Damaged, match=rf"{store.WEIGHTS} of the recorded run {filed.name} is damaged: .*classwise import"):
        networks.network_of(filed)
    lines = record([item(filed, CLEAN, PGD)])
    assert [line for line in lines if line.startswith("failed")] == [lines[0]]
    assert filed.name in lines[0]
    assert runs.history([filed]).sizes["epoch"] == 3
    assert runs.outcomes([filed], [CLEAN]).sizes["image"] == 360
    assert archive.unpack(packed) == ([filed.relative_path], [])
    assert networks.network_of(filed) is not None
    checksums = store.recorded_folder(filed) / store.CHECKSUMS
    for spoil in (lambda: checksums.write_text("{"), checksums.unlink):
        spoil()
        with pytest.raises(Damaged, match=r"checksums\.json of the recorded run .* is missing or cannot be read"):
            networks.network_of(filed)
    assert archive.unpack(packed) == ([filed.relative_path], [])
    assert networks.network_of(filed) is not None


# Queues.


def test_the_queue_of_scale_laptop_names_what_exists():
    path = queue.default("laptop")
    items = queue.read(path)
    queue.check([one for one in items if not one.spec.dataset.startswith("tiny")], path)
    assert [one.spec.defence for one in items if one.weights] == 3 * ["pgd-at", "trades", "standard"]
    listed = {one.spec: one for one in items}
    for section, definition in registry.SECTIONS.items():
        # Further seeds are read where they are recorded.
        request = registry.request(section, "laptop", seeds=range(3)[: definition.max_seeds])
        for spec, evaluations in request.pairs:
            assert {one.resolve_for(spec) for one in evaluations} <= set(listed[spec].evaluations)
        for spec, evaluations in request.feature_pairs:
            assert {store.Key(spec, store.FEATURES, one) for one in evaluations} <= set(listed[spec].shown)
    assert len(registry.request("entropy2022/1-robust-fairness", "laptop", seeds=[0]).feature_pairs) == 3
    assert all(store.FEATURES in {key.kind for key in one.shown} for one in items)


def test_the_queue_at_the_level_of_the_papers_names_what_exists_and_files_all_weights():
    path = queue.default("matched")
    items = queue.read(path)
    queue.check(items, path)
    assert all(one.weights and one.spec.dataset == "cifar10" for one in items)
    arms = ["standard", "pgd-at", "trades", "at-ccm", "trades-ccm-ccr"]
    first_look = [(name, seed) for seed in range(5) for name in arms]
    queued = dict.fromkeys((one.spec.defence, one.spec.seed) for one in items)
    assert [one for one in queued if one in first_look] == first_look
    hard = Evaluation(attack="strong", classes=("bird", "cat", "deer"))
    own = [one for one in items if one.spec == registry.training("matched", one.spec.defence, one.spec.seed)]
    assert all(hard.resolve_for(one.spec) in one.evaluations for one in own)
    assert len(items) - len(own) == 3  # of the fluctuation
    listed = {one.spec: set(one.evaluations) for one in items}
    section = "wei2023/5-2-robustness-and-fairness"
    for name, part in registry.request(section, "matched").parts.items():
        most = registry.SECTIONS[section].parts[name].max_seeds or 5  # further ones are read where they are recorded
        for spec, evaluations in (pair for pair in part.pairs if pair[0].seed < most):
            assert {one.resolve_for(spec) for one in evaluations} <= listed[spec], name
    assert all(store.FEATURES in {key.kind for key in one.shown} for one in items)


def test_no_queue_evaluates_the_last_weights_of_a_defence_that_returns_its_average():
    """They are those of the defence without the average, which has a row of its own."""
    for scale in (None, "matched", "laptop"):
        for one in queue.read(queue.default(scale)):
            if defences.build(one.spec.defence, one.spec.options).averaging.averages:
                assert {some.checkpoint for some in one.evaluations} <= {"average", "best"}, one.title


def test_packing_only_computes_nothing_and_takes_what_is_there(data, small, done, tmp_path):
    other = replace(small, seed=1)
    pool.ensure_runs([(small, [CLEAN])], workers=1)
    store.run_folder(other).mkdir(parents=True)
    checkpoint = store.run_folder(other) / store.CHECKPOINT
    checkpoint.write_bytes(b"of another commit")
    items = [item(small, CLEAN, PGD), item(other, CLEAN)]
    before = files(data)
    lines = record(items, tmp_path / "out", pack_only=True, weights="full")
    assert lines[0].startswith("packed 1 runs")
    assert lines[-1].startswith("2 of 2 runs are left")
    assert files(data) == before
    assert checkpoint.read_bytes() == b"of another commit"
    packed = (small.relative_path, frozenset({CLEAN.resolve_for(small).name}))
    assert archive.contents(tmp_path / "out", full_weights=True) == [packed]
    assert len(record(items, tmp_path / "out", pack_only=True, weights="full")) == 1
    weights = safetensors.torch.load_file(store.weights(small))
    shutil.rmtree(data / "runs")
    archive.unpack(tmp_path / "out" / "recorded-1.tar")
    filed = safetensors.torch.load_file(store.weights(small))
    assert all(filed[name].equal(value) for name, value in weights.items())
