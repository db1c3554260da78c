"""Time budgets."""

import re
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

from classwise.core.errors import UserError

_PART = r"(\d+(?:\.\d+)?)([hms]?)"


class OutOfTime(BaseException):
    """The budget is spent. Not an Exception, so that the repair of damaged files does not catch it."""


def parse_seconds(text: str) -> float:
    """Return a duration in hours, minutes and seconds, such as "1h30m", "9m", "30s", "1.5h" or "540", in seconds."""
    parts = re.findall(_PART, text) if re.fullmatch(rf"(?:{_PART})+", text := text.strip()) else []
    seconds = sum(float(number) * {"h": 3600, "m": 60}.get(unit, 1) for number, unit in parts)
    if not parts:
        units = "hours (h), minutes (m) and seconds (s, or no letter)"
        raise UserError(f"a budget is a time like 9m, 30s or 1h30m, in {units}, got {text!r}")
    if seconds <= 0:
        raise UserError(f"a budget must be above 0, got {text!r}; write a time like 9m")
    if seconds > threading.TIMEOUT_MAX:
        raise UserError(f"a budget of {text!r} is longer than this program can wait; write a time like 9m")
    return seconds


@dataclass
class Budget:
    """A time budget.

    seconds: its length, from `began` on the `clock`. Its end, `margin`, is reserved for packing.
    """

    seconds: float
    began: float
    clock: Callable[[], float] = time.monotonic

    @property
    def margin(self) -> float:
        return min(max(0.05 * self.seconds, 2.5), 20.0, self.seconds / 3)

    @property
    def left(self) -> float:
        """Seconds left for work."""
        return self.began + self.seconds - self.margin - self.clock()

    def finish(self, work: Callable[[], object]) -> bool:
        """Do some work until only the margin is left, or until it raises OutOfTime, and return whether it ended.

        The alarm is a guard against steps that take longer than expected. It needs signals and works in the main thread only.
        """
        alarmed = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()

        def ring(number: int, frame: FrameType | None) -> None:
            # A process of low priority may be about to leave: an exception would then meet whatever it does next.
            while frame is not None and frame.f_code is not work.__code__:
                frame = frame.f_back
            if frame is not None:
                raise OutOfTime

        if alarmed:
            before = signal.signal(signal.SIGALRM, ring)
            # Repeatedly, since an exception that is raised in a destructor is only printed.
            signal.setitimer(signal.ITIMER_REAL, max(self.left, 0.001), max(self.margin / 4, 0.2))
        try:
            work()
            return True
        except OutOfTime:
            return False
        finally:
            if alarmed:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)
