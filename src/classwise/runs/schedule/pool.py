"""Many runs: what is missing is computed, several at once if there are workers; a failing run does not stop the others."""

import os
import traceback
from collections.abc import Iterable, Sequence
from functools import cache, partial
from pathlib import Path

from rich.console import Console

from classwise.core import files
from classwise.core.errors import UserError
from classwise.core.paths import check_data_folder, data_folder
from classwise.defences.training import Diverged
from classwise.runs import store
from classwise.runs.compute import device, validate
from classwise.runs.schedule import plan, worker
from classwise.runs.schedule.cost import Costs
from classwise.runs.schedule.plan import Requested, Schedule, Task, missing, planned
from classwise.runs.schedule.progress import RunProgress
from classwise.runs.schedule.worker import Timing


class Failed(RuntimeError):
    """Some runs could not be computed; the others are there."""


# The tracebacks of the last command that had any, below data/runs/.
TRACEBACKS = "failures.txt"

# Runs that differ only in these fields are checked once: they do not decide whether a run can be computed.
_UNCHECKED = ("seed", "redraw", "lr", "momentum", "weight_decay", "epochs", "batch", "measure", "nesterov", "milestones")


def check(pairs: Iterable[Requested]) -> None:
    """Raise a UserError if a run or an evaluation names something that does not exist."""
    seen: set[str] = set()
    requested = plan.collected(pairs)
    known = {spec.id for spec in requested}
    for spec, evaluations in requested.items():
        alike = " ".join(str(value) for name, value in vars(spec).items() if name not in _UNCHECKED)
        if alike not in seen:
            seen.add(alike)
            validate.check(spec, known)
        for evaluation in evaluations:
            key = f"{alike} {evaluation.id}"
            if key not in seen:
                seen.add(key)
                validate.check_evaluation(evaluation, spec)


def ensure_runs(
    pairs: Iterable[Requested],
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    repair: bool = False,
    console: Console | None = None,
    after: float = 0.0,
) -> int:
    """Compute what is missing of runs and their evaluations; return the number of runs for which anything was.

    workers: processes on this machine; None for one for each GPU, or else CPU core. scheduler: the address of a dask.distributed
    scheduler, whose workers compute instead. repair: also read all files; damaged ones of data/runs/ are named, renamed and
    computed again. after: the seconds of what follows, which the bar of all runs includes. All names are checked before anything
    runs. Failed lists the runs that could not be computed.
    """
    pairs, console = list(pairs), console or Console(stderr=True)
    check(pairs)
    tell = partial(console.print, highlight=False, soft_wrap=True)
    jobs = missing(pairs, cache(partial(store.intact, tell=tell, repair=True))) if repair else missing(pairs)
    if not jobs:
        return 0
    check_data_folder(writing=True)
    precisions = {job.spec.precision for job in jobs if job.train} | {one.precision for job in jobs for one in job.evaluations}
    if scheduler is None and (slow := device.emulated(precisions)):
        console.print(slow, style="yellow", highlight=False, soft_wrap=True)
    costs = costs_here()
    schedule = planned(jobs, costs)
    completions = Completions(schedule, costs)
    count = min(workers or workers_here(), schedule.width)
    # The bar adds up the seconds of all workers.
    progress = RunProgress(schedule.jobs, schedule.tasks, console, after * count)
    try:
        _compute(completions, progress, workers, scheduler, repair=repair)
    finally:
        costs.write()
    failures = completions.failures()
    if failures:
        lines = "\n".join(f"  {jobs[number].title}: {reason}" for number, reason in sorted(failures.items()))
        path = completions.tracebacks(data_folder() / "runs" / TRACEBACKS)
        raise Failed(f"{len(failures)} of {len(jobs)} runs failed:\n{lines}" + (f"\ntracebacks: {path}" if path else ""))
    return len(jobs)


def costs_here() -> Costs:
    """Return what runs cost on this machine."""
    name, _ = device.where()
    return Costs(name, gpu=device.device().type == "cuda")


def workers_here() -> int:
    """Return the number of workers for this machine: one for each GPU, else for each CPU core."""
    if device.device().type == "cuda":
        from classwise.runs.schedule import cluster

        return max(len(cluster.gpus()), 1)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Completions:
    """How the tasks of a schedule ended."""

    def __init__(self, schedule: Schedule, costs: Costs) -> None:
        self.schedule, self.costs = schedule, costs
        self.errors: dict[str, Exception] = {}
        self.traces: dict[str, str] = {}

    def add(self, progress: RunProgress, task: Task, result: Timing | Exception) -> None:
        """Record how a task ended and what it took."""
        if isinstance(result, Exception):
            if result.__traceback__ and not isinstance(result, UserError | Diverged):
                self.traces[task.name] = "".join(traceback.format_exception(result))
            # A traceback keeps the variables of its functions alive, on a GPU too.
            result.__cause__ = result.__context__ = None
            self.errors[task.name] = result.with_traceback(None)
        else:
            named = {evaluation.name: evaluation for evaluation in task.evaluations}
            for part, (share, seconds) in result["parts"].items():
                self.costs.record(task.spec, named.get(part), share, seconds, result["device"])
        progress.finish(task.name, result if isinstance(result, Exception) else None)

    def failures(self) -> dict[int, str]:
        """Return by job what went wrong, or which run that it needs failed."""
        tasks = {task.name: task for task in self.schedule.tasks}
        result: dict[int, str] = {}
        for name, error in self.errors.items():
            task = tasks[name]
            failed = [tasks[other] for other in task.after if other in self.errors]
            if not failed:
                result[task.job] = _message(error)
            for other in failed:
                if other.job != task.job:
                    result.setdefault(task.job, f"{self.schedule.jobs[other.job].title}, which it needs, failed")
        return result

    def tracebacks(self, file: Path) -> Path | None:
        """Write the tracebacks of unexpected errors and return the file; None if there are none."""
        if not self.traces:
            return None
        files.write(file, "\n".join(f"{name}\n{text}" for name, text in self.traces.items()).encode())
        return file


def _message(error: Exception) -> str:
    """Return the text of an error that is meant to be read; of any other also its class."""
    readable = isinstance(error, UserError | RuntimeError) and str(error)
    return str(error) if readable else f"{type(error).__name__}: {error}"


def _compute(
    completions: Completions, progress: RunProgress, workers: int | None, scheduler: str | None, *, repair: bool
) -> None:
    schedule = completions.schedule
    count = min(workers or workers_here(), schedule.width)
    if scheduler is None and count == 1:
        with progress:
            _serially(schedule.tasks, completions, progress, repair=repair)
        return
    from classwise.runs.schedule import cluster

    def ended(task: Task, result: Timing | Exception) -> None:
        completions.add(progress, task, result)

    if scheduler is not None:
        with cluster.connected(scheduler, progress.console) as (client, handshake), progress:
            cluster.compute(client, schedule, progress, ended, handshake, repair=repair)
        return
    with progress, cluster.local(count) as client:
        cluster.compute(client, schedule, progress, ended, repair=repair)


def _serially(tasks: Sequence[Task], completions: Completions, progress: RunProgress, *, repair: bool) -> None:
    for task in tasks:
        if any(name in completions.errors for name in task.after):
            completions.add(progress, task, RuntimeError("a run that it needs failed"))
            continue

        def report(part: str, done: int, total: int, name: str = task.name) -> None:
            progress.show(name, part, done, total)

        try:
            result: Timing | Exception = worker.do(task.spec, task.evaluations, report, repair=repair)
        except Exception as error:  # of one run: the others continue
            result = error
        completions.add(progress, task, result)
