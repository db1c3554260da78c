"""Several processes that share a queue: each works on other runs, on one thread."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress

from classwise.runs.record.budget import Budget
from classwise.runs.record.queue import Item


def lowest_priority() -> None:
    """Let this process, and those that it starts, run only when the machine has nothing else to do."""
    if hasattr(os, "nice"):
        os.nice(19)
    if hasattr(os, "SCHED_IDLE"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def share(
    items: Sequence[Item],
    count: int,
    budget: Budget,
    results: tuple[list[str], list[str]],
    say: Callable[[str], None],
) -> None:
    """Compute items in `count` processes; `results`: lists to which is added what is left and what failed.

    A process that ends early, or is ended at the end of the budget, loses at most an epoch or what it did in `resume.SAVE_AFTER`
    seconds; its run is free again, and the others look at it at the end.
    """
    import dask
    from distributed import as_completed

    from classwise.runs.schedule import cluster

    left, failed = results
    heard: dict[int, int] = {}

    def tell(number: int, index: int, line: str) -> None:
        if index == heard.setdefault(number, 0):
            heard[number] += 1
            say(line)

    with dask.config.set({"distributed.scheduler.allowed-failures": 0}), cluster.local(count) as client:
        client.subscribe_topic(cluster.TOPIC, lambda event: tell(*event[1]))
        futures = {client.submit(_work, items, budget, number, pure=False): number for number in range(count)}
        end = max(budget.left + 0.5 * budget.margin, 0.1)
        with suppress(TimeoutError):  # the budget is spent
            for future in as_completed(futures, loop=client.loop, timeout=end, raise_errors=False):
                if future.status != "finished":
                    failed.append("a worker ended before its time")
                    say(f"{failed[-1]}; what it finished is kept")
                    continue
                lines, *others = future.result()
                for index, line in enumerate(lines):  # the last ones may still be under way
                    tell(futures[future], index, line)
                left += others[0]
                failed += others[1]


def _work(items: Sequence[Item], budget: Budget, number: int) -> tuple[list[str], list[str], list[str]]:
    """Work on a queue on a worker and return the lines that it said, each an event too, what is left and what failed."""
    import dask
    import torch
    from distributed import get_worker

    from classwise.runs.compute import device
    from classwise.runs.record.session import Session
    from classwise.runs.schedule import cluster, pool

    worker, lines = get_worker(), list[str]()

    def say(line: str) -> None:
        worker.log_event(cluster.TOPIC, (number, len(lines), line))
        lines.append(line)

    torch.set_num_threads(1)
    device.warm()
    session = Session(budget, pool.costs_here(), say)
    # Within a worker xarray would request a lock from the scheduler to write a file.
    with dask.config.set(scheduler="synchronous"):
        session.work(items)
    return lines, session.left, session.failed
