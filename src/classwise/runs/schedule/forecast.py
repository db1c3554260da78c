"""What a schedule costs, before anything runs: the runs, what is missing, time and disk."""

from collections.abc import Collection, Iterable, Mapping
from functools import cache, partial

from rich.console import Console
from rich.table import Table

from classwise.core.markup import plural
from classwise.core.spec import Spec
from classwise.runs import store
from classwise.runs.compute import device, validate
from classwise.runs.schedule import cost, pool
from classwise.runs.schedule.cost import PLANNED, Costs
from classwise.runs.schedule.plan import Wanted, duration, merge, missing, plan_tasks
from classwise.runs.store import Key

# The numbers of GPUs that durations are estimated for.
GPUS = (1, 8, 64)


def forecast(sections: Mapping[str, Wanted], out: Console, *, workers: int | None = None) -> None:
    """Print what computing the sections would take: a line for each, then for all, every run counted once.

    Stored files are read, as before a computation, and damaged ones are named. Those that were computed here count as missing;
    those that were recorded elsewhere do not, as only their archive restores them. Nothing is computed.

    workers: number of processes on this machine; None for all that it has room for.
    """
    wanted = merge(sections.values())
    pool.check(wanted)
    damaged: list[str] = []
    present = cache(partial(store.is_intact, tell=damaged.append, repair=False))
    all_left, here, elsewhere = missing(wanted, present), pool.costs_here(), Costs(PLANNED, gpu=True)
    for line in damaged:
        out.print(line, highlight=False, soft_wrap=True)
    kind = here.device if device.device().type == "cuda" else "one CPU thread"
    table = Table("section", "runs", "to compute", "evaluations", f"hours of {kind}", "GPU hours", "GB", box=None)
    for name, some in (*sections.items(), ("all, each run once", wanted)):
        left = missing(some, present)
        hours = [f"{_seconds(left, costs) / 3600:,.2f}" for costs in (here, elsewhere)]
        space = sum(cost.bytes_on_disk(key.spec, key.evaluation) for key in left)
        runs = {key.spec for key in left}
        numbers = [len(some), len(runs), sum(key.evaluation is not None for key in left)]
        table.add_row(name, *map(str, numbers), *hours, f"{space / 1e9:.2f}", style="bold" if some is wanted else None)
    out.print(table)
    out.print("to compute: runs whose training or evaluations are missing, and other runs that they need", highlight=False)
    if not all_left:
        out.print("everything else is there" if damaged else "everything is there")
        return
    count = workers or pool.workers_here()
    lines = [(f"{plural(count, 'worker')} of this machine", here, count)]
    lines += [(f"{gpus} {PLANNED}", elsewhere, gpus) for gpus in GPUS]
    for who, costs, number in lines:
        out.print(f"on {who}: {format_duration(duration(plan_tasks(all_left, costs), number))}", highlight=False)
    for costs in (here, elsewhere):
        out.print(_basis(costs, {key.spec for key in all_left}), highlight=False, soft_wrap=True)


def not_recorded(wanted: Wanted, scale: str) -> str:
    """Return in one line how much of runs of a scale that is only read is missing, what computes it, and how long that takes."""
    wanted = {spec: keys for spec, keys in wanted.items() if not store.refusal(spec)}
    left = missing(wanted)
    if not left:
        return f"all {len(wanted)} runs of scale {scale} are recorded"
    hours, runs = _seconds(left, pool.costs_here()) / 3600, {key.spec for key in left}
    return (
        f"{len(runs)} of {len(wanted)} runs of scale {scale} are not recorded, or not with all evaluations; results of "
        f"this scale are only read here: `classwise record --scale {scale}` computes them, about {hours:.0f} hours of one core"
    )


def _seconds(left: Iterable[Key], costs: Costs) -> float:
    return sum(costs.seconds(key.spec, key.evaluation) for key in left)


def _basis(costs: Costs, runs: Collection[Spec]) -> str:
    measured = sum(costs.rate(spec) is not None for spec in runs)
    unknown = sum(validate.training_size(spec) is None for spec in runs)
    without = f"; without {unknown} runs whose images are not here" if unknown else ""
    return (
        f"times on {costs.device}: from measurements of the same network there for {measured} of {len(runs)} runs, else from "
        f"the number of operations{without}"
    )


def format_duration(seconds: float) -> str:
    """Return a time in days, hours, minutes or seconds."""
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"
