"""Recording: a queue read and checked, a budget kept, archives packed, checked and filed."""

import io
import json
import shutil
import signal
import sys
import tarfile
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr
from rich.console import Console

from classwise import __main__, runs
from classwise.core.errors import UserError
from classwise.core.spec import Evaluation
from classwise.papers import registry
from classwise.runs import store
from classwise.runs.compute import budget, device, evaluate, train
from classwise.runs.compute.budget import Budget
from classwise.runs.compute.work import Timing
from classwise.runs.record import archive, queue, recorder
from classwise.runs.record.queue import Item
from classwise.runs.schedule import plan, pool
from classwise.runs.schedule.cost import Costs

ASKED = (Evaluation(attack="clean"), Evaluation(attack="pgd-10", options={"steps": 2}))

QUEUE = """
[evaluations]
few = [{ attack = "clean" }, { attack = "square", options = { queries = 60 }, batch = 60 }]
transfer = [{ attack = "pgd-20", substitute = "standard" }]

[[entry]]
why = "a rehearsal"
scale = "quick"
defences = ["standard", "pgd-at"]
seeds = [0]
evaluations = ["few", "transfer"]
run = { width = 4, epochs = 6 }
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "queue.toml"
    path.write_text(QUEUE)
    return path


def item(spec, asked=ASKED):
    return Item(spec, tuple(one.resolve_for(spec) for one in asked), "a test")


def ran(spec, asked=ASKED):
    """Compute a run and its evaluations."""
    pool.ensure_runs([(spec, asked)], workers=1)
    return spec


class Clock:
    """Seconds that pass only when they are told to."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


# The queue.


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
def test_what_a_processor_emulates_is_said_before_anything_runs(data, small, monkeypatch, tmp_path, precision):
    monkeypatch.setattr(device, "_seconds_of_convolution", lambda of: 75.0 if of == torch.bfloat16 else 1.0)
    spec, console = replace(small, precision=precision, epochs=1), Console(file=io.StringIO(), width=1000)
    pool.ensure_runs([(spec, [])], console=console)
    said = []
    recorder.record([item(replace(spec, seed=1), ())], tmp_path / "out", Budget(300.0, time.monotonic()), say=said.append)
    warning = "bfloat16, which this processor emulates: 75 times slower than float32; request precision='float32'"
    first = "\n".join([console.file.getvalue().splitlines()[0], said[0]])
    assert first.count(warning) == (2 if precision == "bfloat16" else 0)


def test_the_queue_of_the_project_names_what_exists():
    items = queue.read(queue.default())
    queue.check(items, queue.default())
    assert [one.spec.defence for one in items[:6]] == ["standard", "pgd-at", "trades", "mart", "pgd-he", "trades-he"]
    assert {one.spec.seed for one in items} == {0, 1, 2}
    assert all(one.why for one in items)
    for section in registry.SECTIONS:
        for spec, evaluations in registry.request(section, "short").pairs:
            asked = [one for one in items if one.spec == spec]
            assert {one.resolve_for(spec) for one in evaluations} <= set(asked[0].evaluations)
    for spec, evaluations in registry.request("tian2021/5-temperature-pgd", "short").pairs:
        (traces,) = ({key for key in item.shown if key.kind == store.TRACE} for item in items if item.spec == spec)
        traced = plan.traced_evaluations(evaluations) if spec.seed == 0 else ()
        assert traces == {store.Key(spec, store.TRACE, one) for one in traced}


def test_a_queue_is_read_in_order_and_a_run_named_twice_is_one(tmp_path, file):
    file.write_text(
        QUEUE
        + QUEUE[QUEUE.index("[[entry]]") :].replace('["few", "transfer"]', '["few", "grid"]').replace("[[entry]]", "[[entry]]", 1)
    )
    text = file.read_text().replace("transfer = [", "grid = [{ attack = 'pgd-10', grid = { steps = [1, 2] } }]\ntransfer = [")
    file.write_text(text)
    items = queue.read(file)
    assert [one.spec.defence for one in items] == ["standard", "pgd-at"]
    assert [one.attack for one in items[0].evaluations[:5]] == ["clean", "square", "pgd-20", "pgd-10", "pgd-10"]
    assert all(one.eps == "0.2" for one in items[0].evaluations)


