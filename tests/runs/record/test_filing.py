"""Recorded runs with their weights: evaluated from data/recorded/, where their new results are filed."""

import json
import shutil
import tarfile
import time
from dataclasses import replace

import pytest
import safetensors.torch

from classwise import defences, runs
from classwise.core.errors import NotRecorded, UserError
from classwise.core.results import Damaged
from classwise.core.spec import Evaluation
from classwise.papers import registry, scales
from classwise.runs import artifacts, store
from classwise.runs.compute import networks
from classwise.runs.record import archive, queue, recorder
from classwise.runs.record.budget import Budget
from classwise.runs.record.queue import Item
from classwise.runs.schedule import pool

CLEAN, PGD = Evaluation(attack="clean"), Evaluation(attack="pgd-10", options={"steps": 2})


def item(spec, *evaluations, **more):
    resolved = {name: tuple(one.resolved_for(spec) for one in some) for name, some in more.items() if name != "recorded"}
    return Item(spec, tuple(one.resolved_for(spec) for one in evaluations), "a test", **more | resolved)


def record(items, out=None, seconds=600, **more):
    """Record and return the lines that are said."""
    lines = []
    failed = recorder.record(items, out, Budget(seconds, time.monotonic()), say=lines.append, **more)
    assert failed == [line.removeprefix("failed: ") for line in lines if line.startswith("failed")]
    return lines


@pytest.fixture
def filed(data, small):
    """A run that is recorded with its weights and a clean evaluation, and not in data/runs/."""
    record([item(small, CLEAN)])
    shutil.rmtree(data / "runs")
    return small


@pytest.fixture
def packed(filed, tmp_path):
    """The same in an archive."""
    return archive.pack([(filed, [CLEAN.resolved_for(filed)])], tmp_path / "packed", weights="full")


def files(folder):
    """Return the files of a folder apart from locks."""
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock")
    )


# Weights in archives.


def test_full_weights_come_back_bit_by_bit_with_checksums(data, small, tmp_path):
    pool.ensure_runs([(small, [CLEAN])], workers=1)
    weights = store.weights(small).read_bytes()
    path = archive.pack([(small, [CLEAN.resolved_for(small)])], tmp_path, weights="full")
    shutil.rmtree(data / "runs")
    assert archive.unpack(path) == ([small.relative_path], [])
    assert store.weights(small) == store.recorded(small) / store.WEIGHTS
    assert store.weights(small).read_bytes() == weights
    with tarfile.open(path) as tar:
        manifest = json.load(tar.extractfile(archive.MANIFEST))
    sums = json.loads((store.recorded(small) / store.CHECKSUMS).read_text())
    assert sums == manifest["runs"][small.relative_path]["files"]
    assert set(sums) == {"history.nc", "spec.json", "weights.safetensors", f"outcomes/{CLEAN.resolved_for(small).name}.nc"}
    assert archive.unpack(path) == ([], [small.relative_path])


def test_weights_that_cannot_be_read_are_refused_at_import(filed, packed, tmp_path):
    name = f"{filed.relative_path}/{store.WEIGHTS}"
    with tarfile.open(packed) as tar:
        content = {member.name: tar.extractfile(member).read() for member in tar} | {name: b"no weights"}
    manifest = json.loads(content[archive.MANIFEST])
    manifest["runs"][filed.relative_path]["files"][store.WEIGHTS] = archive._sum(b"no weights")
    broken = tmp_path / "broken.tar"
    broken.write_bytes(archive._tar(content | {archive.MANIFEST: json.dumps(manifest).encode()}))
    before = store.weights(filed).read_bytes()
    with pytest.raises(UserError, match=r"broken.tar is refused: .*weights.safetensors cannot be read as weights"):
        archive.unpack(broken)
    assert store.weights(filed).read_bytes() == before


def test_weights_of_each_evaluated_checkpoint_come_along(data, small, tmp_path):
    spec, average = replace(small, defence="at-ema"), replace(CLEAN, checkpoint="average")
    pool.ensure_runs([(spec, [average])], workers=1)
    record([item(spec, average)])
    shutil.rmtree(data / "runs")
    assert {path.name for path in store.recorded(spec).glob("*.safetensors")} == {store.WEIGHTS, "weights-average.safetensors"}
    assert record([item(spec, average, replace(PGD, checkpoint="average"))])[0].startswith("evaluated")


# Where results go.


