"""Pieces on the workers of dask.distributed: processes of this machine, or whatever listens to a scheduler.

The only module that imports dask; `run.pool` imports it when it is needed.
"""

import logging
import multiprocessing
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dask
import torch
from distributed import (
    Client,
    Future,
    KilledWorker,
    Nanny,
    Scheduler,
    SpecCluster,
    Worker,
    WorkerPlugin,
    as_completed,
    get_worker,
)
from distributed.utils import get_mp_context
from rich.console import Console

from classwise.core.errors import UserError
from classwise.core.spec import Evaluation, Spec
from classwise.runs.compute import device
from classwise.runs.schedule import handshake
from classwise.runs.schedule.handshake import Handshake
from classwise.runs.schedule.plan import Schedule, Task
from classwise.runs.schedule.progress import RunProgress
from classwise.runs.schedule.worker import Timing, do

# What workers say of their progress is an event of this topic; no more often than in so many seconds.
TOPIC, EVERY = "classwise", 0.2
# So long a scheduler may take to answer.
PATIENCE = 10.0

_LOCAL = {
    # A worker takes its next piece when it is free: the longest that waits then.
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.worker.profile.enabled": False,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.nanny.pre-spawn-environ": {},
}
# Libraries that would start a thread for each core in every worker.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
# What dask sets in our own environment for its workers to inherit.
_MARKS = ("PYTHONHASHSEED", "__DASK_PARENT_PID")

Ended = Callable[[Task, Timing | Exception], None]


class Cancelled(Exception):
    """Nobody wants the piece any longer."""


class IgnoreInterrupt(WorkerPlugin):
    """A worker that leaves Ctrl-C, which a terminal sends to all processes, to the one that started it."""

    name = "classwise-deaf"

    def setup(self, worker: Worker) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def gpus() -> list[str]:
    """Return how CUDA_VISIBLE_DEVICES names each GPU that may be used; none on a CPU, and where one was chosen by its number."""
    here = device.device()
    if here.type != "cuda" or here.index is not None:
        return []
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    return given.split(",") if given else [str(number) for number in range(torch.cuda.device_count())]


@contextmanager
def here(workers: int) -> Iterator[Client]:
    """Start so many workers on this machine, one for each GPU in turn, and end them with the block, or with this process."""
    cards, environment = gpus(), dict(os.environ)
    own = environment | dict.fromkeys(_THREADS, "1")
    # The server that workers are forked from loads the libraries: it must know before.
    os.environ.update(own)
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    local = {"host": "127.0.0.1", "dashboard": False}
    settings: dict[str, Any] = {"nthreads": 1, "memory_limit": None, "silence_logs": logging.CRITICAL}
    with dask.config.set(_LOCAL | {"distributed.worker.multiprocessing-method": method}):
        if method == "forkserver":
            # Forked from a server that has imported torch once; the first call lets dask name its own packages.
            get_mp_context().set_forkserver_preload([__name__, "torch._dynamo"])
        pins = [{"CUDA_VISIBLE_DEVICES": cards[number % len(cards)]} if cards else {} for number in range(workers)]
        nannies = {number: {"cls": Nanny, "options": local | settings | {"env": own | pin}} for number, pin in enumerate(pins)}
        scheduler = {"cls": Scheduler, "options": local | {"dashboard_address": "127.0.0.1:0", "port": 0}}
        try:
            with (
                _started(nannies, scheduler) as cluster,
                Client(cluster, asynchronous=False, set_as_default=False) as client,
            ):
                client.register_plugin(IgnoreInterrupt())
                yield client
        finally:
            for name in (*_MARKS, *_THREADS):
                os.environ.pop(name, None)
            os.environ.update(environment)


def _started(nannies: dict[int, Any], scheduler: dict[str, Any]) -> SpecCluster:
    try:
        return SpecCluster(nannies, scheduler, asynchronous=False, silence_logs=logging.CRITICAL)
    except RuntimeError:
        raise RuntimeError(
            "the workers could not start: killed, out of memory, or called from a script without a guard "
            '(put the calls under `if __name__ == "__main__":`)'
        ) from None


