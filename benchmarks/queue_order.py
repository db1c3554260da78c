"""Print the sections of a scale by the claims that each adds in an hour of one core, as the queue of the scale lists them.

    python -m benchmarks.queue_order laptop

Runs of the first seed alone; what the entries before those of sections and what sections further up compute costs nothing more.
"""

import sys
from collections.abc import Iterable

from classwise.core.spec import Evaluation, Spec
from classwise.papers import registry
from classwise.papers.scales import SCALES
from classwise.runs.record import queue
from classwise.runs.schedule import pool
from classwise.runs.schedule.plan import Requested, group_by_run


def main(scale: str) -> None:
    """Print a line for each section: claims, new runs, hours, claims in an hour."""
    costs, dataset = pool.costs_here(), SCALES[scale].run["dataset"]
    first = [one for one in queue.read(queue.default(scale)) if one.why.partition(":")[0] not in registry.SECTIONS]
    done = _steps((one.spec, one.evaluations) for one in first)
    left = {name: _steps(registry.request(name, scale, seeds=[0]).pairs) for name in registry.SECTIONS}
    claims = {name: sum(one.section == name and not one.exclusion(dataset) for one in registry.CLAIMS) for name in left}
    while left:
        hours = {name: sum(costs.seconds(*one) for one in work - done) / 3600 for name, work in left.items()}
        best = max(left, key=lambda name: claims[name] / max(hours[name], 1e-3))
        new, rate = sum(kind is None for _, kind in left[best] - done), claims[best] / max(hours[best], 1e-3)
        print(f"{best:45} {claims[best]:3} claims {new:3} runs {hours[best]:6.2f} h {rate:7.1f} claims an hour")
        done |= left.pop(best)


def _steps(pairs: Iterable[Requested]) -> set[tuple[Spec, Evaluation | None]]:
    """Return each training, with None, and each evaluation of runs."""
    return {(spec, kind) for spec, some in group_by_run(pairs).items() for kind in (None, *(key.evaluation for key in some))}


if __name__ == "__main__":
    main(sys.argv[1])
