"""Build the book: runs, executed notebooks, scripts that work offline, and the rendered pages."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import webbrowser
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import vl_convert
import yaml
from filelock import FileLock, Timeout
from rich.console import Console

import classwise
from classwise.book import data, execution, notebooks, pages
from classwise.book.execution import HOME
from classwise.core import markup
from classwise.core.errors import UserError
from classwise.core.files import digest, write
from classwise.core.markup import plural
from classwise.core.paths import build_folder, checkout
from classwise.papers import registry, scales
from classwise.papers.home import ATTACKED

if TYPE_CHECKING:
    from classwise.runs.schedule.plan import Wanted
    from classwise.runs.store import Key

_BOOK = Path(__file__).parent
_GUIDE: tuple[str, ...] = ("reading", "glossary", "parameters", "python", "own-code", "datasets")
_GUIDE += ("audit", "recorded", "cluster", "defences", "extending", "architecture")
# The pages of no paper by the part of the book. "data" is written when the book is rendered.
_PAGES = {
    "What holds": ("claims", "papers", "levels"),
    "Attacks and defences": ("attack", "pgd", "performance", "defences"),
    "Audits": ("audit", "networks", "people"),
    "Results": ("data", "settings"),
    "Guide": tuple(f"guide/{name}" for name in (*_GUIDE, "citing", "references", "sources")),
}
# What stands at the address of a page that is part of another one now.
_MOVED = '<!doctype html><meta http-equiv="refresh" content="0; url={0}"><link rel="canonical" href="{0}"><a href="{0}">{0}</a>'


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
    names = json.dumps([markup.PRINTED, markup.CAPITALS.pattern])
    charts = f"window.VEGA_DEBUG = {debug};\nwindow.PRINTED_NAMES = {names};\n" + (_BOOK / "charts.js").read_text()
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


def announce(
    left: Mapping["Key", tuple["Key", ...]],
    stale: Collection[str],
    console: Console,
    workers: int | None = None,
    first: Collection[str] = (),
    *,
    renders: bool = True,
) -> float:
    """Print in one line what a build will do and about how long that takes on this machine; return the seconds of its runs.

    left: the results that are missing. stale, first: what is executed after them, and before them for what can be read at once.
    renders: whether the book is rendered, too.
    """
    from classwise.runs.schedule import pool  # torch
    from classwise.runs.schedule.forecast import format_duration
    from classwise.runs.schedule.plan import duration, plan_tasks

    parts, of_runs, later = [], 0.0, execution.expected_seconds(stale, renders=renders)
    before = execution.expected_seconds(first)
    if first:
        parts.append(f"a first book of what is recorded, about {format_duration(before)}")
    if left:
        of_runs = duration(plan_tasks(left, pool.costs_here()), workers or pool.workers_here())
        training = sum(key.evaluation is None for key in left)
        evaluations = len(left) - training
        words = f"{plural(training, 'run')} to train and {plural(evaluations, 'evaluation')}"
        parts.append(f"{words}, about {format_duration(of_runs)}")
    if stale:
        words = f"{plural(len(stale), 'notebook')} to execute{' and the book to render' if renders else ''}"
        parts.append(f"{words}, about {format_duration(later)}")
    if parts:
        total = f"; in all {format_duration(before + of_runs + later)}" if len(parts) > 1 else ""
        console.print(f"{'; '.join(parts)}{total}", highlight=False, soft_wrap=True)
    return of_runs


def ensure_runs(wanted: "Wanted", scale: str, console: Console, **workers: Any) -> int:
    """Compute what is missing and return for how many runs; at a scale that is only read, print in one line how much that is."""
    from classwise.runs.schedule import forecast, pool  # torch

    if scales.SCALES[scale].recorded_only:
        console.print(forecast.not_recorded(wanted, scale), highlight=False, soft_wrap=True)
        return 0
    return pool.ensure_runs(wanted, repair=True, remember=True, console=console, **workers)


def _run_sphinx(sources: Path, fresh: Path) -> None:
    options = ["--path-output", str(fresh), "--quiet", "--warningiserror", "--keep-going"]
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", str(sources), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not (fresh / "_build" / "html" / "index.html").exists():
        good = f"the last good book stays in {build_folder() / 'html'}"
        raise RuntimeError(f"jupyter-book could not render {sources}; {good}:\n{done.stdout}{done.stderr}")


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
    inputs = [*written, checkout() / "CHANGELOG.md", *executed.values(), *extra.values(), *execution.SHELL]
    made_from = digest([*map(str, written), *inputs])
    if execution.is_made(html, made_from):
        return False
    for folder in (sources, fresh):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, sources)
    shutil.copy(checkout() / "CHANGELOG.md", out)
    for name, path in executed.items():
        pages.to_sphinx(name, path, sources / f"{name}.ipynb", sources / "_extra")
    write(sources / "data.md", data.page(out / "data").encode())
    for paper in registry.PAPERS.values():
        moved = _MOVED.format(f"../settings.html#{re.sub('[^a-z0-9]+', '-', paper.title.lower()).strip('-')}")
        write(sources / "_extra" / paper.name / "A-settings.html", moved.encode())
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
    execution.record_seconds("render", time.perf_counter() - began)
    return True


def build(scale: str, console: Console, workers: int | None = None, scheduler: str | None = None) -> Path:
    """Compute what is missing, execute what changed, render the book, and return its first page.

    Where there is no book yet, one of what is recorded is rendered before anything is computed.
    """
    requests = {name: registry.request(name, scale) for name in registry.SECTIONS}
    page, only_read = build_folder() / "html" / "index.html", scales.SCALES[scale].recorded_only
    write_table_of_contents()
    # Nothing is computed for the pages of verdicts on other scales either.
    with lock(console), patch.dict(os.environ, {scales.READ_ONLY: "1"} if only_read else {}):
        from classwise.runs.schedule import plan  # torch

        of_sections = (plan.section_keys(registry.SECTIONS[name], request) for name, request in requests.items())
        # The pages without a section show networks of digits.
        shown = () if only_read else ATTACKED
        wanted = plan.merge([*of_sections, *({registry.training("quick", name, 0): []} for name in shown)])
        left = {} if only_read else plan.missing(wanted)
        made_of = execution.executions(scale)
        # Not with a scheduler, so that one that does not answer is reported at once.
        recorded = any(one.startswith(execution.RECORDED) for parts in made_of.values() for one in parts)
        needed = left and recorded and not page.exists() and scheduler is None
        first = execution.pages(scale, made_of, first=True) if needed else []
        at_once = {one for some in first for one in some.stale()}
        stale = {one for some in execution.pages(scale, made_of) for one in some.stale()}
        stale -= {one for one in at_once if one.startswith(execution.RECORDED)}
        before = announce(left, stale, console, workers, at_once)
        if first:
            try:
                with patch.dict(os.environ, {scales.READ_ONLY: "1"}):
                    execution.execute_pages(first, console)
                    _render(scale, console)
                said = f"what is recorded can be read: {page}\nresults on digits follow"
            except RuntimeError as error:  # the whole book may not fail
                said = f"there is no first book of what is recorded: {error}"
            console.print(said, highlight=False, markup=False, soft_wrap=True)
        more = {} if only_read else {"after": execution.expected_seconds(stale)}
        if ensure_runs(wanted, scale, console, workers=workers, scheduler=scheduler, **more):
            made_of = execution.executions(scale)
        changed = execution.execute_pages(execution.pages(scale, made_of), console, before)
        if not (_render(scale, console) or changed):
            console.print("nothing changed")
    return page


def _render(scale: str, console: Console) -> bool:
    data.write_files(scale, build_folder() / "data")
    return render(console)


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
        if execution.COMING in (html / "index.html").read_text(encoding="utf-8"):
            raise UserError(f"the book in {html} is without digits yet; `make book` completes it")
        files = {path.relative_to(html): path for path in html.rglob("*") if path.is_file()}
        shown = {name: path for name, path in files.items() if not any(part.startswith(".") for part in name.parts)}
        write(target, data.archive({name.as_posix(): path.read_bytes() for name, path in shown.items()}))
    return target


def serve(port: int, console: Console) -> None:
    """Serve the built book on this machine until Ctrl-C; a UserError if there is none, or if the port cannot be used."""
    folder, address = build_folder() / "html", f"http://localhost:{port}"
    if not (folder / "index.html").exists():
        raise UserError(f"there is no book in {folder} yet; `make book` builds it")
    try:
        book = ThreadingHTTPServer(("localhost", port), partial(SimpleHTTPRequestHandler, directory=str(folder)))
    except OSError as error:
        other = port + 1 if port < 65535 else 8000
        raise UserError(f"port {port} cannot be used ({error.strerror}); choose another: make serve PORT={other}") from None
    console.print(f"the book is at {address}; Ctrl-C stops the server")
    webbrowser.open(address)
    with book:
        book.serve_forever()
