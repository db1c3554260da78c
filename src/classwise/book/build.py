"""Build the book: runs, executed notebooks, scripts that work offline, and the rendered pages."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from importlib.metadata import distribution
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import vl_convert
import yaml
from filelock import FileLock, Timeout
from rich.console import Console

from classwise import runs
from classwise.book import data, merging, notebooks, pages, seconds
from classwise.core.errors import UserError, unknown
from classwise.core.files import write
from classwise.core.markup import counted
from classwise.core.paths import build_folder, checkout
from classwise.papers import registry, scales
from classwise.runs import store
from classwise.runs.recorded import recorded_part
from classwise.stats import benchmarks

if TYPE_CHECKING:
    from classwise.runs.schedule.plan import Requested

# The root of the book, and the pages that read the verdicts of all sections.
HOME = "index"
_LEDGERS = ("claims", "papers", HOME)
_GUIDE = ("reading", "glossary", "parameters", "python", "datasets", "audit", "recorded", "cluster", "defences", "extending")
# The pages of no paper by the part of the book. "data" is written when the book is rendered.
_PAGES = {
    "What holds": ("claims", "papers"),
    "Attacks and defences": ("performance", "defences"),
    "Audits": ("audit",),
    "Results": ("data",),
    "Guide": tuple(f"guide/{name}" for name in (*_GUIDE, "references", "sources")),
    "Reference": ("guide/api", "guide/changelog"),
}


class _Part(TypedDict):
    """A part of the table of contents, as jupyter-book reads it."""

    caption: str
    chapters: list[dict[str, str]]


def table_of_contents() -> str:
    """Return the table of contents of the book, in jupyter-book's YAML: the papers, the other pages, the guide."""
    pages = {paper.title: paper.pages for paper in registry.PAPERS.values()} | _PAGES
    parts = [_Part(caption=title, chapters=[{"file": name} for name in names]) for title, names in pages.items() if names]
    return str(yaml.safe_dump({"format": "jb-book", "root": HOME, "parts": parts}, sort_keys=False))


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


def _code() -> list[Path]:
    """Return the files that executed notebooks depend on."""
    root = checkout()
    files = {file for suffix in ("py", "csv", "js", "css") for file in (root / "src" / "classwise").rglob(f"*.{suffix}")}
    return sorted({*files, root / "requirements.lock"} - set(_shell()))


def _shell() -> list[Path]:
    """Return the code that only decides how pages look: a change of it renders the book and executes nothing."""
    names = ("charts.js", "data.py", "dictionary.py", "figures.py", "package.py", "pages.py", "shell.py")
    return [Path(__file__).with_name(name) for name in names]


def scripts() -> list[Path]:
    """Return the scripts that every page needs, made once: the Vega bundle with charts.js, and MathJax."""
    from altair.utils._importers import vl_version_for_vl_convert  # slow to import, unlike vl_convert
    from altair.vegalite.v6 import display

    vega = build_folder() / "scripts" / "vega.js"
    math = build_folder() / "scripts" / "mathjax.js"
    # Altair's page template loads nothing from the network if VEGA_DEBUG already holds its versions.
    versions = {"vega": display.VEGA_VERSION, "vegalite": display.VEGALITE_VERSION, "vegaembed": display.VEGAEMBED_VERSION}
    debug = json.dumps({f"{name}_version": version for name, version in versions.items()})
    charts = f"window.VEGA_DEBUG = {debug};\n" + Path(__file__).with_name("charts.js").read_text()
    if not vega.exists() or not vega.read_text().endswith(charts):
        bundle = vl_convert.javascript_bundle(vl_version=vl_version_for_vl_convert())  # type: ignore[call-arg]
        # In a function, since its top-level names would collide with those of other scripts.
        write(vega, ("(function () {\n" + bundle + "\n})();\n" + charts).encode())
    if not math.exists():
        files = distribution("sphinx-mathjax-offline").files or []
        script = next(file for file in files if file.name == "tex-svg.js")
        write(math, Path(str(script.locate())).read_bytes())
    return [vega, math]


def style() -> str:
    """Return the style sheet of a standalone page."""
    shared = (checkout() / "book" / "_static" / "book.css").read_text().replace(".bd-content ", "")
    return shared + (checkout() / "book" / "standalone.css").read_text()


