"""Progress of all runs: a bar for each running one and one for all; plain lines if the output is no terminal."""

import math
import threading
import time
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from classwise.core.markup import counted
from classwise.runs.schedule.plan import Job, Task

# The least cost of a part, so that every part moves its bar.
_LEAST = 1e-3


class RunProgress:
    """Shows the progress of each job, which ends with its last task or with the first one that fails.

    after: the seconds of what follows the runs, which the overall bar includes; it is then that of the book.
    """

    def __init__(self, jobs: Sequence[Job], tasks: Sequence[Task], console: Console, after: float = 0.0) -> None:
        self.jobs, self.console, self.after = jobs, console, after
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[step]}"))
        self.bars = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True)
        self.tasks = {task.name: task for task in tasks}
        # Seconds of each job by part: expected, and done.
        self.costs: list[dict[str, float]] = [{} for _ in jobs]
        self.left = [0] * len(jobs)
        for task in tasks:
            self.costs[task.job].update({part: max(seconds, _LEAST) for part, seconds in task.seconds.items()})
            self.left[task.job] += 1
        self.done: list[dict[str, float]] = [{} for _ in jobs]
        self.bar_of: dict[int, TaskID] = {}
        self.began: dict[int, float] = {}
        self.over: set[int] = set()
        # `show` is called from a listening thread, `finish` from the main one.
        self.lock = threading.Lock()

    def __enter__(self) -> "RunProgress":
        if self.console.is_terminal:
            self.bars.start()
        self.console.print(f"{counted(len(self.jobs), 'run')} to compute", highlight=False)
        total = _seconds(self.costs)
        self.overall = self.bars.add_task("the book" if self.after else "all runs", total=total + self.after, step="")
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def show(self, name: str, part: str, done: int, total: int) -> None:
        """Move the bars by epochs of a training or images of an attack; reports of finished or foreign tasks are ignored."""
        with self.lock:
            task = self.tasks.get(name)
            if task is None or task.job in self.over or part not in self.costs[task.job]:
                return
            number = task.job
            self.began.setdefault(number, time.perf_counter())
            if number not in self.bar_of:
                cost = sum(self.costs[number].values())
                self.bar_of[number] = self.bars.add_task(self.jobs[number].title, total=cost, step="")
            attack = part.rpartition("-")[0]
            step = f"epoch {done}/{total}" if part == "train" else f"{attack}: image {done}/{total}"
            self._move(number, {part: self.costs[number][part] * done / max(total, 1)})
            self.bars.update(self.bar_of[number], completed=sum(self.done[number].values()), step=step)

    def finish(self, name: str, error: Exception | None) -> None:
        """Take in that a task ended, with an error or None; its job ends with its last task or its first error."""
        with self.lock:
            task = self.tasks[name]
            number = task.job
            self.left[number] -= 1
            if number in self.over:
                return
            ended = error is not None or not self.left[number]
            self._move(number, {part: self.costs[number][part] for part in (self.costs[number] if ended else task.seconds)})
            if not ended:
                return
            self.over.add(number)
            if number in self.bar_of:
                self.bars.remove_task(self.bar_of.pop(number))
        seconds = time.perf_counter() - self.began.get(number, time.perf_counter())
        how = "[red]failed[/red]" if error else f"{seconds:.1f} s"
        self.console.print(f"\\[{len(self.over)}/{len(self.jobs)}] {self.jobs[number].title}: {how}", highlight=False)

    def _move(self, number: int, done: Mapping[str, float]) -> None:
        """Set how much of some parts of a job is done."""
        self.done[number].update(done)
        self.bars.update(self.overall, completed=_seconds(self.done))


def _seconds(jobs: Sequence[Mapping[str, float]]) -> float:
    """Return the seconds of all parts: without rounding, so that what was done in any order comes to what was expected."""
    return math.fsum(seconds for parts in jobs for seconds in parts.values())
