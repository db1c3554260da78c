"""What is to be computed: what is missing of runs, cut into pieces that workers can do one beside another."""

import hashlib
import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from classwise.core.spec import Evaluation, Spec
from classwise.runs import store
from classwise.runs.schedule.cost import Costs

# A run, and the questions to put to it.
Requested = tuple[Spec, Sequence[Evaluation]]

# Questions to one run that take less than so many seconds together are put by one worker.
TOGETHER = 30.0


@dataclass(frozen=True)
class Job:
    """One run, whatever of it is missing: the training, some questions, or both.

    after: runs that are trained first: what it begins with, and what its transfer attacks are made on.
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
    """What one worker does at a stretch: the training of a run, or some of the questions put to it.

    job: the number of the job it belongs to. name: the same for the same work, whoever asks. after: the names of the pieces that
    must be done before. seconds: of each part, by its name: "train", or that of an evaluation.
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
    """Jobs, their pieces, and how early each piece is begun."""

    jobs: Sequence[Job]
    pieces: Sequence[Task]
    urgency: Mapping[str, float]

    @property
    def width(self) -> int:
        """How many workers could have something to do at once, at most."""
        questions = Counter(piece.job for piece in self.pieces if piece.evaluations)
        return sum(max(1, questions[number]) for number in range(len(self.jobs)))

    @property
    def order(self) -> list[Task]:
        """The pieces as they are handed out: trainings, then questions, the most urgent first; each after what it waits for."""
        return sorted(self.pieces, key=lambda piece: (bool(piece.evaluations), -self.urgency[piece.name]))

    def makespan(self, workers: int) -> float:
        """Return the seconds that so many equal workers take, each free one taking the most urgent piece that is ready."""
        return _makespan(self.pieces, self.urgency, workers)


def planned(jobs: Sequence[Job], costs: Costs) -> Schedule:
    """Return the plan of jobs."""
    parts = tasks(jobs, costs)
    return Schedule(jobs, parts, priority(parts))


def missing(asked: Iterable[Requested], *, mend: bool = False) -> list[Job]:
    """Return a job for each distinct spec that is not trained or not evaluated yet, in the order of first appearance.

    Runs that others build on come along. Whether a result is there, its file says; `mend` reads it, and sets a damaged one aside.
    """
    wanted = collected(asked)
    known = {spec.id: spec for spec in wanted}
    found = {spec: _missing(spec, tuple(own), known, mend=mend) for spec, own in wanted.items()}
    waiting = [job for job in found.values() if job is not None]
    while waiting:
        for source in waiting.pop().after:
            # Of these the weights are needed, not only the results.
            job = _missing(source, tuple(wanted.get(source, ())), known, needed=True, mend=mend)
            if job is not None and job != found.get(source):
                found[source] = job
                waiting.append(job)
    return [job for job in found.values() if job is not None]


def collected(asked: Iterable[Requested]) -> dict[Spec, dict[Evaluation, None]]:
    """Return each distinct run with the distinct questions put to it, at the run's own radius where they state none."""
    wanted: dict[Spec, dict[Evaluation, None]] = {}
    resolved: dict[tuple[int, str, str], Evaluation] = {}
    kept = []  # while `resolved` knows them by their place in memory
    for spec, evaluations in asked:
        own = wanted.setdefault(spec, {})
        kept.append(evaluations)
        for one in evaluations:
            key = (id(one), spec.eps, spec.norm)
            if key not in resolved:
                resolved[key] = one.of(spec)
            own[resolved[key]] = None
    return wanted


def _sources(spec: Spec, evaluations: Iterable[Evaluation], known: Mapping[str, Spec], *, train: bool) -> Iterator[Spec]:
    """Yield the runs that one builds on: one that its training begins with (if that is asked for too), and substitutes."""
    if train and spec.warm_start is not None and spec.warm_start in known:
        yield known[spec.warm_start]
    for name in dict.fromkeys(one.substitute for one in evaluations if one.substitute is not None):
        yield spec.substitute(name)


