"""Plans: what is missing of runs, as tasks that workers can do in parallel."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from classwise import attacks
from classwise.core.spec import Evaluation, Spec
from classwise.papers.sections import Request, Section
from classwise.runs import store
from classwise.runs.compute import validate
from classwise.runs.compute.work import Timing
from classwise.runs.schedule import cost
from classwise.runs.schedule.cost import Costs
from classwise.runs.store import EXAMPLES, FEATURES, OUTCOMES, TRACE, Key

# A run, and its evaluations.
Requested = tuple[Spec, Sequence[Evaluation]]
# Results of each run.
Wanted = Mapping[Spec, Sequence[Key]]
# Called with the steps of a result that are done, and their number.
Show = Callable[[Key, int, int], None]

# Evaluations of a run that take fewer seconds together do not occupy a second worker.
TOGETHER = 30.0


@dataclass(frozen=True)
class Task:
    """A missing result, which one worker computes in one go.

    after: what must be there before. seconds: its expected duration. priority: higher ones start first. step: the
    expected seconds until it can first be interrupted.
    """

    key: Key
    after: tuple[Key, ...]
    seconds: float
    priority: float
    step: float = 0.0

    @property
    def name(self) -> str:
        """The same for the same work, in any plan; up to the hyphen, by which dask groups tasks, that of all of a kind."""
        return f"{'train' if self.key.evaluation is None else 'evaluate'}-{self.key.spec.id}/{self.key.name}"


# Called with a task and how it ended, None where it was not begun.
Ended = Callable[[Task, Timing | Exception | None], None]


def plan_tasks(left: Mapping[Key, tuple[Key, ...]], costs: Costs, *, in_order: bool = False) -> list[Task]:
    """Return the tasks of what is missing, run by run, each after those that it needs.

    Evaluations have a higher priority than trainings, so that runs are finished, then what takes longest, together with what
    waits for it, of other runs too; or with `in_order` what comes first.
    """
    seconds = {key: costs.seconds(key.spec, key.evaluation) for key in left}
    behind, total = dict(seconds), sum(seconds.values())
    for key in reversed(list(left)):
        for before in left[key]:
            behind[before] += behind[key]
    priorities = {key: behind[key] + (total if key.evaluation is not None else 0.0) for key in left}
    if in_order:
        priorities = {key: -place for place, key in enumerate(left)}
    return [Task(key, after, seconds[key], priorities[key], seconds[key] / steps_of(key)) for key, after in left.items()]


def most_workers(tasks: Iterable[Task]) -> int:
    """Return the largest number of workers that could be busy at once."""
    evaluations = defaultdict[Spec, list[float]](list)
    for task in tasks:
        evaluations[task.key.spec] += [task.seconds] if task.key.evaluation is not None else []
    return sum(max(1, min(len(of_run), math.ceil(sum(of_run) / TOGETHER))) for of_run in evaluations.values())


def duration(tasks: Sequence[Task], workers: int) -> float:
    """Return the least seconds that workers take: those of all tasks shared evenly, or of the longest run and one evaluation."""
    trainings = {task.key.spec: task.seconds for task in tasks if task.key.evaluation is None}
    evaluated = (trainings.get(task.key.spec, 0.0) + task.seconds for task in tasks if task.key.evaluation is not None)
    return max(sum(task.seconds for task in tasks) / workers, *trainings.values(), *evaluated)


def steps_of(key: Key) -> float:
    """Return the number of steps after which a computation can be interrupted: epochs or batches."""
    if key.evaluation is None:
        return key.spec.epochs
    size = validate.training_size(key.spec)
    return max(1.0, cost.image_count(key.evaluation, size) / key.evaluation.batch) if size and key.kind == OUTCOMES else 1.0


def missing(
    pairs: Iterable[Requested] | Wanted, present: Callable[[Key], bool] = lambda key: key.path is not None
) -> dict[Key, tuple[Key, ...]]:
    """Return what is missing of runs and their results, of any kind, each with what it needs of it, which comes before it.

    Runs that others need are included: the one that makes the training images, the one that initialises a training, if that is
    requested too, and the source networks of transfer attacks. A history is missing where the weights are missing and needed.

    present: whether a result is there; by default, if its file exists.
    """
    requested = group_by_run(pairs)
    known = {spec.id: spec for spec in requested}

    def missing_of(spec: Spec, *, needs_weights: bool = False) -> list[Key]:
        """Return what is missing of a run; `needs_weights`: results alone are not enough."""
        wanted, begun = requested.get(spec, []), any(folder.exists() for folder in store.search_folders(spec))
        if begun and store.lacks_weights(spec):  # a network is not trained again for what is shown of it
            wanted = [key for key in wanted if key.kind == OUTCOMES]
        left = [key for key in wanted if not (begun and present(key))]
        trained = begun and present(Key(spec))
        if trained and not left and not needs_weights:
            return []
        if trained and store.weights(spec) is not None:
            return left
        if trained:  # It is trained again, and the new network gets all evaluations.
            left = [key for key in wanted if not (store.run_folder(spec) / key.name).exists()]
        return [Key(spec), *left]

    by_run = {spec: missing_of(spec) for spec in requested}
    waiting = [key for keys in by_run.values() for key in keys]
    while waiting:
        for network in _networks(waiting.pop(), known):
            # Of a source the weights are needed, not only the results.
            if (keys := missing_of(network, needs_weights=True)) != by_run.get(network, []):
                by_run[network] = keys
                waiting += keys
    every, ordered = {key for keys in by_run.values() for key in keys}, dict[Key, tuple[Key, ...]]()

    def add(key: Key) -> None:
        if key not in ordered:
            needed = ([] if key.evaluation is None else [Key(key.spec)]) + [Key(spec) for spec in _networks(key, known)]
            before = tuple(other for other in needed if other in every)
            for other in before:
                add(other)
            ordered[key] = before

    for keys in by_run.values():
        for key in keys:
            add(key)
    return ordered


def group_by_run(pairs: Iterable[Requested] | Wanted) -> Wanted:
    """Return each distinct run with the names of its distinct outcomes; what is collected already as it is."""
    if isinstance(pairs, Mapping):
        return pairs
    return merge({spec: [Key(spec, OUTCOMES, one) for one in evaluations]} for spec, evaluations in pairs)


def section_keys(section: Section, request: Request) -> dict[Spec, list[Key]]:
    """Return by run all that the page of a section reads of it: outcomes, features, and of the first seed traces and examples."""
    pairs, first = request.pairs, request.specs[0].seed if request.specs else 0
    kinds = [(OUTCOMES, pairs), (FEATURES, request.feature_pairs)]
    if section.traces:
        kinds.append((TRACE, [(spec, traced_evaluations(some)) for spec, some in pairs if spec.seed == first]))
    if section.gallery:
        kinds.append((EXAMPLES, [(spec, request.evaluations[-1:]) for spec in request.specs if spec.seed == first]))
    return merge({spec: [Key(spec, kind, one) for one in some]} for kind, of_kind in kinds for spec, some in of_kind)


def traced_evaluations(evaluations: Iterable[Evaluation]) -> tuple[Evaluation, ...]:
    """Return the evaluations whose attack can be traced step by step (`Attack.traceable`): PGD and stable Temperature-PGD."""
    white_box = (evaluation for evaluation in evaluations if evaluation.substitute is None)
    return tuple(evaluation for evaluation in white_box if attacks.build(evaluation.attack, evaluation.options).traceable)


def merge(parts: Iterable[Wanted]) -> dict[Spec, list[Key]]:
    """Return the results of all, each once."""
    result: dict[Spec, dict[Key, None]] = {}
    for part in parts:
        for spec, keys in part.items():
            result.setdefault(spec, {}).update(dict.fromkeys(keys))
    return {spec: list(keys) for spec, keys in result.items()}


def _networks(key: Key, known: Mapping[str, Spec]) -> Iterator[Spec]:
    """Yield the other runs whose networks a result needs; known: requested runs by id."""
    spec, evaluation = key.spec, key.evaluation
    if evaluation is not None and evaluation.substitute is not None:
        yield spec.substitute(evaluation.substitute)
    if evaluation is None and spec.image_source is not None:
        yield spec.image_source
    if evaluation is None and (initial := known.get(spec.warm_start or "")) is not None:
        yield initial
