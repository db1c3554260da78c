"""Notebooks executed for the book: each at the scales that its page shows, and again only where what it depends on changed."""

import json
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from classwise import runs
from classwise.book import data, notebooks, scale_switch
from classwise.core.files import digest, write
from classwise.core.markup import plural
from classwise.core.paths import build_folder, checkout, data_folder
from classwise.papers import levels, registry, scales
from classwise.papers.home import ATTACKED
from classwise.papers.sections import Request
from classwise.runs import store
from classwise.runs.audits import REPORT
from classwise.runs.compute.processes import end_with_parent
from classwise.runs.pages import stored_beside
from classwise.runs.recorded import BESIDE_PEOPLE, keep_stored, people_file
from classwise.runs.schedule import REFERENCE
from classwise.stats import benchmarks

_BOOK = Path(__file__).parent
# The code that only decides how pages look: a change of it renders the book and executes nothing.
SHELL = [*(_BOOK / f"{name}.py" for name in ("data", "figures", "pages", "new_page", "sphinx_extension"))]
SHELL += [_BOOK / "charts.js", _BOOK / "dictionary.csv"]
# Executions at once, and the file of the seconds that they took here.
_AT_ONCE, _TIMINGS = 2, "timings.json"
# The root of the book, and the pages that read the verdicts of all sections.
HOME = "index"
_LEDGERS = ("claims", "papers", HOME)
# The pages of networks of digits, and those of recorded results alone, with their scale.
_ON_DIGITS, _READ, _COMPARED = ("attack", "pgd"), ("networks", "people", "levels"), "matched"
# A page is executed at a scale that is only read and at that of the book, in folders of their own, and put together.
RECORDED, COMPUTED, _EXECUTED = "recorded", "computed", "executed"
COMING = "Results on digits are being computed. Load this page again once the build has ended."
# Two pages at once have a core each.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def executions(scale: str) -> dict[str, dict[str, str]]:
    """Return the executions that each page is made of, "recorded/claims", with digests of everything that they depend on.

    Those are its notebook, the code, and the results that it shows; the pages of verdicts depend on the results of all sections.
    """
    files = {file for kind in ("py", "csv", "js", "css", "html") for file in _BOOK.parent.rglob(f"*.{kind}")}
    code = digest(sorted(files - set(SHELL)))
    stored = {section: stored_beside(section, scale) for section in registry.SECTIONS}
    beside = {section: digest(_recorded_files(requests.values())) for section, requests in stored.items() if requests}
    keys = {section: store.outcomes_of(registry.request(section, scale).pairs) for section in registry.SECTIONS}
    here = {section: digest(path for key in some if (path := key.path) is not None) for section, some in keys.items()}
    further: dict[str, list[str]] = {name: [*here.values(), *beside.values()] for name in _LEDGERS}
    audit = _recorded_audit()
    recorded = digest(_files(audit)) if audit else ""
    if audit and "laptop" in scales.scales_beside(scale):
        beside["audit"] = recorded
    networks = digest([path for name in ATTACKED if (path := store.weights(registry.training("quick", name, 0)))])
    here |= dict.fromkeys(_ON_DIGITS, networks) | {"audit": digest([recorded, networks])}
    further[HOME].append(networks)
    further["performance"] = [digest(benchmarks.files())]
    compared = _recorded_files([registry.request(BESIDE_PEOPLE, _COMPARED)])
    folders = people_file(_COMPARED).parent, data_folder() / "recorded" / "audits"
    further |= {name: [digest([*chain.from_iterable(map(_files, folders)), *compared])] for name in _READ}
    judged = (registry.request(section, scale) for section in registry.SECTIONS for scale in levels.RADII)
    further["levels"] = [*beside.values(), digest(_recorded_files([*levels.requests().values(), *(() if beside else judged)]))]
    result: dict[str, dict[str, str]] = {}
    for name in notebooks.names():
        used: list[str | Path] = [notebooks.find(name), code, checkout() / "requirements.lock", *further.get(name, [])]
        result[name] = {f"{RECORDED}/{name}": digest([*used, beside[name]])} if name in beside else {}
        # A page names what is recorded of it also where it shows digits.
        result[name][f"{COMPUTED}/{name}"] = digest([scale, *used, here.get(name, ""), beside.get(name, "")])
    return result


def _recorded_files(requests: Iterable[Request]) -> list[Path]:
    """Return what is recorded of requests: also examples, features and traces, which pages show without computing."""
    folders = {store.recorded_folder(spec) for request in requests for spec, _ in request.pairs}
    return sorted(path for folder in folders for path in folder.rglob("*.nc"))


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.*") if path.is_file())