def _fingerprint(name: str, scale: str) -> str:
    """Return a digest of everything a page depends on: its notebook, the code, the scale, and the results it shows."""
    sections = [section for section in registry.SECTIONS if name in (section, *_LEDGERS)]
    pairs = [pair for section in sections for pair in registry.request(section, scale).pairs]
    audit = [runs.audit().id.encode()] if name == "audit" else []
    read = [(section, other) for section in sections for other in _also_shown(section, scale)]
    shown = {store.recorded(spec) for section, other in read for spec, _ in registry.request(section, other).pairs}
    files = [notebooks.find(name), *_code(), *(benchmarks.files() if name == "performance" else [])]
    files += [path for key in store.outcomes_of(pairs) if (path := key.path) is not None]
    # Of recorded runs also examples, features and traces, which pages show without computing them.
    files += sorted(path for folder in shown for path in folder.rglob("*.nc"))
    return _digest([scale.encode(), *audit, *(path.read_bytes() for path in files)])


def _stored_fingerprint(mark: Path) -> str | None:
    """Return the fingerprint in a file; None if it cannot be read."""
    try:
        return str(json.loads(mark.read_text())["fingerprint"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _stale(scale: str) -> dict[str, str]:
    """Return the notebooks that must be executed, with their fingerprints: those whose executed form is missing or outdated."""
    stale = {}
    for name in notebooks.names():
        fingerprint = _fingerprint(name, scale)
        if _stored_fingerprint(build_folder() / "executed" / f"{name}.json") != fingerprint:
            stale[name] = fingerprint
    return stale


def _also_shown(name: str, scale: str) -> list[str]:
    """Return the scales that a page also shows: those that are only read, where any run of its section itself is stored."""
    return runs.shown_scales(name, scale)[:-1] if name in registry.SECTIONS else []


def _only_read(name: str, scale: str) -> list[str]:
    """Return the scales that are only read, of a page that shows a section at a scale that is computed."""
    return scales.also_read(scale) if name in registry.SECTIONS else []


def _is_complete(name: str, scale: str) -> bool:
    """Return whether all runs of a section are stored at a scale; True for a page that is no section."""
    if name not in registry.SECTIONS:
        return True
    request = registry.request(name, scale)
    stored = recorded_part(request)
    return len(stored.pairs) == len(request.pairs) and not stored.incomplete


def _execute(name: str, scale: str) -> float:
    """Execute a notebook, where results of another scale are recorded at that scale, too, and merge both; return the seconds."""
    began = time.perf_counter()
    source, out = notebooks.find(name), build_folder()
    target, failed = out / "executed" / f"{name}.ipynb", out / "failed" / f"{name}.ipynb"
    scaled = scale != "quick" and "scale" in notebooks.parameters(source)
    execute(name, target, {"scale": scale} if scaled else {}, failed)
    read = _only_read(name, scale)
    shown = _also_shown(name, scale)
    if read and not shown:
        merging.mark_computed(target, (read[0], scale))
    for other in shown:
        recorded = out / "recorded" / f"{name}.ipynb"
        notebooks.execute(source, recorded, {"scale": other}, failed, tolerant=True)
        failures = merging.merge(recorded, target, (other, scale), target)
        merging.check(failures, name, other, complete=_is_complete(name, other))
    return time.perf_counter() - began


def execute(name: str, target: Path, given: Mapping[str, Any], failed: Path) -> None:
    """Execute a notebook with parameters; at a scale that is only read, cells whose runs are not recorded say so."""
    scale = str(given.get("scale", "quick"))
    tolerant = scale in scales.SCALES and scales.SCALES[scale].only_read
    notebooks.execute(notebooks.find(name), target, given, failed, tolerant=tolerant)
    if tolerant:
        merging.check(merging.note_missing(target), name, scale, complete=_is_complete(name, scale))


def ensure_runs(pairs: "Sequence[Requested]", scale: str, console: Console, **workers: Any) -> None:
    """Compute what is missing of runs; at a scale that is only read, print in one line how much that is."""
    from classwise.runs.schedule import forecast, pool  # torch

    if scales.SCALES[scale].only_read:
        console.print(forecast.not_recorded(pairs, scale), highlight=False, soft_wrap=True)
    else:
        pool.ensure_runs(pairs, repair=True, console=console, **workers)


def execute_all(scale: str, console: Console, before: float = 0.0) -> int:
    """Execute the notebooks that changed, two at once, and return their number; NotebookFailed names those that raised.

    before: seconds of the build that are done, for its progress.
    """
    stale, errors = _stale(scale), []
    if stale:
        console.print(f"{counted(len(stale), 'notebook')} to execute")
    with (
        seconds.progress(list(stale), console, before) as advance,
        ProcessPoolExecutor(seconds.AT_ONCE, mp_context=get_context("spawn")) as workers,
    ):
        if stale:  # the results to download, at the same time; `_build` finds them, or makes what failed
            workers.submit(data.write_files, scale, build_folder() / "data")
        # Last the pages that read the verdicts of all others, which else were computed twice.
        order = sorted(stale, key=lambda name: name in _LEDGERS)
        futures = {workers.submit(_execute, name, scale): name for name in order}
        for done, future in enumerate(as_completed(futures), 1):
            name, error = futures[future], future.exception()
            if error is not None:
                errors.append(str(error))
            else:
                write(build_folder() / "executed" / f"{name}.json", json.dumps({"fingerprint": stale[name]}).encode())
                seconds.record(name, future.result())
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
    out, source = build_folder(), checkout() / "book"
    sources, fresh, html = out / "pages", out / "book", out / "html"
    inputs = sorted(path for path in source.rglob("*") if path.is_file())
    inputs.append(checkout() / "CHANGELOG.md")  # included by guide/changelog.md
    names = notebooks.names()
    tables = {paper.name: paper.tables.folder / "tables.csv" for paper in registry.PAPERS.values() if paper.tables is not None}
    results = sorted((out / "data").glob("[!.]*"))
    inputs += [*(out / "executed" / f"{name}.ipynb" for name in names), *scripts(), *_shell(), *tables.values(), *results]
    mark, fingerprint = out / "html.json", _digest(str(path).encode() + path.read_bytes() for path in inputs)
    if html.exists() and _stored_fingerprint(mark) == fingerprint:
        return False
    for folder in (sources, fresh):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, sources)
    shutil.copy(checkout() / "CHANGELOG.md", out)
    for name in names:
        pages.prepare(name, out / "executed" / f"{name}.ipynb", sources / f"{name}.ipynb", sources / "_extra")
    for name in re.findall(r"thumbnails/([\w/-]+)\.svg", notebooks.find(HOME).read_text()):
        write(sources / "_extra" / "thumbnails" / f"{name}.svg", pages.thumbnail(out / "executed" / f"{name}.ipynb").encode())
    write(sources / "data.md", data.page(out / "data").encode())
    extra = {f"scripts/{script.name}": script for script in scripts()} | {f"data/{file.name}": file for file in results}
    for name, file in (extra | {f"tables/{paper}.csv": table for paper, table in tables.items()}).items():
        (sources / "_extra" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, sources / "_extra" / name)
    console.print("rendering the book")
    began = time.perf_counter()
    _run_sphinx(sources, fresh)
    for name in notebooks.names():  # what readers download is the notebook that they can run
        shutil.copy(notebooks.find(name), fresh / "_build" / "html" / "_sources" / f"{name}.ipynb")
    old = out / "html.old"
    shutil.rmtree(old, ignore_errors=True)
    if html.exists():
        html.replace(old)
    (fresh / "_build" / "html").replace(html)
    shutil.rmtree(old, ignore_errors=True)
    write(mark, json.dumps({"fingerprint": fingerprint}).encode())
    seconds.record("render", time.perf_counter() - began)
    return True


def build(scale: str, console: Console, workers: int | None = None, scheduler: str | None = None) -> Path:
    """Compute what is missing, execute what changed, render the book, and return its first page."""
    if scale not in scales.SCALES:
        raise unknown("scale", scale, scales.SCALES)
    for section in registry.SECTIONS:
        if section not in notebooks.names():
            raise UserError(f"section {section} has no notebook; there are: {', '.join(notebooks.names())}")
    pairs = [pair for section in registry.SECTIONS for pair in registry.request(section, scale).pairs]
    toc, contents = checkout() / "book" / "_toc.yml", table_of_contents()
    if not toc.exists() or toc.read_text() != contents:
        write(toc, contents.encode())
    with lock(console):
        return _build(scale, pairs, console, workers=workers, scheduler=scheduler)


@contextmanager
def lock(console: Console) -> Iterator[None]:
    """Hold the lock of the build folder, which one call at a time writes to; a line says if it is taken."""
    path = build_folder() / ".lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    held = FileLock(path)
    try:
        held.acquire(timeout=0)
    except Timeout:
        console.print(f"another build of the book is at work in {path.parent}; this call waits until it ends", soft_wrap=True)
        held.acquire()
    try:
        yield
    finally:
        held.release()


def _build(scale: str, pairs: "Sequence[Requested]", console: Console, **where: Any) -> Path:
    """Build the book from the runs of its sections; `where`: the workers or the scheduler that compute."""
    from classwise.runs import audits  # torch

    stale = list(_stale(scale))
    only_read = scales.SCALES[scale].only_read
    before = seconds.announce([] if only_read else pairs, stale, console, where["workers"])
    more = {} if only_read else {"after": seconds.after_runs(stale)}
    ensure_runs(pairs, scale, console, **where, **more)
    audits.carry_out(runs.audit(), console)
    executed = execute_all(scale, console, before)
    data.write_files(scale, build_folder() / "data")
    rendered = render(console)
    if not executed and not rendered:
        console.print("nothing changed")
    return build_folder() / "html" / "index.html"