def test_new_results_of_a_recorded_network_are_filed_beside_it(data, filed):
    before = files(store.recorded(filed))
    lines = record([item(filed, CLEAN, PGD, examples=[PGD], traces=[PGD], features=[CLEAN])])
    assert [line.split(" at ")[0].split(" pgd")[0] for line in lines[:4]] == [
        "stored features of",
        "stored examples of",
        "traced",
        "evaluated",
    ]
    added = set(files(store.recorded(filed))) - set(before)
    assert {name.split("/")[0] for name in added} == {"outcomes", "examples", "courses", "features-2"}
    assert len(added) == 4
    sums = json.loads((store.recorded(filed) / store.CHECKSUMS).read_text())
    assert added <= set(sums)
    assert not (data / "runs" / "digits").exists()
    assert record([item(filed, CLEAN, PGD, examples=[PGD], traces=[PGD], features=[CLEAN])]) == [
        "nothing is left: all 1 runs of the queue are recorded or packed"
    ]
    # What a page asks for is read, and is what a training here would have found.
    found = runs.outcomes([filed], [PGD])
    assert found.attrs["recorded"] == "all"
    assert runs.features(filed).attrs["schema"] == store.FEATURES
    assert set(runs.example_sets([filed], PGD)) == {filed.defence}
    assert runs.traces([(filed, [PGD])]) is not None


def test_a_run_evaluates_a_recorded_network_without_training_it(data, filed):
    assert pool.ensure_runs([(filed, [PGD])], workers=1) == 1
    assert store.file(store.recorded(filed), PGD.resolved_for(filed)).exists()
    assert not store.run_folder(filed).exists()


def test_pages_compute_nothing_for_a_recorded_network(data, filed, monkeypatch):
    name = PGD.resolved_for(filed).name
    with pytest.raises(
        NotRecorded, match=rf"outcomes of {filed.name} \(digits\) under {name} are not recorded; `classwise record`"
    ):
        runs.outcomes([filed], [CLEAN, PGD])
    with pytest.raises(NotRecorded, match="examples of"):
        runs.examples(filed, PGD)
    with pytest.raises(NotRecorded, match="features of"):
        runs.features(filed)
    with pytest.raises(NotRecorded, match="traces of"):
        artifacts.trace(filed, PGD)
    assert runs.example_sets([filed], PGD) == {}
    assert runs.traces([(filed, [PGD])]) is None
    assert files(data / "recorded") == [f"{filed.relative_path}/{name}" for name in files(store.recorded(filed))]
    assert not list((data / "runs").glob("*/*/*"))
    monkeypatch.setitem(scales.SCALES, "quick", replace(scales.SCALES["quick"], only_read=True))
    monkeypatch.setattr(registry, "scale_of", lambda spec: "quick")
    with pytest.raises(NotRecorded, match="`classwise record --scale quick` computes what is missing"):
        runs.outcomes([filed], [PGD])


def test_features_and_partial_runs_are_filed(data, small):
    record([item(small, CLEAN)])
    lines = record([item(small, CLEAN, PGD, features=[CLEAN])])
    assert lines[-2] == f"filed {small.name} (seed 0) in {small.recorded_folder}"
    shutil.rmtree(data / "runs")
    assert store.complete(store.recorded(small), [CLEAN.resolved_for(small), PGD.resolved_for(small)])
    assert runs.features(small).sizes["label"] == 10


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
    checksums = store.recorded(filed) / store.CHECKSUMS
    checksums.write_text("{")
    with pytest.raises(Damaged, match=r"checksums\.json of the recorded run .* cannot be read"):
        networks.network_of(filed)
    checksums.unlink()
    with pytest.raises(Damaged, match=r"checksums\.json of the recorded run .* is missing"):
        networks.network_of(filed)
    assert archive.unpack(packed) == ([filed.relative_path], [])
    assert networks.network_of(filed) is not None


def test_another_training_does_not_replace_recorded_weights(data, filed, tmp_path):
    recorded = store.recorded(filed).rename(tmp_path / "aside")
    pool.ensure_runs([(filed, [CLEAN])], workers=1)
    without = archive.pack([(filed, [CLEAN.resolved_for(filed)])], tmp_path / "without")
    recorded.rename(store.recorded(filed))
    with pytest.raises(UserError, match="not all that is recorded there"):
        archive.unpack(without)


# Queues.


