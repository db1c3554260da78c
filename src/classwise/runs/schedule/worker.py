"""The work of one process: a task of a schedule, on one thread."""

import time
from collections.abc import Callable, Sequence
from typing import TypedDict

from classwise.core.spec import Evaluation, Spec
from classwise.runs.compute import device, train, work
from classwise.runs.store import outcomes_of

# report(part, done, total): "train" counts epochs, the name of an evaluation images.
Report = Callable[[str, int, int], None]


class Timing(TypedDict):
    """The device of a task and, for each part, the share that was computed and its seconds."""

    device: str
    parts: dict[str, tuple[float, float]]


def do(spec: Spec, evaluations: Sequence[Evaluation], report: Report, *, repair: bool) -> Timing:
    """Train a run and evaluate it; results that exist by now are not computed again."""
    timing: Timing = {"device": device.where()[0], "parts": {}}

    def timed(part: str) -> train.Report:
        steps: list[tuple[float, int]] = []

        def step(_: str, done: int, total: int) -> None:
            now = time.perf_counter()
            steps.append((now, done))
            first, before = steps[0]
            if done > before:
                timing["parts"][part] = ((done - before) / total, now - first)
            report(part, done, total)

        return step

    with device.one_thread():
        for key in outcomes_of([(spec, evaluations)]):
            work.compute(key, timed(key.evaluation.name if key.evaluation else "train"), repair=repair)
    return timing
