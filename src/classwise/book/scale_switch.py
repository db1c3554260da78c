"""Notebooks executed at a scale that is only read: alone, or merged with the same notebook at another scale under a switch."""

import html
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from classwise.book import figures, notebooks
from classwise.book.notebooks import NotebookFailed
from classwise.core import datasets
from classwise.core.errors import NotAtScale, NotRecorded
from classwise.core.markup import CHART
from classwise.papers import registry
from classwise.papers.scales import dataset_of, title_of
from classwise.runs.recorded import keep_stored

if TYPE_CHECKING:
    from nbformat import NotebookNode

# A first chart of so many values is no place to begin.
_FEW = 2
# Cells that papermill adds: the parameters that were given, and where a cell raised.
_GIVEN, _RAISED = "injected-parameters", "papermill-error-cell-tag"


def _read(path: Path, *added: str) -> "NotebookNode":
    import nbformat  # slow to import

    node: NotebookNode = nbformat.read(path, as_version=4)
    node.cells = [cell for cell in node.cells if not set(added) & set(cell.metadata.get("tags", []))]
    return node


def _write(node: "NotebookNode", path: Path, head: str = "") -> None:
    import nbformat

    node.cells[1:1] = [nbformat.v4.new_markdown_cell(head)] if head else []
    nbformat.write(node, path)


def merge(recorded: Path, computed: Path, scales: tuple[str, str], name: str, *, complete: bool) -> None:
    """Write to `computed` the outputs of both executions of the notebook `name`; `complete` as in `check`, which may raise.

    scales: of the recorded and of the computed one. A cell that failed at the recorded scale, because not all of its runs are
    there, shows the outputs of the other scale under both, marked as such. If no chart
    could be drawn at the recorded scale, the notebook shows the other one alone and says so. If only the first chart or a cell
    above it failed, such as the finding, or that chart has at most two values, the page opens with the other one.
    """
    node, other = _read(computed, _GIVEN, _RAISED), _read(recorded, _GIVEN, _RAISED)
    check(other.cells, name, scales[0], complete=complete)
    cells, others = ([cell for cell in one.cells if cell.cell_type == "code"] for one in (node, other))
    if not any(figures.specifications(one.outputs) for one in others):
        mark_computed(computed, scales)
        return
    node.metadata["executions"] = {scales[0]: seconds_of(other), scales[1]: seconds_of(node)}
    failed = [any(_errors([one])) for one in others]
    opening = next((place for place, cell in enumerate(cells) if figures.specifications(cell.outputs)), 0)
    poor = any(failed[: opening + 1]) or _values(others[opening]) <= _FEW < _values(cells[opening])
    reading = f"{'../' * name.count('/')}guide/reading.html#two-radii"
    for cell, one, lacks in zip(cells, others, failed, strict=True):
        if lacks and cell.outputs:
            never = any(error.ename == NotAtScale.__name__ for _, error in _errors([one]))
            cell.outputs = [_mark(scales[0], _only_computed(scales, never), " data-kept"), _end(), *cell.outputs]
        elif not lacks and cell.outputs != one.outputs:
            cell.outputs = mark_scales({scales[0]: one.outputs, scales[1]: cell.outputs})
    _write(node, computed, _switch(scales, scales[1] if poor else "", reading))


def opens_with_chart(notebook: Path) -> bool:
    """Return whether an executed notebook has a chart, and nothing above its first one failed."""
    cells = [cell for cell in _read(notebook, _GIVEN, _RAISED).cells if cell.cell_type == "code"]
    first = next((place for place, cell in enumerate(cells) if figures.specifications(cell.outputs)), None)
    return first is not None and not any(_errors(cells[:first]))


def mark_computed(notebook: Path, scales: tuple[str, str]) -> None:
    """Write at the top of an executed notebook that its results are of the computed scale, the second one, alone."""
    _write(_read(notebook, _GIVEN), notebook, f'<p class="scale-mark">{_only_computed(scales)}</p>')


def note_missing(notebook: Path, name: str, scale: str, *, complete: bool, head: str = "") -> None:
    """Replace the errors in a notebook, executed at a scale that is only read, by notes, and write a line below its title.

    complete: as in `check`.
    """
    node = _read(notebook, _RAISED)
    check(node.cells, name, scale, complete=complete)
    for _, error in list(_errors(node.cells)):
        words = html.escape(_lacking(scale, error.ename == NotAtScale.__name__))
        error.clear()
        error.update(output(f'<p class="scale-mark">{words}.</p>'))
    _write(node, notebook, head and f'<p class="scale-mark">{head}</p>')


def scale_of(notebook: Path, default: str) -> str:
    """Return the scale at which a notebook was executed, by its parameters."""
    return str(_read(notebook).metadata.get("papermill", {}).get("parameters", {}).get("scale", default))


