"""Several processes that share a queue, and several calls at once: nothing is done twice, a kill loses at most an epoch."""

import multiprocessing
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from locks import free, until

from classwise import __main__
from classwise.runs import store
from classwise.runs.compute import processes as workers
from classwise.runs.compute.budget import Budget
from classwise.runs.record import queue, recorder
from classwise.runs.schedule import cluster
from tests.kills import contents

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


def test_two_calls_do_nothing_twice_and_lose_at_most_an_epoch_with_a_killed_worker(data, tmp_path, monkeypatch):
    """What they record in the end is what an unbroken call does."""
    items, lines = queue.read(queued(tmp_path, epochs=8)), []

    def record(processes):
        return recorder.record(items, None, Budget(300, time.monotonic()), processes=processes, say=lines.append)

    with ThreadPoolExecutor() as pool:
        first = pool.submit(record, 2)
        until(lambda: any((store.run_folder(one.spec) / store.CHECKPOINT).exists() for one in items) or first.done())
        victim = multiprocessing.active_children()[0]
        victim.kill()
        victim.join(30)
        assert victim.exitcode in (-9, 255)  # 255 where Dask has read the pipe with the status first
        assert record(1) == []
        assert first.result() == []  # its task is given to another worker
    assert record(1) == []  # what one of them had when the others looked
    assert lines[-1] == "nothing is left: all 2 runs of the queue are recorded or packed"
    done = [re.sub(r": [0-9.]+ s$", "", line) for line in lines if line.startswith(("trained", "evaluated"))]
    assert sorted(done) == sorted(set(done))
    assert all(store.complete(store.recorded_folder(one.spec), [*one.outcomes, *one.shown]) for one in items)
    broken = contents(data / "recorded")
    monkeypatch.setenv("CLASSWISE_DATA", str(tmp_path / "unbroken"))
    assert record(1) == []
    assert contents(tmp_path / "unbroken" / "recorded") == broken


def test_each_worker_has_a_gpu_of_its_own(data, tmp_path, monkeypatch):
    cards = []

    def compute(executor, tasks, ended, **rest):
        client, _ = executor
        cards.append(sorted(client.run(os.getenv, "CUDA_VISIBLE_DEVICES").values()))

    monkeypatch.setattr(cluster, "gpus", lambda: ["5", "7"])
    monkeypatch.setattr(recorder.pool, "compute", compute)
    recorder.record(queue.read(queued(tmp_path)), None, Budget(300, time.monotonic()), processes=2, say=[].append)
    assert cards
    assert all(some == ["5", "7"] for some in cards)


SHARE = """
import sys, time
from classwise.runs.record import queue, recorder
from classwise.runs.schedule import cluster
from classwise.runs.compute.budget import Budget
from pathlib import Path
if __name__ == "__main__":
    recorder._compute(queue.read(Path(sys.argv[1])), Budget(300, time.monotonic()), 2, print)
"""


def test_workers_end_with_a_killed_parent_and_keep_what_is_finished(data, tmp_path):
    path = queued(tmp_path, epochs=400)
    spec = queue.read(path)[0].spec
    (tmp_path / "share.py").write_text(SHARE)
    call = subprocess.Popen([sys.executable, str(tmp_path / "share.py"), str(path)])
    until((store.run_folder(spec) / store.CHECKPOINT).exists)
    call.kill()
    call.wait()
    until(lambda: free(store.Key(spec).lock()))
    assert (store.run_folder(spec) / store.CHECKPOINT).exists()


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="needs SCHED_IDLE")
def test_idle_work_has_the_lowest_priority(data, tmp_path, monkeypatch):
    def idle():  # in a thread of its own: Linux gives each its priority
        workers.lowest_priority()
        return os.sched_getscheduler(0) == os.SCHED_IDLE, os.getpriority(os.PRIO_PROCESS, 0)

    with ThreadPoolExecutor() as pool:
        assert pool.submit(idle).result() == (True, 19)
    calls = []
    monkeypatch.setattr(workers, "lowest_priority", lambda: calls.append("idle"))
    monkeypatch.setattr(recorder, "record", lambda *given, processes, **more: calls.append(processes))
    __main__.record_runs(out=str(tmp_path / "out"), queue=str(queued(tmp_path)), idle=True, workers=2)
    assert calls == ["idle", 2]
