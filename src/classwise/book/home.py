"""The home page and the page of the papers, computed from the results and the verdicts of the book."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xarray as xr

from classwise import runs
from classwise.book import merging, reports
from classwise.core import datasets
from classwise.core.errors import NotRecorded
from classwise.core.files import write
from classwise.core.paths import checkout
from classwise.papers import findings, ledger, registry
from classwise.papers.claims import VERDICTS, Verdict
from classwise.papers.scales import also_read, dataset_of
from classwise.runs.recorded import recorded_part
from classwise.stats import intervals, metrics, pooling

if TYPE_CHECKING:
    from nbformat import NotebookNode

# The section whose runs the home page shows, and the defence that it names.
_SECTION, _BASE = "tian2021/4-1-class-bias", "pgd-at"
_TERMS = "Terms: [attacks and defences](guide/glossary.md), [intervals](guide/reading.md)."


def write_pages(scale: str, folder: Path) -> None:
    """Write the home page and the page of the papers, as executed notebooks in a folder; missing runs of a scale are computed."""
    verdicts = runs.verdicts(scale)
    for name, cells in (("index", _home(scale, verdicts)), ("papers", reports.cells(verdicts))):
        save(cells, folder / f"{name}.ipynb")


def save(cells: Sequence["NotebookNode"], path: Path) -> None:
    """Write cells as a notebook."""
    import nbformat  # slow to import

    node = nbformat.v4.new_notebook(cells=list(cells))
    node.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    write(path, nbformat.writes(node).encode())


def scales_shown(scale: str) -> list[str]:
    """Return the scales whose results the home page shows: those recorded elsewhere first, then that of the build."""
    return [*(name for name in also_read(scale) if recorded_part(registry.request(_SECTION, name)).specs), scale]


def _home(scale: str, verdicts: Sequence[Verdict]) -> list["NotebookNode"]:
    """Return the cells of the home page: what was found, how sure, where to go."""
    template = (checkout() / "book" / "home.md").read_text(encoding="utf-8")
    head, below = template.split("<!-- results -->\n")
    shown = scales_shown(scale)
    outputs = {name: _result(name) for name in shown}
    cells = [markdown(head)]
    if len(shown) > 1:
        cells.append(markdown(merging.switch(shown)))
    cells.append(output_cell(merging.both(outputs) if len(shown) > 1 else outputs[scale]))
    cells += [markdown("## Verdicts so far"), output_cell([merging.html_output(certainty(verdicts))]), markdown(below)]
    return cells


def markdown(text: str) -> "NotebookNode":
    """Return a cell of words."""
    import nbformat

    cell: NotebookNode = nbformat.v4.new_markdown_cell(text)
    return cell


def output_cell(outputs: Sequence["NotebookNode"]) -> "NotebookNode":
    """Return a cell that shows outputs, without code."""
    import nbformat

    cell: NotebookNode = nbformat.v4.new_code_cell("# computed when the book is built", outputs=list(outputs))
    cell.metadata.tags = ["remove-input"]
    return cell


def _result(scale: str) -> list["NotebookNode"]:
    """Return the finding of a scale in a sentence, and the chart of its classes."""
    import nbformat

    from classwise.charts import ranking, style

    style.setup()
    request = runs.available(registry.request(_SECTION, scale))
    outcomes = runs.outcomes(request.specs, request.evaluations)
    attack = request.evaluations[-1].attack
    counted = pooling.pooled(outcomes).sel(attack=attack)
    titles = f"Robust accuracy of each class: {merging.title_of(scale)}", f"Under {attack}. Bars: 95 % intervals."
    chart = ranking.class_ranking(metrics.accuracy(counted), intervals.wilson(counted), _base(outcomes), titles)
    base = _base(outcomes)
    how = runs.training(request.specs)
    texts = [findings.class_gap(outcomes, base, attack), stronger(scale, base, attack), f"{how} {_TERMS}"]
    sentence = {"text/markdown": "\n\n".join(filter(None, texts)), "text/plain": ""}
    bundle: Any = chart._repr_mimebundle_(None, None)
    data = {"text/html": _only_html(bundle), "text/plain": ""}
    return [nbformat.v4.new_output("display_data", data=part) for part in (sentence, data)]


def stronger(scale: str, defence: str, attack: str) -> str:
    """Return by how much an attack overestimates the robust accuracy of a defence (`weakest_attack`); "" without others."""
    try:
        request = runs.available(registry.request("performance", scale))
    except NotRecorded:
        return ""
    results = runs.outcomes(request.specs, request.evaluations)
    exact = results.sel(precision="float32") if "precision" in results.dims else results
    return findings.weakest_attack(exact.sel(defence=[defence]), attack) if defence in exact.defence else ""


def _base(outcomes: xr.Dataset) -> str:
    names = [str(name) for name in outcomes.defence.values]
    return _BASE if _BASE in names else names[-1]


def _only_html(bundle: Any) -> str:
    data: Mapping[str, str] = bundle[0] if isinstance(bundle, tuple) else bundle
    return data["text/html"]


def certainty(verdicts: Sequence[Verdict], folder: str = "") -> str:
    """Return a table in HTML of how many claims hold, fail, are open or were not tested, by paper and scale, and what that means.

    Each number links to these claims. folder: in front of the links.
    """
    counted = Counter((verdict.claim.paper, verdict.scale, verdict.verdict) for verdict in verdicts)
    lines, unwritten = [], []
    for paper in registry.PAPERS.values():
        title = f'<a href="{folder}{ledger.address(paper=paper.name)}">{paper.title}</a>'
        scales = reports.scales_of([verdict for verdict in verdicts if verdict.claim.paper == paper.name])
        for scale in scales:
            chosen = {"paper": paper.name, "scale": scale}
            numbers = (reports.link(counted[paper.name, scale, name], folder, **chosen, verdict=name) for name in VERDICTS)
            cells = "".join(f"<td>{number}</td>" for number in numbers)
            lines.append(f'<tr><th scope="row">{title}, {merging.title_of(scale)}</th>{cells}</tr>')
        if not scales:
            unwritten.append(f'<a href="{folder}papers.html#{paper.name}">{paper.title}</a>')
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("claims of", *VERDICTS))
    table = f'<table class="table certainty"><thead><tr>{heads}</tr></thead><tbody>{"".join(lines)}</tbody></table>'
    text = f"<p><em>open</em>: tested, but the interval allows both. {not_tested(verdicts)}</p>"
    return table + text + (f"<p>Pages not written yet: {'; '.join(unwritten)}.</p>" if unwritten else "")


def not_tested(verdicts: Sequence[Verdict]) -> str:
    """Return why claims were not tested, with the number of verdicts at each scale; "" if all of them were tested."""
    parts = []
    for scale in reports.scales_of(verdicts):
        untested = [verdict for verdict in verdicts if verdict.scale == scale and verdict.verdict == "not tested"]
        other = sum(verdict.excluded for verdict in untested)
        reasons = (
            (len(untested) - other, ("need", "needs"), "runs that are not recorded yet"),
            (other, ("cannot", "cannot"), "be tested on its images"),
        )
        words = [f"{number} {verbs[number == 1]} {what}" for number, verbs, what in reasons if number]
        if words:
            parts.append(f"on {datasets.title(dataset_of(scale))}, {' and '.join(words)}")
    return f"<em>not tested</em>: {'; '.join(parts)}." if parts else ""


def files() -> list[Path]:
    """Return the texts that the pages of this module are made from."""
    return [checkout() / "book" / "home.md", *reports.files()]
