"""Build the book: runs, executed notebooks, scripts that work offline, and the rendered pages."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.metadata import distribution
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import vl_convert
import yaml
from filelock import FileLock, Timeout
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import classwise
from classwise import runs
from classwise.book import data, notebooks, pages, scale_switch
from classwise.core.errors import UserError
from classwise.core.files import digest, write
from classwise.core.markup import plural
from classwise.core.paths import build_folder, checkout, data_folder
from classwise.papers import registry, scales
from classwise.runs import store
from classwise.runs.audits import REPORT
from classwise.runs.compute.processes import end_with_parent
from classwise.runs.recorded import keep_stored
from classwise.stats import benchmarks

if TYPE_CHECKING:
    from classwise.runs.schedule.plan import Wanted

_BOOK = Path(__file__).parent
# The code that only decides how pages look: a change of it renders the book and executes nothing.
_SHELL = [*(_BOOK / f"{name}.py" for name in ("data", "figures", "pages", "new_page", "sphinx_extension"))]
_SHELL += [_BOOK / "charts.js", _BOOK / "dictionary.csv"]
# Notebooks that are executed at once, and the seconds of a notebook and of rendering that were never measured; the file of those
# of the last build.
_AT_ONCE, NOTEBOOK, RENDER, _TIMINGS = 2, 20.0, 60.0, "timings.json"
# The root of the book, and the pages that read the verdicts of all sections.
HOME = "index"
_LEDGERS = ("claims", "papers", HOME)
# Two pages at once have a core each.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_GUIDE = (
    "reading",
    "glossary",
    "parameters",
    "python",
    "datasets",
    "audit",
    "recorded",
    "cluster",
    "defences",
    "extending",
    "architecture",
)
# The pages of no paper by the part of the book. "data" is written when the book is rendered.
_PAGES = {
    "What holds": ("claims", "papers"),
    "Attacks and defences": ("performance", "defences"),
    "Audits": ("audit",),
    "Results": ("data",),
    "Guide": tuple(f"guide/{name}" for name in (*_GUIDE, "references", "sources")),
    "Reference": ("guide/api", "guide/changelog"),
}


def table_of_contents() -> str:
    """Return the table of contents of the book, in jupyter-book's YAML: the papers, the other pages, the guide."""
    pages = {paper.title: paper.pages for paper in registry.PAPERS.values()} | _PAGES
    entries = {title: [{"file": name} for name in names] for title, names in pages.items() if names}
    parts = [dict(caption=title, chapters=files) for title, files in entries.items()]  # noqa: C408
    return str(yaml.safe_dump({"format": "jb-book", "root": HOME, "parts": parts}, sort_keys=False))


def write_table_of_contents() -> None:
    """Write book/_toc.yml, if it changes."""
    path, contents = checkout() / "book" / "_toc.yml", table_of_contents()
    if not path.exists() or path.read_text() != contents:
        write(path, contents.encode())


def scripts() -> list[Path]:
    """Return the scripts that every page needs, made once: the Vega bundle with charts.js, and MathJax."""
    from altair.utils._importers import vl_version_for_vl_convert  # slow to import, unlike vl_convert
    from altair.vegalite.v6 import display

    vega, math = (build_folder() / "scripts" / name for name in ("vega.js", "mathjax.js"))
    # Altair's page template loads nothing from the network if VEGA_DEBUG already holds its versions.
    versions = {"vega": display.VEGA_VERSION, "vegalite": display.VEGALITE_VERSION, "vegaembed": display.VEGAEMBED_VERSION}
    debug = json.dumps({f"{name}_version": version for name, version in versions.items()})
    charts = f"window.VEGA_DEBUG = {debug};\n" + (_BOOK / "charts.js").read_text()
    if not vega.exists() or not vega.read_text().endswith(charts):
        bundle = vl_convert.javascript_bundle(vl_version=vl_version_for_vl_convert())  # type: ignore[call-arg]
        # In a function, since its top-level names would collide with those of other scripts.
        write(vega, ("(function () {\n" + bundle + "\n})();\n" + charts).encode())
    if not math.exists():
        script = next(file for file in distribution("sphinx-mathjax-offline").files or [] if file.name == "tex-svg.js")
        write(math, Path(str(script.locate())).read_bytes())
    return [vega, math]


def style() -> str:
    """Return the style sheet of a standalone page."""
    shared = (checkout() / "book" / "_static" / "book.css").read_text().replace(".bd-content ", "")
    return shared + (checkout() / "book" / "standalone.css").read_text()


