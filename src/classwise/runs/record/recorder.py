"""Working off a queue within a budget: what is missing is trained and asked, in order, and stopped in time."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from classwise.core.spec import Evaluation, Spec
from classwise.runs import artifacts, store
from classwise.runs.compute import device, evaluate, train
from classwise.runs.compute.train import Report
from classwise.runs.record import archive
from classwise.runs.record.budget import Budget, OutOfTime
from classwise.runs.record.queue import Item
from classwise.runs.schedule import timings
from classwise.runs.schedule.timings import Timings, epoch_of, image_of

# What a step takes is noted down under such a key, for each of its epochs or images.
Key = tuple[str, str]


class BudgetExceeded(OutOfTime):
    """The next step would not end in time."""


@dataclass
class Session:
    """A call of `record`: its budget, what is known of times, and what is left undone.

    say: is told each thing done. left: what a next call would go on with, in order. failed: what could not be computed.
    """

    budget: Budget
    pace: Timings
    say: Callable[[str], None]
    left: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    step: tuple[Key, int, str, float] | None = None

    def do(self, item: Item) -> None:
        """Train a run, and what its transfer attacks are made on, and put its questions, as far as the time allows."""
        sources = (item.spec.substitute(one.substitute) for one in item.evaluations if one.substitute is not None)
        for spec in dict.fromkeys((item.spec, *sources)):
            if not self.train(spec):
                return
        for evaluation in item.evaluations:
            self.ask(item.spec, evaluation)
        for evaluation in item.pictures:
            self.picture(item.spec, evaluation)
        for evaluation in item.courses:
            self.follow(item.spec, evaluation)

    def train(self, spec: Spec) -> bool:
        """Train a run from its checkpoint on; return whether it is finished."""
        if store.weights(spec) is not None and store.find(spec, mend=True) is not None:
            return True

        def key(number: int) -> Key:
            return epoch_of(spec, measured=number in (1, spec.epochs) or number % spec.measure == 0)

        def next_step(done: int, total: int) -> tuple[Key, int, str]:
            return key(done + 1), 1, f"epoch {done + 1} of {total}"

        name = f"{spec.name} (seed {spec.seed})"
        first = (key(2), 1, "its next epoch")
        return self._steps(name, "trained", first, next_step, lambda report: train.train(spec, report, mend=True))

    def ask(self, spec: Spec, evaluation: Evaluation) -> bool:
        """Put a question to a trained run, going on where it was cut short; return whether it is answered."""
        if store.find(spec, evaluation, mend=True) is not None:
            return True
        key = image_of(spec, evaluation)

        def next_step(done: int, total: int) -> tuple[Key, int, str]:
            return key, min(evaluation.batch, total - done), f"image {done + 1} of {total}"

        name = f"{spec.name} (seed {spec.seed}) under {evaluation.name}"
        images = evaluation.batch if evaluation.per_class is None else min(evaluation.batch, 10 * evaluation.per_class)
        first = (key, images, "its next images")
        return self._steps(
            name, "asked", first, next_step, lambda report: evaluate.evaluate_run(spec, evaluation, report, mend=True)
        )

    def picture(self, spec: Spec, evaluation: Evaluation) -> bool:
        """Attack a few images of a trained run, to be shown: its weights stay behind."""
        if artifacts.stored_examples(spec, evaluation) is not None:
            return True
        name = f"{spec.name} (seed {spec.seed}) under {evaluation.name}"
        first = (image_of(spec, evaluation.of(spec)), artifacts.EXAMPLES_PER_CLASS * 10, "pictures")
        return self._steps(name, "pictured", first, lambda done, total: first, lambda _: artifacts.examples(spec, evaluation))

    def follow(self, spec: Spec, evaluation: Evaluation) -> bool:
        """Follow an attack on a few images of a trained run step by step, to be shown."""
        asked = replace(evaluation.of(spec), per_class=artifacts.EXAMPLES_PER_CLASS)
        if artifacts.stored_trace(spec, asked) is not None:
            return True
        name = f"{spec.name} (seed {spec.seed}) under {evaluation.name}"
        first = (image_of(spec, evaluation.of(spec)), artifacts.EXAMPLES_PER_CLASS * 10, "steps")
        return self._steps(name, "followed", first, lambda done, total: first, lambda _: artifacts.trace(spec, evaluation))

    def _steps(
        self,
        name: str,
        verb: str,
        first: tuple[Key, int, str],
        next_step: Callable[[int, int], tuple[Key, int, str]],
        call: Callable[[Report], object],
    ) -> bool:
        """Run something that reports after each of its steps; begin none that would not end in time. Return whether it ended."""
        began, passed = self.budget.clock(), list[int]()

        def report(_: str, done: int, total: int) -> None:
            self._end()
            passed.append(done)
            if done < total:
                self._begin(name, *next_step(done, total))

        try:
            with self.budget.ringing(), device.one_thread():
                self._check(name, *first)
                call(report)
        except BudgetExceeded:
            pass
        except OutOfTime:
            self._abandon(name)
        except Exception as error:  # of one run: the others go on
            self.failed.append(f"{name}: {error}")
            self.say(f"failed: {name}: {error}")
            return False
        else:
            self.say(f"{verb} {name}: {self.budget.clock() - began:.1f} s")
            return True
        finally:
            self.step = None
            self.pace.write()
        if len(passed) > 1:
            self.say(f"not yet {verb} {name}: {passed[-1] - passed[0]} more done, {passed[-1]} in all")
        return False

    def _check(self, name: str, key: Key, size: int, what: str) -> None:
        """Raise Enough where a step would not end in time.

        One that took too long before is tried again with a fresh budget, until Pace remembers too many such times.
        """
        each = self.pace.expect(key)
        expected = None if each is None else each * size
        if self.budget.fits(expected):
            return
        hoped = self.pace.hopes(key)
        possible = self.budget.ever_fits(None if hoped is None else hoped * size)
        if possible and self.budget.fresh:
            return
        if possible:
            self.left.append(f"{what} of {name}")
        else:
            self.left.append(f"{what} of {name}, if the budget is larger: it takes about {expected:.0f} s")
        raise BudgetExceeded

    def _begin(self, name: str, key: Key, size: int, what: str) -> None:
        self._check(name, key, size, what)
        self.step = (key, size, what, self.budget.clock())

    def _end(self) -> None:
        if self.step is not None:
            key, size, _, began = self.step
            self.pace.see(key, (self.budget.clock() - began) / size)
            self.step = None

    def _abandon(self, name: str) -> None:
        """Note down that the step that time ran out in takes longer than it was given."""
        if self.step is None:
            self.left.append(f"the rest of {name}")
            return
        key, size, what, began = self.step
        took = self.budget.clock() - began
        self.pace.see(key, took / size)
        self.left.append(f"{what} of {name}")
        self.say(f"stopped in {what} of {name}: it takes more than {took:.1f} s, what was done before is kept")


def record(
    items: Sequence[Item],
    out: Path,
    budget: Budget,
    *,
    weights: bool = False,
    say: Callable[[str], None] = print,
) -> list[str]:
    """Work off a queue within a budget and pack what is finished into one archive in `out`; return what failed.

    Skipped is what is in data/recorded/ or in an archive in `out` already. Trainings go on from their checkpoints, evaluations
    from the batches they had done. Each thing done is said in a line; the last line says what the next call would begin with.
    """
    have = archive.contents(out)
    work = Session(budget, Timings(timings.file(), device.where()[0]), say)
    todo = [item for item in items if not _kept(item, have)]
    try:
        if todo:
            device.warm()
            begun = budget.clock() - budget.began
            if begun > 0.5 * budget.seconds:
                say(f"starting up took {begun:.0f} of {budget.seconds:.0f} s: little can begin; a larger budget goes further")
        for item in todo:
            if budget.left <= 0:
                break
            if not store.complete(store.run_folder(item.spec), item.evaluations):
                work.do(item)
    finally:
        ready = [item for item in todo if store.complete(store.run_folder(item.spec), item.evaluations)]
        path = archive.pack([(item.spec, item.evaluations) for item in ready], out, weights=weights, say=say)
    if path is not None:
        say(f"packed {len(ready)} runs into {path} ({path.stat().st_size / 1e6:.1f} MB)")
    missing = [item for item in todo if item not in ready]
    say(_last(work, len(items), missing))
    return work.failed


def _kept(item: Item, have: Iterable[tuple[str, frozenset[str]]]) -> bool:
    """Return whether a run is recorded, or packed, with all its evaluations."""
    names = {one.name for one in item.evaluations}
    where = store.relative_path(item.spec)
    packed = any(run == where and names <= evaluations for run, evaluations in have)
    return packed or store.complete(store.recorded(item.spec), item.evaluations)


def _last(work: Session, total: int, missing: Sequence[Item]) -> str:
    if not missing:
        return f"nothing is left: all {total} runs of the queue are recorded or packed"
    first = work.left[0] if work.left else missing[0].title
    return f"{len(missing)} of {total} runs are left; the next call begins with {first}"
