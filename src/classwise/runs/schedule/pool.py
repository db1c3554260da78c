"""Many runs: what is missing is computed, several at once if there are workers; a failing run does not stop the others."""

import os
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING

from rich.console import Console

from classwise.core import files
from classwise.core.errors import UserError
from classwise.core.paths import check_data_folder, data_folder
from classwise.core.spec import Spec
from classwise.defences.training import Diverged
from classwise.runs import store
from classwise.runs.compute import device, validate, work
from classwise.runs.compute.work import Policy, Timing
from classwise.runs.schedule import plan
from classwise.runs.schedule.cost import Costs
from classwise.runs.schedule.plan import Ended, Requested, Show, Task, Wanted, missing, plan_tasks
from classwise.runs.schedule.progress import RunProgress, title
from classwise.runs.store import Key

if TYPE_CHECKING:
    from distributed import Client

    from classwise.runs.schedule.cluster import Handshake


class Failed(RuntimeError):
    """Some runs could not be computed; the others are there."""


# The tracebacks of the last command that had any, below data/runs/.
TRACEBACKS = "failures.txt"

# Runs that differ only in these fields are checked once: they do not decide whether a run can be computed.
_UNCHECKED = ("seed", "redraw", "lr", "momentum", "weight_decay", "epochs", "batch", "measure", "nesterov", "milestones")


def check(pairs: Iterable[Requested] | Wanted) -> None:
    """Raise a UserError if a run or an evaluation names something that does not exist."""
    seen: set[str] = set()
    requested = plan.group_by_run(pairs)
    known = {spec.id for spec in requested}
    for spec, keys in requested.items():
        alike = " ".join(str(value) for name, value in vars(spec).items() if name not in _UNCHECKED)
        if alike not in seen:
            seen.add(alike)
            validate.check(spec, known)
        for evaluation in (key.evaluation for key in keys):
            assert evaluation is not None
            if (also := f"{alike} {evaluation.id}") not in seen:
                seen.add(also)
                validate.check_evaluation(evaluation, spec)


def ensure_runs(
    pairs: Iterable[Requested] | Wanted,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    repair: bool = False,
    remember: bool = False,
    console: Console | None = None,
    after: float = 0.0,
) -> int:
    """Compute what is missing of runs and their evaluations; return the number of runs for which anything was.

    workers: processes on this machine; None for one for each GPU, or else CPU core. scheduler: the address of a dask.distributed
    scheduler, whose workers compute instead. repair: also read all files; damaged ones of data/runs/ are named, renamed and
    computed again. remember: a file that was found undamaged and has not changed is not read again. after: the seconds of what
    follows, which the bar of all runs includes. All names are checked before anything runs. Failed lists the runs that could not
    be computed.
    """
    pairs, console = plan.group_by_run(pairs), console or Console(stderr=True)
    if not (left := _left(pairs, console, remember=remember) if repair else missing(pairs)):
        return 0
    check(pairs)
    check_data_folder(writing=True)
    precisions = {key.spec.precision if key.evaluation is None else key.evaluation.precision for key in left}
    if scheduler is None and (slow := device.bfloat16_warning(precisions)):
        console.print(slow, style="yellow", highlight=False, soft_wrap=True)
    tasks = plan_tasks(left, costs := costs_here())
    count = min(workers or workers_here(), plan.most_workers(tasks))
    # The bar adds up the seconds of all workers.
    completions = Completions(RunProgress(tasks, console, after * count), costs)
    try:
        with executor(count, scheduler, console) as pool, completions.progress as progress:
            compute(pool, tasks, completions.add, progress.show, Policy(repair))
    finally:
        costs.write()
    runs = dict.fromkeys(key.spec for key in left)
    if completions.errors:
        reasons = completions.reasons()
        lines = "\n".join(f"  {title(run)}: {reasons[run]}" for run in runs if run in reasons)
        path = data_folder() / "runs" / TRACEBACKS
        if completions.traces:
            files.write(path, "\n".join(completions.traces).encode())
        where = f"\ntracebacks: {path}" if completions.traces else ""
        raise Failed(f"{len(reasons)} of {len(runs)} runs failed:\n{lines}{where}")
    return len(runs)


