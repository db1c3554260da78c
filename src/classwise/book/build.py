"""The book: runs, executed notebooks, scripts that work without a network, and the rendered pages."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import distribution
from multiprocessing import get_context
from pathlib import Path

import vl_convert
from rich.console import Console

from classwise import runs
from classwise.book import notebooks
from classwise.core import files
from classwise.core.errors import UserError, unknown
from classwise.core.files import write
from classwise.core.paths import build_folder, checkout
from classwise.papers import published, registry, scales
from classwise.runs import store
from classwise.stats import benchmarks

# Altair's page template loads nothing from the network where VEGA_DEBUG already names its versions. Charts are drawn as SVG, on a
# transparent ground, and again when the theme of the page changes, with the reader's choices kept. The theme is "auto"
# until its own script has run.
_GLUE = """
window.VEGA_DEBUG = {vega_version: "%s", vegalite_version: "%s", vegaembed_version: "%s"};
(function () {
  const embed = window.vegaEmbed, charts = [], night = matchMedia("(prefers-color-scheme: dark)");
  const inks = {
    light: {text: {color: "#222"}},
    dark: {text: {color: "#eee"}, axis: {gridColor: "#333"}, view: {stroke: "#444"}},
  };
  const scheme = () => {
    const theme = document.documentElement.dataset.theme;
    return theme === "dark" || theme === "light" ? theme : night.matches ? "dark" : "light";
  };
  const look = (options, name) => ({...options, actions: false, renderer: "svg", theme: name === "dark" ? "dark" : undefined,
    config: {...(options || {}).config, background: "transparent", ...inks[name]}});
  async function draw(chart) {
    if (chart.busy) return;  // it looks again when it is done
    chart.busy = true;
    while (chart.scheme !== scheme()) {
      const old = chart.result && chart.result.view;
      const bound = (chart.spec.params || []).filter((param) => old && param.bind && !param.select).map((param) => param.name);
      const kept = bound.map((name) => [name, old.signal(name)]);
      if (old) chart.result.finalize();
      chart.scheme = scheme();
      chart.result = await embed(chart.place, structuredClone(chart.spec), look(chart.options, chart.scheme));
      for (const [name, value] of kept) chart.result.view.signal(name, value);
      await chart.result.view.runAsync();
    }
    chart.busy = false;
  }
  window.vegaEmbed = async function (place, spec, options) {
    const chart = {place, spec: structuredClone(spec), options};
    charts.push(chart);
    await draw(chart);
    return chart.result;
  };
  new MutationObserver(() => charts.forEach(draw))
    .observe(document.documentElement, {attributes: true, attributeFilter: ["data-theme"]});
})();
"""


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


def _code() -> list[Path]:
    root = checkout()
    return sorted([*(root / "src" / "classwise").rglob("*.py"), root / "requirements.lock"])


def scripts() -> list[Path]:
    """Return the scripts every page needs, made once: the Vega bundle with its glue, and MathJax."""
    from altair.utils._importers import vl_version_for_vl_convert  # slow to import, unlike vl_convert
    from altair.vegalite.v6 import display

    vega = build_folder() / "scripts" / "vega.js"
    math = build_folder() / "scripts" / "mathjax.js"
    glue = _GLUE % (display.VEGA_VERSION, display.VEGALITE_VERSION, display.VEGAEMBED_VERSION)
    if not vega.exists() or not vega.read_text().endswith(glue):
        bundle = vl_convert.javascript_bundle(vl_version=vl_version_for_vl_convert())  # type: ignore[call-arg]
        # In a function of its own: its top-level names would collide with those of other scripts.
        write(vega, ("(function () {\n" + bundle + "\n})();\n" + glue).encode())
    if not math.exists():
        files = distribution("sphinx-mathjax-offline").files or []
        found = next(file for file in files if file.name == "tex-svg.js")
        write(math, Path(str(found.locate())).read_bytes())
    return [vega, math]


def style() -> str:
    """Return the rules of the book's style sheet for a page that stands alone."""
    shared = (checkout() / "book" / "_static" / "book.css").read_text().replace(".bd-content ", "")
    return shared + (checkout() / "book" / "standalone.css").read_text()


def _fingerprint(name: str, scale: str) -> str:
    """Return what a page depends on: its notebook, the code, the scale, and the results it shows."""
    sections = [section for section in registry.SECTIONS if name in (section, "claims")]
    asked = [pair for section in sections for pair in registry.request(section, scale).asked]
    audit = [runs.audit().id.encode()] if name == "audit" else []
    files = [notebooks.find(name), *_code(), *published.files(), *(benchmarks.files() if name == "performance" else [])]
    files += [path for spec, evaluations in asked for path in store.files(spec, evaluations) if path.exists()]
    return _digest([scale.encode(), *audit, *(path.read_bytes() for path in files)])


