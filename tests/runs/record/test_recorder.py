"""Recording: a queue read and checked, a budget kept, archives packed, checked and filed."""

import io
import json
import shutil
import signal
import tarfile
import time
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr
from rich.console import Console

from classwise import __main__, runs
from classwise.charts import gallery
from classwise.core.errors import NotRecorded, UserError
from classwise.core.spec import Evaluation
from classwise.papers import registry
from classwise.runs import artifacts, store
from classwise.runs.compute import device, evaluate, train
from classwise.runs.record import archive, budget, queue, recorder
from classwise.runs.record.budget import Budget, OutOfTime
from classwise.runs.record.queue import Item
from classwise.runs.schedule import plan, pool
from classwise.runs.schedule.timings import Timings, epoch_of, image_of

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
    return Item(spec, tuple(one.resolved_for(spec) for one in asked), "a test")


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
            assert {one.resolved_for(spec) for one in evaluations} <= set(asked[0].evaluations)
    for spec, evaluations in registry.request("tian2021/5-temperature-pgd", "short").pairs:
        (traces,) = (set(one.traces) for one in items if one.spec == spec)
        assert traces == (set(artifacts.traced_evaluations(evaluations)) if spec.seed == 0 else set())


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
    asked = plan.collected(registry.request("tian2021/6-1-training-adjustment", "short").pairs)
    assert [one.spec for one in items] == list(asked)
    for item, (_, evaluations) in zip(items, asked.items(), strict=True):
        assert set(item.evaluations) == set(evaluations)
    path.write_text(path.read_text() + "seeds = [0]\n")
    assert [one.spec for one in queue.read(path)] == [spec for spec in asked if spec.seed == 0]
    path.write_text(path.read_text() + "defences = ['mart']\n")
    with pytest.raises(UserError, match="defences has no meaning next to section"):
        queue.read(path)


# The budget.


@pytest.mark.parametrize(("text", "seconds"), [("9m", 540), ("30s", 30), ("1h30m", 5400), ("45", 45), ("1.5m", 90)])
def test_a_time_is_read(text, seconds):
    assert budget.parse_seconds(text) == seconds


def test_nothing_is_begun_that_would_not_end():
    clock = Clock()
    some = Budget(100, clock(), clock)
    assert some.left == 95
    assert some.fits(80)
    assert not some.fits(90)
    assert not some.ever_fits(90)
    clock.now += 60
    assert some.fits(30)
    assert not some.fits(35)
    assert some.ever_fits(35)
    assert some.fits(None)
    clock.now += 20
    assert not some.fits(None)


def test_what_takes_longer_than_ever_is_ended():
    with pytest.raises(OutOfTime), Budget(0.3, time.monotonic()).ringing():
        time.sleep(300)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_times_are_kept_for_the_next_call(tmp_path, small):
    file = tmp_path / "pace.json"
    pace, key = Timings(file, "a device"), epoch_of(small, measured=False)
    assert pace.slowest(key) is None
    for took in (9.0, 1.0, 3.0, 2.0):
        pace.record(key, took)
    pace.record(epoch_of(replace(small, defence="standard", attack=None), measured=False), 0.1)
    pace.write()
    again = Timings(file, "a device")
    assert again.slowest(key) == 3.0
    assert again.slowest(epoch_of(replace(small, seed=1), measured=False)) == 3.0
    assert again.slowest(epoch_of(replace(small, defence="trades"), measured=False)) == 3.0
    assert again.slowest(epoch_of(replace(small, width=8), measured=False)) is None
    assert again.slowest(epoch_of(small, measured=True)) is None
    assert Timings(file, "another device").slowest(key) is None
    assert again.fastest(key) == 1.0
    file.write_text("{broken")
    assert Timings(file, "a device").slowest(key) is None


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
    monkeypatch.setattr(Budget, "ringing", lambda self: nullcontext())


def test_what_no_budget_of_this_size_can_hold_is_said(data, small, done, tmp_path):
    clock, lines = Clock(), []
    file = data / "runs" / "pace.json"
    pace = Timings(file, device.where()[0])
    for _ in range(Timings.KEPT):
        for one in item(small).evaluations:
            pace.record(image_of(small, one), 1.0)
    pace.write()
    recorder.record([item(small)], tmp_path / "out", Budget(60, clock(), clock), say=lines.append)
    assert "if the budget is larger: it takes about 500 s" in lines[-1]
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
    path = archive.pack([(small, item(small).evaluations)], tmp_path / "out")
    shutil.rmtree(data / "runs")
    return path


def content(path):
    """Return the files of an archive by name."""
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}


def changed(path, target, change):
    """Write an archive anew with other members; `change` gets names and contents."""
    target.write_bytes(archive._tar(change(content(path))))
    return target


def summed(files):
    """Let the manifest say the sums of the files that are there."""
    told = json.loads(files[archive.MANIFEST])
    for name, entry in told["runs"].items():
        entry["files"] = {one: archive._sum(files[f"{name}/{one}"]) for one in entry["files"]}
    return files | {archive.MANIFEST: json.dumps(told).encode()}


def snapshot(folder):
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


def test_an_archive_is_filed_and_read_by_the_book_and_a_second_import_changes_nothing(data, small, packed):
    new, same = archive.unpack(packed)
    assert (new, same) == ([small.relative_path], [])
    before = snapshot(data)
    assert archive.unpack(packed) == ([], [small.relative_path])
    assert snapshot(data) == before
    assert plan.missing([(small, ASKED)]) == []
    assert not list((data / "recorded").glob(".import-*"))
    assert sorted(path.name for path in store.recorded(small).iterdir()) == [
        "checksums.json",
        "history.nc",
        "outcomes",
        "spec.json",
    ]


