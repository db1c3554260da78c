"""The work of one process of `record`: runs are trained and evaluated in order within a time budget."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

from classwise import defences
from classwise.core.paths import data_folder
from classwise.core.results import Damaged
from classwise.core.spec import Evaluation, Spec
from classwise.defences.training import Diverged
from classwise.runs import artifacts, store
from classwise.runs.compute import device, evaluate, train, validate
from classwise.runs.compute.train import Report
from classwise.runs.record.budget import Budget, OutOfTime
from classwise.runs.record.queue import Item
from classwise.runs.schedule import flops
from classwise.runs.schedule.cost import Costs, Key, rate_of
from classwise.runs.schedule.flops import Flops

# Attacks of seconds or minutes; at their defaults they come before all others.
_FIRST = ("clean", "fgsm", "pgd-20")
# Defences that are robust on purpose against attacks on one class, or towards one.
_PARTLY = ("single-class-at", "targeted-at")
_OVERFITTING = (
    Evaluation(attack="pgd-10", options={"steps": 2}, split="valid"),
    Evaluation(attack="pgd-20", split="valid"),
)
_VERBS = {store.FEATURES: "stored features of", store.EXAMPLES: "stored examples of", store.TRACE: "traced"}


class BudgetExceeded(OutOfTime):
    """The next step would not end in time."""


class Step(NamedTuple):
    """An interruptible part of a computation: the key of its rate, its operations, and its title."""

    key: Key
    work: Flops | None
    title: str

    @property
    def operations(self) -> float:
        return 0.0 if self.work is None else self.work.operations


def has_network(spec: Spec) -> bool:
    """Return whether a run is finished, here or recorded, with its weights, and not refused."""
    path = store.weights(spec)
    return path is not None and (path.parent / "history.nc").exists() and not store.refusal(spec)


def sources(item: Item) -> Iterator[Spec]:
    """Yield the other runs on whose networks the transfer attacks on a run are made."""
    for evaluation in item.evaluations:
        if evaluation.substitute is not None and (source := item.spec.substitute(evaluation.substitute)) != item.spec:
            yield source


def waits(item: Item, evaluation: Evaluation) -> bool:
    """Return whether an evaluation is a transfer attack whose source network is not finished."""
    return evaluation.substitute is not None and not has_network(item.spec.substitute(evaluation.substitute))


def is_finished(item: Item) -> bool:
    """Return whether the folder in which a run is computed has all its results; nothing is read."""
    return has_all(store.results_folder(item.spec), item)


def has_all(folder: Path, item: Item) -> bool:
    """Return whether a folder has all results of a run: history, outcomes, features, examples and traces."""
    stored = ((schema, artifacts.stored_as(item.spec, evaluation, schema)) for schema, evaluation in item.further)
    return store.complete(folder, item.evaluations) and all(store.file(folder, one, schema).exists() for schema, one in stored)


@contextmanager
def claim(spec: Spec) -> Iterator[bool]:
    """Claim a run for this process until the block ends; the value says whether no other process has it."""
    folder = data_folder() / "runs" / ".recording"
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / f"{spec.id}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


@dataclass
class Session:
    """The work of one process: its budget, known costs, and what is left.

    say: called with a line for each thing done. left: what the next call would begin with, in order. failed: what could not be
    computed. running: the current step, and when it began.
    """

    budget: Budget
    costs: Costs
    say: Callable[[str], None]
    left: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    running: tuple[Step, float] | None = None

    def work(self, items: Sequence[Item]) -> None:
        """Process items in order; those that another process works on are looked at again at the end."""
        again = [item for item in items if not self._do_in_time(item)]
        for item in again:
            self._do_in_time(item)

    def _do_in_time(self, item: Item) -> bool:
        return self.budget.left <= 0 or is_finished(item) or self.do(item)

    def do(self, item: Item) -> bool:
        """Train and evaluate a run as far as time allows; return False if another process works on it or on what it needs."""
        with claim(item.spec) as claimed:
            if not claimed:
                return False
            try:
                return self._do_claimed(item)
            except Damaged as error:
                self._fail(item.title, error)
                return True

    def _do_claimed(self, item: Item) -> bool:
        if store.has_recorded_network(item.spec):
            store.verified(store.weights_file(store.recorded(item.spec)))  # one error for all its evaluations
        made_by = item.spec.image_source
        if made_by is not None and not (has_network(item.spec) or has_network(made_by)):
            with claim(made_by) as free:
                if not free or not self.train(made_by):
                    return free
        if not self.train(item.spec):
            return True
        claimed = True
        for source in dict.fromkeys(sources(item)):
            if not has_network(source):
                with claim(source) as free:
                    claimed = claimed and free
                    if free and not self.train(source):
                        return True
        # Only the last weights are filed: those of other checkpoints cannot be evaluated in another clone.
        ready = sorted((one for one in item.evaluations if not waits(item, one)), key=lambda one: one.checkpoint == "last")
        first = [Evaluation(attack=name).resolved_for(item.spec) for name in _FIRST]
        for evaluation in ready:
            if evaluation in first:
                self.evaluate(item.spec, evaluation)
        for schema, evaluation in item.further:
            self.add(item.spec, evaluation, schema)
        for evaluation in ready:
            if evaluation not in first:
                self.evaluate(item.spec, evaluation)
        return claimed

    def train(self, spec: Spec) -> bool:
        """Train a run, resuming from its checkpoint; return whether it is finished and not refused."""
        if store.refusal(spec):
            return False
        if store.weights(spec) is not None and store.find(spec, repair=True) is not None:
            return store.has_recorded_network(spec) or self._is_sound(spec)

        def epoch(number: int, title: str) -> Step:
            measured = number in (1, spec.epochs) or number % spec.measure == 0
            return Step(rate_of(spec, measured=measured), flops.epoch(spec, measured=measured), title)

        def next_step(done: int, total: int) -> Step:
            return epoch(done + 1, f"epoch {done + 1} of {total}")

        name = f"{spec.name} (seed {spec.seed})"
        trained = self._run(name, "trained", epoch(2, "its next epoch"), partial(_train, spec), next_step)
        return trained and self._is_sound(spec)

    def _is_sound(self, spec: Spec) -> bool:
        """Return whether a trained run is not refused: for divergence, or for withstanding few steps of an attack but not many.

        The steps are 2 and 20, on the validation images, of defences against attacks on any class. A network that withstands two
        steps no more than twice as often as guessing would is weak, not overfitted.
        """
        defence = defences.build(spec.defence, spec.options)
        attacked = defence.attack or defence.objective.built_in_attack != "clean"
        if not store.refusal(spec) and attacked and spec.defence not in _PARTLY:
            if not all(self.evaluate(spec, one.resolved_for(spec)) for one in _OVERFITTING):
                return False
            two, twenty = (_accuracy(spec, one) for one in _OVERFITTING)
            if twenty < two / 2 and two > 200 / len(validate.class_names(spec)):
                reason = f"catastrophic overfitting: {two:.0f} % of the validation images withstand PGD-2, {twenty:.0f} % PGD-20"
                store.refuse(spec, reason, *device.where())
        if reason := store.refusal(spec):
            self.say(f"refused {spec.name} (seed {spec.seed}): {reason}")
        return not reason

    def evaluate(self, spec: Spec, evaluation: Evaluation) -> bool:
        """Evaluate a trained run, resuming an interrupted evaluation; return whether it is finished."""
        try:
            if store.find(spec, evaluation, repair=True) is not None:
                return True
        except Damaged as error:
            return self._fail(_name(spec, evaluation), error)

        def batch(left: int, title: str) -> Step:
            return Step(rate_of(spec, evaluation), flops.evaluation(spec, evaluation, min(evaluation.batch, left)), title)

        def next_step(done: int, total: int) -> Step:
            return batch(total - done, f"image {done + 1} of {total}")

        return self._run(
            _name(spec, evaluation),
            "evaluated",
            batch(evaluation.batch, "its next images"),
            lambda report: evaluate.evaluate_run(spec, evaluation, report, repair=True),
            next_step,
        )

    def add(self, spec: Spec, evaluation: Evaluation, schema: str) -> bool:
        """Store features, a few attacked images, or a trace of a trained run; return whether that is finished."""
        try:
            if artifacts.is_stored(spec, evaluation, schema):
                return True
        except Damaged as error:
            return self._fail(_name(spec, evaluation), error)
        few = artifacts.stored_as(spec, evaluation, schema)
        step = Step(rate_of(spec, few), flops.evaluation(spec, few), "a few images")
        return self._run(_name(spec, evaluation), _VERBS[schema], step, lambda _: artifacts.compute(spec, few, schema))

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

        def report(phase: str, done: int, total: int) -> None:
            if phase == "rebuild":  # no epoch takes as long
                return
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
            return self._fail(name, error)
        else:
            self.say(f"{verb} {name}: {self.budget.clock() - began:.1f} s")
            return True
        finally:
            self.running = None
            self.costs.write()
        if len(reported) > 1:
            self.say(f"not yet {verb} {name}: {reported[-1] - reported[0]} more done, {reported[-1]} in all")
        return False

    def _fail(self, name: str, error: Exception) -> bool:
        line = f"{name}: {error}"
        if line not in self.failed:
            self.failed.append(line)
            self.say(f"failed: {line}")
        return False

    def _check(self, name: str, step: Step) -> None:
        """Raise BudgetExceeded if a step would not end in time.

        One that took too long before is tried again with a fresh budget, until `Costs.KEPT` such rates are known.
        """
        rates, exact = self.costs.known(step.key), self.costs.last(step.key)
        expected = step.operations / min(rates) if rates else None
        if self.budget.fits(expected):
            return
        possible = self.budget.ever_fits(step.operations / max(exact) if len(exact) == Costs.KEPT else None)
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
            self.costs.add(step.key, step.operations, self.budget.clock() - began)
            self.running = None

    def _abandon(self, name: str) -> None:
        """Record that the step in which time ran out takes longer than it had."""
        if self.running is None:
            self.left.append(f"the rest of {name}")
            return
        step, began = self.running
        took = self.budget.clock() - began
        self.costs.add(step.key, step.operations, took)
        self.left.append(f"{step.title} of {name}")
        self.say(f"stopped in {step.title} of {name}: it takes more than {took:.1f} s, what was done before is kept")


def _train(spec: Spec, report: Report) -> None:
    """Train a run; refuse it if it diverges."""
    try:
        train.train(spec, report, repair=True)
    except Diverged as error:
        store.refuse(spec, str(error.__cause__ or error), *device.where())


def _accuracy(spec: Spec, evaluation: Evaluation) -> float:
    """Return the percentage of images that are right under a stored evaluation."""
    outcomes = store.find(spec, evaluation.resolved_for(spec))
    assert outcomes is not None
    return 100 * float((outcomes.answer == outcomes.truth).mean())


def _name(spec: Spec, evaluation: Evaluation) -> str:
    return f"{spec.name} (seed {spec.seed}) under {evaluation.name}"
