"""Recording: a queue of runs is trained and evaluated in order within a time budget, and what is finished is packed or filed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from classwise.core.errors import UserError
from classwise.core.paths import data_folder
from classwise.core.spec import Evaluation, Spec
from classwise.runs import store
from classwise.runs.compute import device
from classwise.runs.record import archive, workers
from classwise.runs.record.archive import Weights
from classwise.runs.record.budget import Budget
from classwise.runs.record.queue import Item
from classwise.runs.record.session import Session, has_all, has_network, is_finished
from classwise.runs.schedule import forecast as forecasting
from classwise.runs.schedule import pool

Say = Callable[[str], None]


@dataclass(frozen=True)
class Target:
    """Where finished runs go: archives in a folder, or for None data/recorded/.

    weights: those that archives hold; in data/recorded/ are those that the queue names. pack_only: compute nothing, and pack of
    each finished network the evaluations that are there.
    """

    folder: Path | None
    weights: Weights = "none"
    pack_only: bool = False

    def with_network(self, item: Item) -> bool:
        """Return whether a run counts as recorded only with its weights in full."""
        return item.weights if self.folder is None else self.weights == "full"


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

    A run that diverges or overfits catastrophically is refused: the reason is stored, and it is not trained again. Neither is one
    that is recorded without its weights but not with all evaluations.

    out: None to file finished runs in data/recorded/, with the weights that the queue names. pack_only: compute nothing.
    """
    target = Target(out, weights, pack_only)
    packed = [] if target.folder is None else archive.contents(target.folder, full_weights=weights == "full")
    here = [_possible(item) for item in (items if pack_only else with_images(items, say))]
    todo = [item for item in here if not _is_done(item, target, packed)]
    left, failed = list[str](), list[str]()
    try:
        if todo and not pack_only:
            precisions = {item.spec.precision for item in todo if not has_network(item.spec)}
            if slow := device.emulated(precisions | {one.precision for item in todo for one in item.evaluations}):
                say(slow)
            if processes == 1:
                _alone(todo, budget, (left, failed), say)
            else:
                workers.share(todo, processes, budget, (left, failed), say)
    finally:
        ready = _file(todo, say) if target.folder is None else _pack(todo, target, packed, say)
        for item in here:
            if store.has_recorded_network(item.spec):
                archive.add_checksums(item.spec)
    missing = [item for item in todo if item not in ready and not _refused(item)]
    say(_last_line(here, len(items), missing, [] if pack_only else left))
    return failed


def forecast(items: Sequence[Item], out: Console) -> None:
    """Print what is left of each entry of a queue, with the hours that it takes here."""
    entries: dict[str, list[tuple[Spec, Sequence[Evaluation]]]] = {}
    here = with_images(items, lambda line: out.print(line, highlight=False, soft_wrap=True))
    for item in map(_possible, here):
        if not (_refused(item) or _is_closed(item)):
            entries.setdefault(item.why, []).append((item.spec, item.evaluations))
    if here:
        forecasting.forecast(list(entries.items()), out)


def with_images(items: Sequence[Item], say: Say) -> list[Item]:
    """Return the runs whose images are here; a line names the datasets of the others."""
    here = {dataset: _lack(dataset) for dataset in dict.fromkeys(item.spec.dataset for item in items)}
    for dataset, lack in here.items():
        if lack:
            say(f"{sum(item.spec.dataset == dataset for item in items)} runs on {dataset} are skipped: {lack}")
    return [item for item in items if not here[item.spec.dataset]]


def _lack(dataset: str) -> str:
    """Return why the images of a dataset cannot be read, "" if they can, or if there is no such dataset, which is a mistake."""
    from classwise import images  # torch

    try:
        images.reader(dataset)
    except UserError:
        return ""
    try:
        images.load(dataset, "test")
    except UserError as error:
        return str(error)
    return ""


def _possible(item: Item) -> Item:
    """Return a run without what cannot be computed: transfer attacks from refused networks, checkpoints that were not filed."""

    def can(one: Evaluation) -> bool:
        refused = one.substitute is not None and store.refusal(item.spec.substitute(one.substitute))
        lost = store.has_recorded_network(item.spec) and store.weights(item.spec, one.checkpoint) is None
        return not (refused or lost)

    return replace(item, evaluations=tuple(filter(can, item.evaluations)))


def _refused(item: Item) -> bool:
    """Return whether a run is refused, or the one that makes its images."""
    return any(store.refusal(spec) for spec in (item.spec, item.spec.image_source) if spec is not None)


def _is_closed(item: Item) -> bool:
    """Return whether a run is recorded without its weights, so that nothing more can be computed of it."""
    return store.exists(store.recorded(item.spec), item.spec) and store.weights(item.spec) is None


def _alone(items: Sequence[Item], budget: Budget, results: tuple[list[str], list[str]], say: Say) -> None:
    """Compute items in this process; `results`: lists to which is added what is left and what failed."""
    device.warm()
    startup = budget.clock() - budget.began
    if startup > 0.5 * budget.seconds:
        say(f"starting up took {startup:.0f} of {budget.seconds:.0f} s: little can begin; a larger budget goes further")
    left, failed = results
    Session(budget, pool.costs_here(), say, left, failed).work(items)


def _is_done(item: Item, target: Target, packed: Iterable[tuple[str, frozenset[str]]]) -> bool:
    """Return whether a run is recorded or packed with all its results, or nothing more can be computed of it."""
    if _refused(item) or _is_closed(item):
        return True
    if store.has_recorded_network(item.spec):
        return is_finished(item)
    recorded = store.recorded(item.spec)
    if target.with_network(item) and has_network(item.spec) and not (recorded / store.WEIGHTS).exists():
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
    """File runs in data/recorded/ and return those that are complete there: with weights from their first evaluation on."""
    for item in todo:
        if not store.has_recorded_network(item.spec) and (is_finished(item) or (item.weights and _present(item))):
            _file_run(item, say)
    return [item for item in todo if is_finished(item)]


def _file_run(item: Item, say: Say) -> None:
    try:
        new = archive.file_run(item.spec, _present(item), "last" if item.weights else "none")
    except UserError as error:
        say(f"not filed: {error}")
        return
    if new:
        say(f"filed {item.title} in {store.recorded(item.spec).relative_to(data_folder())}")


def _last_line(here: Sequence[Item], total: int, missing: Sequence[Item], left: Sequence[str]) -> str:
    """Return what is left; here: the runs whose images are here, of all."""
    refused, closed = sum(map(_refused, here)), [item for item in here if _is_closed(item)]
    lacking = sum(not store.complete(store.recorded(item.spec), item.evaluations) for item in closed)
    others = {
        "refused": refused,
        "recorded without weights and without all evaluations": lacking,
        "skipped": total - len(here),
    }
    end = "".join(f"; {number} {what}" for what, number in others.items() if number)
    if missing:
        return f"{len(missing)} of {total} runs are left; the next call begins with {left[0] if left else missing[0].title}{end}"
    done = total - sum(others.values())
    return f"nothing is left: {'all ' if done == total else ''}{done} runs of the queue are recorded or packed{end}"