def _left(pairs: Wanted, console: Console, *, remember: bool) -> dict[Key, tuple[Key, ...]]:
    tell = partial(console.print, highlight=False, soft_wrap=True)
    with store.remembered_files() as known:
        return missing(pairs, cache(partial(store.is_intact, tell=tell, repair=True, known=known if remember else None)))


def costs_here() -> Costs:
    """Return what runs cost on this machine."""
    name, _ = device.name_and_threads()
    return Costs(name, gpu=device.device().type == "cuda")


def workers_here() -> int:
    """Return the number of workers for this machine: one for each GPU, else for each CPU core."""
    if device.device().type == "cuda":
        from classwise.runs.schedule import cluster

        return max(len(cluster.gpus()), 1)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass
class Completions:
    """How tasks ended: their errors, and the tracebacks of those that were unexpected."""

    progress: RunProgress
    costs: Costs
    errors: dict[Task, Exception] = field(default_factory=dict)
    traces: list[str] = field(default_factory=list)

    def add(self, task: Task, result: Timing | Exception | None) -> None:
        """Record how a task ended and what it took; without a budget each is begun."""
        assert result is not None
        if isinstance(result, Exception):
            if result.__traceback__ and not isinstance(result, UserError | Diverged):
                self.traces.append(f"{task.name}\n{''.join(traceback.format_exception(result))}")
            # A traceback keeps the variables of its functions alive, on a GPU too.
            result.__cause__ = result.__context__ = None
            self.errors[task] = result.with_traceback(None)
        else:
            self.costs.record(task.key, result)
        self.progress.finish(task.key, result if isinstance(result, Exception) else None)

    def reasons(self) -> dict[Spec, str]:
        """Return by run what went wrong, or which run that it needs failed."""
        failed, reasons = {task.key for task in self.errors}, dict[Spec, str]()
        for task, error in self.errors.items():
            before = [key.spec for key in task.after if key in failed]
            if not before:
                readable = isinstance(error, UserError | RuntimeError) and str(error)
                reasons[task.key.spec] = str(error) if readable else f"{type(error).__name__}: {error}"
            for spec in before:
                if spec != task.key.spec:
                    reasons.setdefault(task.key.spec, f"{title(spec)}, which it needs, failed")
        return reasons


# Workers of dask and what they must share with this process; None for this process itself.
Executor = tuple["Client", "Handshake | None"] | None


@contextmanager
def executor(workers: int, scheduler: str | None = None, console: Console | None = None) -> Iterator[Executor]:
    """Start what computes: workers of this machine, those of a scheduler, or for a single worker nothing but this process."""
    if scheduler is None and workers <= 1:
        yield None
        return
    from classwise.runs.schedule import cluster

    with cluster.connect(scheduler, console or Console(stderr=True)) if scheduler else cluster.local(workers) as connected:
        yield connected


def compute(
    pool: Executor,
    tasks: Sequence[Task],
    ended: Ended,
    show: Show = lambda key, done, total: None,
    policy: Policy = Policy(),  # noqa: B008 (immutable)
) -> None:
    """Compute tasks; `ended` is called with the result of each: None where what it needs, or time, is lacking.

    show: called with the steps of a task that are done.
    """
    if pool is not None:
        from classwise.runs.schedule import cluster

        client, expected = pool
        return cluster.compute(client, tasks, ended, show, policy, expected)
    lost: dict[Key, Exception | None] = {}
    for task in tasks:
        before = [lost[key] for key in task.after if key in lost]
        result = before[0] if before else _result(task, show, policy)
        if not (isinstance(result, Timing) and result.finished):
            lost[task.key] = result if isinstance(result, Exception) else None
        ended(task, result)
    return None


def _result(task: Task, show: Show, policy: Policy) -> Timing | Exception | None:
    if policy.budget is not None and policy.budget.left <= task.step:
        return None
    try:
        return work.compute_timed(task.key, lambda _, done, total: show(task.key, done, total), policy)
    except Exception as error:  # of one run: the others continue
        return error
