"""Check what an audit is given; compute it, or what is missing of any network that was not trained here, with progress bars."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from classwise import models
from classwise.attacks.losses import cross_entropy
from classwise.attacks.pgd import input_gradient
from classwise.core.audit import Audit, parse_normalise
from classwise.core.errors import UserError, check_known, unknown
from classwise.core.identity import radius_name
from classwise.core.spec import Evaluation, Subject
from classwise.images import Images
from classwise.models.modes import frozen
from classwise.runs.compute import audited_network, evaluate, networks, threads, validate, work
from classwise.runs.store import OUTCOMES, Key

# If the evaluations take longer than this many seconds, an estimate is printed, and how to shorten them.
LONG = 60.0
# Threads are measured on at most as many images.
_MEASURED = 50


def check(audit: Audit, critical: Sequence[str], limit: int | None) -> Images:
    """Return the images of an audit's dataset; a UserError if it names something that does not exist, or does not suit them.

    critical: classes of these images. limit: the number of images, None for all.
    """
    ours = ":" not in audit.model
    if ours and audit.model not in models.MODELS:
        raise unknown("model", audit.model, [*models.MODELS, "my_module:function"])
    validate.check_radius(audit, audit.eps, audit.norm, "eps")
    validate.check_evaluation(audit.evaluation_of(attack=audit.attack), audit)
    available = validate.images_of(audit, "test")
    if ours:
        models.check_fit(audit.model, available.shape, audit.width)
    channels, known = available.shape[0], parse_normalise(audit.normalise)
    if known is not None and len(known[0]) != channels:
        raise UserError(f"normalise has {len(known[0])} channels, the images of {audit.title} have {channels}")
    check_known("class", critical, available.classes)
    if limit is not None and limit < len(available.classes):
        raise UserError(f"--limit {limit} is less than one image for each of the {len(available.classes)} classes")
    return available


def ensure_keys(keys: Iterable[Key], console: Console | None = None, advice: str = "") -> int:
    """Compute what is missing of a subject and return the number of its outcomes; an interrupted evaluation is resumed.

    It takes as many threads as are fastest. advice: how to shorten what takes long, which is printed with an estimate.
    """
    missing = [key for key in dict.fromkeys(keys) if key.read(repair=True) is None]
    lacking = [key.evaluation for key in missing if key.kind == OUTCOMES and key.evaluation is not None]
    try:
        with threads.fastest_threads(gradient_step(missing[0].subject)) if missing else nullcontext():
            if lacking:
                _evaluate(missing[0].subject, lacking, console or Console(stderr=True), advice)
            for key in missing:
                work.compute(key, repair=True)
    except UserError:
        raise
    except Exception as error:
        subject = missing[0].subject
        if not (isinstance(subject, Audit) and ":" in subject.model and audited_network.place_of(error, subject.home)):
            raise
        why = audited_network.reason(error, subject.home)
        raise UserError(f"the network of {subject.model} failed in the audit ({why}); correct it and start again") from error
    return len(lacking)


def _evaluate(subject: Subject, evaluations: Sequence[Evaluation], console: Console, advice: str) -> None:
    left, total = _seconds(subject, evaluations)
    if left > LONG:
        line = f"about {left / 60:.{0 if left > 600 else 1}f} minutes to go, estimated from one batch of each attack"
        line += f" ({evaluations[0].batch} of {total} images){advice}. Ctrl-C stops; the same command resumes."
        console.print(line, highlight=False, soft_wrap=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[step]}"))
    with Progress(
        *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bars:
        for evaluation in evaluations:
            began, title = time.perf_counter(), evaluation.attack
            title += "" if title == "clean" else f" at {radius_name(str(evaluation.eps))}"
            bar = bars.add_task(title, total=None, step="")
            for done, total in evaluate.step_by_step(subject, evaluation, repair=True):
                bars.update(bar, completed=done, total=total, step=f"image {done}/{total}")
            bars.remove_task(bar)
            console.print(f"{title}: {time.perf_counter() - began:.1f} s", highlight=False)


def gradient_step(subject: Subject) -> Callable[[], object]:
    """Return a function that computes the gradient of a batch, of which attacks consist, but of at most 50 images."""
    model = networks.network_of(subject)  # raises an error before a folder is made
    x, y = validate.images_of(subject, "test").batch(slice(0, min(subject.evaluation_of().batch, _MEASURED)))

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