def _recorded_audit() -> Path | None:
    return next((path.parent for path in sorted((data_folder() / "recorded" / "audits").glob(f"*/{REPORT}"))), None)


def _is_complete(name: str, scale: str) -> bool:
    """Return whether all runs of a section are stored at a scale; True for a page that is no section."""
    if name not in registry.SECTIONS:
        return True
    request = registry.request(name, scale)
    stored = keep_stored(request)
    return len(stored.pairs) == len(request.pairs) and not stored.incomplete


def is_made(place: Path, digest: str) -> bool:
    """Return whether a file or folder was made from what has a digest, which the file beside it with the suffix .digest holds."""
    mark = place.with_suffix(".digest")
    return place.exists() and mark.exists() and mark.read_bytes() == digest.encode()


@dataclass(frozen=True)
class Page:
    """A page of the book, and what of it is shown.

    Parameters
    ----------
    name, scale
        of its notebook and of the book.
    parts
        the executions that are shown, with their digests.
    coming
        whether results on digits follow, which a line at the top says.
    """

    name: str
    scale: str
    parts: Mapping[str, str]
    coming: bool

    @property
    def target(self) -> Path:
        """The executed notebook of which the page is rendered."""
        return build_folder() / _EXECUTED / f"{self.name}.ipynb"

    @property
    def digest(self) -> str:
        """What the executed notebook is made from."""
        return digest([str(self.coming), *self.parts.values()])

    def stale(self) -> dict[str, str]:
        """Return the executions that are missing or outdated, with their digests."""
        return {one: made for one, made in self.parts.items() if not is_made(build_folder() / f"{one}.ipynb", made)}

    def compose(self) -> None:
        """Write the executed notebook from its executions."""
        recorded, computed = (build_folder() / f"{folder}/{self.name}.ipynb" for folder in (RECORDED, COMPUTED))
        others = scales.scales_beside(self.scale) if self.name in registry.SECTIONS else []
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self.target.with_suffix(".digest").unlink(missing_ok=True)
        if self.coming:
            shutil.copy(next((build_folder() / f"{one}.ipynb" for one in self.parts), notebooks.find(self.name)), self.target)
            scale_switch.note_missing(self.target, self.name, self.scale, complete=False, head=COMING)
        else:
            shutil.copy(computed, self.target)
            if len(self.parts) > 1:
                other = scale_switch.scale_of(recorded, "laptop")
                complete = _is_complete(self.name, other)
                scale_switch.merge(recorded, self.target, (other, self.scale), self.name, complete=complete)
            elif others:
                scale_switch.mark_computed(self.target, (others[-1], self.scale))
        write(self.target.with_suffix(".digest"), self.digest.encode())


def pages(scale: str, made_of: Mapping[str, Mapping[str, str]], *, first: bool = False) -> list[Page]:
    """Return the pages of the book of a scale, made of `executions`; first: as they can be before results on digits are."""
    shown = []
    for name, parts in made_of.items():
        has_runs = name in registry.SECTIONS and bool(registry.request(name, scale).pairs)
        coming = first and (has_runs or name in (*_LEDGERS, "audit", *_ON_DIGITS))
        kept = (COMPUTED if name in _LEDGERS else RECORDED) if coming else ""
        # What is executed without digits is executed again, whatever of them is stored by now.
        state = {one: digest([made, str(coming)]) if one.startswith(COMPUTED) else made for one, made in parts.items()}
        shown.append(Page(name, scale, {one: made for one, made in state.items() if one.startswith(kept)}, coming))
    return shown


def _execute(one: str, scale: str, made: str) -> float:
    """Carry out an execution, "recorded/claims", mark it with its digest, and return its seconds."""
    began = time.perf_counter()
    folder, _, name = one.partition("/")
    source, target, failed = notebooks.find(name), build_folder() / f"{one}.ipynb", build_folder() / "failed" / f"{name}.ipynb"
    target.with_suffix(".digest").unlink(missing_ok=True)
    audit = {"weights": str(stored)} if name == "audit" and (stored := _recorded_audit()) else {}
    if folder == COMPUTED:
        scaled = scale != "quick" and "scale" in notebooks.parameters(source)
        only_read = scales.is_only_read(scale)
        given = {"scale": scale} if scaled else audit if only_read else {}
        lacking = name in _READ or (only_read and name in _ON_DIGITS)
        execute(name, target, {} if name in _READ else given, failed, lacking=lacking)
    elif audit:
        notebooks.execute(source, target, audit, failed)
    else:
        # The first scale at which the page begins, else the last.
        for other in runs.shown_scales(name, scale)[:-1]:
            notebooks.execute(source, target, {"scale": other}, failed, tolerant=True)
            if scale_switch.opens_with_chart(target):
                break
        scale_switch.check_executed(target, name, other, complete=_is_complete(name, other))
    write(target.with_suffix(".digest"), made.encode())
    return time.perf_counter() - began