def test_the_queue_of_scale_laptop_names_what_exists():
    path = queue.default("laptop")
    items = queue.read(path)
    queue.check(items, path)
    assert sum(one.recorded for one in items) == 20
    assert [one.recorded for one in items[:20]] == [True] * 20
    names = {"clean-4dc27c2a1c", "fgsm-9c7e07bcb5", "pgd-20-416ff4f231", "margin-20-11f35a0544", "strong-178ae8c13e"}
    assert all(names <= {evaluation.name for evaluation in one.evaluations} for one in items[:20])
    assert all(one.features for one in items)
    for section in ("tian2021/6-2-background", "tian2021/6-1-training-adjustment"):
        assert {spec for spec, _ in registry.request(section, "laptop").pairs} <= {one.spec for one in items}
    with pytest.raises(UserError, match="scale 'quick' has no queue"):
        queue.default("quick")
    with pytest.raises(UserError, match="did you mean 'laptop'"):
        queue.default("labtop")


def test_the_first_runs_that_scale_laptop_trains_are_those_of_wei():
    """In the order of their worth: the rows of tables 1 to 3, then Figures 2 and 3, before what remains of Tian's pages."""
    items = [one for one in queue.read(queue.default("laptop")) if not one.recorded]
    averaged = {"averages": ("ema", "fawa")}
    fields: list[tuple[str, dict[str, object]]] = [
        ("at-ccm", averaged),
        ("trades-ccm-ccr", averaged),
        ("pgd-at", averaged),
        ("trades", averaged),
        ("fat-constant", averaged),
        ("fat-ccm", averaged),
        ("frl-rmrw", averaged),
        ("pgd-at", {"eps": "4/255", "probe_eps": "8/255"}),
        ("pgd-at", {"eps": "12/255", "probe_eps": "8/255"}),
        ("trades", {"options": {"beta": 1}, "measure": 100}),
    ]
    wanted = [registry.training("laptop", defence, 0, "wei2023", **changed) for defence, changed in fields]
    assert [one.spec for one in items[:10]] == wanted
    assert [one.spec.defence for one in items[10:11]] == ["trades-he"]
    for section in ("wei2023/3-1-margins", "wei2023/3-2-regularisations"):
        swept = set(registry.request(section, "laptop", seeds=[0]).parts["swept"].specs)
        assert swept <= {one.spec for one in items[:10]}
    shown = {"clean", "pgd-20", "strong"}
    for one in items[:4]:
        for checkpoint in ("last", "ema", "fawa"):
            assert shown <= {some.attack for some in one.evaluations if some.checkpoint == checkpoint}, one.title
    plain = {one.spec.id for one in queue.read(queue.default("laptop")) if one.recorded}
    assert {"0f2e5d75ad", "5167014207"} <= plain, "the recorded networks without averages stay as they are"


def test_no_queue_evaluates_the_last_weights_of_a_defence_that_returns_its_average():
    """They are those of the defence without the average, which has a row of its own."""
    for scale in (None, "laptop"):
        for one in queue.read(queue.default(scale)):
            if defences.build(one.spec.defence, one.spec.options).averaging.averages:
                assert {some.checkpoint for some in one.evaluations} <= {"average", "best"}, one.title


def test_an_entry_of_recorded_runs_trains_nothing(data, filed, tmp_path):
    entry = '[[entry]]\nwhy = "w"\ndefences = ["{}"]\nseeds = [0, 1]\nevaluations = ["few"]\nrecorded = {}\nrun = {{ {} }}\n'
    fields = 'dataset = "digits", eps = "0.2", width = 4, epochs = 3, attack = "pgd-10", attack_options = { steps = 2 }'
    path = tmp_path / "queue.toml"
    head = '[evaluations]\nfew = [{ attack = "clean" }, { attack = "pgd-20", substitute = "standard" }]\n'
    path.write_text(head + entry.format("pgd-at", "true", fields) + entry.format("pgd-at", "false", fields))
    items = queue.read(path)
    assert [one.recorded for one in items] == [True, True]
    assert items[0].spec == filed
    assert record(items) == [
        "nothing is left: 0 of 2 runs of the queue are recorded or packed; 2 runs wait for networks that are not recorded yet"
    ]
    path.write_text(path.read_text().replace("false", "3"))
    with pytest.raises(UserError, match="recorded must be true or false"):
        queue.read(path)


def test_packing_only_computes_nothing_and_takes_what_is_there(data, small, tmp_path):
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
    assert archive.contents(tmp_path / "out", full_weights=True) == [
        (small.relative_path, frozenset({CLEAN.resolved_for(small).name}))
    ]
    assert len(record(items, tmp_path / "out", pack_only=True, weights="full")) == 1
    weights = safetensors.torch.load_file(store.weights(small))
    shutil.rmtree(data / "runs")
    archive.unpack(tmp_path / "out" / "recorded-1.tar")
    filed = safetensors.torch.load_file(store.weights(small))
    assert all(filed[name].equal(value) for name, value in weights.items())
