"""Several processes that share a queue, and several calls at once: nothing is done twice, a kill loses at most an epoch."""

import multiprocessing
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from classwise import __main__
from classwise.core.errors import UserError
from classwise.runs import store
from classwise.runs.record import archive, queue, recorder, session, workers
from classwise.runs.record.budget import Budget
from classwise.runs.record.session import claim

QUEUE = """
[evaluations]
few = [{ attack = "clean" }, { attack = "pgd-20", substitute = "standard", per_class = 20 }]

[[entry]]
why = "a rehearsal"
scale = "quick"
defences = ["pgd-at", "standard"]
seeds = [0]
evaluations = ["few"]
run = { width = 4, epochs = EPOCHS, measure = 8 }
"""


def queued(tmp_path, epochs=2):
    """Write a queue without the evaluations of sections, which other widths do not have."""
    path = tmp_path / "queue.toml"
    path.write_text(QUEUE.replace("EPOCHS", str(epochs)))
    return path


def start(path, *words, out=None):
    """Start `classwise record` in another process."""
    call = ["record", "--queue", str(path), "--budget", "5m", "--out", str(out or path.parent / "out"), *words]
    return subprocess.Popen(
        [sys.executable, "-m", "classwise", *call], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def until(condition, seconds=240):
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)
    return value


def test_two_calls_with_two_workers_each_do_nothing_twice(data, tmp_path):
    path = queued(tmp_path)
    calls = [start(path, "--workers", "2", out=tmp_path / name) for name in "ab"]
    lines = [line for call in calls for line in call.communicate()[0].splitlines()]
    assert [call.returncode for call in calls] == [0, 0]
    done = [re.sub(r": [0-9.]+ s$", "", line) for line in lines if line.startswith(("trained", "evaluated"))]
    assert sorted(done) == sorted(set(done))
    items = queue.read(path)
    # The adversarial run is checked for overfitting by two more.
    assert len(done) == 2 + 2 + sum(len(one.evaluations) for one in items)
    for one in items:
        assert session.is_finished(one)
    packed = [run for name in "ab" for run, _ in archive.contents(tmp_path / name)]
    assert set(packed) == {one.spec.relative_path for one in items}


def test_a_killed_worker_loses_at_most_an_epoch(data, tmp_path):
    items, lines = queue.read(queued(tmp_path, epochs=8)), []

    def record():
        return recorder.record(items, None, Budget(300, time.monotonic()), processes=2, say=lines.append)

    with ThreadPoolExecutor() as pool:
        failed = pool.submit(record)
        until(lambda: any((store.run_folder(one.spec) / store.CHECKPOINT).exists() for one in items) or failed.done())
        multiprocessing.active_children()[0].kill()
        assert failed.result() == ["a worker ended with exit status -9"]
    assert "a worker ended with exit status -9; what it finished is kept" in lines
    # The other worker looked at its run again; whether it finished all depends on the moment.
    lines.clear()
    assert recorder.record(items, None, Budget(300, time.monotonic()), say=lines.append) == []
    assert lines[-1] == "nothing is left: all 2 runs of the queue are recorded or packed"
    assert all(session.has_all(store.recorded(one.spec), one) for one in items)


SHARE = """
import sys, time
from classwise.runs.record import queue, workers
from classwise.runs.record.budget import Budget
from pathlib import Path
workers.share(queue.read(Path(sys.argv[1])), 2, Budget(300, time.monotonic()), ([], []), print)
"""


def test_workers_end_with_a_killed_parent_and_keep_what_is_finished(data, tmp_path):
    path = queued(tmp_path, epochs=400)
    spec = queue.read(path)[0].spec
    call = subprocess.Popen([sys.executable, "-c", SHARE, str(path)])
    until((store.run_folder(spec) / store.CHECKPOINT).exists)
    call.kill()
    call.wait()

    def is_free():
        with claim(spec) as free:
            return free

    until(is_free)
    assert (store.run_folder(spec) / store.CHECKPOINT).exists()


def test_a_run_is_claimed_by_one_process(data, small):
    with claim(small) as first, claim(small) as second:
        assert (first, second) == (True, False)
    with claim(small) as third:
        assert third


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="needs SCHED_IDLE")
def test_idle_work_has_the_lowest_priority(data, tmp_path, monkeypatch):
    code = "import os; from classwise.runs.record.workers import lowest_priority as idle; idle(); "
    code += "print(os.sched_getscheduler(0) == os.SCHED_IDLE, os.getpriority(os.PRIO_PROCESS, 0))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "19"]
    calls = []
    monkeypatch.setattr(workers, "lowest_priority", lambda: calls.append("idle"))
    __main__.record_runs(out=str(tmp_path / "out"), queue=str(queued(tmp_path)), idle=True, pack_only=True)
    assert calls == ["idle"]


def test_where_results_go_must_be_said(tmp_path):
    with pytest.raises(UserError, match="say with --out"):
        __main__.record_runs()
    with pytest.raises(UserError, match="both name a queue"):
        __main__.record_runs(scale="laptop", queue=tmp_path)
