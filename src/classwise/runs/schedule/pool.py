"""Many runs: what is missing is computed, several at once where there are workers; one failing run stops no other."""

import os
import traceback
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from classwise.core import files
from classwise.core.errors import UserError
from classwise.core.paths import data_folder
from classwise.defences.training import Diverged
from classwise.runs.compute import device, validate
from classwise.runs.schedule import plan, timings, worker
from classwise.runs.schedule.cost import Costs
from classwise.runs.schedule.plan import Requested, Schedule, Task, missing, planned
from classwise.runs.schedule.progress import RunProgress
from classwise.runs.schedule.timings import Timings
from classwise.runs.schedule.worker import Timing


class Failed(RuntimeError):
    """Some runs could not be computed; the others are there."""


# Where the errors of the last command that had any came from, below data/runs/.
TRACEBACKS = "failures.txt"

# What decides whether a run can be computed at all: runs that differ in other fields are looked at once.
_PLAIN = ("seed", "redraw", "lr", "momentum", "weight_decay", "epochs", "batch", "measure", "nesterov", "milestones")


def check(asked: Iterable[Requested]) -> None:
    """Raise UserError where a run or a question names something that does not exist."""
    seen: set[str] = set()
    wanted = plan.collected(asked)
    known = {spec.id for spec in wanted}
    for spec, evaluations in wanted.items():
        alike = " ".join(str(value) for name, value in vars(spec).items() if name not in _PLAIN)
        if alike not in seen:
            seen.add(alike)
            validate.check(spec, known)
        for evaluation in evaluations:
            one = f"{alike} {evaluation.id}"
            if one not in seen:
                seen.add(one)
                validate.check_evaluation(evaluation, spec)


def ensure_runs(
    asked: Iterable[Requested],
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    mend: bool = False,
    console: Console | None = None,
) -> int:
    """Compute what is missing of specs and the evaluations of each; return how many runs were touched.

    workers: processes at once on this machine; by default one for each GPU, or CPU core. scheduler: the address of one of
    dask.distributed whose workers compute instead. mend: set damaged files of data/runs/ aside and compute them anew. All names
    are checked before anything runs. Failed lists the runs that could not be computed.
    """
    asked, console = list(asked), console or Console(stderr=True)
    check(asked)
    jobs = missing(asked, mend=mend)
    if not jobs:
        return 0
    costs = costs_here()
    plan = planned(jobs, costs)
    ends = Completions(plan, costs)
    try:
        _compute(plan, ends, console, workers, scheduler, mend=mend)
    finally:
        costs.known.write()
    failures = ends.failures()
    if failures:
        lines = "\n".join(f"  {jobs[number].title}: {said}" for number, said in sorted(failures.items()))
        where = ends.tracebacks(data_folder() / "runs" / TRACEBACKS)
        raise Failed(f"{len(failures)} of {len(jobs)} runs failed:\n{lines}" + (f"\ntracebacks: {where}" if where else ""))
    return len(jobs)


def costs_here() -> Costs:
    """Return what runs cost on this machine."""
    name, _ = device.where()
    return Costs(name, gpu=device.device().type == "cuda", known=Timings(timings.file(), name))


def has_dask() -> bool:
    """Return whether dask is here, which several runs at once need."""
    return find_spec("distributed") is not None


def workers_here() -> int:
    """Return how many workers this machine has room for: one for each GPU, else one for each CPU core; one without dask."""
    if not has_dask():
        return 1
    if device.device().type == "cuda":
        from classwise.runs.schedule import cluster

        return max(len(cluster.gpus()), 1)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Completions:
    """How the pieces of a plan ended."""

    def __init__(self, plan: Schedule, costs: Costs) -> None:
        self.plan, self.costs = plan, costs
        self.errors: dict[str, Exception] = {}
        self.traces: dict[str, str] = {}

    def take(self, board: RunProgress, piece: Task, end: Timing | Exception) -> None:
        """Take down how a piece ended, and what it took."""
        if isinstance(end, Exception):
            if end.__traceback__ and not isinstance(end, UserError | Diverged):
                self.traces[piece.name] = "".join(traceback.format_exception(end))
            # A traceback keeps alive what its functions held, on a GPU too.
            end.__cause__ = end.__context__ = None
            self.errors[piece.name] = end.with_traceback(None)
        else:
            named = {one.name: one for one in piece.evaluations}
            for part, (share, seconds) in end["parts"].items():
                self.costs.saw(piece.spec, named.get(part), share, seconds, end["device"])
        board.finish(piece.name, end if isinstance(end, Exception) else None)

    def failures(self) -> dict[int, str]:
        """Return what went wrong with each job that failed; of one that waited for a run that failed, that it did."""
        pieces = {piece.name: piece for piece in self.plan.pieces}
        found: dict[int, str] = {}
        for name, error in self.errors.items():
            piece = pieces[name]
            ill = [pieces[other] for other in piece.after if other in self.errors]
            if not ill:
                found[piece.job] = _said(error)
            for other in ill:
                if other.job != piece.job:
                    found.setdefault(piece.job, f"{self.plan.jobs[other.job].title}, which it builds on, failed")
        return found

    def tracebacks(self, file: Path) -> Path | None:
        """Write where the errors came from that nobody foresaw, and return the file; None where there are none."""
        if not self.traces:
            return None
        files.write(file, "\n".join(f"{name}\n{text}" for name, text in self.traces.items()).encode())
        return file


def _said(error: Exception) -> str:
    """Return the text of an error that was written to be read, and the kind of any other too."""
    written = isinstance(error, UserError | RuntimeError) and str(error)
    return str(error) if written else f"{type(error).__name__}: {error}"


def _compute(
    plan: Schedule, ends: Completions, console: Console, workers: int | None, scheduler: str | None, *, mend: bool
) -> None:
    if not has_dask() and (scheduler is not None or (workers or 1) > 1):
        advice = "install it (pip install distributed), or leave --workers and --scheduler out"
        raise UserError(f"several runs at once need dask, which is not here: {advice}")
    count = min(workers or workers_here(), plan.width)
    if scheduler is None and count == 1:
        with RunProgress(plan.jobs, plan.pieces, console) as board:
            _serially(plan.pieces, ends, board, mend=mend)
        return
    from classwise.runs.schedule import cluster

    def ended(piece: Task, end: Timing | Exception) -> None:
        ends.take(board, piece, end)

    if scheduler is not None:
        with cluster.there(scheduler, console) as (client, asked), RunProgress(plan.jobs, plan.pieces, console) as board:
            cluster.compute(client, plan, board, ended, asked, mend=mend)
        return
    with RunProgress(plan.jobs, plan.pieces, console) as board, cluster.here(count) as client:
        cluster.compute(client, plan, board, ended, mend=mend)


def _serially(pieces: Sequence[Task], ends: Completions, board: RunProgress, *, mend: bool) -> None:
    for piece in pieces:
        if any(name in ends.errors for name in piece.after):
            ends.take(board, piece, RuntimeError("what it builds on failed"))
            continue

        def report(part: str, done: int, total: int, name: str = piece.name) -> None:
            board.show(name, part, done, total)

        try:
            end: Timing | Exception = worker.do(piece.spec, piece.evaluations, report, mend=mend)
        except Exception as error:  # of one run: the others go on
            end = error
        ends.take(board, piece, end)
