"""Locks of runs, as tests look at them."""

from filelock import BaseFileLock, Timeout


def free(lock: BaseFileLock) -> bool:
    """Return whether nobody holds a lock."""
    try:
        with lock.acquire(timeout=0):
            return True
    except Timeout:
        return False