def _depends_on(name: str, scale: str, code: Sequence[Path], results: Mapping[str, Sequence[Path]]) -> str:
    """Return a digest of everything a page depends on: its notebook, the code, the scale, and the results of its sections."""
    used = [notebooks.find(name), *code, checkout() / "requirements.lock"]
    used += benchmarks.files() if name == "performance" else []
    used += sorted(audit.rglob("*.*")) if name == "audit" and (audit := _recorded_audit()) else []
    used += dict.fromkeys(path for section in results if name in (section, *_LEDGERS) for path in results[section])
    return digest([scale, runs.audit().id if name == "audit" else "", *used])


def _results_of(section: str, scale: str) -> list[Path]:
    """Return the stored results that the page of a section shows at a scale, and at those that are only read."""
    pairs = registry.request(section, scale).pairs
    read = [registry.request(section, other).pairs for other in runs.shown_scales(section, scale)[:-1]]
    shown = {store.recorded_folder(spec) for pairs in read for spec, _ in pairs}
    paths = [path for key in store.outcomes_of(pairs) if (path := key.path) is not None]
    # Of recorded runs also examples, features and traces, which pages show without computing them.
    return paths + sorted(path for folder in shown for path in folder.rglob("*.nc"))


def _recorded_audit() -> Path | None:
    """Return the folder of the audit of a network of scale "laptop" that the page "audit" shows."""
    return next((path.parent for path in sorted((data_folder() / "recorded" / "audits").glob(f"*/{REPORT}"))), None)


def _stale(scale: str) -> dict[str, str]:
    """Return the notebooks that must be executed, with digests: those whose executed form is missing or outdated."""
    code = sorted({file for kind in ("py", "csv", "js", "css") for file in _BOOK.parent.rglob(f"*.{kind}")} - set(_SHELL))
    results = {section: _results_of(section, scale) for section in registry.SECTIONS}
    digests = {name: _depends_on(name, scale, code, results) for name in notebooks.names()}
    return {name: one for name, one in digests.items() if not _is_made(build_folder() / "executed" / f"{name}.digest", one)}


def _is_made(mark: Path, digest: str) -> bool:
    """Return whether something was made from what has a digest, which is then in the file `mark`."""
    return mark.exists() and mark.read_bytes() == digest.encode()


def _is_complete(name: str, scale: str) -> bool:
    """Return whether all runs of a section are stored at a scale; True for a page that is no section."""
    if name not in registry.SECTIONS:
        return True
    request = registry.request(name, scale)
    stored = keep_stored(request)
    return len(stored.pairs) == len(request.pairs) and not stored.incomplete


def _execute(name: str, scale: str) -> float:
    """Execute a notebook, where results of another scale are recorded at that scale, too, and merge both; return the seconds."""
    began = time.perf_counter()
    source, out = notebooks.find(name), build_folder()
    target, recorded, failed = (out / folder / f"{name}.ipynb" for folder in ("executed", "recorded", "failed"))
    scaled = scale != "quick" and "scale" in notebooks.parameters(source)
    execute(name, target, {"scale": scale} if scaled else {}, failed)
    if name == "audit" and (folder := _recorded_audit()) and "laptop" in scales.scales_beside(scale):
        notebooks.execute(source, recorded, {"weights": str(folder)}, failed)
        scale_switch.merge(recorded, target, ("laptop", scale), name, complete=True)
    others = scales.scales_beside(scale) if name in registry.SECTIONS else []
    *stored, _ = runs.shown_scales(name, scale) if others else ("",)
    for other in stored:  # the first one that shows the beginning of the page, else the last
        notebooks.execute(source, recorded, {"scale": other}, failed, tolerant=True)
        if other == stored[-1] or scale_switch.opens_with_chart(recorded):
            scale_switch.merge(recorded, target, (other, scale), name, complete=_is_complete(name, other))
            break
    if others and not stored:
        scale_switch.mark_computed(target, (others[-1], scale))
    return time.perf_counter() - began


def execute(name: str, target: Path, given: Mapping[str, Any], failed: Path) -> None:
    """Execute a notebook with parameters; at a scale that is only read, cells whose runs are not recorded say so."""
    scale = str(given.get("scale", "quick"))
    tolerant = scale in scales.SCALES and scales.SCALES[scale].recorded_only
    notebooks.execute(notebooks.find(name), target, given, failed, tolerant=tolerant)
    if tolerant:
        scale_switch.note_missing(target, name, scale, complete=_is_complete(name, scale))