@contextmanager
def there(address: str, console: Console) -> Iterator[tuple[Client, Handshake]]:
    """Connect to a scheduler whose workers may work for us; a UserError says what is wrong with the first that may not."""
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
        asked = handshake.handshake()
        _admit(client, asked)
        yield client, asked


def _admit(client: Client, asked: Handshake) -> None:
    for address, about in client.scheduler_info(n_workers=-1)["workers"].items():
        if about["nthreads"] != 1:
            raise UserError(f"the worker {address} has {about['nthreads']} threads; start it with --nthreads 1")
    for address, said in client.run(handshake.mismatch, asked, on_error="return").items():
        if isinstance(said, Exception):
            raise UserError(f"the worker {address} cannot import this classwise ({said}); install it there, as it is here")
        if said is not None:
            raise UserError(f"the worker {address} {said}")


def compute(
    client: Client, plan: Schedule, board: RunProgress, ended: Ended, asked: Handshake | None = None, *, mend: bool
) -> None:
    """Let the workers do all pieces of a plan; `ended` is told how each ended."""
    suffix = ("-mend" if mend else "") + (f"-{asked.token}" if asked is not None else "")
    # The first few begin as they come, whatever their priority.
    names = {f"{piece.name}{suffix}": piece for piece in plan.order}

    def heard(event: tuple[float, Any]) -> None:
        key, part, done, total = event[1]
        if key in names:
            board.show(names[key].name, part, done, total)

    client.subscribe_topic(TOPIC, heard)
    futures: dict[str, Future[Timing]] = {}
    for key, piece in names.items():
        what = (key, piece.spec.json(), [one.json() for one in piece.evaluations], asked, mend)
        after = [futures[name] for name in piece.after]
        futures[piece.name] = client.submit(_do, *what, after, key=key, priority=plan.urgency[piece.name])
    try:
        for future in as_completed(futures.values(), loop=client.loop, raise_errors=False):
            ended(names[future.key], _outcome(future))
    except BaseException:
        # Those that run notice when they report next.
        client.cancel(list(futures.values()), asynchronous=False)
        raise
    finally:
        client.unsubscribe_topic(TOPIC)


def _outcome(future: Future[Timing]) -> Timing | Exception:
    """Return what a piece says of its times, or the error that it ended with."""
    if future.status == "finished":
        took: Timing = future.result()
        return took
    if future.status != "error":
        return RuntimeError("the scheduler went away, or somebody else cancelled it; run it again, what is finished is kept")
    failure = future.exception()
    if isinstance(failure, KilledWorker):
        return RuntimeError(
            "its worker was killed again and again: for memory (take fewer workers or a smaller batch) or at the end of its "
            "time; what is finished is kept, run it again"
        )
    if not isinstance(failure, Exception):
        return RuntimeError(repr(failure))
    return failure.with_traceback(future.traceback())


def _do(key: str, spec: str, evaluations: Sequence[str], asked: Handshake | None, mend: bool, after: Sequence[Timing]) -> Timing:
    """Do a piece, on a worker; `after` is only waited for."""
    said = None if asked is None else handshake.mismatch(asked)
    if said is not None:
        raise UserError(f"the worker {said}")
    worker, told = get_worker(), 0.0

    def report(part: str, done: int, total: int) -> None:
        nonlocal told
        task = worker.state.tasks.get(key)
        if task is None or task.state == "cancelled":
            raise Cancelled
        if done == total or time.monotonic() - told > EVERY:
            told = time.monotonic()
            worker.log_event(TOPIC, (key, part, done, total))

    # Within a worker xarray would ask the scheduler for a lock to write a file with.
    with dask.config.set(scheduler="synchronous"):
        return do(Spec.from_json(spec), [Evaluation.from_json(one) for one in evaluations], report, mend=mend)