def put_beside(name: str, notebook: Path, book: Path, given: Mapping[str, Any]) -> None:
    """Write into a notebook, executed with parameters, the answer and the first chart of the book under its own.

    book: the executed page of the book; where it does not show the scale of the notebook, a line says how to get it.
    """
    known, node = notebooks.parameters(notebooks.find(name)), _read(notebook)
    default = str(known["scale"].default) if "scale" in known else "quick"
    scale = str(given.get("scale", default))
    changed = {key: value for key, value in given.items() if key != "scale" and value != known[key].default}
    if not changed:
        return
    usual = {key: _usual(name, scale, key) if known[key].default is None else known[key].default for key in changed}
    named = [", ".join(f"{key} = {value}" for key, value in values.items()) for values in (changed, usual)]
    own, of_book = (output(f'<p class="scale-mark">{html.escape(one)}</p>') for one in (named[0], f"The book: {named[1]}"))
    cells = _read(book).cells if book.exists() else []
    names = {scale, ""} if cells and scale_of(book, default) == scale else {scale}
    parts = (split_by_scale(cell.get("outputs", [])) for cell in cells)
    shown = [one for part in parts for name in names & set(part) for one in part[name]]
    for kind in ("text/markdown", CHART):
        cell = next((cell for cell in node.cells if any(kind in one.get("data", ()) for one in cell.get("outputs", ()))), None)
        other = next((one for one in shown if kind in one.get("data", ())), None)
        if cell and other:
            cell.outputs = [own, *cell.outputs, of_book, other]
    how = f"To compare with the usual parameters, <code>make book SCALE={scale}</code> first and then repeat this command."
    _write(node, notebook, "" if shown else f'<p class="scale-mark">{how}</p>')


def _usual(name: str, scale: str, key: str) -> Any:
    runs = [vars(spec) for spec in keep_stored(registry.request(name, scale)).specs] if name in registry.SECTIONS else []
    values = list(dict.fromkeys(run.get(key.removeprefix("eval_"), run.get(key.removesuffix("s"))) for run in runs))
    return values[0] if len(values) == 1 else values or "the default"


def seconds_of(node: "NotebookNode") -> float:
    """Return how long papermill took to execute a notebook; 0 if it does not say."""
    return float(node.metadata.get("papermill", {}).get("duration") or 0)


def _values(cell: "NotebookNode") -> int:
    return sum(len(figures.table(spec)) for spec in figures.specifications(cell.outputs))


def _errors(cells: Sequence["NotebookNode"]) -> Iterator[tuple[int, "NotebookNode"]]:
    outputs = ((number, output) for number, cell in enumerate(cells) for output in cell.get("outputs", []))
    yield from ((number, output) for number, output in outputs if output.output_type == "error")


def check_executed(notebook: Path, name: str, scale: str, *, complete: bool) -> None:
    """Raise NotebookFailed if a cell of an executed notebook failed for another reason than a missing result, as `check` does."""
    check(_read(notebook, _GIVEN, _RAISED).cells, name, scale, complete=complete)


def check(cells: Sequence["NotebookNode"], name: str, scale: str, *, complete: bool) -> None:
    """Raise NotebookFailed if a cell failed for another reason than a missing result.

    A result is missing where NotRecorded says so, and behind such a cell where a name is not defined. If all are recorded, only
    what a scale never has is missing.
    """
    lacking = {kind.__name__ for kind in ((NotAtScale,) if complete else (NotAtScale, NotRecorded))}
    for number, error in _errors(cells):
        if error.ename not in lacking:
            raise NotebookFailed(f"{name} failed at scale {scale} in cell {number}: {error.ename}: {error.evalue}")
        lacking.add("NameError")


def mark_scales(outputs: Mapping[str, list["NotebookNode"]]) -> list["NotebookNode"]:
    """Return the outputs of several scales one after another, marked so that the switch shows those of one."""
    marked = [[_mark(scale, html.escape(title_of(scale))), *some] for scale, some in outputs.items() if some]
    return [*chain.from_iterable(marked), _end()]


def split_by_scale(outputs: Sequence["NotebookNode"]) -> dict[str, list["NotebookNode"]]:
    """Return the outputs of each scale that `mark_scales` marked, "" for those that are shown under either choice."""
    result: dict[str, list[NotebookNode]] = {}
    scale = ""
    for output in outputs:
        scale = output.get("metadata", {}).get("scale", scale)
        result.setdefault(scale, []).append(output)
    return result


def _only_computed(scales: tuple[str, str], never: bool = False) -> str:
    return html.escape(f"{_lacking(scales[0], never)}; {datasets.title(dataset_of(scales[1]))} shown.")


def _lacking(scale: str, never: bool) -> str:
    return f"{'Not available' if never else 'Not yet run'} on {datasets.title(dataset_of(scale))}"


def _mark(scale: str, words: str, kept: str = "") -> "NotebookNode":
    """Return the start of the outputs of a scale; kept: " data-kept" for words that are shown also once the switch works."""
    return output(f'<p class="scale-mark" data-scale="{scale}"{kept}>{words}</p>', scale=scale)


def _end() -> "NotebookNode":
    return output('<span class="scale-end"></span>', scale="")


def output(text: str, kind: str = "text/html", **metadata: str) -> "NotebookNode":
    """Return HTML, or text of another kind, as the output of a cell."""
    import nbformat

    data = {kind: text, "text/plain": ""}
    output: NotebookNode = nbformat.v4.new_output("display_data", data=data, metadata=metadata)
    return output


def _switch(scales: Sequence[str], first: str, reading: str) -> str:
    """Return the buttons that choose between the outputs of scales, the first of them shown.

    first: the scale that this page opens with, whatever was chosen on other pages. reading: where the radius is explained.
    """
    pressed = {scale: str(scale == (first or scales[0])).lower() for scale in scales}
    buttons = "".join(
        f'<button type="button" data-scale="{scale}" aria-pressed="{state}">{title_of(scale)}</button>'
        for scale, state in pressed.items()
    )
    opens = f' data-first="{first}"' if first else ""
    why = f'<a href="{reading}">Why this radius?</a>'
    return f'<div class="scale-switch"{opens} role="group" aria-label="Dataset of the results on this page">{buttons}{why}</div>'
