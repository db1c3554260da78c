"""Notebooks executed at a scale that is only read: alone, or merged with the same notebook at another scale under a switch."""

import ast
import html
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from classwise.book import figures
from classwise.book.notebooks import NotebookFailed
from classwise.core import datasets
from classwise.core.errors import UNSELECTED, NotRecorded
from classwise.papers.claims import MeasurementError
from classwise.papers.scales import dataset_of, title_of

if TYPE_CHECKING:
    from nbformat import NotebookNode

# A first chart of so many values is no place to begin.
_FEW = 2
# Cells that papermill adds: the parameters that were given, and where a cell raised.
_ADDED = {"injected-parameters", "papermill-error-cell-tag"}


@dataclass(frozen=True)
class Failure:
    """A cell of the recorded scale that could not be executed: its number, the kind of the error and its text.

    missing: whether a result that is not recorded is the cause: NotRecorded, a MeasurementError, a selection of
    networks or attacks that are not there, or a name that a cell with such an error defines.
    """

    cell: int
    kind: str
    text: str
    missing: bool = False


def merge(recorded: Path, computed: Path, scales: tuple[str, str], target: Path) -> list[Failure]:
    """Write the notebook that shows the outputs of both executions, and return the cells that failed at the recorded scale.

    scales: of the recorded and of the computed one. A cell that failed at the recorded scale, because not all of its runs are
    there, shows the outputs of the other scale under both, and a line below the switch says what such parts are. If no chart
    could be drawn at the recorded scale, the notebook shows the other one alone and says so. If only the first chart or a cell
    above it failed, such as the finding, or that chart has at most two values, the page opens with the other one.
    """
    import nbformat  # slow to import

    nodes = [nbformat.read(path, as_version=4) for path in (recorded, computed)]
    result = deepcopy(nodes[1])
    result.cells, others = (
        [cell for cell in node.cells if not _ADDED & set(cell.metadata.get("tags", []))] for node in nodes[::-1]
    )
    if not any(_drawn(cell) for cell in others):
        _head(result, scales)
        nbformat.write(result, target)
        return failures_in(others)
    result.metadata["executions"] = {scale: seconds_of(node) for scale, node in zip(scales, nodes, strict=True)}
    failed = [any(output.output_type == "error" for output in other.get("outputs", [])) for other in others]
    opening = next((place for place, cell in enumerate(result.cells) if _drawn(cell)), 0)
    poor = any(failed[: opening + 1]) or _values(others[opening]) <= _FEW < _values(result.cells[opening])
    for cell, other, lacks in zip(result.cells, others, failed, strict=True):
        if cell.cell_type != "code":
            continue
        if lacks:
            note = _mark(scales[0], _only_computed(scales))
            cell.outputs = [note, _end(), *cell.outputs] if cell.outputs else []
        elif cell.outputs != other.outputs:
            cell.outputs = both({scales[0]: other.outputs, scales[1]: cell.outputs})
    head = switch(scales, scales[1] if poor else "")
    if any(lacks and cell.outputs for cell, lacks in zip(result.cells, failed, strict=True)):
        words = f"Parts with an edge: {_only_computed(scales)}."
        head += f'\n<p class="scale-mark" data-scale="{scales[0]}" data-kept hidden>{words}</p>'
    result.cells.insert(1, nbformat.v4.new_markdown_cell(head))
    nbformat.write(result, target)
    return failures_in(others)


def mark_computed(notebook: Path, scales: tuple[str, str]) -> None:
    """Write at the top of an executed notebook that its results are of the computed scale, the second one, alone."""
    import nbformat

    node = nbformat.read(notebook, as_version=4)
    _head(node, scales)
    nbformat.write(node, notebook)


def _head(node: "NotebookNode", scales: tuple[str, str]) -> None:
    import nbformat

    node.cells.insert(1, nbformat.v4.new_markdown_cell(f'<p class="scale-mark">{_only_computed(scales)}</p>'))


def seconds_of(node: "NotebookNode") -> float:
    """Return how long papermill took to execute a notebook; 0 if it does not say."""
    return float(node.metadata.get("papermill", {}).get("duration") or 0)


def _drawn(cell: "NotebookNode") -> list[str]:
    texts = (output.get("data", {}).get("text/html", "") for output in cell.get("outputs", []))
    return [text for text in texts if "vegaEmbed(" in text]


def _values(cell: "NotebookNode") -> int:
    """Return how many rows of data the charts of a cell show; 0 without a chart."""
    return sum(len(figures.table(spec)) for text in _drawn(cell) if (spec := figures.specification(text)))


