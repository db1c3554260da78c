"""The number of CPU threads of an audit, chosen by a short measurement.

On small networks, and where other processes compute, several threads are slower than one.
"""

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import torch

from classwise.runs.compute.device import device

# Each number of threads is measured for so many seconds, and more threads are taken if they save this share of the time.
_SECONDS, _SAVED = 0.3, 0.15
# The cores are watched for so many seconds, and this much of a core may be in use by the system.
_WATCHED, _USED = 0.3, 0.1


def idle_cores() -> int:
    """Return the number of idle cores among those that this process may use, at least 1, while it waits for a moment."""
    busy = psutil.cpu_percent(_WATCHED, percpu=True)
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(len(busy))
    idle: float = sum(1 - busy[core] / 100 for core in cores if core < len(busy))
    return max(1, math.floor(idle + _USED))


def fastest(step: Callable[[], object], most: int) -> int:
    """Return the number of threads, 1 to `most`, on which `step` is fastest; more than the first slower number are not tried.

    The number of threads of this process is restored, and its random numbers.
    """
    before, best, shortest = torch.get_num_threads(), 1, float("inf")
    numbers = [1, *(2**power for power in range(1, most.bit_length()) if 2**power < most), *([most] if most > 1 else [])]
    try:
        with torch.random.fork_rng(devices=[]):
            for number in numbers:
                seconds = seconds_of_step(step, number)
                if seconds > shortest:
                    break
                if seconds < (1 - _SAVED) * shortest:
                    best, shortest = number, seconds
    finally:
        torch.set_num_threads(before)
    return best


def seconds_of_step(step: Callable[[], object], threads: int) -> float:
    """Return the mean duration of a step after the first, which sets the threads up; this process keeps the number of threads."""
    torch.set_num_threads(threads)
    step()
    began, steps = time.perf_counter(), 0
    while steps == 0 or time.perf_counter() - began < _SECONDS:
        step()
        steps += 1
    return (time.perf_counter() - began) / steps


@contextmanager
def measured(step: Callable[[], object]) -> Iterator[int]:
    """Compute on as many threads as are fastest for `step`, and never on more than cores are idle, until the block ends."""
    before, most = torch.get_num_threads(), idle_cores()
    chosen = before if device().type != "cpu" else fastest(step, most) if most > 1 else 1
    torch.set_num_threads(chosen)
    try:
        yield chosen
    finally:
        torch.set_num_threads(before)
