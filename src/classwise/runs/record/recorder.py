"""Recording: a queue of runs is trained and evaluated in order within a time budget, and what is finished is packed or filed."""

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from classwise.core.errors import UserError
from classwise.core.paths import data_folder
from classwise.core.spec import Evaluation, Spec
from classwise.runs import store
from classwise.runs.compute import device
from classwise.runs.record import archive, workers
from classwise.runs.record.archive import Weights
from classwise.runs.record.budget import Budget
from classwise.runs.record.queue import Item
from classwise.runs.record.session import Session, has_all, has_network, is_finished, waits
from classwise.runs.schedule import timings
from classwise.runs.schedule.timings import Timings

Say = Callable[[str], None]


@dataclass(frozen=True)
class Target:
    """Where finished runs go: archives in a folder, or for None data/recorded/; and with which weights.

    pack_only: compute nothing, and pack of each finished network the evaluations that are there.
    """

    folder: Path | None
    weights: Weights = "none"
    pack_only: bool = False

    @property
    def with_network(self) -> bool:
        """Whether a run counts as recorded only with its weights in full."""
        return self.folder is None or self.weights == "full"


def record(
    items: Sequence[Item],
    out: Path | None,
    budget: Budget,
    *,
    weights: Weights = "none",
    pack_only: bool = False,
    processes: int = 1,
    say: Callable[[str], None] = print,
) -> list[str]:
    """Compute a queue within a budget, pack what is finished into one archive in `out`, or file it; return what failed.

    Runs in data/recorded/ or in an archive in `out` are skipped. Trainings resume from their checkpoints, evaluations from their
    finished batches. `say` is called with a line for each thing done; the last one names what the next call would begin with.

    out: None to file finished runs in data/recorded/, with their weights. pack_only: compute nothing.
    """
    target = Target(out, weights, pack_only)
    packed = [] if target.folder is None else archive.contents(target.folder, full_weights=target.with_network)
    todo = [item for item in items if not _is_done(item, target, packed)]
    computable = [item for item in todo if not item.recorded or has_network(item.spec)]
    untrained = frozenset(item.spec for item in items if item.recorded)
    left, failed = list[str](), list[str]()
    try:
        if computable and not pack_only:
            if processes == 1:
                _alone(computable, budget, untrained, (left, failed), say)
            else:
                workers.share(computable, processes, budget, untrained, (left, failed), say)
    finally:
        ready = _file(todo, say) if target.folder is None else _pack(todo, target, packed, say)
        for item in items:
            if store.has_recorded_network(item.spec):
                archive.add_checksums(item.spec)
    missing = [item for item in todo if item not in ready]
    waiting = [item for item in missing if _is_waiting(item, untrained)]
    say(_last_line(len(items), [item for item in missing if item not in waiting], len(waiting), [] if pack_only else left))
    return failed


def _alone(
    items: Sequence[Item], budget: Budget, untrained: frozenset[Spec], results: tuple[list[str], list[str]], say: Say
) -> None:
    """Compute items in this process; `results`: lists to which is added what is left and what failed."""
    device.warm()
    startup = budget.clock() - budget.began
    if startup > 0.5 * budget.seconds:
        say(f"starting up took {startup:.0f} of {budget.seconds:.0f} s: little can begin; a larger budget goes further")
    left, failed = results
    Session(budget, Timings(timings.file(), device.where()[0]), say, untrained, left, failed).work(items)


def _is_done(item: Item, target: Target, packed: Iterable[tuple[str, frozenset[str]]]) -> bool:
    """Return whether a run is recorded or packed with all its results."""
    if store.has_recorded_network(item.spec):
        return is_finished(item)
    recorded = store.recorded(item.spec)
    if target.with_network and has_network(item.spec) and not (recorded / store.WEIGHTS).exists():
        complete = False
    elif target.folder is None and has_network(item.spec):
        complete = has_all(recorded, item)
    else:
        complete = store.complete(recorded, item.evaluations)
    names = {evaluation.name for evaluation in item.evaluations}
    return complete or any(run == item.spec.relative_path and names <= evaluations for run, evaluations in packed)


