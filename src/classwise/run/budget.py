"""Time: what is left of a budget, and how long things took before."""

import json
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from classwise import results
from classwise.errors import UserError
from classwise.spec import Evaluation, Spec

_UNITS = {"s": 1, "m": 60, "h": 3600}


class OutOfTime(BaseException):
    """The budget is spent. Not an Exception: nothing that mends damaged files may take it for one."""


def seconds(text: str) -> float:
    """Return a duration written as "9m", "30s", "1h30m" or "540" in seconds."""
    whole = re.fullmatch(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?", text.strip())
    parts = [float(part) for part in whole.groups(default="0")] if whole else [0.0]
    found = sum(part * unit for part, unit in zip(parts, (3600, 60, 1), strict=False))
    if found <= 0:
        raise UserError(f"a budget is a time like 9m, 30s or 1h30m, got {text!r}")
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


def epoch_of(spec: Spec, *, measured: bool) -> tuple[str, str]:
    """Return what an epoch of a run is called in Pace: all that decides how long it takes, and the defence."""
    alike = replace(spec, seed=0, defence="standard", options={}, attack_options={}, warm_start=None)
    defence = " ".join([spec.defence, *(f"{name}={value}" for name, value in {**spec.options, **spec.attack_options}.items())])
    kind = "measured epoch" if measured else "epoch"
    return f"{kind}: {spec.dataset}, {spec.model} {spec.width}, {alike.id}", defence


def image_of(spec: Spec, evaluation: Evaluation) -> tuple[str, str]:
    """Return what attacking an image is called in Pace: the attack on the network, and the defence."""
    alike = replace(evaluation.of(spec), checkpoint="last", readout="logits", seed=0, per_class=None, substitute=None)
    return f"image: {spec.dataset}, {spec.model} {spec.width}, {alike.name}", spec.defence


class Pace:
    """Seconds that things took on this device, kept in a small file so that the next call knows."""

    KEPT = 3

    def __init__(self, path: Path, device: str) -> None:
        self.path, self.device = path, device
        self.told: dict[str, dict[str, dict[str, list[float]]]] = {}
        # Where nothing is known, or the file is broken, it is written anew.
        with suppress(OSError, ValueError, AttributeError, TypeError):
            self.told = {
                machine: {
                    what: {who: [float(one) for one in times] for who, times in known.items()} for what, known in all_.items()
                }
                for machine, all_ in json.loads(path.read_text()).items()
            }

    def expect(self, key: tuple[str, str]) -> float | None:
        """Return the longest of the last few times, of the same defence or else of others that attack; None for never."""
        what, who = key
        known = self.told.get(self.device, {}).get(what, {})
        if known.get(who):
            return max(known[who])
        # A standard network trains many times faster, and breaks at once.
        others = [time for name, times in known.items() if not name.startswith("standard") for time in times]
        return max(others, default=None)

    def hopes(self, key: tuple[str, str]) -> float | None:
        """Return the shortest of the last times, None until there are enough of them: a stalled machine is no measure."""
        what, who = key
        times = self.told.get(self.device, {}).get(what, {}).get(who, [])
        return min(times) if len(times) == self.KEPT else None

    def see(self, key: tuple[str, str], took: float) -> None:
        """Take a time down."""
        what, who = key
        times = self.told.setdefault(self.device, {}).setdefault(what, {}).setdefault(who, [])
        times.append(round(took, 6))
        del times[: -self.KEPT]

    def write(self) -> None:
        """Keep what is known."""
        results.write(self.path, json.dumps(self.told, indent=1, sort_keys=True).encode())
