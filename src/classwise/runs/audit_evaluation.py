"""Evaluate an audit, or any network that was not trained here, with progress bars and an estimate of the duration."""

import time
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from classwise import attacks, images, models
from classwise.core.audit import Audit, critical
from classwise.core.errors import unknown
from classwise.core.spec import Evaluation, Subject
from classwise.runs import store
from classwise.runs.compute import evaluate, foreign_network, networks, validate

# If the evaluations take longer than this many seconds, an estimate is printed, and how to shorten them.
LONG = 60.0
# Takes the number of images of an evaluation and returns ways to shorten it.
Advice = Callable[[int], Sequence[str]]


def check(audit: Audit, marked: Sequence[str] = ()) -> None:
    """Raise a UserError if an audit names something that does not exist; `marked` are the critical classes."""
    if audit.model not in models.MODELS and ":" not in audit.model:
        raise unknown("model", audit.model, [*models.MODELS, "my_module:function"])
    images.reader(audit.dataset)
    attacks.build(audit.attack)
    validate.check_radius(audit, audit.eps, audit.norm, "eps")
    for evaluation in (*audit.evaluations, *audit.curve[:1]):
        validate.check_evaluation(evaluation, audit)
    available = validate.images_of(audit, "test")
    foreign_network.check(audit, available)
    critical(marked, available.classes)


def no_advice(total: int) -> list[str]:
    """Return no way to shorten an evaluation."""
    return []


def ensure_evaluations(
    subject: Subject, evaluations: Sequence[Evaluation], console: Console | None = None, shorter: Advice = no_advice
) -> int:
    """Compute the outcomes that are missing and return their number; an interrupted evaluation is resumed.

    shorter: how to shorten a long evaluation, which is printed with its estimate.
    """
    resolved = dict.fromkeys(evaluation.resolved_for(subject) for evaluation in evaluations)
    missing = [evaluation for evaluation in resolved if store.find(subject, evaluation, repair=True) is None]
    if not missing:
        return 0
    console = console or Console(stderr=True)
    networks.network_of(subject)  # raises an error before a folder is made, and is read before anything is timed
    _announce(subject, missing, console, shorter)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[step]}"))
    with Progress(
        *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bars:
        for evaluation in missing:
            began, title = time.perf_counter(), _title(evaluation)
            bar = bars.add_task(title, total=None, step="")
            for done, total in evaluate.step_by_step(subject, evaluation, repair=True):
                bars.update(bar, completed=done, total=total, step=f"image {done}/{total}")
            bars.remove_task(bar)
            console.print(f"{title}: {time.perf_counter() - began:.1f} s", highlight=False)
    return len(missing)


def _title(evaluation: Evaluation) -> str:
    return evaluation.attack if evaluation.attack == "clean" else f"{evaluation.attack} at {evaluation.eps}"


def _announce(subject: Subject, missing: Sequence[Evaluation], console: Console, shorter: Advice) -> None:
    """Evaluate one batch under each attack and, if the rest takes long, print an estimate and how to shorten it."""
    left, first, total = 0.0, 0, 0
    for evaluation in missing:
        steps = evaluate.step_by_step(subject, evaluation, repair=True)
        done, total = next(steps, (0, 0))
        began = time.perf_counter()
        first, _ = next(steps, (total, total))
        if first > done:
            left += (time.perf_counter() - began) / (first - done) * (total - first)
        if first < total:
            steps.close()  # the finished batch is kept
        else:
            for _ in steps:
                pass
    if left > LONG:
        ways = shorter(total)
        advice = f"; shorter: {', '.join(ways)}" if ways else ""
        console.print(
            f"about {left / 60:.0f} minutes to go, estimated from one batch of each attack "
            f"({missing[0].batch} of {total} images){advice}. Ctrl-C stops; the same command resumes.",
            highlight=False,
            soft_wrap=True,
        )
