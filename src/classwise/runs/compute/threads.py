"""The number of CPU threads of an audit, chosen by a short measurement.

On small networks, and where other processes compute, several threads are slower than one.
"""

import math
import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from classwise.runs.compute.device import device

# Each number of threads is measured for so many seconds, and more threads are taken if they save this share of the time.
_SECONDS, _SAVED = 0.3, 0.15
# The cores are watched for so many seconds, and this much of a core may be in use by the system.
_WATCHED, _USED = 0.3, 0.1
_TIMES = Path("/proc/stat")


def idle_cores() -> int:
    """Return the number of idle cores among those that this process may use, at least 1.

    On Linux it is measured while this process waits for a moment; elsewhere the load average of the last minute, which includes
    the past work of this process, is subtracted from the cores of the machine.
    """
    cores = _usable_cores()
    idle = _idle_time(cores)
    if idle is None:
        busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
        idle = min(len(cores), (os.cpu_count() or 1) - busy)
    return max(1, math.floor(idle + _USED))


def _usable_cores() -> set[int]:
    """Return the numbers of the cores that this process may use."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _idle_time(cores: Collection[int]) -> float | None:
    """Return for how many of these cores' worth of time nothing computes; None where the system does not count it."""
    before = _times(cores)
    time.sleep(_WATCHED)
    after = _times(cores)
    shares = [(after[core][0] - idle) / max(after[core][1] - total, 1) for core, (idle, total) in before.items() if core in after]
    counted = sum(after[core][1] - total for core, (_, total) in before.items() if core in after)
    return sum(shares) if len(shares) == len(cores) and counted > 0 else None


def _times(cores: Collection[int]) -> dict[int, tuple[int, int]]:
    """Return for each of these cores its idle time and its total time, in ticks; empty where nothing counts them."""
    try:
        lines = [line.split() for line in _TIMES.read_text(encoding="ascii").splitlines()]
    except OSError:
        return {}
    # user, nice, system, idle, iowait, irq, softirq and steal: the time of guests is part of user and nice.
    counts = {line[0]: [int(value) for value in line[1:9]] for line in lines if line and line[0].startswith("cpu")}
    named = {core: counts[f"cpu{core}"] for core in cores if f"cpu{core}" in counts}
    return {core: (sum(values[3:5]), sum(values)) for core, values in named.items()}


def fastest(step: Callable[[], object], most: int) -> int:
    """Return the number of threads, 1 to `most`, on which `step` is fastest; more than the first slower number are not tried.

    The number of threads of this process is restored, and its random numbers.
    """
    before, best, shortest = torch.get_num_threads(), 1, float("inf")
    numbers = [1, *(2**power for power in range(1, most.bit_length()) if 2**power < most), *([most] if most > 1 else [])]
    try:
        with torch.random.fork_rng(devices=[]):
            for number in numbers:
                seconds = _seconds(step, number)
                if seconds > shortest:
                    break
                if seconds < (1 - _SAVED) * shortest:
                    best, shortest = number, seconds
    finally:
        torch.set_num_threads(before)
    return best


def _seconds(step: Callable[[], object], threads: int) -> float:
    """Return the mean duration of a step after the first, which sets the threads up."""
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
