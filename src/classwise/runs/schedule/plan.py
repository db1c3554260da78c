"""Schedules: what is missing of runs, as tasks that workers can do in parallel."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from classwise.core.spec import Evaluation, Spec
from classwise.runs import store
from classwise.runs.schedule.cost import Costs
from classwise.runs.store import OUTCOMES, Key

# A run, and its evaluations.
Requested = tuple[Spec, Sequence[Evaluation]]
# Whether a result is there.
Present = Callable[[Key], bool]

# Evaluations of a run that take less than this many seconds together are one task.
TOGETHER = 30.0


@dataclass(frozen=True)
class Job:
    """What is missing of one run: the training, some evaluations, or both.

    after: runs that must be trained first: the one that initialises it, the one that makes its training images, and the source
    networks of its transfer attacks.
    """

    spec: Spec
    train: bool
    evaluations: tuple[Evaluation, ...] = ()
    after: tuple[Spec, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.spec.defence} on {self.spec.dataset}, seed {self.spec.seed}"


@dataclass(frozen=True)
class Task:
    """What one worker does in one go: the training of a run, or some of its evaluations.

    job: the number of its job. name: the same for the same work, in any schedule. after: the names of the tasks that must be done
    before. seconds: of each part by name, "train" or that of an evaluation.
    """

    job: int
    spec: Spec
    evaluations: tuple[Evaluation, ...]
    name: str
    after: tuple[str, ...]
    seconds: Mapping[str, float]

    @property
    def cost(self) -> float:
        return sum(self.seconds.values())


@dataclass(frozen=True)
class Schedule:
    """Jobs, their tasks, and the priority of each task by name; higher ones start first."""

    jobs: Sequence[Job]
    tasks: Sequence[Task]
    priorities: Mapping[str, float]

    @property
    def width(self) -> int:
        """The largest number of workers that could be busy at once."""
        evaluating = Counter(task.job for task in self.tasks if task.evaluations)
        return sum(max(1, evaluating[number]) for number in range(len(self.jobs)))

    @property
    def order(self) -> list[Task]:
        """The tasks as they are submitted: trainings, then evaluations, each by falling priority and after its requirements."""
        return sorted(self.tasks, key=lambda task: (bool(task.evaluations), -self.priorities[task.name]))


def planned(jobs: Sequence[Job], costs: Costs) -> Schedule:
    """Return the schedule of jobs."""
    parts = tasks(jobs, costs)
    return Schedule(jobs, parts, priority(parts))


def missing(pairs: Iterable[Requested], present: Present = lambda key: key.path is not None) -> list[Job]:
    """Return a job for each run that is not fully trained and evaluated, in the order of first appearance.

    Runs that others need are included. `present` says whether a result is there: by default if its file exists.
    """
    requested = collected(pairs)
    known = {spec.id: spec for spec in requested}

    def job_of(spec: Spec, *, needs_weights: bool = False) -> Job | None:
        """Return what is missing of a run; `needs_weights`: results alone are not enough."""
        wanted, begun = tuple(requested.get(spec, ())), any(folder.exists() for folder in store.search_folders(spec))
        left = tuple(one for one in wanted if not (begun and present(Key(spec, OUTCOMES, one))))
        trained = begun and present(Key(spec))
        if trained and not left and not needs_weights:
            return None
        has_weights = trained and store.weights(spec) is not None
        if trained and not has_weights:
            # It is trained again, and the new network gets all evaluations.
            left = tuple(one for one in wanted if not (store.run_folder(spec) / Key(spec, OUTCOMES, one).name).exists())
        if has_weights and not left:
            return None
        return Job(spec, not has_weights, left, tuple(dict.fromkeys(_sources(spec, left, known, train=not has_weights))))

    jobs = {spec: job_of(spec) for spec in requested}
    waiting = [job for job in jobs.values() if job is not None]
    while waiting:
        for source in waiting.pop().after:
            # Of a source the weights are needed, not only the results.
            job = job_of(source, needs_weights=True)
            if job is not None and job != jobs.get(source):
                jobs[source] = job
                waiting.append(job)
    return [job for job in jobs.values() if job is not None]


def collected(pairs: Iterable[Requested]) -> dict[Spec, dict[Evaluation, None]]:
    """Return each distinct run with its distinct evaluations, at the run's radius if they have none."""
    requested: dict[Spec, dict[Evaluation, None]] = {}
    resolved: dict[tuple[Evaluation, str, str], Evaluation] = {}
    for spec, evaluations in pairs:
        of_run = requested.setdefault(spec, {})
        for evaluation in evaluations:
            key = (evaluation, spec.eps, spec.norm)
            if key not in resolved:
                resolved[key] = evaluation.resolved_for(spec)
            of_run[resolved[key]] = None
    return requested