def test_an_entry_may_take_all_runs_of_a_section(tmp_path):
    path = tmp_path / "queue.toml"
    path.write_text('[[entry]]\nwhy = "homing"\nsection = "tian2021/6-1-training-adjustment"\nscale = "short"\n')
    items = queue.read(path)
    asked = plan.group_by_run(registry.request("tian2021/6-1-training-adjustment", "short").pairs)
    assert [one.spec for one in items] == list(asked)
    for item, keys in zip(items, asked.values(), strict=True):
        assert set(item.evaluations) == {key.evaluation for key in keys}
    path.write_text(path.read_text() + "seeds = [0]\n")
    assert [one.spec for one in queue.read(path)] == [spec for spec in asked if spec.seed == 0]
    path.write_text(path.read_text() + "defences = ['mart']\n")
    with pytest.raises(UserError, match="defences has no meaning next to section"):
        queue.read(path)


# The budget.


@pytest.mark.parametrize(("text", "seconds"), [("9m", 540), ("30s", 30), ("1h30m", 5400), ("45", 45), ("1.5m", 90)])
def test_a_time_is_read(text, seconds):
    assert budget.parse_seconds(text) == seconds


def test_what_takes_longer_than_ever_is_ended():
    assert not Budget(0.3, time.monotonic()).finish(lambda: time.sleep(300))
    assert Budget(60, time.monotonic()).finish(lambda: None)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_the_alarm_ends_the_work_and_nothing_after_it(monkeypatch):
    """A process of low priority may hear it on its way out of the work."""
    rings, budget = [], Budget(60, time.monotonic())
    monkeypatch.setattr(signal, "signal", lambda number, ring: rings.append(ring))
    assert not budget.finish(lambda: rings[0](signal.SIGALRM, sys._getframe()))
    rings[0](signal.SIGALRM, sys._getframe())


def slowly(monkeypatch, clock, seconds):
    """Let every report of a training or an evaluation come so many seconds after the one before."""
    for where, name in ((train, "train"), (evaluate, "evaluate_run")):
        real = getattr(where, name)

        def late(*args, real=real, **rest):
            *args, report = args

            def told(*step):
                clock.now += seconds
                report(*step)

            return real(*args, told, **rest)

        monkeypatch.setattr(where, name, late)
    monkeypatch.setattr(signal, "setitimer", lambda *seconds: None)


def test_what_no_budget_of_this_size_can_hold_is_said(data, small, done, tmp_path):
    clock, lines = Clock(), []
    costs = pool.costs_here()
    for one in Costs.KEPT * item(small).evaluations:
        costs.record(store.Key(small, store.OUTCOMES, one), Timing(costs.device, 1.0, 360.0))
    costs.write()
    recorder.record([item(small)], tmp_path / "out", Budget(60, clock(), clock), say=lines.append)
    assert "if the budget is larger: it takes about 360 s" in lines[-1]
    assert not (tmp_path / "out").exists()


def test_a_run_that_fails_stops_no_other(data, small, done, tmp_path):
    broken = replace(small, warm_start="0123456789")
    lines = []
    items = [item(broken), item(small)]
    failed = recorder.record(items, tmp_path / "out", Budget(300, time.monotonic()), say=lines.append)
    assert len(failed) == 1
    assert "is the id of no finished run" in failed[0]
    assert archive.contents(tmp_path / "out") == [(small.relative_path, frozenset(one.name for one in item(small).evaluations))]


# Archives.


@pytest.fixture
def packed(data, small, done, tmp_path):
    """An archive of one run, and the run removed."""
    ran(small)
    path = archive.pack([(small, item(small).evaluations)], tmp_path / "out", weights="full")
    shutil.rmtree(data / "runs")
    return path


def content(path):
    """Return the files of an archive by name."""
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}


def summed(files):
    """Let the manifest say the sums of the files that are there."""
    told = json.loads(files[archive.MANIFEST])
    for name, entry in told["runs"].items():
        entry["files"] = {one: archive._sum(files[f"{name}/{one}"]) for one in entry["files"]}
    return files | {archive.MANIFEST: json.dumps(told).encode()}


def snapshot(folder):
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def test_an_archive_is_filed_and_read_by_the_book_and_a_second_import_changes_nothing(data, small, packed):
    new, same = archive.unpack(packed)
    assert (new, same) == ([small.relative_path], [])
    before = snapshot(data)
    assert archive.unpack(packed) == ([], [small.relative_path])
    assert snapshot(data) == before
    assert plan.missing([(small, ASKED)]) == {}
    assert not list((data / "recorded").glob(".import-*"))
    names = {"checksums.json", "history.nc", "outcomes", "spec.json", "weights.safetensors"}
    assert {path.name for path in store.recorded_folder(small).iterdir()} == names