def execute(name: str, target: Path, given: Mapping[str, Any], failed: Path, *, lacking: bool = False) -> None:
    """Execute a notebook with parameters; at a scale that is only read, or if `lacking`, cells whose runs are missing say so."""
    scale = str(given.get("scale", "quick"))
    tolerant = lacking or (scale in scales.SCALES and scales.SCALES[scale].recorded_only)
    notebooks.execute(notebooks.find(name), target, given, failed, tolerant=tolerant)
    if tolerant:
        scale_switch.note_missing(target, name, scale, complete=not lacking and _is_complete(name, scale))


def known_seconds() -> dict[str, float]:
    """Return the last seconds of each execution by its name, and of "render"; none if the file is missing or damaged."""
    try:
        return {str(name): float(value) for name, value in json.loads((build_folder() / _TIMINGS).read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def record_seconds(name: str, value: float) -> None:
    """Keep the seconds of an execution, or of "render"."""
    write(build_folder() / _TIMINGS, json.dumps(known_seconds() | {name: round(value, 1)}, indent=1, sort_keys=True).encode())


def _usual_seconds() -> Mapping[str, float]:
    """Return the seconds of executions and of "render": the last here, else on the machine of the reference, else the median."""
    known = json.loads(REFERENCE.read_text())["executions"] | known_seconds()
    usual = median(value for one, value in known.items() if one != "render")
    return defaultdict(lambda: usual, known)


def expected_seconds(stale: Collection[str], *, renders: bool = True) -> float:
    """Return the expected seconds of executions, and of rendering if there are any and it `renders`."""
    took = _usual_seconds()
    return sum(took[one] for one in stale) / min(_AT_ONCE, max(len(stale), 1)) + (took["render"] if stale and renders else 0.0)


@contextmanager
def progress(stale: Collection[str], console: Console, before: float) -> Iterator[Callable[[], None]]:
    """Show the bar of a build whose runs took `before` seconds, with the time left; what it yields ends one execution.

    Nothing is shown if the output is no terminal.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    later, rendering = expected_seconds(stale), _usual_seconds()["render"]
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("the book", total=before + later)
        bars.advance(task, before)
        yield lambda: bars.advance(task, (later - rendering) / len(stale))


def execute_pages(shown: Collection[Page], console: Console, before: float = 0.0) -> int:
    """Execute what changed of pages, two notebooks at once, and return the number of pages that changed.

    NotebookFailed names those that raised. before: seconds of the build that are done, for its progress.
    """
    changed = [page for page in shown if not is_made(page.target, page.digest)]
    left = {page.name: page.stale() for page in changed}
    stale, errors = {one: made for some in left.values() for one, made in some.items()}, list[str]()
    for page in (page for page in changed if not left[page.name]):
        page.compose()
    if not stale:
        return len(changed)
    scale = changed[0].scale
    console.print(f"{plural(len(stale), 'notebook')} to execute")
    with (
        patch.dict(os.environ, {name: value for name, value in _ONE_THREAD.items() if name not in os.environ}),
        progress(stale, console, before) as advance,
        ProcessPoolExecutor(_AT_ONCE, get_context("spawn"), end_with_parent) as workers,
    ):
        # The longest first, and last the pages that read the verdicts of all others, which else were computed twice.
        took, last = _usual_seconds(), {f"{COMPUTED}/{name}" for name in (*_LEDGERS, "levels")}
        order = sorted(stale, key=lambda one: (one in last, -took[one]))
        futures = {workers.submit(_execute, one, scale, stale[one]): one for one in order if one not in last}
        # The results to download, at the same time; `build` finds them, or makes what failed.
        workers.submit(data.write_files, scale, build_folder() / "data")
        futures |= {workers.submit(_execute, one, scale, stale[one]): one for one in order if one in last}
        of_name = {page.name: page for page in changed}
        for done, future in enumerate(as_completed(futures), 1):
            one, error = futures[future], future.exception()
            name = one.partition("/")[2]
            if error is None:
                del left[name][one]
                if not of_name[name].coming:
                    record_seconds(one, future.result())
                if not left[name]:
                    of_name[name].compose()
            else:
                errors.append(str(error))
            console.print(f"\\[{done}/{len(stale)}] {one}{': failed' if error else ''}", highlight=False)
            advance()
    if errors:
        raise notebooks.NotebookFailed("\n".join([*errors, f"the last good book stays in {build_folder() / 'html'}"]))
    return len(changed)