def _sources(spec: Spec, evaluations: Iterable[Evaluation], known: Mapping[str, Spec], *, train: bool) -> Iterator[Spec]:
    """Yield the runs that a run needs.

    The one that makes its training images, the one that initialises it, if that is requested too, and substitutes.
    """
    if train and spec.image_source is not None:
        yield spec.image_source
    if train and spec.warm_start is not None and spec.warm_start in known:
        yield known[spec.warm_start]
    for name in dict.fromkeys(evaluation.substitute for evaluation in evaluations if evaluation.substitute is not None):
        yield spec.substitute(name)


def tasks(jobs: Sequence[Job], costs: Costs) -> list[Task]:
    """Return the tasks of jobs, each after those that it needs; long evaluations separately, short ones of a run together."""
    trainings = {
        job.spec: Task(number, job.spec, (), f"train-{job.spec.id}", (), {"train": costs.seconds(job.spec)})
        for number, job in enumerate(jobs)
        if job.train
    }
    result: dict[str, Task] = {}

    def add(spec: Spec) -> tuple[str, ...]:
        """Add a training, after those that it needs; return its name, if the training is missing at all."""
        if spec not in trainings:
            return ()
        task = trainings[spec]
        if task.name not in result:
            before = [source for source in jobs[task.job].after if source.id == spec.warm_start or source == spec.image_source]
            result[task.name] = replace(task, after=tuple(name for source in before for name in add(source)))
        return (task.name,)

    for number, job in enumerate(jobs):
        training = add(job.spec)
        for group in _groups(job, costs):
            evaluations = tuple(evaluation for _, evaluation in group)
            sources = dict.fromkeys(job.spec.substitute(one.substitute) for one in evaluations if one.substitute is not None)
            after = (*training, *(name for spec in sources for name in add(spec)))
            seconds = {evaluation.name: cost for cost, evaluation in group}
            digest = hashlib.sha256(" ".join(sorted(seconds)).encode()).hexdigest()[:10]
            name = f"evaluate-{job.spec.id}-{digest}"
            result[name] = Task(number, job.spec, evaluations, name, after, seconds)
    return list(result.values())


def _groups(job: Job, costs: Costs) -> Iterator[list[tuple[float, Evaluation]]]:
    """Yield the evaluations of a run, with their seconds, in groups of about TOGETHER, longest first."""
    group: list[tuple[float, Evaluation]] = []
    total = 0.0
    costed = [(costs.seconds(job.spec, evaluation), evaluation) for evaluation in job.evaluations]
    for seconds, evaluation in sorted(costed, key=lambda pair: -pair[0]):
        if group and total + seconds > TOGETHER:
            yield group
            group, total = [], 0.0
        group.append((seconds, evaluation))
        total += seconds
    if group:
        yield group


def priority(parts: Sequence[Task]) -> dict[str, float]:
    """Return the priority of each task: evaluations before trainings, so that runs are finished, then the longest first.

    The length of a training includes the tasks that wait for it, of other runs too.
    """
    longest = sum(task.cost for task in parts)
    behind = {task.name: task.cost for task in parts}
    for task in reversed(parts):  # each is listed after those that it needs
        for name in task.after:
            behind[name] += behind[task.name]
    return {task.name: behind[task.name] + (longest if task.evaluations else 0.0) for task in parts}