def test_attacked_images_and_traces_come_along_to_be_shown_without_the_weights(data, small, done, tmp_path):
    pgd, other = ASKED[-1], replace(ASKED[-1], eps="0.05")
    shown = replace(item(small), shown=tuple(store.Key(small, kind, pgd) for kind in (store.EXAMPLES, store.TRACE)))
    recorder.record([shown], tmp_path / "out", Budget(600, time.monotonic()), say=lambda line: None)
    seen, traced = runs.examples(small, pgd), runs.traces([(small, [pgd])])
    shutil.rmtree(data / "runs")
    archive.unpack(tmp_path / "out" / "recorded-1.tar")
    assert store.lacks_weights(small)
    assert runs.example_sets([small], pgd)[small.defence].equals(seen)
    assert runs.example_sets([small], other) == {}
    xr.testing.assert_identical(runs.traces([(small, [pgd])]), traced)
    assert runs.traces([(small, [other])]) is None
    with pytest.raises(UserError, match="are not recorded"):
        runs.examples(small, other)


def test_equal_runs_make_equal_archives_and_are_packed_once(data, small, done, tmp_path):
    ran(small)
    one, two = (archive.pack([(small, item(small).evaluations)], tmp_path / name) for name in "ab")
    assert one.read_bytes() == two.read_bytes()
    lines = []
    recorder.record([item(small)], tmp_path / "a", Budget(600, time.monotonic()), say=lines.append)
    assert lines == ["nothing is left: all 1 runs of the queue are recorded or packed"]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["recorded-1.tar"]


def refused(data, path, says):
    before = snapshot(data)
    with pytest.raises(UserError, match=says) as told:
        archive.unpack(path)
    assert path.name in str(told.value)
    assert snapshot(data) == before


def test_what_is_damaged_or_no_result_is_refused_by_name(data, small, packed, tmp_path):
    files = content(packed)
    history, spec, weights = (f"{small.relative_path}/{name}" for name in ("history.nc", "spec.json", store.WEIGHTS))
    pgd, clean = (next(name for name in files if attack in name) for attack in ("pgd-10", "clean"))
    told = json.loads(files[archive.MANIFEST])
    aged, less = json.dumps(told | {"recipe": 0}).encode(), json.loads(files[archive.MANIFEST])
    less["runs"][small.relative_path]["evaluations"].pop()
    changes = {
        "the format .*, training version 0; this version": files | {archive.MANIFEST: aged},
        "damaged manifest.json": files | {archive.MANIFEST: b"{}"},
        "names '.*outcomes/": files | {archive.MANIFEST: json.dumps(less).encode()},
        "holds another '.*history.nc' than its manifest.json says": files | {history: files[history][:-1] + b"?"},
        "is cut short: .*history.nc is missing": {name: value for name, value in files.items() if name != history},
        # With right sums:
        "is refused: .*history.nc is truncated or not a netCDF file": summed(files | {history: b"nothing"}),
        "is refused: .*pgd-10.* it holds clean-": summed(files | {pgd: files[clean]}),
        "is refused: .*spec.json: its spec is that of": summed(files | {spec: replace(small, seed=3).json().encode()}),
        "is refused: .*weights.safetensors: Error while deserializing header": summed(files | {weights: b"no weights"}),
    }
    for number, (says, changed) in enumerate(changes.items()):
        path = tmp_path / f"changed-{number}.tar"
        path.write_bytes(archive._tar(changed))
        refused(data, path, says)
    others = {"text": b"nothing", "empty": b"", "zip": b"PK\x03\x04" + b"\0" * 600, "cut": packed.read_bytes()[:20_000]}
    for name, value in others.items():
        (tmp_path / f"{name}.tar").write_bytes(value)
        refused(data, tmp_path / f"{name}.tar", "is no archive of `classwise record`")
    refused(data, tmp_path / "none.tar", "No such file")