def failures_in(cells: Sequence["NotebookNode"]) -> list[Failure]:
    """Return the errors among the outputs of cells."""
    failures: list[Failure] = []
    undefined: set[str] = set()
    for number, cell in enumerate(cells):
        for output in (one for one in cell.get("outputs", []) if one.output_type == "error"):
            name = re.match(r"name '(\w+)' is not defined", output.evalue) if output.ename == "NameError" else None
            missing = _lacks(output.ename, output.evalue) or (name is not None and name[1] in undefined)
            undefined |= _defined(cell.source) if missing else set()
            failures.append(Failure(number, output.ename, output.evalue, missing))
    return failures


_LACKING = {NotRecorded.__name__, MeasurementError.__name__}


def _lacks(kind: str, text: str) -> bool:
    """Return whether an error says that results are missing; the KeyError is that of `sel` of xarray."""
    return kind in _LACKING or (kind == "KeyError" and UNSELECTED.search(text) is not None)


def _defined(source: str) -> set[str]:
    """Return the names that a cell assigns."""
    nodes = ast.walk(ast.parse(source))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def note_missing(notebook: Path) -> list[Failure]:
    """Replace the errors in a notebook, executed at a scale that is only read, by notes, and return them."""
    import nbformat

    node = nbformat.read(notebook, as_version=4)
    node.cells = [cell for cell in node.cells if "papermill-error-cell-tag" not in cell.metadata.get("tags", [])]
    failures = failures_in(node.cells)
    for cell in node.cells:
        for number, output in enumerate(cell.get("outputs", [])):
            if output.output_type == "error":
                reason = output.evalue if output.ename in _LACKING else "not all runs that this cell shows are recorded"
                cell.outputs[number] = html_output(f'<p class="scale-mark">Not shown: {html.escape(reason)}.</p>')
    nbformat.write(node, notebook)
    return failures


def check(failures: Sequence[Failure], name: str, scale: str, *, complete: bool) -> None:
    """Raise NotebookFailed if a cell failed for another reason than a missing result, or, if all are recorded, for any."""
    for first in (one for one in failures if complete or not one.missing):
        raise NotebookFailed(f"{name} failed at scale {scale} in cell {first.cell}: {first.kind}: {first.text}")


def both(outputs: Mapping[str, list["NotebookNode"]]) -> list["NotebookNode"]:
    """Return the outputs of several scales one after another, marked so that the switch shows those of one."""
    result: list[NotebookNode] = []
    for scale, some in outputs.items():
        result += [_mark(scale), *some] if some else []
    return [*result, _end()]


def by_scale(outputs: Sequence["NotebookNode"]) -> dict[str, list["NotebookNode"]]:
    """Return the outputs of each scale that `both` marked, "" for those that are shown under either choice."""
    result: dict[str, list[NotebookNode]] = {}
    scale = ""
    for output in outputs:
        mark = re.search(r'class="scale-(?:mark|end)"(?: data-scale="([^"]+)")?', output.get("data", {}).get("text/html", ""))
        scale = (mark[1] or "") if mark else scale
        result.setdefault(scale, []).append(output)
    return result


def _only_computed(scales: tuple[str, str]) -> str:
    """Return that results are of the computed scale alone: "digits, computed here; not recorded on CIFAR-10"."""
    return html.escape(f"{title_of(scales[1])}; not recorded on {datasets.title(dataset_of(scales[0]))}")


def _mark(scale: str, words: str = "") -> "NotebookNode":
    """Return the start of the outputs of a scale; words: shown in place of its title, also once the switch works."""
    kept = " data-kept" if words else ""
    return html_output(f'<p class="scale-mark" data-scale="{scale}"{kept}>{words or html.escape(title_of(scale))}</p>')


def _end() -> "NotebookNode":
    return html_output('<span class="scale-end"></span>')


def html_output(text: str) -> "NotebookNode":
    """Return HTML as the output of a cell."""
    import nbformat

    data = {"text/html": text, "text/plain": ""}
    output: NotebookNode = nbformat.v4.new_output("display_data", data=data)
    return output


def switch(scales: Sequence[str], first: str = "") -> str:
    """Return the buttons that choose between the outputs of scales, the first of them shown.

    first: the scale that this page opens with, whatever was chosen on other pages.
    """
    pressed = {scale: str(scale == (first or scales[0])).lower() for scale in scales}
    buttons = "".join(
        f'<button type="button" data-scale="{scale}" aria-pressed="{state}">{title_of(scale)}</button>'
        for scale, state in pressed.items()
    )
    opens = f' data-first="{first}"' if first else ""
    return f'<div class="scale-switch"{opens} role="group" aria-label="Dataset of the results on this page">{buttons}</div>'