def _missing(
    spec: Spec, evaluations: tuple[Evaluation, ...], known: Mapping[str, Spec], *, mend: bool, needed: bool = False
) -> Job | None:
    """Return what is missing of a run; `needed`: its weights must be here, whatever results are."""
    folders = [folder for folder in store.search_folders(spec) if folder.exists()]
    trained = any(_there(folder, spec, None, mend=mend) for folder in folders)
    left = tuple(one for one in evaluations if not any(_there(folder, spec, one, mend=mend) for folder in folders))
    if trained and not left and not needed:
        return None
    weighed = trained and store.weights(spec) is not None
    if trained and not weighed and (left or needed):
        # It is trained anew, and then all its questions are put to the new network.
        left = tuple(one for one in evaluations if not _there(store.run_folder(spec), spec, one, mend=mend))
    if weighed and not left:
        return None
    return Job(spec, not weighed, left, tuple(dict.fromkeys(_sources(spec, left, known, train=not weighed))))


def _there(folder: Path, spec: Spec, evaluation: Evaluation | None, *, mend: bool) -> bool:
    """Return whether a run's history is there, or its outcomes under an evaluation."""
    return store.file(folder, evaluation).exists() and (not mend or store.is_intact(folder, spec, evaluation))


def tasks(jobs: Sequence[Job], costs: Costs) -> list[Task]:
    """Return the pieces of jobs, each after those that it must wait for; dear questions alone, cheap ones of a run together."""
    trained = {job.spec: _training(number, job, costs) for number, job in enumerate(jobs) if job.train}
    found: dict[str, Task] = {}

    def add(spec: Spec) -> tuple[str, ...]:
        """Add a training, after the one that it begins with; return its name, if it is missing at all."""
        if spec not in trained:
            return ()
        piece = trained[spec]
        if piece.name not in found:
            begins = [one for one in jobs[piece.job].after if one.id == spec.warm_start]
            after = tuple(name for one in begins for name in add(one))
            found[piece.name] = replace(piece, after=after)
        return (piece.name,)

    for number, job in enumerate(jobs):
        own = add(job.spec)
        for group in _groups(job, costs):
            evaluations = tuple(one for _, one in group)
            sources = dict.fromkeys(job.spec.substitute(one.substitute) for one in evaluations if one.substitute is not None)
            after = (*own, *(name for spec in sources for name in add(spec)))
            seconds = {one.name: took for took, one in group}
            digest = hashlib.sha256(" ".join(sorted(seconds)).encode()).hexdigest()[:10]
            name = f"ask-{job.spec.id}-{digest}"
            found[name] = Task(number, job.spec, evaluations, name, after, seconds)
    return list(found.values())


def _training(number: int, job: Job, costs: Costs) -> Task:
    return Task(number, job.spec, (), f"train-{job.spec.id}", (), {"train": costs.training(job.spec)})


def _groups(job: Job, costs: Costs) -> Iterator[list[tuple[float, Evaluation]]]:
    """Yield the questions to a run, with their seconds, in groups of about TOGETHER: the dear ones first, and alone."""
    group: list[tuple[float, Evaluation]] = []
    whole = 0.0
    priced = [(costs.question(job.spec, one), one) for one in job.evaluations]
    for seconds, one in sorted(priced, key=lambda pair: -pair[0]):
        if group and whole + seconds > TOGETHER:
            yield group
            group, whole = [], 0.0
        group.append((seconds, one))
        whole += seconds
    if group:
        yield group


def priority(parts: Sequence[Task]) -> dict[str, float]:
    """Return for each piece how early it is begun: questions before trainings, so that what was begun is finished; longest first.

    A training counts with the questions that wait for it, those of other runs among them.
    """
    longest = sum(piece.cost for piece in parts)
    behind = {piece.name: piece.cost for piece in parts}
    for piece in reversed(parts):  # each stands after those that it waits for
        for name in piece.after:
            behind[name] += behind[piece.name]
    return {piece.name: behind[piece.name] + (longest if piece.evaluations else 0.0) for piece in parts}


def _makespan(parts: Sequence[Task], first: Mapping[str, float], workers: int) -> float:
    waiting = {piece.name: len(piece.after) for piece in parts}
    behind: dict[str, list[str]] = {}
    for piece in parts:
        for name in piece.after:
            behind.setdefault(name, []).append(piece.name)
    cost = {piece.name: piece.cost for piece in parts}
    ready = [(-first[name], name) for name, count in waiting.items() if not count]
    heapq.heapify(ready)
    running: list[tuple[float, str]] = []
    now = 0.0
    while ready or running:
        while ready and len(running) < workers:
            name = heapq.heappop(ready)[1]
            heapq.heappush(running, (now + cost[name], name))
        now, done = heapq.heappop(running)
        for name in behind.get(done, ()):
            waiting[name] -= 1
            if not waiting[name]:
                heapq.heappush(ready, (-first[name], name))
    return now
