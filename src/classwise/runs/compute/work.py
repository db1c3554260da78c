"""A result of any kind is computed."""

import time
from typing import NamedTuple

from classwise.core import results
from classwise.core.spec import Spec
from classwise.runs import store
from classwise.runs.compute import device, evaluate, networks, train
from classwise.runs.store import FEATURES, HISTORY, OUTCOMES, TRACE, Key


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
    with key.lock():
        if key.read(repair=repair) is not None:
            return
        if key.kind == FEATURES:
            data = evaluate.class_features(subject, evaluation)
        elif key.kind == TRACE:
            data = evaluate.trace_attack(subject, evaluation)
        else:
            data = evaluate.attacker(subject, evaluation)()
        results.save(data.assign_attrs(store.provenance(subject, *device.where(), evaluation)), key.kind, key.file)


class Timing(NamedTuple):
    """The share of a result that was computed on a device, and the seconds that it took, without starting up."""

    device: str
    share: float
    seconds: float


def timed(key: Key, report: train.Report, *, repair: bool) -> Timing:
    """Compute a result on one thread, unless it exists by now; return what was computed and how long it took.

    A run whose history or weights turn out to be missing or damaged is trained before it is evaluated.
    """
    steps: list[tuple[float, int, int]] = []

    def step(phase: str, done: int, total: int) -> None:
        steps.append((time.perf_counter(), done, total))
        report(phase, done, total)

    with device.one_thread():
        if key.evaluation is not None:
            train.train(key.spec, repair=repair)
        compute(key, step, repair=repair)
    (began, before, _), (ended, done, total) = (steps[0], steps[-1]) if steps else ((0.0, 0, 1), (0.0, 0, 1))
    return Timing(device.where()[0], (done - before) / total, ended - began)