def known_seconds() -> dict[str, float]:
    """Return the last seconds of each notebook by its name, and of "render"; none if the file is missing or damaged."""
    try:
        return {str(name): float(value) for name, value in json.loads((build_folder() / _TIMINGS).read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def record_seconds(name: str, value: float) -> None:
    """Keep the seconds of a notebook, or of "render"."""
    write(build_folder() / _TIMINGS, json.dumps(known_seconds() | {name: round(value, 1)}, indent=1, sort_keys=True).encode())


def seconds_after_runs(stale: Collection[str]) -> float:
    """Return the expected seconds of executing notebooks, and of rendering if there are any."""
    known = {"render": RENDER} | known_seconds()
    usual = median([value for name, value in known.items() if name != "render"] or [NOTEBOOK])
    executed = sum(known.get(name, usual) for name in stale) / min(_AT_ONCE, max(len(stale), 1))
    return executed + (known["render"] if stale else 0.0)


def announce(wanted: "Wanted", stale: Collection[str], console: Console, workers: int | None = None) -> float:
    """Print in one line what a build will do and about how long that takes on this machine; return the seconds of its runs."""
    from classwise.runs.schedule import pool  # torch
    from classwise.runs.schedule.forecast import format_duration
    from classwise.runs.schedule.plan import duration, missing, plan_tasks

    left, parts, of_runs, later = missing(wanted), [], 0.0, seconds_after_runs(stale)
    if left:
        of_runs = duration(plan_tasks(left, pool.costs_here()), workers or pool.workers_here())
        training = sum(key.evaluation is None for key in left)
        evaluations = len(left) - training
        words = f"{plural(training, 'run')} to train and {plural(evaluations, 'evaluation')}"
        parts.append(f"{words}, about {format_duration(of_runs)}")
    if stale:
        parts.append(f"{plural(len(stale), 'notebook')} to execute and the book to render, about {format_duration(later)}")
    if parts:
        console.print(f"{'; '.join(parts)}; in all {format_duration(of_runs + later)}", highlight=False, soft_wrap=True)
    return of_runs


@contextmanager
def progress(stale: Collection[str], console: Console, before: float) -> Iterator[Callable[[], None]]:
    """Show the bar of a build whose runs took `before` seconds, with the time left; what it yields ends one notebook.

    Nothing is shown if the output is no terminal.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    later, rendering = seconds_after_runs(stale), known_seconds().get("render", RENDER)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("the book", total=before + later)
        bars.advance(task, before)
        yield lambda: bars.advance(task, (later - rendering) / len(stale))


def ensure_runs(wanted: "Wanted", scale: str, console: Console, **workers: Any) -> None:
    """Compute what is missing of runs; at a scale that is only read, print in one line how much that is."""
    from classwise.runs.schedule import forecast, pool  # torch

    if scales.SCALES[scale].recorded_only:
        console.print(forecast.not_recorded(wanted, scale), highlight=False, soft_wrap=True)
    else:
        pool.ensure_runs(wanted, repair=True, console=console, **workers)


def execute_all(scale: str, console: Console, before: float = 0.0) -> int:
    """Execute the notebooks that changed, two at once, and return their number; NotebookFailed names those that raised.

    before: seconds of the build that are done, for its progress.
    """
    stale, errors = _stale(scale), []
    if not stale:
        return 0
    console.print(f"{plural(len(stale), 'notebook')} to execute")
    with (
        patch.dict(os.environ, {name: value for name, value in _ONE_THREAD.items() if name not in os.environ}),
        progress(stale, console, before) as advance,
        ProcessPoolExecutor(_AT_ONCE, get_context("spawn"), end_with_parent) as workers,
    ):
        # The longest first, and last the pages that read the verdicts of all others, which else were computed twice.
        took = known_seconds()
        order = sorted(stale, key=lambda name: (name in _LEDGERS, -took.get(name, NOTEBOOK)))
        futures = {workers.submit(_execute, name, scale): name for name in order if name not in _LEDGERS}
        # The results to download, at the same time; `build` finds them, or makes what failed.
        workers.submit(data.write_files, scale, build_folder() / "data")
        futures |= {workers.submit(_execute, name, scale): name for name in order if name in _LEDGERS}
        for done, future in enumerate(as_completed(futures), 1):
            name, error = futures[future], future.exception()
            if error is None:
                write(build_folder() / "executed" / f"{name}.digest", stale[name].encode())
                record_seconds(name, future.result())
            else:
                errors.append(str(error))
            console.print(f"\\[{done}/{len(stale)}] {name}{': failed' if error else ''}", highlight=False)
            advance()
    if errors:
        raise notebooks.NotebookFailed("\n".join([*errors, f"the last good book stays in {build_folder() / 'html'}"]))
    return len(stale)


def _run_sphinx(sources: Path, fresh: Path) -> None:
    """Render the pages of a folder with jupyter-book into the folder `fresh`."""
    options = ["--path-output", str(fresh), "--quiet", "--warningiserror", "--keep-going"]
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", str(sources), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not (fresh / "_build" / "html" / "index.html").exists():
        good = build_folder() / "html"
        raise RuntimeError(
            f"jupyter-book could not render {sources}; the last good book stays in {good}:\n{done.stdout}{done.stderr}"
        )


def render(console: Console) -> bool:
    """Render the book from book/ and the executed notebooks; return whether anything had changed.

    The new book replaces the old one only when it is complete.
    """
    out, source, names = build_folder(), checkout() / "book", notebooks.names()
    sources, fresh, html, mark = out / "pages", out / "book", out / "html", out / "html.digest"
    executed = {name: out / "executed" / f"{name}.ipynb" for name in names}
    extra = {f"scripts/{script.name}": script for script in scripts()}
    extra |= {f"data/{file.name}": file for file in sorted((out / "data").glob("[!.]*"))}
    extra |= {f"tables/{name}.csv": one.tables.folder / "tables.csv" for name, one in registry.PAPERS.items() if one.tables}
    written = sorted(path for path in source.rglob("*") if path.is_file())
    # guide/changelog.md includes CHANGELOG.md.
    inputs = [*written, checkout() / "CHANGELOG.md", *executed.values(), *extra.values(), *_SHELL]
    made_from = digest([*map(str, written), *inputs])
    if html.exists() and _is_made(mark, made_from):
        return False
    for folder in (sources, fresh):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, sources)
    shutil.copy(checkout() / "CHANGELOG.md", out)
    for name, path in executed.items():
        pages.to_sphinx(name, path, sources / f"{name}.ipynb", sources / "_extra")
    for name in re.findall(r"thumbnails/([\w/-]+)\.svg", notebooks.find(HOME).read_text()):
        write(sources / "_extra" / "thumbnails" / f"{name}.svg", pages.thumbnail(executed[name]).encode())
    write(sources / "data.md", data.page(out / "data").encode())
    for name, path in extra.items():
        (sources / "_extra" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, sources / "_extra" / name)
    console.print("rendering the book")
    began = time.perf_counter()
    _run_sphinx(sources, fresh)
    for name in names:  # what readers download is the notebook that they can run
        shutil.copy(notebooks.find(name), fresh / "_build" / "html" / "_sources" / f"{name}.ipynb")
    old = out / "html.old"
    shutil.rmtree(old, ignore_errors=True)
    if html.exists():
        html.replace(old)
    (fresh / "_build" / "html").replace(html)
    shutil.rmtree(old, ignore_errors=True)
    write(mark, made_from.encode())
    record_seconds("render", time.perf_counter() - began)
    return True


def build(scale: str, console: Console, workers: int | None = None, scheduler: str | None = None) -> Path:
    """Compute what is missing, execute what changed, render the book, and return its first page."""
    requests = {name: registry.request(name, scale) for name in registry.SECTIONS}
    write_table_of_contents()
    with lock(console):
        from classwise.runs import audits  # torch
        from classwise.runs.schedule import plan

        wanted = plan.merge(plan.section_keys(registry.SECTIONS[name], request) for name, request in requests.items())
        stale, recorded_only = _stale(scale), scales.SCALES[scale].recorded_only
        before = announce({} if recorded_only else wanted, stale, console, workers)
        more = {} if recorded_only else {"after": seconds_after_runs(stale)}
        ensure_runs(wanted, scale, console, workers=workers, scheduler=scheduler, **more)
        audits.run_audit(runs.audit(), console)
        executed = execute_all(scale, console, before)
        data.write_files(scale, build_folder() / "data")
        if not (render(console) or executed):
            console.print("nothing changed")
    return build_folder() / "html" / "index.html"


def lock(console: Console) -> AbstractContextManager[Any]:
    """Return the lock of the build folder, held: one call at a time writes there; a line says if another does."""
    path = build_folder() / ".lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return FileLock(path).acquire(timeout=0)
    except Timeout:
        console.print(f"another build of the book is at work in {path.parent}; this call waits until it ends", soft_wrap=True)
        return FileLock(path).acquire()


def pack(console: Console) -> Path:
    """Pack the built book, which no build replaces meanwhile, and return the zip file: build/classwise-book-VERSION.zip.

    index.html is at its top, and hidden files, which only a next build needs, are left out; the same book gives the same bytes.
    A missing book is a UserError.
    """
    html, target = build_folder() / "html", build_folder() / f"classwise-book-{classwise.__version__}.zip"
    with lock(console) if build_folder().exists() else nullcontext():
        if not (html / "index.html").exists():
            raise UserError(f"there is no book in {html} yet; `make book` builds it")
        files = {path.relative_to(html): path for path in html.rglob("*") if path.is_file()}
        shown = {name: path for name, path in files.items() if not any(part.startswith(".") for part in name.parts)}
        write(target, data.archive({name.as_posix(): path.read_bytes() for name, path in shown.items()}))
    return target