@pytest.mark.parametrize(
    "name", ["../evil", "/tmp/evil", "digits/small-cnn/../../evil", "digits/small-cnn/x-1/../../evil.nc", "digits/evil.py"]
)
def test_names_that_lead_elsewhere_are_refused(data, packed, tmp_path, name):
    files, evil = content(packed), tmp_path / "evil.tar"
    evil.write_bytes(archive._tar(files | {name: b"x"}))
    refused(data, evil, "evil.tar holds another '")
    told = json.loads(files[archive.MANIFEST])
    folder, _, file = name.rpartition("/")
    told["runs"][folder] = {"evaluations": [], "files": {file: archive._sum(b"x")}}
    evil.write_bytes(archive._tar({**files, archive.MANIFEST: json.dumps(told).encode(), name: b"x"}))
    refused(data, evil, "evil.tar names '")


def test_links_are_not_followed(data, small, packed, tmp_path):
    path, name = tmp_path / "linked.tar", f"{small.relative_path}/history.nc"
    buffer = io.BytesIO()
    with tarfile.open(packed) as old, tarfile.open(fileobj=buffer, mode="w") as tar:
        for member in old:
            if member.name == name:
                link = tarfile.TarInfo(name)
                link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
                tar.addfile(link)
            else:
                tar.addfile(member, old.extractfile(member))
    path.write_bytes(buffer.getvalue())
    refused(data, path, "linked.tar holds")


def test_another_training_of_a_recorded_run_is_refused_and_more_of_the_same_is_added(data, small, done, tmp_path):
    few, all_of_it = (item(small).evaluations[:number] for number in (1, 2))
    ran(small)
    less, more = (archive.pack([(small, some)], tmp_path / "out") for some in (few, all_of_it))
    shutil.rmtree(data / "runs")
    ran(small)
    another = archive.pack([(small, all_of_it)], tmp_path / "out")
    for path, new in ((less, True), (more, True), (less, False)):
        assert archive.unpack(path) == (([small.relative_path], []) if new else ([], [small.relative_path]))
    assert store.complete(store.recorded_folder(small), store.outcomes_of([(small, all_of_it)]))
    refused(data, another, "history.nc: .* holds another one; remove that folder to import this run")
    with pytest.raises(UserError, match="holds another one"):
        archive.file_run(small, all_of_it)


# A rehearsal: calls that are cut short, and the results of an unbroken run.


def test_calls_stop_before_the_step_that_does_not_fit_and_record_what_an_unbroken_run_finds(
    data, file, tmp_path, monkeypatch, capsys
):
    out, items, clock, lines, calls = tmp_path / "out", queue.read(file), Clock(), [""], 0
    with monkeypatch.context() as patch:
        slowly(patch, clock, 10.0)
        while "nothing is left" not in lines[-1]:
            began, calls = clock.now, calls + 1
            assert recorder.record(items, out, Budget(60, began, clock), say=lines.append) == []
            assert clock.now - began <= 60
            assert calls < 40
            if calls == 1:
                assert store.Key(items[0].spec).read() is None
                assert (store.run_folder(items[0].spec) / store.CHECKPOINT).exists()
                assert "2 of 2 runs are left; the next call begins with standard-" in lines[-1]
                assert not out.exists()
    assert calls > 5
    __main__.record_runs(out=str(out), queue=str(file), budget="8m")
    assert capsys.readouterr().out == "nothing is left: all 2 runs of the queue are recorded or packed\n"
    archives = sorted(out.glob("*.tar"))
    # Each once, and only with all that is asked of it.
    packed = {one.spec.relative_path: frozenset(asked.name for asked in one.evaluations) for one in items}
    assert sorted(archive.contents(out)) == sorted(packed.items())
    monkeypatch.setenv("CLASSWISE_DATA", str(tmp_path / "there"))
    filed = [name for path in archives for name in archive.unpack(path)[0]]
    assert sorted(filed) == sorted(one.spec.relative_path for one in items)
    recorded = {one.title: [key.read() for key in one.outcomes] for one in items}
    monkeypatch.setenv("CLASSWISE_DATA", str(tmp_path / "whole"))
    pool.ensure_runs([(one.spec, one.evaluations) for one in items], workers=1)
    for one in items:
        for key, found in zip(one.outcomes, recorded[one.title], strict=True):
            whole, asked = key.read(), key.evaluation
            if asked is not None and (asked.substitute or asked.attack not in archive.WITH_LOGITS):
                whole["logits"] = xr.full_like(whole.logits, np.nan)
            bare = [data.drop_vars("seconds", errors="ignore").drop_attrs() for data in (whole, found)]
            assert bare[0].identical(bare[1])
    assert runs.outcomes([items[0].spec], items[0].evaluations[:1]).sizes["image"] == 360
    assert archives[0].stat().st_size < 2_000_000
