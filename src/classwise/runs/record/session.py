"""The work of one process of `record`: runs are trained and evaluated in order within a time budget."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from filelock import FileLock, Timeout

from classwise import defences
from classwise.core.errors import UserError
from classwise.core.paths import data_folder
from classwise.core.results import Damaged
from classwise.core.spec import Evaluation, Spec
from classwise.defences.training import Diverged
from classwise.runs import store
from classwise.runs.compute import device, validate, work
from classwise.runs.record.budget import Budget, OutOfTime
from classwise.runs.record.queue import Item
from classwise.runs.schedule import cost, flops
from classwise.runs.schedule.cost import Costs, rate_of
from classwise.runs.store import HISTORY, OUTCOMES, Key

# Attacks of seconds or minutes; at their defaults they come before all others.
_FIRST = ("clean", "fgsm", "pgd-20")
# Defences that are robust on purpose against attacks on one class, or towards one.
_PARTLY = ("single-class-at", "targeted-at")
_OVERFITTING = (
    Evaluation(attack="pgd-10", options={"steps": 2}, split="valid"),
    Evaluation(attack="pgd-20", split="valid"),
)
_VERBS = {HISTORY: "trained", OUTCOMES: "evaluated", store.TRACE: "traced"}
_VERBS |= {store.FEATURES: "stored features of", store.EXAMPLES: "stored examples of"}


class BudgetExceeded(OutOfTime):
    """The next step would not end in time."""


class Step(NamedTuple):
    """An interruptible part of a computation: the key of its rate, its operations, and its title."""

    key: cost.Key
    operations: float
    title: str


def has_network(spec: Spec) -> bool:
    """Return whether a run is finished, here or recorded, with its weights, and not refused."""
    path = store.weights(spec)
    return path is not None and (path.parent / Key(spec).name).exists() and not store.refusal(spec)


def is_finished(item: Item) -> bool:
    """Return whether the folder in which a run is computed has all its results; nothing is read."""
    return store.complete(store.results_folder(item.spec), [*item.outcomes, *item.shown])


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
    computed. busy: whether another process computes something of the present run. running: the current step, and when it began.
    """

    budget: Budget
    costs: Costs
    say: Callable[[str], None]
    left: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    busy: bool = False
    running: tuple[Step, float] | None = None

    def work(self, items: Sequence[Item]) -> None:
        """Process items in order; those that another process works on are looked at again at the end."""
        for item in [item for item in items if not self.do(item)]:
            self.do(item)

    def do(self, item: Item) -> bool:
        """Train and evaluate a run as far as time allows; return False if another process works on it or on what it needs."""
        self.busy = False
        if self.budget.left <= 0 or is_finished(item):
            return True
        with claim(item.spec) as free:
            try:
                if free and store.has_recorded_network(item.spec):
                    store.verified(store.weights_file(store.recorded(item.spec)))  # one error for all its evaluations
                if free and self.train(item.spec):
                    self._evaluate(item)
            except (Damaged, UserError) as error:
                self._fail(item.title, error)
        return free and not self.busy

    def _evaluate(self, item: Item) -> None:
        """Compute all results of a trained run: quick attacks first, then what pages show, then the other attacks."""
        spec = item.spec
        sources = {one: spec.substitute(one.substitute) for one in item.evaluations if one.substitute is not None}
        for source in dict.fromkeys(sources.values()):
            if not has_network(source) and not self._train_another(source) and not self.busy:
                return
        ready = [one for one in item.evaluations if one not in sources or has_network(sources[one])]
        # Weights of other checkpoints are filed only while few of them are needed: one after another, before the last.
        ordered = sorted(ready, key=lambda one: (one.checkpoint == "last", one.checkpoint))
        keys = [Key(spec, OUTCOMES, one) for one in ordered]
        first = [Key(spec, OUTCOMES, Evaluation(attack=name)) for name in _FIRST]
        early = [key for key in keys if key in first]
        for key in (*early, *item.shown, *(key for key in keys if key not in early)):
            self.get(key)

    def train(self, spec: Spec) -> bool:
        """Train a run, resuming from its checkpoint; return whether it is finished and not refused."""
        if store.refusal(spec):
            return False
        if store.weights(spec) is not None and Key(spec).read(repair=True) is not None:
            return store.has_recorded_network(spec) or self._is_sound(spec)
        made_by = spec.image_source
        if made_by is not None and not has_network(made_by) and not self._train_another(made_by):
            return False
        return self._run(Key(spec)) and self._is_sound(spec)

    def _train_another(self, spec: Spec) -> bool:
        """Train a run that another one needs, unless another process works on it; return whether it is finished."""
        with claim(spec) as free:
            self.busy = self.busy or not free
            return free and self.train(spec)

    def _is_sound(self, spec: Spec) -> bool:
        """Return whether a trained run is not refused: for divergence, or for withstanding few steps of an attack but not many.

        The steps are 2 and 20, on the validation images, of defences against attacks on any class. A network that withstands two
        steps no more than twice as often as guessing would is weak, not overfitted.
        """
        defence = defences.build(spec.defence, spec.options)
        attacked = defence.attack or defence.objective.built_in_attack != "clean"
        if not store.refusal(spec) and attacked and spec.defence not in _PARTLY:
            keys = [Key(spec, OUTCOMES, one) for one in _OVERFITTING]
            if not all(self.get(key) for key in keys):
                return False
            two, twenty = (100 * float((data.answer == data.truth).mean()) for key in keys if (data := key.read()) is not None)
            if twenty < two / 2 and two > 200 / len(validate.class_names(spec)):
                reason = f"catastrophic overfitting: {two:.0f} % of the validation images withstand PGD-2, {twenty:.0f} % PGD-20"
                store.refuse(spec, reason, *device.where())
        if reason := store.refusal(spec):
            self.say(f"refused {spec.name} (seed {spec.seed}): {reason}")
        return not reason

    def get(self, key: Key) -> bool:
        """Compute a result of a trained run, resuming an interrupted evaluation; return whether it is finished."""
        try:
            return key.read(repair=True) is not None or self._run(key)
        except Damaged as error:
            return self._fail(_name(key), error)

    def _run(self, key: Key) -> bool:
        """Compute a result step by step, and start no step that would not end in time; return whether it ended."""
        began, reported, name = self.budget.clock(), list[int](), _name(key)

        def report(phase: str, done: int, total: int) -> None:
            if phase == "rebuild":  # no epoch takes as long
                return
            self._end()
            reported.append(done)
            if done < total:
                step = _step(key, done, total)
                self._check(name, step)
                self.running = step, self.budget.clock()

        try:
            with self.budget.ringing(), device.one_thread():
                self._check(name, _step(key))
                try:
                    work.compute(key, report, repair=True)
                except Diverged as error:
                    store.refuse(key.spec, str(error.__cause__ or error), *device.where())
        except BudgetExceeded:
            pass
        except OutOfTime:
            self._abandon(name)
        except Exception as error:  # of one run: the others continue
            return self._fail(name, error)
        else:
            self.say(f"{_VERBS[key.kind]} {name}: {self.budget.clock() - began:.1f} s")
            return True
        finally:
            self.running = None
            self.costs.write()
        if len(reported) > 1:
            self.say(f"not yet {_VERBS[key.kind]} {name}: {reported[-1] - reported[0]} more done, {reported[-1]} in all")
        return False

    def _fail(self, name: str, error: Exception) -> bool:
        line = f"{name}: {error}"
        if line not in self.failed:
            self.failed.append(line)
            self.say(f"failed: {line}")
        return False

    def _check(self, name: str, step: Step) -> None:
        """Raise OutOfTime if a step would not end in time.

        One that took too long before is tried again with a fresh budget, until `Costs.KEPT` such rates are known.
        """
        rates, exact = self.costs.known(step.key), self.costs.last(step.key)
        expected = step.operations / min(rates) if rates else None
        possible = self.budget.ever_fits(step.operations / max(exact) if len(exact) == Costs.KEPT else None)
        if self.budget.fits(expected) or (possible and self.budget.fresh):
            return
        larger = "" if possible else f", if the budget is larger: it takes about {expected:.0f} s"
        self.left.append(f"{step.title} of {name}{larger}")
        raise BudgetExceeded

    def _end(self) -> float:
        """Record how long the current step took, and return it."""
        if self.running is None:
            return 0.0
        step, began = self.running
        took = self.budget.clock() - began
        self.costs.add(step.key, step.operations, took)
        self.running = None
        return took

    def _abandon(self, name: str) -> None:
        """Record that the step in which time ran out takes longer than it had."""
        if self.running is None:
            self.left.append(f"the rest of {name}")
            return
        title = f"{self.running[0].title} of {name}"
        self.left.append(title)
        self.say(f"stopped in {title}: it takes more than {self._end():.1f} s, what was done before is kept")


def _step(key: Key, done: int | None = None, total: int = 0) -> Step:
    """Return the next step of a computation of which so much is done; None: nothing is known of it yet."""
    spec, evaluation = key.spec, key.evaluation
    if evaluation is None:
        number = 2 if done is None else done + 1
        measured = number in (1, spec.epochs) or number % spec.measure == 0
        work, title = flops.epoch(spec, measured=measured), "its next epoch" if done is None else f"epoch {number} of {total}"
        return Step(rate_of(spec, measured=measured), work.operations if work else 0.0, title)
    images = None if key.kind != OUTCOMES else evaluation.batch if done is None else min(evaluation.batch, total - done)
    work = flops.evaluation(spec, evaluation, images)
    title = "its next images" if done is None else f"image {done + 1} of {total}"
    return Step(rate_of(spec, evaluation), work.operations if work else 0.0, title if key.kind == OUTCOMES else "a few images")


def _name(key: Key) -> str:
    under = "" if key.evaluation is None else f" under {key.evaluation.name}"
    return f"{key.spec.name} (seed {key.spec.seed}){under}"
