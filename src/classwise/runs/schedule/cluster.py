"""Tasks on workers of dask.distributed: processes of this machine, or those of a scheduler elsewhere.

The only module that imports dask; `pool` imports it when it is needed.
"""

import logging
import multiprocessing
import os
import re
import secrets
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any

import dask
import torch
from distributed import Client, Future, KilledWorker, LocalCluster, Worker, WorkerPlugin, as_completed, get_worker
from distributed.utils import get_mp_context
from rich.console import Console

import classwise
from classwise.core import files
from classwise.core.errors import UserError
from classwise.core.paths import data_folder
from classwise.runs import store
from classwise.runs.compute import device, work
from classwise.runs.compute.work import Policy, Timing
from classwise.runs.schedule.plan import Ended, Show, Task
from classwise.runs.store import Key

# Workers report progress as events of this topic, at most once in this many seconds.
TOPIC, EVERY = "classwise", 0.2
# Seconds to wait for an answer of a scheduler.
PATIENCE = 10.0

_LOCAL = {
    # A worker takes its next task only when it is free: then the one of the highest priority.
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.worker.profile.enabled": False,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.nanny.pre-spawn-environ": {},
}
# Libraries that otherwise start a thread for each core in every worker.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")

# What a worker must share with the process that calls it: a digest of the code, and the text of a file in the data folder.
Handshake = tuple[str, str]


class LocalWorker(WorkerPlugin):
    """Assigns workers to GPUs in turn, and leaves Ctrl-C, which reaches all processes, to the one that started them."""

    name = "classwise"

    def __init__(self, cards: Sequence[str]) -> None:
        self.cards = cards

    def setup(self, worker: Worker) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if self.cards:  # torch reads the variable at its first use of a GPU
            os.environ["CUDA_VISIBLE_DEVICES"] = self.cards[int(worker.name) % len(self.cards)]


def gpus() -> list[str]:
    """Return the usable GPUs as CUDA_VISIBLE_DEVICES names them; none on a CPU, or if one was chosen by its number."""
    chosen = device.device()
    if chosen.type != "cuda" or chosen.index is not None:
        return []
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    return given.split(",") if given else [str(number) for number in range(torch.cuda.device_count())]


@contextmanager
def local(workers: int) -> Iterator[tuple[Client, None]]:
    """Start workers on this machine, assigned to its GPUs in turn, and end them with the block or with this process."""
    before = dict(os.environ)
    # The server that workers are forked from loads the libraries, which read the environment then.
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    settings: dict[str, Any] = {"host": "127.0.0.1", "memory_limit": None, "env": dict(os.environ)}
    settings |= {"dashboard_address": None, "scheduler_kwargs": {"dashboard_address": "127.0.0.1:0"}}
    try:
        with dask.config.set(_LOCAL | {"distributed.worker.multiprocessing-method": method}):
            if method == "forkserver":
                # Forked from a server that has imported torch once; the first call lets dask name its own packages.
                get_mp_context().set_forkserver_preload([__name__, "torch._dynamo"])
            try:
                cluster = LocalCluster(n_workers=workers, threads_per_worker=1, silence_logs=logging.CRITICAL, **settings)
            except RuntimeError:
                raise RuntimeError(
                    "the workers could not start: killed, out of memory, or called from a script without a guard "
                    '(put the calls under `if __name__ == "__main__":`)'
                ) from None
            with cluster, Client(cluster, asynchronous=False, set_as_default=False) as client:
                client.register_plugin(LocalWorker(gpus()))
                yield client, None
    finally:
        for name in os.environ.keys() - before.keys():  # those that dask sets for its workers, too
            del os.environ[name]
        os.environ.update(before)


@cache
def _code() -> str:
    return files.digest(sorted(Path(classwise.__file__).parent.rglob("*.py")))


def handshake() -> Handshake:
    """Return the handshake of this process; the token is written to data/runs/.token if there is none yet."""
    path = data_folder() / "runs" / ".token"
    with store.lock(path.parent):
        if not path.exists():
            files.write(path, secrets.token_hex(8).encode())
    return _code(), path.read_text()


@cache
def mismatch(expected: Handshake) -> str:
    """Return why this process may not work for another, and what to do about it; "" if it may. A worker compares once."""
    code, token = expected
    if code != _code():
        return "runs other code: bring it to the same commit as this process, without local changes, and restart it"
    path = data_folder() / "runs" / ".token"
    if not path.exists() or path.read_text() != token:
        return f"sees another data folder ({data_folder()}): start it with CLASSWISE_DATA set to the folder that all share"
    return ""


