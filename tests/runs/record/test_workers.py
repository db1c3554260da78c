"""Several processes that share a queue, and several calls at once: nothing is done twice, a kill loses at most an epoch."""

import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from classwise import __main__
from classwise.runs import store
from classwise.runs.record import queue, recorder, workers
from classwise.runs.record.budget import Budget
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


def until(condition, seconds=240):
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)
    return value


def test_two_calls_do_nothing_twice_and_lose_at_most_an_epoch_with_a_killed_worker(data, tmp_path, monkeypatch):
    """What they record in the end is what an unbroken call does."""
    items, lines, clients, local = queue.read(queued(tmp_path, epochs=8)), [], [], cluster.local

    @contextmanager
    def watched(count):
        with local(count) as client:
            clients.append(client)
            yield client

    monkeypatch.setattr(cluster, "local", watched)

    def record(processes):
        return recorder.record(items, None, Budget(300, time.monotonic()), processes=processes, say=lines.append)

    with ThreadPoolExecutor() as pool:
        first = pool.submit(record, 2)
        until(lambda: any((store.run_folder(one.spec) / store.CHECKPOINT).exists() for one in items) or first.done())
        os.kill(next(iter(clients[0].run(os.getpid).values())), signal.SIGKILL)
        assert record(1) == []
        assert first.result() == ["a worker ended before its time"]
    assert "a worker ended before its time; what it finished is kept" in lines
    assert record(1) == []  # what one of them had when the others looked
    assert lines[-1] == "nothing is left: all 2 runs of the queue are recorded or packed"
    done = [re.sub(r": [0-9.]+ s$", "", line) for line in lines if line.startswith(("trained", "evaluated"))]
    assert sorted(done) == sorted(set(done))
    assert all(store.complete(store.recorded(one.spec), [*one.outcomes, *one.shown]) for one in items)
    broken = contents(data / "recorded")
    monkeypatch.setenv("CLASSWISE_DATA", str(tmp_path / "unbroken"))
    assert record(1) == []
    assert contents(tmp_path / "unbroken" / "recorded") == broken


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
