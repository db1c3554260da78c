"""Audits of networks that hide gradients in a known way, and of one that does not: `python -m benchmarks.audits`.

Prints the headline, the lowest number of the page at the radius and the warnings of each, the false alarms over seeds, and the
seconds of an audit with one and two threads, on the machine as it is and with as many busy processes as cores.
"""

import io
import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import torch
import typer
from rich.console import Console

from classwise import runs
from classwise.charts import audit_report
from classwise.core.audit import Audit
from classwise.papers import findings
from classwise.runs import audit_evaluation, store
from classwise.runs.compute import evaluate, threads
from classwise.stats import masking
from tests import masked_networks

_KINDS = ("robust", "moderate", "overfitted", "quantised", "saturated", "noisy")


def _evaluated(audit: Audit) -> tuple[str, float, dict[str, str]]:
    """Return the first sentence of the page, the lowest number on it at the radius, in percent, and the warnings."""
    audit_evaluation.ensure_keys(store.outcomes_of([(audit, [*audit.evaluations, *audit.curve])]), Console(file=io.StringIO()))
    outcomes, curve = (runs.outcomes([audit], some) for some in (audit.evaluations, audit.curve))
    count = audit_report.network_counts(masking.worst_case_outcomes(outcomes, curve, audit.eps))
    checks = runs.audit_checks(audit)
    warned = masking.warnings(outcomes, curve, audit.eps, checks)
    first = findings.audit_finding(audit, count, warned).split("\n")[0]
    lowest = min(accuracy for accuracy, _ in masked_networks.accuracies(audit, outcomes, curve, checks).values())
    return first, lowest, warned


def _spin() -> None:
    while True:
        pass


@contextmanager
def _busy(processes: int) -> Iterator[None]:
    """Keep so many cores busy until the block ends."""
    spinning = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(processes)]
    try:
        for process in spinning:
            process.start()
        yield
    finally:
        for process in spinning:
            process.kill()
            process.join()


def _seconds(audit: Audit, folder: Path, number: int) -> float:
    """Return the seconds of all evaluations of an audit on so many threads."""
    with TemporaryDirectory(dir=folder) as out:
        fresh, before = replace(audit, out=out), torch.get_num_threads()
        torch.set_num_threads(number)
        began = time.perf_counter()
        for evaluation in [*fresh.evaluations, *fresh.curve]:
            evaluate.evaluate_run(fresh, evaluation)
        torch.set_num_threads(before)
        return time.perf_counter() - began


def main(
    attacks: Annotated[list[str] | None, typer.Argument(help="attacks of the audits; by default fgsm and strong")] = None,
    seeds: Annotated[int, typer.Option(help="networks without hidden gradients")] = 20,
    limit: Annotated[int, typer.Option(help="images of each of these")] = 50,
    timed: Annotated[bool, typer.Option(help="measure one and two threads")] = True,
) -> None:
    """Print what the audits of the examples say."""
    with TemporaryDirectory() as name:
        folder, os.environ["CLASSWISE_DATA"] = Path(name), name
        for kind in _KINDS:
            for attack in attacks or ["fgsm", "strong"]:
                first, lowest, warned = _evaluated(masked_networks.audit(kind, folder, attack))
                print(f"{kind}, {attack}: lowest {lowest:.1f} %; {first}\n  {warned or 'no warnings'}", flush=True)
        _alarms(folder, seeds, limit)
        if timed:
            _timings(folder)


def _alarms(folder: Path, seeds: int, limit: int) -> None:
    """Print how many audits of networks without hidden gradients warn."""
    alarms = []
    for seed in range(seeds):
        for attack in ("fgsm", "pgd-20"):
            _, _, warned = _evaluated(masked_networks.audit("robust", folder, attack, seed, limit))
            alarms += [(seed, attack, warned)] if warned else []
    print(f"false alarms: {len({seed for seed, *_ in alarms})} of {seeds} seeds: {alarms}", flush=True)


def _timings(folder: Path) -> None:
    """Print the seconds of an audit by threads and load."""
    audit = masked_networks.audit("robust", folder, "pgd-20", limit=50)
    for load in (0, os.cpu_count() or 1):
        with _busy(load):
            for number in (1, 2):
                seconds = _seconds(audit, folder, number)
                print(f"{number} threads, {load} more busy processes, load {os.getloadavg()[0]:.1f}: {seconds:.1f} s", flush=True)
            with threads.fastest_threads(audit_evaluation.gradient_step(audit)) as chosen:
                print(f"an audit takes {chosen} threads of {os.cpu_count()}, idle: {threads.idle_cores()}", flush=True)


if __name__ == "__main__":
    typer.run(main)