@contextmanager
def connect(address: str, console: Console) -> Iterator[tuple[Client, Handshake]]:
    """Connect to a scheduler; a UserError says why its workers, if any, may not work for this process."""
    advice = "start one with `dask scheduler` and name it like tcp://host:8786"
    if not re.search(r":\d+$", address):
        raise UserError(f"no scheduler answers at {address} (it names no port); {advice}")
    try:
        client = Client(address, asynchronous=False, set_as_default=False, timeout=PATIENCE)
    except (OSError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"no scheduler answers at {address} ({reason}); {advice}") from None
    with client:
        if not client.scheduler_info(n_workers=-1)["workers"]:
            console.print(f"the scheduler has no workers yet; waiting for the first: dask worker {address} --nthreads 1")
            client.wait_for_workers(1)
        expected = handshake()
        _check_workers(client, expected)
        yield client, expected


def _check_workers(client: Client, expected: Handshake) -> None:
    for address, about in client.scheduler_info(n_workers=-1)["workers"].items():
        if about["nthreads"] != 1:
            raise UserError(f"the worker {address} has {about['nthreads']} threads; start it with --nthreads 1")
    for address, problem in client.run(mismatch, expected, on_error="return").items():
        if isinstance(problem, Exception):
            raise UserError(f"the worker {address} cannot import this classwise ({problem}); install the same version there")
        if problem:
            raise UserError(f"the worker {address} {problem}")


def compute(
    client: Client, tasks: Sequence[Task], ended: Ended, show: Show, policy: Policy, expected: Handshake | None = None
) -> None:
    """Let the workers compute tasks; `ended` is called with the result of each, as in `pool.compute`."""
    # In this order, since the first few start as they are submitted, whatever their priority.
    budget = policy.budget
    tasks = sorted(tasks, key=lambda task: (task.key.evaluation is not None, -task.priority))
    suffix = ("-repair" if policy.repair else "") + (f"-{expected[1]}" if expected is not None else "")
    suffix += "" if budget is None else f"-{secrets.token_hex(4)}"  # what one budget left undone is not that of another
    named = {f"{task.name}{suffix}": task for task in tasks}

    def reported(event: tuple[float, Any]) -> None:
        name, done, total = event[1]
        if name in named:
            show(named[name].key, done, total)

    client.subscribe_topic(TOPIC, reported)
    futures: dict[Key, Future[Timing | None]] = {}
    for name, task in named.items():
        given = (_do, name, task.key, expected, policy, task.step, [futures[key] for key in task.after])
        futures[task.key] = client.submit(*given, key=name, priority=task.priority)
    waiting = dict(named)
    # What has not ended with the budget is ended with the workers.
    patience = None if budget is None else max(budget.left + 0.25 * budget.margin, 0.1)
    try:
        with suppress(TimeoutError) if budget is not None else nullcontext():
            for future in as_completed(futures.values(), loop=client.loop, raise_errors=False, timeout=patience):
                ended(waiting.pop(future.key), _result(future))
        for task in waiting.values():
            ended(task, None)
    finally:
        # Running tasks notice this at their next report.
        client.cancel([futures[task.key] for task in waiting.values()], asynchronous=False)
        client.unsubscribe_topic(TOPIC)


def _result(future: Future[Timing | None]) -> Timing | Exception | None:
    if future.status == "finished":
        return future.result()
    if future.status != "error":
        return RuntimeError("the scheduler went away, or the task was cancelled; run it again, what is finished is kept")
    failure = future.exception()
    if isinstance(failure, KilledWorker):
        return RuntimeError(
            "its worker was killed repeatedly: for lack of memory (use fewer workers or a smaller batch) or at the end of its "
            "time; what is finished is kept, run it again"
        )
    if not isinstance(failure, Exception):
        return RuntimeError(repr(failure))
    return failure.with_traceback(future.traceback())


def _do(
    name: str, key: Key, expected: Handshake | None, policy: Policy, step: float, after: Sequence[Timing | None]
) -> Timing | None:
    """Compute a result, on a worker, once the results `after` of others exist; None if these or time are lacking."""
    if expected is not None and (problem := mismatch(expected)):
        raise UserError(f"the worker {problem}")
    if any(one is None or not one.finished for one in after) or (policy.budget is not None and policy.budget.left <= step):
        return None
    worker, last = get_worker(), 0.0

    def report(_: str, done: int, total: int) -> None:
        nonlocal last
        task = worker.state.tasks.get(name)
        if task is None or task.state == "cancelled":
            raise CancelledError
        if done == total or time.monotonic() - last > EVERY:
            last = time.monotonic()
            worker.log_event(TOPIC, (name, done, total))

    # Within a worker xarray would request a lock from the scheduler to write a file.
    with dask.config.set(scheduler="synchronous"):
        return work.compute_timed(key, report, policy)
