"""Recording: a queue of runs is trained and evaluated in order within a time budget, and what is finished is packed or filed."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from rich.console import Console

from classwise.core.errors import UserError
from classwise.core.paths import data_folder
from classwise.core.results import Damaged
from classwise.core.spec import Evaluation, Spec
from classwise.runs import store
from classwise.runs.compute import device
from classwise.runs.compute.budget import Budget
from classwise.runs.compute.work import Policy, Timing
from classwise.runs.record import archive, soundness
from classwise.runs.record.archive import Weights
from classwise.runs.record.queue import Item
from classwise.runs.schedule import forecast as forecasting
from classwise.runs.schedule import plan, pool
from classwise.runs.schedule.plan import Task
from classwise.runs.store import HISTORY, OUTCOMES, Key

Say = Callable[[str], None]
_VERBS = {HISTORY: "trained", OUTCOMES: "evaluated", store.TRACE: "traced"}
_VERBS |= {store.FEATURES: "stored features of", store.EXAMPLES: "stored examples of"}


def record(
    items: Sequence[Item],
    out: Path | None,
    budget: Budget,
    *,
    weights: Weights = "none",
    pack_only: bool = False,
    processes: int = 1,
    say: Say = print,
) -> list[str]:
    """Compute a queue within a budget, pack what is finished into one archive in `out`, or file it; return what failed.

    Runs in data/recorded/ or in an archive in `out` are skipped. Trainings resume from their checkpoints, evaluations from their
    finished batches. `say` is called with a line for each thing done; the last one names what the next call would begin with.

    A run that diverges or overfits catastrophically is refused: the reason is stored, and it is not trained again. Neither is one
    that is recorded without its weights but not with all evaluations.

    out: None to file finished runs in data/recorded/, with the weights that the queue names. pack_only: compute nothing.
    """
    packed = defaultdict[str, set[str]](set)
    for run, names in archive.contents(out, full_weights=weights == "full") if out is not None else ():
        packed[run] |= names
    here = [_possible(item) for item in (items if pack_only else drop_without_images(items, say))]
    todo = [item for item in here if not (_is_packed(item, packed) or _is_done(item, out, weights))]
    left, failed = list[str](), list[str]()
    try:
        if todo and not pack_only:
            precisions = {item.spec.precision for item in todo if not has_network(item.spec)}
            if slow := device.bfloat16_warning(precisions | {one.precision for item in todo for one in item.evaluations}):
                say(slow)
            left, failed = _compute(todo, budget, processes, say)
    finally:
        todo, here = ([_possible(item) for item in some] for some in (todo, here))  # what was refused by now is not waited for
        if out is None:
            _file(todo, say)
            ready = [item for item in todo if is_finished(item)]
        else:
            ready = [item for item in todo if store.complete(store.results_folder(item.spec), item.outcomes)]
            parts = [replace(item, evaluations=_present(item)) for item in todo if has_network(item.spec)] if pack_only else ready
            new = [(item.spec, item.evaluations) for item in parts if not _is_packed(item, packed)]
            archive.pack(new, out, weights=weights, repair=not pack_only, say=say)
        for item in here:
            if store.has_recorded_network(item.spec):
                archive.add_checksums(item.spec)
            if out is None and item.weights:
                archive.drop_weights(item.spec, [*item.outcomes, *item.shown])
    missing = [item for item in todo if item not in ready and not _refused(item)]
    say(_last_line(here, len(items), missing, [] if pack_only else left))
    return failed


def forecast(items: Sequence[Item], out: Console) -> None:
    """Print what is left of each entry of a queue, with the hours that it takes here."""
    entries: dict[str, dict[Spec, list[Key]]] = {}
    here = drop_without_images(items, lambda line: out.print(line, highlight=False, soft_wrap=True))
    for item in map(_possible, here):
        if not (_refused(item) or _is_closed(item)):
            entries.setdefault(item.why, {})[item.spec] = item.keys
    if here:
        forecasting.forecast(entries, out)


def drop_without_images(items: Sequence[Item], say: Say) -> list[Item]:
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
    return (store.recorded_folder(item.spec) / Key(item.spec).name).exists() and store.weights(item.spec) is None


def has_network(spec: Spec) -> bool:
    """Return whether a run is finished, here or recorded, with its weights, and not refused."""
    path = store.weights(spec)
    return path is not None and (path.parent / Key(spec).name).exists() and not store.refusal(spec)


def is_finished(item: Item) -> bool:
    """Return whether the folder in which a run is computed has all its results; nothing is read."""
    return store.complete(store.results_folder(item.spec), [*item.outcomes, *item.shown])


@dataclass
class _Record:
    """What became of the results of a queue: what is left, with what the next call begins, and what failed."""

    budget: Budget
    say: Say
    left: dict[Key, str] = field(default_factory=dict)
    failed: dict[str, None] = field(default_factory=dict)
    refused: dict[Spec, None] = field(default_factory=dict)
    broken: set[Key] = field(default_factory=set)

    def add(self, task: Task, result: Timing | Exception | None) -> None:
        """Take in how a task ended."""
        name = _name(task.key)
        self.left.pop(task.key, None)
        if isinstance(result, soundness.Refused):
            if task.key.spec not in self.refused and store.refusal(task.key.spec):
                self.refused[task.key.spec] = None
                self.say(f"refused {_name(Key(task.key.spec))}: {result}")
        elif isinstance(result, Exception) and not isinstance(result, soundness.Busy):
            if not self.broken.intersection(task.after):  # else what it needs failed, which is said
                self.fail(name, result)
            self.broken.add(task.key)
        elif isinstance(result, Timing) and result.finished:
            if result.share:
                self.say(f"{_VERBS[task.key.kind]} {name}: {result.seconds:.1f} s")
        else:
            larger = self.budget.seconds - self.budget.margin < task.step
            self.left[task.key] = name + (f", if the budget is larger: it takes about {task.step:.0f} s" if larger else "")
            if isinstance(result, Timing) and result.share >= 0.005:
                self.say(f"not yet {_VERBS[task.key.kind]} {name}: {100 * result.share:.0f} % more")

    def possible(self, tasks: Sequence[Task]) -> list[Task]:
        """Return tasks that neither failed, nor are of a refused network, nor need one that is left out."""
        left_out, result = set[Key](), list[Task]()
        for task in tasks:
            if task.key in self.broken or store.refusal(task.key.spec) or left_out.intersection(task.after):
                left_out.add(task.key)
            else:
                result.append(task)
        return result

    def fail(self, name: str, error: Exception) -> None:
        """Take in an error, once."""
        if (line := f"{name}: {error}") not in self.failed:
            self.failed[line] = None
            self.say(f"failed: {line}")


def _compute(items: Sequence[Item], budget: Budget, processes: int, say: Say) -> tuple[list[str], list[str]]:
    """Compute what is missing of items in order, as far as time allows; return what is left and what failed."""
    device.warm_up()
    startup = budget.clock() - budget.began
    if startup > 0.5 * budget.seconds:
        say(f"starting up took {startup:.0f} of {budget.seconds:.0f} s: little can begin; a larger budget goes further")
    record, costs = _Record(budget, say), pool.costs_here()
    sound = [item for item in items if not _is_damaged(item, record)]

    @cache
    def present(key: Key) -> bool:
        try:
            return store.is_intact(key, say, repair=True)
        except (Damaged, UserError) as error:  # of one result: the others are computed
            record.fail(_name(key), error)
            return True

    def ended(task: Task, result: Timing | Exception | None) -> None:
        if isinstance(result, Timing):
            costs.record(task.key, result)
            costs.write()
        record.add(task, result)

    for _ in range(2):  # what another call worked on is looked at again at the end
        left = plan.missing({item.spec: item.keys for item in map(_possible, sound) if not _refused(item)}, present)
        tasks = record.possible(plan.plan_tasks(left, costs, in_order=True))
        if not tasks or budget.left <= 0:
            break
        with pool.executor(min(processes, plan.most_workers(tasks))) as executor:
            pool.compute(executor, tasks, ended, policy=Policy(True, soundness.compute, budget))
        present.cache_clear()
    return list(record.left.values()), list(record.failed)


def _is_damaged(item: Item, record: _Record) -> bool:
    """Return whether the recorded weights of a run are damaged, which fails once for all its evaluations."""
    try:
        if store.has_recorded_network(item.spec):
            store.read_verified(store.weights_file(store.recorded_folder(item.spec)))
    except Damaged as error:
        record.fail(item.title, error)
        return True
    return False


def _name(key: Key) -> str:
    under = "" if key.evaluation is None else f" under {key.evaluation.name}"
    return f"{key.spec.name} (seed {key.spec.seed}){under}"


def _is_packed(item: Item, packed: Mapping[str, set[str]]) -> bool:
    """Return whether a run is in archives with all these evaluations."""
    return item.spec.relative_path in packed and {one.name for one in item.evaluations} <= packed[item.spec.relative_path]


def _is_done(item: Item, out: Path | None, weights: Weights) -> bool:
    """Return whether a run is recorded with all its results, or nothing more can be computed of it."""
    if _refused(item) or _is_closed(item):
        return True
    if store.has_recorded_network(item.spec):
        return is_finished(item)
    # Of a finished network more is filed: its weights, and what is stored apart from outcomes.
    recorded, has = store.recorded_folder(item.spec), has_network(item.spec)
    lacks_weights = has and (item.weights if out is None else weights == "full") and not (recorded / store.WEIGHTS).exists()
    return not lacks_weights and store.complete(recorded, [*item.outcomes, *(item.shown if has and out is None else ())])


def _present(item: Item) -> tuple[Evaluation, ...]:
    """Return the evaluations of a finished network that are there."""
    return tuple(one for one in item.evaluations if has_network(item.spec) and Key(item.spec, OUTCOMES, one).file.exists())


# Weights of checkpoints other than the last that are filed of a run at most: a file of a repository should be small.
_MOST_FURTHER = 4


def _file(todo: Sequence[Item], say: Say) -> None:
    """File runs in data/recorded/: with weights from their first evaluation on, without them once they are complete.

    The weights of other checkpoints are filed while evaluations of them are missing, which another clone then computes.
    """
    for item in todo:
        present = _present(item)
        missing = {one.checkpoint for one in item.evaluations if one not in present} - {"last"}
        early = item.weights and present and len(missing) <= _MOST_FURTHER
        if store.has_recorded_network(item.spec) or not (is_finished(item) or early):
            continue
        try:
            if archive.file_run(item.spec, present, "last" if item.weights else "none", sorted(missing) if early else ()):
                say(f"filed {item.title} in {store.recorded_folder(item.spec).relative_to(data_folder())}")
        except UserError as error:
            say(f"not filed: {error}")


def _last_line(here: Sequence[Item], total: int, missing: Sequence[Item], left: Sequence[str]) -> str:
    """Return what is left; here: the runs whose images are here, of all."""
    refused, closed = sum(map(_refused, here)), [item for item in here if _is_closed(item)]
    lacking = sum(not store.complete(store.recorded_folder(item.spec), item.outcomes) for item in closed)
    others = {"refused": refused, "recorded without weights and without all evaluations": lacking, "skipped": total - len(here)}
    end = "".join(f"; {number} {what}" for what, number in others.items() if number)
    if missing:
        return f"{len(missing)} of {total} runs are left; the next call begins with {left[0] if left else missing[0].title}{end}"
    done = total - sum(others.values())
    return f"nothing is left: {'all ' if done == total else ''}{done} runs of the queue are recorded or packed{end}"
