"""Locks of runs, as tests look at them, and waiting for what other processes do."""

import time
from collections.abc import Callable

from filelock import BaseFileLock, Timeout


def free(lock: BaseFileLock) -> bool:
    """Return whether nobody holds a lock."""
    try:
        with lock.acquire(timeout=0):
            return True
    except Timeout:
        return False


def until(true: Callable[[], object], seconds: float = 300) -> None:
    """Wait for something to become true; fail where it does not."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
