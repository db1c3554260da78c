"""Evaluate an audit, or any network that was not trained here, with progress bars and an estimate of the duration."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from classwise import attacks, images, models
from classwise.attacks.losses import cross_entropy
from classwise.attacks.pgd import input_gradient
from classwise.core.audit import Audit, critical, parse_normalise
from classwise.core.errors import UserError, unknown
from classwise.core.spec import Evaluation, Subject
from classwise.images import Images
from classwise.models.modes import frozen
from classwise.runs.compute import evaluate, networks, threads, validate
from classwise.runs.store import OUTCOMES, Key

# If the evaluations take longer than this many seconds, an estimate is printed, and how to shorten them.
LONG = 60.0
# Threads are measured on at most as many images.
_MEASURED = 50


def check(audit: Audit, marked: Sequence[str] = ()) -> Images:
    """Return the images of an audit's dataset; a UserError if it names something that does not exist, or does not suit them.

    marked: the critical classes.
    """
    if audit.model not in models.MODELS and ":" not in audit.model:
        raise unknown("model", audit.model, [*models.MODELS, "my_module:function"])
    images.reader(audit.dataset)
    attacks.build(audit.attack)
    available = validate.images_of(audit, "test")
    validate.check_radius(audit, audit.eps, audit.norm, "eps")
    for evaluation in (*audit.evaluations, *audit.curve[:1]):
        validate.check_evaluation(evaluation, audit)
    if ":" not in audit.model:
        models.check_fit(audit.model, available.shape, audit.width)
        channels, known = available.shape[0], parse_normalise(audit.normalise)
        if known is not None and len(known[0]) != channels:
            raise UserError(f"normalise has {len(known[0])} channels, the images of {audit.title} have {channels}")
    critical(marked, available.classes)
    return available


def ensure_evaluations(
    subject: Subject, evaluations: Sequence[Evaluation], console: Console | None = None, advice: str = ""
) -> int:
    """Compute the outcomes that are missing and return their number; an interrupted evaluation is resumed.

    advice: how to shorten a long evaluation, which is printed with the estimate of its duration.
    """
    missing, console = _missing(subject, evaluations), console or Console(stderr=True)
    if not missing:
        return 0
    networks.network_of(subject)  # raises an error before a folder is made, and reads the network before anything is timed
    left, total = _seconds(subject, missing)
    if left > LONG:
        line = f"about {left / 60:.{0 if left > 600 else 1}f} minutes to go, estimated from one batch of each attack"
        line += f" ({missing[0].batch} of {total} images){advice}. Ctrl-C stops; the same command resumes."
        console.print(line, highlight=False, soft_wrap=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[step]}"))
    with Progress(
        *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bars:
        for evaluation in missing:
            began, title = time.perf_counter(), evaluation.attack
            title += "" if title == "clean" else f" at {evaluation.eps}"
            bar = bars.add_task(title, total=None, step="")
            for done, total in evaluate.step_by_step(subject, evaluation, repair=True):
                bars.update(bar, completed=done, total=total, step=f"image {done}/{total}")
            bars.remove_task(bar)
            console.print(f"{title}: {time.perf_counter() - began:.1f} s", highlight=False)
    return len(missing)


@contextmanager
def fast_threads(subject: Subject, evaluations: Sequence[Evaluation]) -> Iterator[None]:
    """Compute on the number of threads that is fastest for a network until the block ends, if outcomes are missing."""
    missing = _missing(subject, evaluations)
    with threads.measured(gradient_step(subject, missing[-1])) if missing else nullcontext():
        yield


def _missing(subject: Subject, evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    keys = dict.fromkeys(Key(subject, OUTCOMES, evaluation) for evaluation in evaluations)
    return [key.evaluation for key in keys if key.evaluation is not None and key.read(repair=True) is None]


def gradient_step(subject: Subject, evaluation: Evaluation) -> Callable[[], object]:
    """Return a function that computes the gradient of a batch, of which attacks consist, but of at most 50 images."""
    model = networks.network_of(subject)
    x, y = validate.images_of(subject, evaluation.split).batch(slice(0, min(evaluation.batch, _MEASURED)))

    def step() -> None:
        with frozen(model):
            input_gradient(model, x, y, cross_entropy)

    return step


def _seconds(subject: Subject, evaluations: Sequence[Evaluation]) -> tuple[float, int]:
    """Evaluate one batch under each attack; return an estimate of the seconds that the rest takes, and the number of images."""
    left, total = 0.0, 0
    for evaluation in evaluations:
        steps = evaluate.step_by_step(subject, evaluation, repair=True)
        done, total = next(steps, (0, 0))
        began = time.perf_counter()
        first, _ = next(steps, (done, total))
        left += (time.perf_counter() - began) / max(first - done, 1) * (total - first)
        steps.close()  # the finished batch is kept
    return left, total
