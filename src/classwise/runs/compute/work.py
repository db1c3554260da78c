"""A result of any kind is computed."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from classwise.core import results
from classwise.core.spec import Spec
from classwise.runs import store
from classwise.runs.compute import device, evaluate, networks, train
from classwise.runs.compute.budget import Budget, OutOfTime
from classwise.runs.store import FEATURES, HISTORY, OUTCOMES, TRACE, Key

# The phase of what is computed next to a result, and counts as no step of it.
CHECK = "check"


def compute(key: Key, report: train.Report = train.no_report, *, repair: bool) -> None:
    """Compute a result step by step, unless it exists by now, and store it; of a recorded network too.

    What was done before an interruption is continued. `repair` sets damaged files of data/runs/ aside.
    """
    subject, evaluation = key.subject, key.evaluation
    if key.kind == HISTORY:
        assert isinstance(subject, Spec)
        train.train(subject, report, repair=repair)
        return
    assert evaluation is not None
    if key.kind == OUTCOMES:
        evaluate.evaluate_run(subject, evaluation, report, repair=repair)
        return
    networks.network_of(subject, evaluation)  # raises an error before a folder is made
    with key.lock() as lock:
        if key.read(repair=repair) is not None:
            return
        report("attack", 0, 1)
        make = {FEATURES: evaluate.class_features, TRACE: evaluate.trace_attack}.get(key.kind)
        data = make(subject, evaluation) if make else evaluate.attack_function(subject, evaluation)()
        results.save(data.assign_attrs(store.provenance(subject, *device.name_and_threads(), evaluation)), key.kind, key.file)
        report("attack", 1, 1)
        with suppress(OSError):  # where open files cannot be removed
            Path(lock.lock_file).unlink()


class Timing(NamedTuple):
    """The share of a result that was computed on a device, the seconds that it took, without starting up, and whether it is done.

    Where time ran out it is not finished, and what was done is kept.
    """

    device: str
    share: float
    seconds: float
    finished: bool = True


class Policy(NamedTuple):
    """How results are computed: whether damaged files are set aside, by which function, in which budget (None: any time)."""

    repair: bool = False
    by: Callable[..., None] = compute
    budget: Budget | None = None


def compute_timed(key: Key, report: train.Report, policy: Policy) -> Timing:
    """Compute a result on one thread, unless it exists by now; return what was computed and how long it took.

    A run whose history or weights turn out to be missing or damaged is trained before it is evaluated. No step is begun that
    would not end in the budget, if it takes as long as the one before; no epoch takes as long as making its images.
    """
    repair, by, budget = policy
    clock: Callable[[], float] = time.perf_counter if budget is None else budget.clock
    steps, before = list[tuple[float, int, int]](), clock()

    def step(phase: str, done: int, total: int) -> None:
        nonlocal before
        if phase != CHECK:
            steps.append((clock(), done, total))
            report(phase, done, total)
        took, before = clock() - before, clock()
        if budget is not None and phase != "rebuild" and done < total and budget.left < took:
            raise OutOfTime

    def work() -> None:
        if key.evaluation is not None:
            train.train(key.spec, train.no_report, repair=repair)
        by(key, step, repair=repair)

    with device.one_thread():
        if budget is None:
            work()
        finished = budget is None or budget.finish(work)
    (began, first, _), (ended, done, total) = (steps[0], steps[-1]) if steps else ((0.0, 0, 1), (0.0, 0, 1))
    return Timing(device.name_and_threads()[0], (done - first) / total, ended - began, finished)
