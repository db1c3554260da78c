"""Carry out an audit: what is missing is asked, batch by batch, with progress and an estimate of how long it takes."""

import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from classwise import attacks, images, models
from classwise.core.audit import Audit, critical
from classwise.core.errors import unknown
from classwise.core.spec import Evaluation
from classwise.images import Images
from classwise.runs import store
from classwise.runs.compute import evaluate, foreign_network, validate

_QUICK = "pgd-20"
# An audit that will take longer than this says how to make it shorter.
LONG = 60.0


def check(audit: Audit, marked: Sequence[str] = ()) -> None:
    """Raise UserError where an audit names something that does not exist; `marked` are the critical classes."""
    if audit.model not in models.MODELS and ":" not in audit.model:
        raise unknown("model", audit.model, [*models.MODELS, "my_module:function"])
    images.reader(audit.dataset)
    attacks.build(audit.attack)
    for evaluation in (*audit.evaluations, *audit.curve[:1]):
        validate.check_evaluation(evaluation, audit)
    whole = images_of(audit)
    foreign_network.check(audit, whole)
    critical(marked, whole.classes)


def images_of(audit: Audit) -> Images:
    """Return the test images of an audit's dataset."""
    return validate.split(audit, "test")


def ensure_audit(audit: Audit, evaluations: Sequence[Evaluation], console: Console | None = None) -> int:
    """Ask what was not asked yet, and return how many questions that were; what was cut short goes on where it was."""
    asked = dict.fromkeys(one.of(audit) for one in evaluations)
    missing = [one for one in asked if store.find(audit, one, mend=True) is None]
    if not missing:
        return 0
    console = console or Console(stderr=True)
    foreign_network.network(audit)  # refused before a folder is made, and read before anything is timed
    _announce(audit, missing, console)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[step]}"))
    with Progress(
        *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bars:
        for one in missing:
            began, title = time.perf_counter(), _title(one)
            bar = bars.add_task(title, total=None, step="")
            for done, total in evaluate.step_by_step(audit, one, mend=True):
                bars.update(bar, completed=done, total=total, step=f"image {done}/{total}")
            bars.remove_task(bar)
            console.print(f"{title}: {time.perf_counter() - began:.1f} s", highlight=False)
    return len(missing)


def _title(evaluation: Evaluation) -> str:
    return evaluation.attack if evaluation.attack == "clean" else f"{evaluation.attack} at {evaluation.eps}"


def _announce(audit: Audit, missing: Sequence[Evaluation], console: Console) -> None:
    """Answer one batch of each question and, where the rest will take long, say how long, and how to make it shorter."""
    left, first, total = 0.0, 0, 0
    for one in missing:
        steps = evaluate.step_by_step(audit, one, mend=True)
        done, total = next(steps, (0, 0))
        began = time.perf_counter()
        first, _ = next(steps, (total, total))
        if first > done:
            left += (time.perf_counter() - began) / (first - done) * (total - first)
        if first < total:
            steps.close()  # what is done is kept
        else:
            for _ in steps:
                pass
    if left > LONG:
        fewer = max(total // 4, len(images_of(audit).classes))
        shorter = [f"--limit {fewer} takes about {100 * fewer / total:.0f} % of that"] if fewer < total else []
        shorter += [] if audit.attack == _QUICK else [f"--attack {_QUICK} is quicker and weaker"]
        said = f"; shorter: {', '.join(shorter)}" if shorter else ""
        console.print(
            f"about {left / 60:.0f} minutes to go, measured on a batch of each attack ({audit.batch} of {total} images){said}. "
            "Ctrl-C stops; the same command goes on where it was.",
            highlight=False,
            soft_wrap=True,
        )
