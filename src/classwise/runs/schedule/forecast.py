"""What a plan costs, before anything runs: runs, what is there, time and disk."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from classwise.runs.compute import device
from classwise.runs.schedule import flops, pool
from classwise.runs.schedule.cost import PLANNED, Costs
from classwise.runs.schedule.plan import Requested, collected, missing, planned

# On so many GPUs the whole is foretold.
GPUS = (1, 8, 64)


def forecast(sections: Sequence[tuple[str, Sequence[Requested]]], out: Console, *, workers: int | None = None) -> None:
    """Print what computing the sections would take: a line for each, then all together, every run counted once.

    workers: how many of this machine. Nothing is computed, and no images are read that are not here.
    """
    asked = [one for _, own in sections for one in own]
    pool.check(asked)
    here, elsewhere = pool.costs_here(), Costs(PLANNED, gpu=True)
    on_gpu = device.device().type == "cuda"
    kind = here.device if on_gpu else "one CPU thread"
    table = Table("section", "runs", "to compute", "questions", f"hours of {kind}", "GPU hours", "GB", box=None)
    for name, own in sections:
        table.add_row(name, *_row(own, here, elsewhere))
    table.add_row("all, each run once", *_row(asked, here, elsewhere), style="bold")
    out.print(table)
    told = "to compute: runs of which something is missing, the training or a question, and others that they build on"
    out.print(told, highlight=False)
    jobs = missing(asked)
    if not jobs:
        out.print("everything is there")
        return
    count = workers or pool.workers_here()
    lines = [(f"{count} worker{'s' * (count > 1)} of this machine", planned(jobs, here).makespan(count))]
    plan = planned(jobs, elsewhere)
    lines += [(f"{gpus} {elsewhere.device}", plan.makespan(gpus)) for gpus in GPUS]
    for who, seconds in lines:
        out.print(f"on {who}: {format_duration(seconds)}", highlight=False)
    for costs in (here, elsewhere):
        out.print(_basis(costs), highlight=False, soft_wrap=True)


def _row(asked: Sequence[Requested], here: Costs, elsewhere: Costs) -> list[str]:
    """Return the cells of a line: runs and those with something missing, questions left, hours and GB."""
    runs, jobs = len(collected(asked)), missing(asked)
    plans = [planned(jobs, costs) for costs in (here, elsewhere)]
    left = sum(len(job.evaluations) for job in jobs)
    space = sum(flops.space(job.spec, job.evaluations, train=job.train) for job in jobs)
    hours = [f"{sum(piece.cost for piece in plan.pieces) / 3600:,.2f}" for plan in plans]
    return [str(runs), str(len(jobs)), str(left), *hours, f"{space / 1e9:.2f}"]


def _basis(costs: Costs) -> str:
    """Return in one sentence where the times on a device come from."""
    parts = []
    if costs.measured:
        parts.append(f"measured there on the same network for {len(costs.measured)} runs, or parts of them")
    if costs.reckoned:
        rated = costs.rated
        stated = f"{rated.float32 / 1e12:g} TFLOP/s in float32, {rated.bfloat16 / 1e12:g} in bfloat16"
        parts.append(f"reckoned from the arithmetic for {len(costs.reckoned)}, with {stated} and {1000 * rated.call:g} ms a pass")
    if costs.unknown:
        parts.append(f"left out for {len(costs.unknown)}, whose images are not here to be counted")
    return f"times on {costs.device}: {'; '.join(parts)}"


def format_duration(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"
