"""Evaluate an audit, or any network that was not trained here, with progress bars and an estimate of the duration."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from classwise import attacks, images, models
from classwise.attacks.losses import cross_entropy
from classwise.attacks.pgd import input_gradient
from classwise.core.audit import Audit, critical
from classwise.core.errors import unknown
from classwise.core.spec import Evaluation, Subject
from classwise.models.modes import frozen
from classwise.runs.compute import evaluate, foreign_network, networks, threads, validate
from classwise.runs.store import OUTCOMES, Key

# If the evaluations take longer than this many seconds, an estimate is printed, and how to shorten them.
LONG = 60.0
# Threads are measured on at most as many images.
_MEASURED = 50
# Attacks of as many passes are computed before anything is estimated.
_QUICK = 2
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
    subject: Subject,
    evaluations: Sequence[Evaluation],
    console: Console | None = None,
    shorter: Advice = no_advice,
    further: float = 0.0,
) -> int:
    """Compute the outcomes that are missing and return their number; an interrupted evaluation is resumed.

    shorter: how to shorten a long evaluation, which is printed with its estimate. further: seconds that follow the evaluations.
    """
    resolved, missing = _resolved(subject, evaluations), _missing(subject, evaluations)
    if not missing:
        return 0
    console = console or Console(stderr=True)
    networks.network_of(subject)  # raises an error before a folder is made, and reads the network before anything is timed
    classes = len(validate.class_names(subject))
    quick = [one for one in resolved if attacks.build(one.attack, one.options).cost(classes).rows <= _QUICK]
    long = [one for one in missing if one not in quick]
    _compute(subject, [one for one in missing if one in quick], console)
    left, total = _seconds(subject, long, quick)
    if long and left + further > LONG:
        _announce(long[0].batch, total, left + further, console, shorter(total))
    _compute(subject, long, console)
    return len(missing)


@contextmanager
def fast_threads(subject: Subject, evaluations: Sequence[Evaluation]) -> Iterator[None]:
    """Compute on the number of threads that is fastest for a network until the block ends, if outcomes are missing."""
    missing = _missing(subject, evaluations)
    with threads.measured(gradient_step(subject, missing[-1])) if missing else nullcontext():
        yield


def _resolved(subject: Subject, evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    return list(dict.fromkeys(evaluation.resolved_for(subject) for evaluation in evaluations))


def _missing(subject: Subject, evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    return [
        evaluation
        for evaluation in _resolved(subject, evaluations)
        if Key(subject, OUTCOMES, evaluation).read(repair=True) is None
    ]


def gradient_step(subject: Subject, evaluation: Evaluation) -> Callable[[], object]:
    """Return a function that computes the gradient of a batch, of which attacks consist, but of at most 50 images."""
    model = networks.network_of(subject)
    x, y = validate.images_of(subject, evaluation.split).batch(slice(0, min(evaluation.batch, _MEASURED)))

    def step() -> None:
        with frozen(model):
            input_gradient(model, x, y, cross_entropy)

    return step


def _compute(subject: Subject, missing: Sequence[Evaluation], console: Console) -> None:
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


def _title(evaluation: Evaluation) -> str:
    return evaluation.attack if evaluation.attack == "clean" else f"{evaluation.attack} at {evaluation.eps}"


def _seconds(subject: Subject, evaluations: Sequence[Evaluation], known: Sequence[Evaluation]) -> tuple[float, int]:
    """Evaluate one batch under each attack; return an estimate of the seconds that the rest takes, and the number of images.

    An attack that leaves broken images alone takes longer on batches that withstand more. How many withstand those that are
    `known`, in the first batch and in all, corrects for that.
    """
    left, total = 0.0, 0
    for evaluation in evaluations:
        steps = evaluate.step_by_step(subject, evaluation, repair=True)
        done, total = next(steps, (0, 0))
        began = time.perf_counter()
        first, _ = next(steps, (total, total))
        seconds = time.perf_counter() - began
        if first < total:
            steps.close()  # the finished batch is kept
        else:
            for _ in steps:
                pass
        if first > done:
            early = attacks.build(evaluation.attack, evaluation.options).stops_early
            ratio = _withstanding(subject, known, slice(first, None)) / _withstanding(subject, known, slice(done, first))
            left += seconds / (first - done) * (total - first) * (ratio if early else 1.0)
    return left, total


def _withstanding(subject: Subject, known: Sequence[Evaluation], images: slice) -> float:
    """Return the share of some images that withstand the attacks `known`; half an image is added to both verdicts."""
    stored = [data for data in (Key(subject, OUTCOMES, evaluation).read() for evaluation in known) if data is not None]
    if not stored:
        return 1.0
    broken = sum(data.flipped.values[images].astype(int) for data in stored) > 0
    return float((~broken).sum() + 0.5) / (len(broken) + 1)


def _announce(batch: int, total: int, seconds: float, console: Console, ways: Sequence[str]) -> None:
    """Print an estimate, and how to shorten what follows."""
    advice = f"; shorter: {', '.join(ways)}" if ways else ""
    console.print(
        f"about {seconds / 60:.{0 if seconds > 600 else 1}f} minutes to go, estimated from one batch of each attack "
        f"({batch} of {total} images){advice}. Ctrl-C stops; the same command resumes.",
        highlight=False,
        soft_wrap=True,
    )
