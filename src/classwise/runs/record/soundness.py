"""Trained networks that are not recorded: their loss diverged, or they withstand few steps of an attack but not many."""

from filelock import Timeout

from classwise import defences
from classwise.core.spec import Evaluation, Spec
from classwise.defences.training import Diverged
from classwise.runs import store
from classwise.runs.compute import device, train, validate, work
from classwise.runs.store import HISTORY, OUTCOMES, Key

# Defences that are robust on purpose against attacks on one class, or towards one.
_PARTLY = ("single-class-at", "targeted-at")
_OVERFITTING = (Evaluation(attack="pgd-10", options={"steps": 2}, split="valid"), Evaluation(attack="pgd-20", split="valid"))


class Refused(Exception):
    """The network of a run is refused, for this reason."""


class Busy(Exception):
    """Another process computes the result."""


def compute(key: Key, report: train.Report, *, repair: bool) -> None:
    """Compute a result as `work.compute` does, of sound networks alone; Busy if another process does."""
    if key.kind != HISTORY:
        _check(key.spec, report)
    try:
        with key.lock().acquire(timeout=0):
            work.compute(key, report, repair=repair)
    except Timeout:
        raise Busy from None
    except Diverged as error:
        if key.kind != HISTORY:  # another network, which this one needs
            raise
        store.refuse(key.spec, str(error.__cause__ or error), *device.name_and_threads())
    if key.kind == HISTORY:
        _check(key.spec, report)


def _check(spec: Spec, report: train.Report) -> None:
    """Raise Refused for a trained network that overfits catastrophically: two and twenty steps, on the validation images.

    A network that withstands two steps no more than twice as often as guessing would is weak, not overfitted.
    """
    defence = defences.build(spec.defence, spec.options)
    attacked = defence.attack or defence.objective.built_in_attack != "clean"
    if attacked and spec.defence not in _PARTLY and not (store.refusal(spec) or store.has_recorded_network(spec)):
        keys = [Key(spec, OUTCOMES, one) for one in _OVERFITTING]
        for key in keys:
            work.compute(key, lambda _, done, total: report(work.CHECK, done, total), repair=True)
        two, twenty = (100 * float((data.prediction == data.truth).mean()) for key in keys if (data := key.read()) is not None)
        if twenty < two / 2 and two > 200 / len(validate.class_names(spec)):
            reason = f"catastrophic overfitting: {two:.0f} % of the validation images withstand PGD-2, {twenty:.0f} % PGD-20"
            store.refuse(spec, reason, *device.name_and_threads())
    if reason := store.refusal(spec):
        raise Refused(reason)
