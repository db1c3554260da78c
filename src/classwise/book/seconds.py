"""What the book still has to do and how long that takes here, by the seconds of its last build in build/timings.json."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from classwise.core.files import write
from classwise.core.markup import counted
from classwise.core.paths import build_folder

if TYPE_CHECKING:
    from classwise.runs.schedule.plan import Requested

# Notebooks that are executed at once, and the seconds of a notebook and of rendering that were never measured.
AT_ONCE, NOTEBOOK, RENDER = 2, 20.0, 60.0
_RENDER = "render"


def file() -> Path:
    """Return the path of the seconds."""
    return build_folder() / "timings.json"


def stored() -> dict[str, float]:
    """Return the last seconds of each notebook by its name, and of "render"; none if the file is missing or damaged."""
    try:
        return {str(name): float(value) for name, value in json.loads(file().read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def record(name: str, value: float) -> None:
    """Keep the seconds of a notebook, or of "render"."""
    write(file(), json.dumps(stored() | {name: round(value, 1)}, indent=1, sort_keys=True).encode())


def after_runs(stale: Sequence[str]) -> float:
    """Return the expected seconds of executing notebooks, and of rendering if there are any."""
    known = stored()
    usual = median([value for name, value in known.items() if name != _RENDER] or [NOTEBOOK])
    executed = sum(known.get(name, usual) for name in stale) / min(AT_ONCE, max(len(stale), 1))
    return executed + (known.get(_RENDER, RENDER) if stale else 0.0)


def announce(pairs: "Sequence[Requested]", stale: Sequence[str], console: Console, workers: int | None = None) -> float:
    """Print in one line what a build will do and about how long that takes on this machine; return the seconds of its runs."""
    from classwise.runs.schedule import pool  # torch
    from classwise.runs.schedule.forecast import duration, format_duration
    from classwise.runs.schedule.plan import missing, planned

    jobs, parts, of_runs, later = missing(pairs), [], 0.0, after_runs(stale)
    if jobs:
        of_runs = duration(planned(jobs, pool.costs_here()), workers or pool.workers_here())
        training, evaluations = sum(job.train for job in jobs), sum(len(job.evaluations) for job in jobs)
        parts.append(
            f"{counted(training, 'run')} to train and {counted(evaluations, 'evaluation')}, about {format_duration(of_runs)}"
        )
    if stale:
        parts.append(f"{counted(len(stale), 'notebook')} to execute and the book to render, about {format_duration(later)}")
    if parts:
        console.print(f"{'; '.join(parts)}; in all {format_duration(of_runs + later)}", highlight=False, soft_wrap=True)
    return of_runs


@contextmanager
def progress(stale: Sequence[str], console: Console, before: float) -> Iterator[Callable[[], None]]:
    """Show the bar of a build whose runs took `before` seconds, with the time left; what it yields ends one notebook.

    Nothing is shown if the output is no terminal.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    later, rendering = after_runs(stale), stored().get(_RENDER, RENDER)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("the book", total=before + later)
        bars.advance(task, before)
        yield lambda: bars.advance(task, (later - rendering) / len(stale))