def _present(item: Item) -> list[Evaluation]:
    """Return the evaluations of a finished network that are there."""
    folder = store.results_folder(item.spec)
    return [one for one in item.evaluations if store.file(folder, one).exists()] if has_network(item.spec) else []


def _pack(todo: Sequence[Item], target: Target, packed: Sequence[tuple[str, frozenset[str]]], say: Say) -> list[Item]:
    """Pack finished runs into one archive and return them; with `pack_only` also those that lack evaluations."""
    assert target.folder is not None
    ready = [item for item in todo if store.complete(store.results_folder(item.spec), item.evaluations)]
    pairs = [(item.spec, list(item.evaluations)) for item in ready]
    if target.pack_only:
        known = dict[str, frozenset[str]]()
        for run, names in packed:
            known[run] = known.get(run, frozenset()) | names
        pairs = [(item.spec, _present(item)) for item in todo if has_network(item.spec)]
        pairs = [(spec, some) for spec, some in pairs if not _is_known(spec, some, known)]
    path = archive.pack(pairs, target.folder, weights=target.weights, repair=not target.pack_only, say=say)
    if path is not None:
        say(f"packed {len(pairs)} runs into {path} ({path.stat().st_size / 1e6:.1f} MB)")
    return ready


def _is_known(spec: Spec, evaluations: Iterable[Evaluation], known: Mapping[str, frozenset[str]]) -> bool:
    """Return whether a run is in an archive with all these evaluations."""
    return spec.relative_path in known and {one.name for one in evaluations} <= known[spec.relative_path]


def _file(todo: Sequence[Item], say: Say) -> list[Item]:
    """File finished networks with what is there of their results in data/recorded/; return the runs that are complete there."""
    for item in todo:
        if not store.has_recorded_network(item.spec) and has_network(item.spec):
            _file_run(item, say)
    return [item for item in todo if is_finished(item)]


def _file_run(item: Item, say: Say) -> None:
    """Pack a run and import its archive, with all checks."""
    with tempfile.TemporaryDirectory(prefix="classwise-") as folder:
        path = archive.pack([(item.spec, _present(item))], Path(folder), weights="full", say=say)
        if path is None:
            return
        try:
            new, _ = archive.unpack(path)
        except UserError as error:
            say(f"not filed: {error}")
            return
    if new:
        say(f"filed {item.title} in {store.recorded(item.spec).relative_to(data_folder())}")


def _is_waiting(item: Item, untrained: frozenset[Spec]) -> bool:
    """Return whether all that is missing of a run waits for a network that is recorded elsewhere."""
    if item.recorded and not has_network(item.spec):
        return True
    made_by = item.spec.image_source
    if made_by in untrained and not (has_network(item.spec) or has_network(made_by)):
        return True
    folder = store.results_folder(item.spec)
    lacking = [one for one in item.evaluations if not store.file(folder, one).exists()]
    blocked = [
        one for one in lacking if waits(item, one) and (item.recorded or item.spec.substitute(str(one.substitute)) in untrained)
    ]
    return bool(blocked) and len(blocked) == len(lacking)


def _last_line(total: int, missing: Sequence[Item], waiting: int, left: Sequence[str]) -> str:
    """Return what is left; `waiting`: the number of runs that wait for a network that is recorded elsewhere."""
    end = f"; {waiting} runs wait for networks that are not recorded yet" if waiting else ""
    if missing:
        return f"{len(missing)} of {total} runs are left; the next call begins with {left[0] if left else missing[0].title}{end}"
    which = f"{total - waiting} of {total}" if waiting else f"all {total}"
    return f"nothing is left: {which} runs of the queue are recorded or packed{end}"