def _marked(mark: Path) -> str | None:
    """Return the fingerprint that a mark holds; None where there is none that can be read."""
    try:
        return str(json.loads(mark.read_text())["fingerprint"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _stale(scale: str) -> dict[str, str]:
    """Return the notebooks whose executed form is not there or of another fingerprint, with the fingerprint they should have."""
    stale = {}
    for name in notebooks.names():
        mark = build_folder() / "executed" / f"{name}.json"
        asked = _fingerprint(name, scale)
        if _marked(mark) != asked:
            stale[name] = asked
    return stale


def _execute(name: str, scale: str) -> None:
    out = build_folder()
    scaled = scale != "quick" and "scale" in notebooks.parameters(notebooks.find(name))
    given = {"scale": scale} if scaled else {}
    notebooks.execute(notebooks.find(name), out / "executed" / f"{name}.ipynb", given, out / "failed" / f"{name}.ipynb")


def execute_all(scale: str, console: Console) -> int:
    """Execute the notebooks that changed, two at once, and return how many; NotebookFailed names those that raised."""
    stale, errors, done = _stale(scale), [], 0
    if stale:
        console.print(f"{len(stale)} notebooks to execute")
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as workers:
        futures = {workers.submit(_execute, name, scale): name for name in stale}
        for future in as_completed(futures):
            name, done = futures[future], done + 1
            error = future.exception()
            if error is not None:
                errors.append(str(error))
            else:
                mark = build_folder() / "executed" / f"{name}.json"
                files.write(mark, json.dumps({"fingerprint": stale[name]}).encode())
            console.print(f"\\[{done}/{len(stale)}] {name}{': failed' if error else ''}", highlight=False)
    if errors:
        raise notebooks.NotebookFailed("\n".join([*errors, f"the last good book stays in {build_folder() / 'html'}"]))
    return len(stale)


def render(console: Console) -> bool:
    """Render the book from book/ and the executed notebooks; return whether anything had to be done.

    The new book is built beside the old one and takes its place when it is whole.
    """
    out, source = build_folder(), checkout() / "book"
    pages, fresh, html = out / "pages", out / "book", out / "html"
    inputs = sorted(path for path in source.rglob("*") if path.is_file())
    inputs += [out / "executed" / f"{name}.ipynb" for name in notebooks.names()] + scripts()
    mark, asked = out / "html.json", _digest(str(path).encode() + path.read_bytes() for path in inputs)
    if html.exists() and _marked(mark) == asked:
        return False
    for folder in (pages, fresh):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, pages)
    for name in notebooks.names():
        target = pages / f"{name}.ipynb"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(out / "executed" / f"{name}.ipynb", target)
    for script in scripts():
        (pages / "_extra" / "scripts").mkdir(parents=True, exist_ok=True)
        shutil.copy(script, pages / "_extra" / "scripts" / script.name)
    console.print("rendering the book")
    command = [
        str(Path(sys.executable).with_name("jupyter-book")),
        "build",
        str(pages),
        "--path-output",
        str(fresh),
        "--quiet",
    ]
    done = subprocess.run([*command, "--warningiserror", "--keep-going"], capture_output=True, text=True, check=False)
    if done.returncode != 0 or not (fresh / "_build" / "html" / "index.html").exists():
        raise RuntimeError(
            f"jupyter-book could not render {pages}; the last good book stays in {html}:\n{done.stdout}{done.stderr}"
        )
    old = out / "html.old"
    shutil.rmtree(old, ignore_errors=True)
    if html.exists():
        html.replace(old)
    (fresh / "_build" / "html").replace(html)
    shutil.rmtree(old, ignore_errors=True)
    files.write(mark, json.dumps({"fingerprint": asked}).encode())
    return True


def build(scale: str, console: Console, workers: int | None = None, scheduler: str | None = None) -> Path:
    """Compute what is missing, execute what changed, render the book, and return its first page."""
    if scale not in scales.SCALES:
        raise unknown("scale", scale, scales.SCALES)
    for section in registry.SECTIONS:
        if section not in notebooks.names():
            raise UserError(f"section {section} has no notebook; there are: {', '.join(notebooks.names())}")
    asked = [pair for section in registry.SECTIONS for pair in registry.request(section, scale).asked]
    from classwise.runs import audits
    from classwise.runs.schedule import pool  # torch

    pool.ensure_runs(asked, workers=workers, scheduler=scheduler, mend=True, console=console)
    audits.carry_out(runs.audit(), console)
    executed = execute_all(scale, console)
    rendered = render(console)
    if not executed and not rendered:
        console.print("nothing changed")
    return build_folder() / "html" / "index.html"
