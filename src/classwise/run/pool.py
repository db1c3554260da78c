"""Many runs: what is missing is computed by several processes at once, with progress; one failing run stops no other."""

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_all_start_methods, get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from classwise.run import compute, machine, questions, store
from classwise.spec import Evaluation, Spec

# Attacking an image takes about this share of training on it for an epoch; only the bars depend on it.
_ATTACK_SHARE = 1.0


# A run, and the questions to put to it.
Asked = tuple[Spec, Sequence[Evaluation]]


class Failed(RuntimeError):
    """Some runs could not be computed; the others are there."""


@dataclass(frozen=True)
class Job:
    """One run, whatever of it is missing: the training, and some evaluations of it."""

    spec: Spec
    evaluations: tuple[Evaluation, ...]
    mend: bool

    @property
    def title(self) -> str:
        return f"{self.spec.defence} on {self.spec.dataset}, seed {self.spec.seed}"

    def do(self, report: Callable[[str, int, int], None]) -> None:
        """Train and evaluate, in this process, on one thread."""
        with machine.one_thread():
            compute.train(self.spec, report, mend=self.mend)
            for evaluation in self.evaluations:
                questions.evaluate(
                    self.spec,
                    evaluation,
                    lambda _, done, total, name=evaluation.attack: report(name, done, total),  # type: ignore[misc]
                    mend=self.mend,
                )


_events: Any = None


