"""The number of CPU threads of an audit: all idle cores, where they are faster than one.

On small networks, and where other processes compute, several threads are slower than one.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import torch

from classwise.runs.compute.device import device

# Cores are watched, and steps measured, for so many seconds; several threads must save this share of the time.
_SECONDS, _SAVED = 0.3, 0.15


def idle_cores() -> int:
    """Return the number of idle cores, at least 1, while it waits for a moment; a tenth of a core may be in use by the system."""
    return max(1, int(sum(1 - used / 100 for used in psutil.cpu_percent(_SECONDS, percpu=True)) + 0.1))


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
def fastest_threads(step: Callable[[], object]) -> Iterator[int]:
    """Compute on as many threads as cores are idle until the block ends, or on one where that is about as fast for `step`.

    More threads than this process has had are never taken, and its random numbers stay.
    """
    before = chosen = torch.get_num_threads()
    try:
        if device().type == "cpu":
            chosen = min(before, idle_cores())
            with torch.random.fork_rng(devices=[]):
                if chosen > 1 and seconds_of_step(step, chosen) > (1 - _SAVED) * seconds_of_step(step, 1):
                    chosen = 1
            torch.set_num_threads(chosen)
        yield chosen
    finally:
        torch.set_num_threads(before)
