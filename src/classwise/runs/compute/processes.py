"""What processes that compute for others do: they leave the machine to others, and end with the one that started them."""

import multiprocessing
import os
import signal
import threading
import time
from contextlib import suppress
from multiprocessing.connection import wait

# Seconds that a process has to save what is finished, once it receives the signal to end.
_GRACE = 5.0


def lowest_priority() -> None:
    """Let this process, and those that it starts, run only when the machine has nothing else to do."""
    if hasattr(os, "nice"):
        os.nice(19)
    if hasattr(os, "SCHED_IDLE"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


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
