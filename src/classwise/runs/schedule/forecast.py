"""What a schedule costs, before anything runs: the runs, what is missing, time and disk."""

from collections.abc import Sequence
from functools import cache, partial

from rich.console import Console
from rich.table import Table

from classwise.core.markup import counted
from classwise.runs import store
from classwise.runs.compute import device
from classwise.runs.schedule import flops, pool
from classwise.runs.schedule.cost import PLANNED, Costs
from classwise.runs.schedule.plan import Present, Requested, collected, missing, planned
from classwise.runs.store import intact

# The numbers of GPUs that durations are estimated for.
GPUS = (1, 8, 64)


def forecast(sections: Sequence[tuple[str, Sequence[Requested]]], out: Console, *, workers: int | None = None) -> None:
    """Print what computing the sections would take: a line for each, then for all, every run counted once.

    Stored files are read, as before a computation, and damaged ones are named. Those that were computed here count as missing;
    those that were recorded elsewhere do not, as only their archive restores them. Nothing is computed.

    workers: number of processes on this machine; None for all that it has room for.
    """
    pairs = [pair for _, of_section in sections for pair in of_section]
    pool.check(pairs)
    damaged: list[str] = []
    present = cache(partial(intact, tell=damaged.append, repair=False))
    jobs = missing(pairs, present)
    for line in damaged:
        out.print(line, highlight=False, soft_wrap=True)
    here, elsewhere = pool.costs_here(), Costs(PLANNED, gpu=True)
    on_gpu = device.device().type == "cuda"
    kind = here.device if on_gpu else "one CPU thread"
    table = Table("section", "runs", "to compute", "evaluations", f"hours of {kind}", "GPU hours", "GB", box=None)
    for name, of_section in sections:
        table.add_row(name, *_row(of_section, present, (here, elsewhere)))
    table.add_row("all, each run once", *_row(pairs, present, (here, elsewhere)), style="bold")
    out.print(table)
    out.print("to compute: runs whose training or evaluations are missing, and other runs that they need", highlight=False)
    if not jobs:
        out.print("everything else is there" if damaged else "everything is there")
        return
    count = workers or pool.workers_here()
    lines = [(f"{counted(count, 'worker')} of this machine", planned(jobs, here).makespan(count))]
    plan = planned(jobs, elsewhere)
    lines += [(f"{gpus} {elsewhere.device}", plan.makespan(gpus)) for gpus in GPUS]
    for who, seconds in lines:
        out.print(f"on {who}: {format_duration(seconds)}", highlight=False)
    for costs in (here, elsewhere):
        out.print(_basis(costs), highlight=False, soft_wrap=True)


def not_recorded(pairs: Sequence[Requested], scale: str) -> str:
    """Return in one line how much of runs of a scale that is only read is missing, what computes it, and how long that takes."""
    pairs = [pair for pair in pairs if not store.refusal(pair[0])]
    jobs = missing(pairs)
    if not jobs:
        return f"all {len(collected(pairs))} runs of scale {scale} are recorded"
    hours = sum(task.cost for task in planned(jobs, pool.costs_here()).tasks) / 3600
    return (
        f"{len(jobs)} of {len(collected(pairs))} runs of scale {scale} are not recorded, or not with all evaluations; results of "
        f"this scale are only read here: `classwise record --scale {scale}` computes them, about {hours:.0f} hours of one core"
    )


def _row(pairs: Sequence[Requested], present: Present, devices: Sequence[Costs]) -> list[str]:
    """Return the cells of a line: runs, those to compute, missing evaluations, hours on each device, and GB."""
    runs, jobs = len(collected(pairs)), missing(pairs, present)
    plans = [planned(jobs, costs) for costs in devices]
    left = sum(len(job.evaluations) for job in jobs)
    space = sum(flops.space(job.spec, job.evaluations, train=job.train) for job in jobs)
    hours = [f"{sum(task.cost for task in plan.tasks) / 3600:,.2f}" for plan in plans]
    return [str(runs), str(len(jobs)), str(left), *hours, f"{space / 1e9:.2f}"]


def _basis(costs: Costs) -> str:
    """Return a sentence on how the times on a device were estimated."""
    parts = []
    if costs.measured:
        parts.append(f"from measurements of the same network there for {len(costs.measured)} runs, or parts of them")
    if costs.estimated:
        speed = costs.speed
        rates = f"{speed.float32 / 1e12:.2g} TFLOP/s in float32, {speed.bfloat16 / 1e12:.2g} in bfloat16"
        parts.append(
            f"from the number of operations for {len(costs.estimated)}, at {rates} and {1000 * speed.call:.2g} ms a pass"
        )
    if costs.unknown:
        parts.append(f"without {len(costs.unknown)} runs whose images are not here")
    return f"times on {costs.device}: {'; '.join(parts)}"


def format_duration(seconds: float) -> str:
    """Return a time in days, hours, minutes or seconds."""
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"
