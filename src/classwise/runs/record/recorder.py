"""Recording: a queue of runs is trained and evaluated in order within a time budget, and what is finished is packed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from classwise.core.spec import Evaluation, Spec
from classwise.runs import artifacts, store
from classwise.runs.compute import device, evaluate, train
from classwise.runs.compute.train import Report
from classwise.runs.record import archive
from classwise.runs.record.budget import Budget, OutOfTime
from classwise.runs.record.queue import Item
from classwise.runs.schedule import timings
from classwise.runs.schedule.timings import Key, Timings, epoch_of, image_of


class BudgetExceeded(OutOfTime):
    """The next step would not end in time."""


class Step(NamedTuple):
    """An interruptible part of a computation: the key of its timing for one epoch or image, their number, and its title."""

    key: Key
    size: int
    title: str


@dataclass
class Session:
    """One call of `record`: its budget, known timings, and what is left.

    say: called with a line for each thing done. left: what the next call would begin with, in order. failed: what could not be
    computed. running: the current step, and when it began.
    """

    budget: Budget
    timings: Timings
    say: Callable[[str], None]
    left: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    running: tuple[Step, float] | None = None

    def do(self, item: Item) -> None:
        """Train a run and the source networks of its transfer attacks, then evaluate it, as far as time allows."""
        sources = (item.spec.substitute(one.substitute) for one in item.evaluations if one.substitute is not None)
        for spec in dict.fromkeys((item.spec, *sources)):
            if not self.train(spec):
                return
        for evaluation in item.evaluations:
            self.evaluate(item.spec, evaluation)
        for evaluation in item.examples:
            self.examples(item.spec, evaluation)
        for evaluation in item.traces:
            self.trace(item.spec, evaluation)

    def train(self, spec: Spec) -> bool:
        """Train a run, resuming from its checkpoint; return whether it is finished."""
        if store.weights(spec) is not None and store.find(spec, repair=True) is not None:
            return True

        def key(number: int) -> Key:
            return epoch_of(spec, measured=number in (1, spec.epochs) or number % spec.measure == 0)

        def next_step(done: int, total: int) -> Step:
            return Step(key(done + 1), 1, f"epoch {done + 1} of {total}")

        name = f"{spec.name} (seed {spec.seed})"
        first = Step(key(2), 1, "its next epoch")
        return self._run(name, "trained", first, lambda report: train.train(spec, report, repair=True), next_step)

    def evaluate(self, spec: Spec, evaluation: Evaluation) -> bool:
        """Evaluate a trained run, resuming an interrupted evaluation; return whether it is finished."""
        if store.find(spec, evaluation, repair=True) is not None:
            return True
        key = image_of(spec, evaluation)

        def next_step(done: int, total: int) -> Step:
            return Step(key, min(evaluation.batch, total - done), f"image {done + 1} of {total}")

        images = evaluation.batch if evaluation.per_class is None else min(evaluation.batch, 10 * evaluation.per_class)
        first = Step(key, images, "its next images")
        return self._run(
            _name(spec, evaluation),
            "evaluated",
            first,
            lambda report: evaluate.evaluate_run(spec, evaluation, report, repair=True),
            next_step,
        )

    def examples(self, spec: Spec, evaluation: Evaluation) -> bool:
        """Store a few attacked images of a trained run for the book: its weights are not recorded."""
        if artifacts.is_stored(spec, evaluation, store.EXAMPLES):
            return True
        name = _name(spec, evaluation)
        return self._run(name, "stored examples of", _few(spec, evaluation), lambda _: artifacts.examples(spec, evaluation))

    def trace(self, spec: Spec, evaluation: Evaluation) -> bool:
        """Store the steps of an attack on a few images of a trained run for the book."""
        if artifacts.is_stored(spec, evaluation, store.TRACE):
            return True
        name = _name(spec, evaluation)
        return self._run(name, "traced", _few(spec, evaluation), lambda _: artifacts.trace(spec, evaluation))

    def _run(
        self,
        name: str,
        verb: str,
        first: Step,
        call: Callable[[Report], object],
        next_step: Callable[[int, int], Step] | None = None,
    ) -> bool:
        """Call a function that reports each of its steps, and start none that would not end in time; return whether it ended."""
        began, reported = self.budget.clock(), list[int]()

        def report(_: str, done: int, total: int) -> None:
            self._end()
            reported.append(done)
            if done < total:
                self._begin(name, first if next_step is None else next_step(done, total))

        try:
            with self.budget.ringing(), device.one_thread():
                self._check(name, first)
                call(report)
        except BudgetExceeded:
            pass
        except OutOfTime:
            self._abandon(name)
        except Exception as error:  # of one run: the others continue
            self.failed.append(f"{name}: {error}")
            self.say(f"failed: {name}: {error}")
            return False
        else:
            self.say(f"{verb} {name}: {self.budget.clock() - began:.1f} s")
            return True
        finally:
            self.running = None
            self.timings.write()
        if len(reported) > 1:
            self.say(f"not yet {verb} {name}: {reported[-1] - reported[0]} more done, {reported[-1]} in all")
        return False

    def _check(self, name: str, step: Step) -> None:
        """Raise BudgetExceeded if a step would not end in time.

        One that took too long before is tried again with a fresh budget, until `Timings.KEPT` such times are known.
        """
        slowest, fastest = self.timings.slowest(step.key), self.timings.fastest(step.key)
        expected = None if slowest is None else slowest * step.size
        if self.budget.fits(expected):
            return
        possible = self.budget.ever_fits(None if fastest is None else fastest * step.size)
        if possible and self.budget.fresh:
            return
        if possible:
            self.left.append(f"{step.title} of {name}")
        else:
            self.left.append(f"{step.title} of {name}, if the budget is larger: it takes about {expected:.0f} s")
        raise BudgetExceeded

    def _begin(self, name: str, step: Step) -> None:
        self._check(name, step)
        self.running = step, self.budget.clock()

    def _end(self) -> None:
        if self.running is not None:
            step, began = self.running
            self.timings.record(step.key, (self.budget.clock() - began) / step.size)
            self.running = None

    def _abandon(self, name: str) -> None:
        """Record that the step in which time ran out takes longer than it had."""
        if self.running is None:
            self.left.append(f"the rest of {name}")
            return
        step, began = self.running
        took = self.budget.clock() - began
        self.timings.record(step.key, took / step.size)
        self.left.append(f"{step.title} of {name}")
        self.say(f"stopped in {step.title} of {name}: it takes more than {took:.1f} s, what was done before is kept")


def _name(spec: Spec, evaluation: Evaluation) -> str:
    return f"{spec.name} (seed {spec.seed}) under {evaluation.name}"


def _few(spec: Spec, evaluation: Evaluation) -> Step:
    return Step(image_of(spec, evaluation.resolved_for(spec)), artifacts.EXAMPLES_PER_CLASS * 10, "a few images")


def record(
    items: Sequence[Item],
    out: Path,
    budget: Budget,
    *,
    weights: bool = False,
    say: Callable[[str], None] = print,
) -> list[str]:
    """Compute a queue within a budget and pack what is finished into one archive in `out`; return what failed.

    Runs in data/recorded/ or in an archive in `out` are skipped. Trainings resume from their checkpoints, evaluations from their
    finished batches. `say` is called with a line for each thing done; the last one names what the next call would begin with.
    """
    packed = archive.contents(out)
    session = Session(budget, Timings(timings.file(), device.where()[0]), say)
    todo = [item for item in items if not _recorded(item, packed)]
    try:
        if todo:
            device.warm()
            startup = budget.clock() - budget.began
            if startup > 0.5 * budget.seconds:
                say(f"starting up took {startup:.0f} of {budget.seconds:.0f} s: little can begin; a larger budget goes further")
        for item in todo:
            if budget.left <= 0:
                break
            if not store.complete(store.run_folder(item.spec), item.evaluations):
                session.do(item)
    finally:
        ready = [item for item in todo if store.complete(store.run_folder(item.spec), item.evaluations)]
        path = archive.pack([(item.spec, item.evaluations) for item in ready], out, weights=weights, say=say)
    if path is not None:
        say(f"packed {len(ready)} runs into {path} ({path.stat().st_size / 1e6:.1f} MB)")
    missing = [item for item in todo if item not in ready]
    say(_last_line(session, len(items), missing))
    return session.failed


def _recorded(item: Item, packed: Iterable[tuple[str, frozenset[str]]]) -> bool:
    """Return whether a run is recorded or packed with all its evaluations."""
    names = {evaluation.name for evaluation in item.evaluations}
    in_archive = any(run == item.spec.relative_path and names <= evaluations for run, evaluations in packed)
    return in_archive or store.complete(store.recorded(item.spec), item.evaluations)


def _last_line(session: Session, total: int, missing: Sequence[Item]) -> str:
    if not missing:
        return f"nothing is left: all {total} runs of the queue are recorded or packed"
    first = session.left[0] if session.left else missing[0].title
    return f"{len(missing)} of {total} runs are left; the next call begins with {first}"
