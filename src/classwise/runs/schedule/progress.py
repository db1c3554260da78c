"""The progress of all runs: a bar for each running one and one for the whole; plain lines where no terminal listens."""

import threading
import time
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from classwise.runs.schedule.plan import Job, Task

# What is expected to take no time still moves its bar.
_LEAST = 1e-3


class RunProgress:
    """Told what each piece has done, it shows how far each job is, which ends with its last piece or the first that fails."""

    def __init__(self, jobs: Sequence[Job], pieces: Sequence[Task], console: Console) -> None:
        self.jobs, self.console = jobs, console
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[step]}"))
        self.bars = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True)
        self.pieces = {piece.name: piece for piece in pieces}
        # Seconds of each job, by its part: expected, and of those done.
        self.costs: list[dict[str, float]] = [{} for _ in jobs]
        self.left = [0] * len(jobs)
        for piece in pieces:
            self.costs[piece.job].update({part: max(seconds, _LEAST) for part, seconds in piece.seconds.items()})
            self.left[piece.job] += 1
        self.done: list[dict[str, float]] = [{} for _ in jobs]
        self.tasks: dict[int, TaskID] = {}
        self.began: dict[int, float] = {}
        self.over: set[int] = set()
        # Events come from a listening thread, ends from the main one.
        self.lock = threading.Lock()

    def __enter__(self) -> "RunProgress":
        if self.console.is_terminal:
            self.bars.start()
        self.console.print(f"{len(self.jobs)} run{'s' * (len(self.jobs) > 1)} to compute", highlight=False)
        self.whole = self.bars.add_task("all runs", total=sum(sum(costs.values()) for costs in self.costs), step="")
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def show(self, name: str, part: str, done: int, total: int) -> None:
        """Move the bars: epochs of a training, or images of an attack; what comes after the end, or is not ours, is dropped."""
        with self.lock:
            piece = self.pieces.get(name)
            if piece is None or piece.job in self.over or part not in self.costs[piece.job]:
                return
            number = piece.job
            self.began.setdefault(number, time.perf_counter())
            if number not in self.tasks:
                total_of = sum(self.costs[number].values())
                self.tasks[number] = self.bars.add_task(self.jobs[number].title, total=total_of, step="")
            attack = part.rpartition("-")[0]
            step = f"epoch {done}/{total}" if part == "train" else f"{attack}: image {done}/{total}"
            self._move(number, {part: self.costs[number][part] * done / max(total, 1)})
            self.bars.update(self.tasks[number], completed=sum(self.done[number].values()), step=step)

    def finish(self, name: str, error: Exception | None) -> None:
        """Say that a piece ended, and how; with its last piece, or the first that failed, a job has."""
        with self.lock:
            piece = self.pieces[name]
            number = piece.job
            self.left[number] -= 1
            if number in self.over:
                return
            ended = error is not None or not self.left[number]
            self._move(number, {part: self.costs[number][part] for part in (self.costs[number] if ended else piece.seconds)})
            if not ended:
                return
            self.over.add(number)
            if number in self.tasks:
                self.bars.remove_task(self.tasks.pop(number))
        seconds = time.perf_counter() - self.began.get(number, time.perf_counter())
        how = "[red]failed[/red]" if error else f"{seconds:.1f} s"
        self.console.print(f"\\[{len(self.over)}/{len(self.jobs)}] {self.jobs[number].title}: {how}", highlight=False)

    def _move(self, number: int, done: Mapping[str, float]) -> None:
        """Set how much of some parts of a job is done."""
        before = sum(self.done[number].values())
        self.done[number].update(done)
        self.bars.advance(self.whole, sum(self.done[number].values()) - before)
