"""Several processes that share a queue: each works on other runs, on one thread."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType

from classwise.runs.record.budget import Budget
from classwise.runs.record.queue import Item

Say = Callable[[str], None]

# Seconds that a process has to save what is finished, once it receives the signal to end.
_GRACE = 5.0


def lowest_priority() -> None:
    """Let this process, and those that it starts, run only when the machine has nothing else to do."""
    if hasattr(os, "nice"):
        os.nice(19)
    if hasattr(os, "SCHED_IDLE"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def share(items: Sequence[Item], count: int, budget: Budget, say: Say) -> tuple[list[str], list[str]]:
    """Compute items in `count` processes until each has ended, or the time is over; return what is left and what failed.

    say: called with each line of any process. A process that ends early loses at most an epoch or a batch; its run is free again,
    and the others look at it at the end.
    """
    context = multiprocessing.get_context("spawn")
    processes: dict[Connection, SpawnProcess] = {}
    left, failed, ended = list[str](), list[str](), set[Connection]()
    try:
        for _ in range(count):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(items, budget, sender), daemon=True)
            process.start()
            sender.close()
            processes[receiver] = process
        while len(ended) < count and (seconds := budget.left + 0.5 * budget.margin) > 0:
            for ready in wait(list(processes.keys() - ended), timeout=seconds):
                assert isinstance(ready, Connection)
                try:
                    message = ready.recv()
                except (EOFError, OSError):
                    ended.add(ready)
                    processes[ready].join()
                    failed.append(f"a worker ended with exit status {processes[ready].exitcode}")
                    say(f"{failed[-1]}; what it finished is kept")
                    continue
                if isinstance(message, str):
                    say(message)
                else:
                    ended.add(ready)
                    left += message[0]
                    failed += message[1]
                    processes[ready].join(_GRACE)
    finally:
        _end(list(processes.values()))
    return left, failed


def _end(processes: Sequence[SpawnProcess]) -> None:
    """End processes that are still there, after they saved what is finished."""
    for process in processes:
        if process.is_alive():
            process.terminate()
    end = time.monotonic() + _GRACE
    for process in processes:
        process.join(max(end - time.monotonic(), 0.0))
        if process.is_alive():
            process.kill()
            process.join()


def _work(items: Sequence[Item], budget: Budget, sender: Connection) -> None:
    """Work on a queue in a process of its own, and send each line, then what is left and what failed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one ends the others
    signal.signal(signal.SIGTERM, _exit)
    end_with_parent()
    import torch

    from classwise.runs.compute import device
    from classwise.runs.record.session import Session
    from classwise.runs.schedule import pool

    torch.set_num_threads(1)
    device.warm()
    session = Session(budget, pool.costs_here(), sender.send)
    session.work(items)
    sender.send((session.left, session.failed))


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def end_with_parent() -> None:
    """Have this process end when the one that started it has ended, even by force."""
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE)
    os._exit(1)
