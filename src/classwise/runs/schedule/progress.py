"""Progress of all runs: a bar for each running one and one for all; plain lines if the output is no terminal."""

import math
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from classwise.core.markup import plural
from classwise.core.spec import Spec
from classwise.runs.schedule.plan import Task
from classwise.runs.store import Key

# The least seconds of a task, so that every one moves its bar.
_LEAST = 1e-3


class RunProgress:
    """Shows the progress of each run, which ends with its last task or with the first one that fails.

    after: the seconds of what follows the runs, which the overall bar includes; it is then that of the book.
    """

    def __init__(self, tasks: Iterable[Task], console: Console, after: float = 0.0) -> None:
        self.console, self.after = console, after
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[step]}"))
        self.bars = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True)
        # Of each run. Added up by fsum: without rounding, what was done in any order comes to what was expected.
        self.seconds, self.done = defaultdict[Spec, dict[Key, float]](dict), defaultdict[Spec, dict[Key, float]](dict)
        for task in tasks:
            self.seconds[task.key.spec][task.key] = max(task.seconds, _LEAST)
        self.left = {run: len(keys) for run, keys in self.seconds.items()}
        self.bar_of: dict[Spec, TaskID] = {}
        self.began: dict[Spec, float] = {}
        self.over: set[Spec] = set()
        # `show` is called from a listening thread, `finish` from the main one.
        self.lock = threading.Lock()

    def __enter__(self) -> "RunProgress":
        if self.console.is_terminal:
            self.bars.start()
        self.console.print(f"{plural(len(self.left), 'run')} to compute", highlight=False)
        name, total = "the book" if self.after else "all runs", _sum(self.seconds)
        self.overall = self.bars.add_task(name, total=total + self.after, step="")
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def show(self, key: Key, done: int, total: int) -> None:
        """Move the bars by epochs of a training or images of an attack; reports of ended or foreign runs are ignored."""
        with self.lock:
            run = key.spec
            if run in self.over or key not in self.seconds.get(run, ()):
                return
            self.began.setdefault(run, time.perf_counter())
            if run not in self.bar_of:
                self.bar_of[run] = self.bars.add_task(title(run), total=math.fsum(self.seconds[run].values()), step="")
            self.done[run][key] = self.seconds[run][key] * done / max(total, 1)
            step = f"epoch {done}/{total}" if key.evaluation is None else f"{key.evaluation.attack}: image {done}/{total}"
            self.bars.update(self.bar_of[run], completed=math.fsum(self.done[run].values()), step=step)
            self.bars.update(self.overall, completed=_sum(self.done))

    def finish(self, key: Key, error: Exception | None) -> None:
        """Take in that a task ended, with an error or None."""
        with self.lock:
            run = key.spec
            self.left[run] -= 1
            if run in self.over:
                return
            ended = error is not None or not self.left[run]
            self.done[run].update(self.seconds[run] if ended else {key: self.seconds[run][key]})
            self.bars.update(self.overall, completed=_sum(self.done))
            if not ended:
                return
            self.over.add(run)
            if run in self.bar_of:
                self.bars.remove_task(self.bar_of.pop(run))
        seconds = time.perf_counter() - self.began.get(run, time.perf_counter())
        how = "[red]failed[/red]" if error else f"{seconds:.1f} s"
        self.console.print(f"\\[{len(self.over)}/{len(self.left)}] {title(run)}: {how}", highlight=False)


def title(spec: Spec) -> str:
    """Return how a run is named among others."""
    return f"{spec.defence} on {spec.dataset}, seed {spec.seed}"


def _sum(seconds: Mapping[Spec, Mapping[Key, float]]) -> float:
    return math.fsum(each for of_run in seconds.values() for each in of_run.values())