def test_attacked_images_come_along_to_be_shown_without_the_weights(data, small, done, tmp_path):
    shown = replace(item(small), examples=(ASKED[-1],))
    recorder.record([shown], tmp_path / "out", Budget(600, time.monotonic()), say=lambda line: None)
    seen = runs.examples(small, ASKED[-1])
    shutil.rmtree(data / "runs")
    archive.unpack(tmp_path / "out" / "recorded-1.tar")
    assert store.lacks_weights(small)
    assert runs.example_sets([small], ASKED[-1])[small.defence].equals(seen)
    assert runs.example_sets([small], replace(ASKED[-1], eps="0.05")) == {}
    with pytest.raises(NotRecorded, match="are not recorded"):
        runs.examples(small, replace(ASKED[-1], eps="0.05"))


def test_a_page_says_that_there_is_nothing_to_show():
    assert "no images to show" in gallery.gallery({}).data


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


def test_a_damaged_archive_is_refused_by_name(data, small, packed, tmp_path):
    name = f"{small.relative_path}/history.nc"
    flipped = changed(packed, tmp_path / "flipped.tar", lambda files: files | {name: files[name][:-1] + b"?"})
    refused(data, flipped, "flipped.tar is damaged: the checksum of .*history.nc")
    cut = tmp_path / "cut.tar"
    cut.write_bytes(packed.read_bytes()[:20_000])
    refused(data, cut, "cut.tar is cut short")
    less = changed(packed, tmp_path / "less.tar", lambda files: {one: files[one] for one in files if one != name})
    refused(data, less, "history.nc is missing")
    broken = changed(packed, tmp_path / "broken.tar", lambda files: files | {archive.MANIFEST: b"{}"})
    refused(data, broken, "damaged manifest.json")
    told = json.dumps(json.loads(content(packed)[archive.MANIFEST]) | {"recipe": 0}).encode()
    aged = changed(packed, tmp_path / "aged.tar", lambda files: files | {archive.MANIFEST: told})
    refused(data, aged, "aged.tar was computed by training version 0")


def test_what_is_no_result_is_refused_even_with_right_sums(data, small, packed, tmp_path):
    name = f"{small.relative_path}/history.nc"
    foreign = changed(packed, tmp_path / "foreign.tar", lambda files: summed(files | {name: b"nothing"}))
    refused(data, foreign, "foreign.tar is refused: .*truncated or not a netCDF file")
    outcome = next(one for one in content(packed) if "pgd-10" in one)
    other = next(one for one in content(packed) if "clean" in one)
    swapped = changed(packed, tmp_path / "swapped.tar", lambda files: summed(files | {outcome: files[other]}))
    refused(data, swapped, "swapped.tar is refused: .* holds clean-")
    spec = f"{small.relative_path}/spec.json"
    text = replace(small, seed=3).json().encode()
    another = changed(packed, tmp_path / "another.tar", lambda files: summed(files | {spec: text}))
    refused(data, another, "another.tar is refused: .*its spec is that of")


@pytest.mark.parametrize(
    "name", ["../evil", "/tmp/evil", "digits/small-cnn/../../evil", "digits/small-cnn/x-1/../../evil.nc", "digits/evil.py"]
)
def test_names_that_lead_elsewhere_are_refused(data, packed, tmp_path, name):
    refused(data, changed(packed, tmp_path / "evil.tar", lambda files: files | {name: b"x"}), "evil.tar holds '")

    def named(files):
        told = json.loads(files[archive.MANIFEST])
        folder, _, file = name.rpartition("/")
        told["runs"][folder] = {"evaluations": [], "files": {file: archive._sum(b"x")}}
        return {archive.MANIFEST: json.dumps(told).encode(), **files, name: b"x"} | {archive.MANIFEST: json.dumps(told).encode()}

    refused(data, changed(packed, tmp_path / "named.tar", named), "named.tar names a ")


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


def test_a_file_of_another_kind_is_refused_by_name(data, tmp_path):
    for name, content in (("text.tar", b"nothing"), ("empty.tar", b""), ("zip.tar", b"PK\x03\x04" + b"\0" * 600)):
        (tmp_path / name).write_bytes(content)
        refused(data, tmp_path / name, f"{name} is no archive of `classwise record`")
    refused(data, tmp_path / "none.tar", "there is no archive")


def test_another_training_of_a_recorded_run_replaces_it_only_whole(data, small, done, tmp_path):
    ran(small)
    first = archive.pack([(small, item(small).evaluations)], tmp_path / "a")
    shutil.rmtree(data / "runs")
    ran(small)
    less = archive.pack([(small, item(small).evaluations[:1])], tmp_path / "b")
    whole = archive.pack([(small, item(small).evaluations)], tmp_path / "c")
    shutil.rmtree(data / "runs")
    archive.unpack(first)
    refused(data, less, "not all that is recorded there; remove that folder")
    assert archive.unpack(whole) == ([small.relative_path], [])
    assert archive.unpack(whole) == ([], [small.relative_path])


def test_more_answers_of_the_same_network_are_added(data, small, done, tmp_path):
    ran(small)
    less = archive.pack([(small, item(small).evaluations[:1])], tmp_path / "a")
    more = archive.pack([(small, item(small).evaluations)], tmp_path / "b")
    shutil.rmtree(data / "runs")
    archive.unpack(less)
    assert archive.unpack(more) == ([small.relative_path], [])
    assert archive.unpack(less) == ([], [small.relative_path])
    assert store.complete(store.recorded(small), item(small).outcomes)


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
                assert "2 of 2 runs are left; the next call begins with epoch" in lines[-1]
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
