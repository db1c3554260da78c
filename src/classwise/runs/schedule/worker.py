"""What a worker does: one piece of a plan, in this process, on one thread."""

import time
from collections.abc import Callable, Sequence
from typing import TypedDict

from classwise.core.spec import Evaluation, Spec
from classwise.runs.compute import device, evaluate, train

# report(part, done, total): "train" counts epochs, the name of an evaluation images.
Report = Callable[[str, int, int], None]


class Timing(TypedDict):
    """Where a piece was done, and the share of each part that was done there, with its seconds."""

    device: str
    parts: dict[str, tuple[float, float]]


def do(spec: Spec, evaluations: Sequence[Evaluation], report: Report, *, mend: bool) -> Timing:
    """Train a run, or put questions to it once it is trained; what others have done in the meantime is left alone."""
    took: Timing = {"device": device.where()[0], "parts": {}}

    def told(part: str) -> train.Report:
        begun: list[tuple[float, int]] = []

        def step(_: str, done: int, total: int) -> None:
            now = time.perf_counter()
            begun.append((now, done))
            first, before = begun[0]
            if done > before:
                took["parts"][part] = ((done - before) / total, now - first)
            report(part, done, total)

        return step

    with device.one_thread():
        train.train(spec, told("train"), mend=mend)
        for evaluation in evaluations:
            evaluate.evaluate_run(spec, evaluation, told(evaluation.name), mend=mend)
    return took