def _adopt(events: Any, environment: dict[str, str]) -> None:
    global _events  # each worker process has one queue to the parent
    _events = events
    # The server that workers are forked from keeps the environment it was started with.
    os.environ.update(environment)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent() -> None:
    """Wait for the process that asked for the runs to end, and end at once: what was trained is in the checkpoint."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _context() -> BaseContext:
    """Return how workers start: forked from a server that has imported torch once, where the system can do that."""
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(["classwise.run.questions"])
    return context


def _work(number: int, job: Job) -> None:
    job.do(lambda phase, done, total: _events.put((number, phase, done, total)))


def missing(asked: Iterable[Asked], *, mend: bool = False) -> list[Job]:
    """Return a job for each distinct spec that is not trained or not evaluated yet, in the order of first appearance."""
    wanted: dict[Spec, dict[Evaluation, None]] = {}
    for spec, evaluations in asked:
        wanted.setdefault(spec, {}).update(dict.fromkeys(evaluation.of(spec) for evaluation in evaluations))
    jobs = []
    for spec, distinct in wanted.items():
        answers = [store.find(spec, one, mend=mend) for one in (None, *distinct)]
        if any(answer is None for answer in answers):
            # A run without its weights is trained anew, and then all its questions are put to the new network.
            jobs.append(Job(spec, tuple(distinct), mend))
    return jobs


def ensure(
    asked: Iterable[Asked],
    *,
    workers: int | None = None,
    mend: bool = False,
    console: Console | None = None,
) -> int:
    """Compute what is missing of specs and the evaluations of each; return how many runs were touched.

    workers: processes at once; by default one for each CPU core (one on a GPU). mend: set damaged files of data/runs/ aside and
    compute them anew. All names are checked before anything runs. Failed lists the runs that could not be computed.
    """
    asked = list(asked)
    for spec, evaluations in asked:
        compute.check(spec)
        for evaluation in evaluations:
            compute.check_evaluation(evaluation.of(spec), spec)
    jobs = missing(asked, mend=mend)
    if not jobs:
        return 0
    if workers is None:
        workers = 1 if machine.device().type == "cuda" else os.cpu_count() or 1
    board = Board(jobs, console or Console(stderr=True))
    with board:
        errors = _serially(jobs, board) if min(workers, len(jobs)) == 1 else _at_once(jobs, workers, board)
    if errors:
        lines = "\n".join(f"  {jobs[number].title}: {error}" for number, error in sorted(errors.items()))
        raise Failed(f"{len(errors)} of {len(jobs)} runs failed:\n{lines}")
    return len(jobs)


def _serially(jobs: Sequence[Job], board: "Board") -> dict[int, Exception]:
    errors: dict[int, Exception] = {}
    for number, job in enumerate(jobs):
        try:
            job.do(lambda phase, done, total, number=number: board.show(number, phase, done, total))  # type: ignore[misc]
        except Exception as error:
            errors[number] = error
        board.finish(number, errors.get(number))
    return errors


def _at_once(jobs: Sequence[Job], workers: int, board: "Board") -> dict[int, Exception]:
    context = _context()
    events, errors = context.Queue(), {}
    listener = threading.Thread(target=_listen, args=(events, board), daemon=True)
    listener.start()
    with ProcessPoolExecutor(
        min(workers, len(jobs)), mp_context=context, initializer=_adopt, initargs=(events, dict(os.environ))
    ) as pool:
        futures: dict[Future[None], int] = {pool.submit(_work, number, job): number for number, job in enumerate(jobs)}
        try:
            for future in as_completed(futures):
                number, failure = futures[future], future.exception()
                if failure is not None:
                    errors[number] = _said(failure)
                board.finish(number, errors.get(number))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    events.put(None)
    listener.join()
    return errors


def _said(failure: BaseException) -> Exception:
    """Return the error of a job; where the workers themselves could not start or were killed, one that says what to do."""
    if isinstance(failure, BrokenProcessPool):
        return RuntimeError(
            "its process ended without a word: killed, out of memory, or called from a script without "
            'a guard (put the calls under `if __name__ == "__main__":`); what is finished is kept, run it again'
        )
    return failure if isinstance(failure, Exception) else RuntimeError(repr(failure))


def _listen(events: "queue.Queue[tuple[int, str, int, int] | None]", board: "Board") -> None:
    while (event := events.get()) is not None:
        board.show(*event)


class Board:
    """The progress of all jobs: a bar for each running one and one for the whole; plain lines where no terminal listens."""

    def __init__(self, jobs: Sequence[Job], console: Console) -> None:
        self.jobs, self.console = jobs, console
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[step]}"))
        self.bars = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True)
        self.costs = [job.spec.epochs + _ATTACK_SHARE * len(job.evaluations) for job in jobs]
        self.done = [0.0] * len(jobs)
        self.tasks: dict[int, TaskID] = {}
        self.began: dict[int, float] = {}
        self.over: set[int] = set()
        # Events come from the listening thread, ends from the main one.
        self.lock = threading.Lock()

    def __enter__(self) -> "Board":
        if self.console.is_terminal:
            self.bars.start()
        self.console.print(f"{len(self.jobs)} run{'s' * (len(self.jobs) > 1)} to compute", highlight=False)
        self.whole = self.bars.add_task("all runs", total=sum(self.costs), step="")
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def show(self, number: int, phase: str, done: int, total: int) -> None:
        """Move the bars: epochs of training, or images of an attack; an event that comes after the end is dropped."""
        with self.lock:
            if number in self.over:
                return
            self.began.setdefault(number, time.perf_counter())
            if number not in self.tasks:
                self.tasks[number] = self.bars.add_task(self.jobs[number].title, total=self.costs[number], step="")
            step = f"epoch {done}/{total}" if phase == "train" else f"{phase}: image {done}/{total}"
            if phase == "train":
                self.done[number] = done
            elif done == total:
                self.done[number] = max(self.done[number], self.jobs[number].spec.epochs) + _ATTACK_SHARE
            self.bars.update(self.tasks[number], completed=self.done[number], step=step)
            self.bars.update(self.whole, completed=sum(self.done))

    def finish(self, number: int, error: Exception | None) -> None:
        """Say that a job ended, and how."""
        with self.lock:
            self.over.add(number)
            self.done[number] = self.costs[number]
            self.bars.update(self.whole, completed=sum(self.done))
            if number in self.tasks:
                self.bars.remove_task(self.tasks.pop(number))
        seconds = time.perf_counter() - self.began.get(number, time.perf_counter())
        how = "[red]failed[/red]" if error else f"{seconds:.1f} s"
        self.console.print(f"\\[{len(self.over)}/{len(self.jobs)}] {self.jobs[number].title}: {how}", highlight=False)
