"""Time: what is left of a budget."""

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from classwise.core.errors import UserError


class OutOfTime(BaseException):
    """The budget is spent. Not an Exception: nothing that mends damaged files may take it for one."""


def parse_seconds(text: str) -> float:
    """Return a duration written in hours, minutes and seconds, as "1h30m", "9m", "30s", "1.5h" or "540", in seconds."""
    whole = re.fullmatch(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?", text.strip())
    parts = [float(part) for part in whole.groups(default="0")] if whole else [0.0]
    found = sum(part * unit for part, unit in zip(parts, (3600, 60, 1), strict=False))
    if found <= 0:
        units = "hours (h), minutes (m) and seconds (s, or no letter)"
        raise UserError(f"a budget is a time like 9m, 30s or 1h30m, in {units}, got {text!r}")
    return found


@dataclass
class Budget:
    """A time to work in.

    seconds: all of it, from `began` on the `clock`. The last part, `margin`, is for packing: nothing is begun that ends in it.
    """

    seconds: float
    began: float
    clock: Callable[[], float] = time.monotonic

    @property
    def margin(self) -> float:
        return min(max(0.05 * self.seconds, 2.5), 20.0, self.seconds / 3)

    @property
    def left(self) -> float:
        """Seconds in which work can still be done."""
        return self.began + self.seconds - self.margin - self.clock()

    def fits(self, expected: float | None) -> bool:
        """Return whether something that takes so long can be finished; what nobody has timed yet gets a fifth of the budget."""
        return self.left > (0.2 * self.seconds if expected is None else 1.1 * expected)

    def ever_fits(self, expected: float | None) -> bool:
        """Return whether it could be finished in a fresh budget of this size."""
        return expected is None or 1.1 * expected < self.seconds - self.margin

    @property
    def fresh(self) -> bool:
        """Whether half of it is left."""
        return self.left > 0.5 * self.seconds

    @contextmanager
    def ringing(self) -> Iterator[None]:
        """Raise OutOfTime within the block when the budget but for its margin is spent, whatever is going on there.

        A guard for what takes longer than it ever did: only where the system has signals, and in the main thread.
        """
        if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
            yield
            return

        def ring(number: int, frame: FrameType | None) -> None:
            raise OutOfTime

        before = signal.signal(signal.SIGALRM, ring)
        # Again and again: an exception that is raised while Python tidies up is only printed.
        signal.setitimer(signal.ITIMER_REAL, max(self.left, 0.001), max(self.margin / 4, 0.2))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
