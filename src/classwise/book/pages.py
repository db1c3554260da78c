"""Pages of the book from executed notebooks: code folded, captions with numbers, a last block that says how to rerun a page."""

import json
import re
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING

import pandas as pd

from classwise.book import figures, notebooks, scale_switch
from classwise.core import datasets
from classwise.core.files import write
from classwise.papers import registry
from classwise.papers.scales import SCALES
from classwise.runs.recorded import how_to_record

if TYPE_CHECKING:
    from nbformat import NotebookNode

# Tags: papermill's, of cells that it adds; and ours, of the cells with the provenance of a page.
_ERROR, PROVENANCE = "papermill-error-cell-tag", "provenance"
_RECOMPUTE = "Recompute this page: parameters, command and provenance"


def to_sphinx(name: str, executed: Path, target: Path, extra: Path) -> None:
    """Write the notebook that Sphinx renders as the page `name` from its executed form, and the data of its charts below `extra`.

    The code of each cell is folded, unless it is tagged "shown". A cell with metadata {"mystnb": {"figure": {"name": ...,
    "caption": ...}}} becomes a figure, with the number of the page and its place on it ("4.1-2"), in
    `classwise.book.sphinx_extension`. Cells tagged "provenance" are folded with their outputs and move to the end, below the
    command and the parameters of the page.
    """
    import nbformat  # slow to import

    node = nbformat.read(executed, as_version=4)
    cells: list[NotebookNode] = []
    last: list[NotebookNode] = []
    place = 0
    for cell in node.cells:
        tags = list(cell.metadata.get("tags", []))
        if cell.cell_type == "code":
            if figure := cell.metadata.get("mystnb", {}).pop("figure", None):
                place += 1
                _number(cell, name, f"{_section(name)}{place}", dict(figure), extra)
            cell.metadata.tags = [*tags, *(["hide-input"] if not {"hide-cell", "shown"} & set(tags) else [])]
        if _ERROR not in tags:
            (last if PROVENANCE in tags else cells).append(cell)
    node.cells = [*cells, *_recompute(name, last, node)]
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(node, target)


def _section(name: str) -> str:
    """Return the section of a page as its figures are numbered: "4.1-" of "tian2021/4-1-class-bias", "" of a page without.

    Pages of one section of a paper differ in a letter, in the order of the book: "3.1a-" and "3.1b-".
    """
    paper = registry.PAPERS.get(registry.paper_of(name))
    pages = dict.fromkeys((*(paper.pages if paper else ()), name))
    matches = {page: re.match(r"(\d+(?:-\d+)*[a-z]?|[A-Z](?:-\d+)*)(?=-)", page.rpartition("/")[2]) for page in pages}
    numbers = {page: match[1].replace("-", ".") for page, match in matches.items() if match}
    alike = [page for page, number in numbers.items() if number == numbers.get(name)]
    letter = ascii_lowercase[alike.index(name)] if len(alike) > 1 else ""
    return f"{numbers[name]}{letter}-" if name in numbers else ""


def _number(cell: "NotebookNode", page: str, number: str, figure: dict[str, str], extra: Path) -> None:
    """Make a cell a numbered figure: with the files of its data, by dataset ("" if it is but one), and its caption as the last
    output, since MyST-NB would repeat it for each of them.
    """
    name, files = figure.get("name", f"figure-{number}"), {}
    for scale, outputs in scale_switch.split_by_scale(cell.outputs).items():
        rows = pd.concat([pd.DataFrame(), *map(figures.table, figures.specifications(outputs))])
        if not rows.empty:
            dataset = str(SCALES[scale].run["dataset"]) if scale else ""
            stem = figure.get("name", "figure").removeprefix("fig-")
            path = f"data/figures/{page}/{'-'.join(filter(None, (stem, dataset)))}.csv"
            write(extra / path, rows.to_csv(index=False).encode())
            files[datasets.title(dataset)] = path
    cell.metadata["figure"] = {"name": name, "number": number, "data": files}
    cell.outputs.append(scale_switch.output(figure.get("caption", ""), "text/markdown"))


def _recompute(name: str, last: list["NotebookNode"], node: "NotebookNode") -> list["NotebookNode"]:
    import nbformat

    if name not in notebooks.names():
        return last
    default = notebooks.parameters(notebooks.find(name)).get("scale")
    given = node.metadata.get("papermill", {}).get("parameters", {}).get("scale") or (default.default if default else "")
    executions = node.metadata.get("executions", {given: scale_switch.seconds_of(node)})
    commands = {scale: [scale_switch.output(command(name, scale, took), "text/markdown")] for scale, took in executions.items()}
    first = scale_switch.mark_scales(commands) if len(commands) > 1 else next(iter(commands.values()))
    outputs = [
        *first,
        scale_switch.output(parameters(name), "text/markdown"),
        *(output for cell in last for output in cell.outputs),
    ]
    # MyST-NB leaves out cells without a source.
    source = "\n".join(cell.source for cell in last) or f"# {name}"
    block = nbformat.v4.new_code_cell(source, outputs=outputs)
    block.metadata.tags = ["hide-output", PROVENANCE, "remove-input"]
    block.metadata.mystnb = {"code_prompt_show": _RECOMPUTE, "code_prompt_hide": _RECOMPUTE}
    return [block]


def command(name: str, scale: str, took: float) -> str:
    """Return in Markdown how to rerun a notebook at a scale, "" for one without, and what that takes.

    took: the seconds of its execution here, 0 if unknown.
    """
    known = notebooks.parameters(notebooks.find(name))
    values = {key: one.default for key, one in known.items() if one.default is not None} | ({"scale": scale} if scale else {})
    given = " ".join(f"{key}={json.dumps(value)}" for key, value in values.items())
    options = f" P='{given}'" if given else ""
    recorded_only = scale in SCALES and SCALES[scale].recorded_only
    runs_are = "It reads recorded results" if recorded_only else "Finished runs are not computed again"
    lines = [f"The command writes one HTML file and leaves the book unchanged. {runs_are}."]
    if took:
        duration = f"{took:.0f} seconds" if took < 90 else f"{took / 60:.1f} minutes"
        lines.append(f"The page took {duration} here, without the training of its runs.")
    if recorded_only and name in registry.SECTIONS:
        lines.append(f"{how_to_record(scale)}.")
    return f"```bash\nmake notebook NB={name}{options}\n```\n\n{' '.join(filter(None, lines))}"


def parameters(name: str) -> str:
    """Return in Markdown the parameters of a notebook with their values and meanings; "" if it has none."""
    rows = [
        f"| `{key}` | `{one.default!r}` | {one.comment.replace('|', 'or')} |"
        for key, one in notebooks.parameters(notebooks.find(name)).items()
    ]
    return "\n".join(["| parameter | default | meaning |\n|---|---|---|", *rows]) if rows else ""
