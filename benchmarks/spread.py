"""How well runs spread over workers, and how fast many are planned: `python -m benchmarks.spread`.

Twelve quick runs with one worker and with two, in turn; the scheduler's share of each run; a plan of 10,000 runs. On a busy
machine the first means little; the number of processes that were ready to run is printed.
"""

import io
import os
import resource
import statistics
import tempfile
import time
from dataclasses import replace
from unittest import mock

import typer
from rich.console import Console

from classwise.core.spec import Spec
from classwise.papers import registry
from classwise.runs.compute.work import Policy, Timing
from classwise.runs.schedule import pool
from classwise.runs.schedule.cost import Costs
from classwise.runs.schedule.plan import Requested, duration, missing, plan_tasks
from classwise.runs.schedule.progress import RunProgress


def quick(count: int, **changed: object) -> list[Requested]:
    """Return so many runs of the book's smallest scale, each with the evaluations of its first section."""
    request = registry.request("tian2021/4-1-class-bias")
    base = next(spec for spec in request.specs if spec.defence == "pgd-at")
    return [(replace(base, seed=seed, **changed), request.evaluations) for seed in range(count)]


def seconds(asked: list[Requested], workers: int) -> float:
    """Return how long runs take from nothing, with so many workers."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, CLASSWISE_DATA=folder):
        began = time.perf_counter()
        pool.ensure_runs(asked, workers=workers, console=Console(file=io.StringIO()))
        return time.perf_counter() - began


def nothing(name: str, how: object, after: list[object]) -> Timing:
    """Do no work, on a worker."""
    return Timing("none", 0.0, 0.0)


def overhead(runs: int, workers: int) -> tuple[float, float]:
    """Return the seconds per run whose training and evaluation do nothing, and those of starting up."""
    from classwise.runs.schedule import cluster

    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, CLASSWISE_DATA=folder):
        plan = plan_tasks(missing(quick(runs)), Costs("none", gpu=False))
        began = time.perf_counter()
        with cluster.local(workers) as (client, _), mock.patch.object(cluster, "_do", nothing):
            client.run(nothing, "", None, [])
            ready = time.perf_counter()
            with RunProgress(plan, Console(file=io.StringIO())) as progress:
                cluster.compute(client, plan, lambda task, end: progress.finish(task.key, None), progress.show, Policy())
            done = time.perf_counter()
    return (done - ready) / runs, ready - began


def planning_cost(runs: int) -> tuple[float, float]:
    """Return the processor's seconds that a plan of so many runs takes, and by how many MB it lets this process grow."""
    asked: list[Requested] = []
    few = [pair for name in registry.SECTIONS for pair in registry.request(name, "paper").pairs]
    distinct: set[Spec] = set()
    while len(distinct) < runs:
        spec, evaluations = few[len(asked) % len(few)]
        asked.append((replace(spec, seed=len(asked) // len(few)), evaluations))
        distinct.add(asked[-1][0])
    del distinct
    pool.check(asked[: len(few)])
    plan_tasks(missing(asked[: len(few)]), pool.costs_here())  # torchvision's networks are imported
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    asked = [(Spec(**vars(spec)), evaluations) for spec, evaluations in asked]  # whose ids nobody has asked for yet
    pool.check(asked)
    plan = plan_tasks(missing(asked), pool.costs_here())
    duration(plan, 64)
    return time.process_time() - began, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000


def main(rounds: int = 3, runs: int = 12, many: int = 10_000) -> None:
    """Measure and print."""
    took, grown = planning_cost(many)
    print(f"{many} runs planned in {took:.1f} s of one processor, with {grown:.0f} MB more than before")
    each, start = overhead(200, 2)
    print(f"a run on two workers waits {1000 * each:.0f} ms for the scheduler; two workers start in {start:.1f} s")
    asked = quick(runs)
    pairs = [(seconds(asked, 1), seconds(asked, 2)) for _ in range(rounds)]
    ratio = statistics.median(one / two for one, two in pairs)
    busy = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"{runs} quick runs: {pairs} s with one worker and with two, {ratio:.2f} times as fast; {busy}")


if __name__ == "__main__":
    typer.run(main)
