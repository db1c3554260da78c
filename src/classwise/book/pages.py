"""Pages of the book from executed notebooks: code folded, captions with numbers, a last block that says how to rerun a page."""

import ast
import json
import re
from collections.abc import Mapping
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

import pandas as pd
import vl_convert

from classwise import runs
from classwise.book import figures, merging, notebooks
from classwise.core import datasets
from classwise.core.files import write
from classwise.papers import registry
from classwise.papers.scales import SCALES
from classwise.runs.recorded import how_to_record, recorded_part

if TYPE_CHECKING:
    from nbformat import NotebookNode

# Tags: papermill's, of cells that it adds; and ours, of the cells with the provenance of a page.
_ERROR, PROVENANCE = "papermill-error-cell-tag", "provenance"
_RECOMPUTE = "Recompute this page: parameters, command and provenance"


def prepare(name: str, executed: Path, target: Path, extra: Path) -> None:
    """Write the notebook that Sphinx renders as the page `name` from its executed form, and the data of its charts below `extra`.

    The code of each cell is folded. A cell with metadata {"mystnb": {"figure": {"name": ..., "caption": ...}}} becomes a figure,
    with the number of the page and its place on it ("4.1-2"), in `classwise.book.shell`. Cells tagged "provenance" are folded
    with their outputs and move to the end, below the command and the parameters of the page.
    """
    import nbformat  # slow to import

    node = nbformat.read(executed, as_version=4)
    cells = [cell for cell in node.cells if _ERROR not in _tags(cell)]
    code = [cell for cell in cells if cell.cell_type == "code"]
    numbered = [cell for cell in code if _figure(cell)]
    for place, cell in enumerate(numbered, 1):
        _caption(cell, f"{_section(name)}{place}", _data(name, cell, extra))
    for cell in code:
        cell.metadata.tags = [*_tags(cell), *(["hide-input"] if "hide-cell" not in _tags(cell) else [])]
    last = [cell for cell in cells if PROVENANCE in _tags(cell)]
    node.cells = [*(cell for cell in cells if cell not in last), *_recompute(name, last, _executions(name, node))]
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(node, target)


def thumbnail(executed: Path) -> str:
    """Return the first chart of an executed notebook as SVG."""
    cells = json.loads(executed.read_text())["cells"]
    htmls = ("".join(output.get("data", {}).get("text/html", "")) for cell in cells for output in cell.get("outputs", []))
    return str(vl_convert.vegalite_to_svg(next(filter(None, map(figures.specification, htmls)))))


def _tags(cell: "NotebookNode") -> list[str]:
    return list(cell.metadata.get("tags", []))


def _figure(cell: "NotebookNode") -> dict[str, str]:
    return dict(cell.metadata.get("mystnb", {}).get("figure", {}))


def _section(name: str) -> str:
    """Return the section of a page as its figures are numbered: "4.1-" of "tian2021/4-1-class-bias", "" of a page without.

    Pages of one section of a paper differ in a letter, in the order of the book: "3.1a-" and "3.1b-".
    """
    number = _number(name)
    paper = registry.PAPERS.get(registry.paper_of(name))
    alike = [page for page in (paper.pages if paper else ()) if _number(page) == number]
    letter = ascii_lowercase[alike.index(name)] if len(alike) > 1 and name in alike else ""
    return f"{number}{letter}-" if number else ""


def _number(name: str) -> str:
    """Return the number of the section of a page, "4.1", with the letter that its name has; "" of a page without."""
    number = re.match(r"(\d+(?:-\d+)*[a-z]?|[A-Z](?:-\d+)*)(?=-)", name.rpartition("/")[2])
    return number[1].replace("-", ".") if number else ""


def _data(name: str, cell: "NotebookNode", extra: Path) -> dict[str, str]:
    """Write the data behind the charts of a figure as CSV below `extra`; return the paths by dataset, "" if it is but one."""
    files: dict[str, str] = {}
    for scale, outputs in merging.by_scale(cell.outputs).items():
        tables = [figures.table(spec) for output in outputs if (spec := figures.specification(_html(output)))]
        rows = pd.concat(tables) if tables else pd.DataFrame()
        if rows.empty:
            continue
        dataset = str(SCALES[scale].run["dataset"]) if scale else ""
        stem = _figure(cell).get("name", "figure").removeprefix("fig-")
        path = f"data/figures/{name}/{'-'.join(filter(None, (stem, dataset)))}.csv"
        write(extra / path, rows.to_csv(index=False).encode())
        files[datasets.title(dataset)] = path
    return files


def _html(output: "NotebookNode") -> str:
    return str(output.get("data", {}).get("text/html", ""))


def _caption(cell: "NotebookNode", number: str, data: Mapping[str, str]) -> None:
    """Put the caption behind the outputs of a cell; MyST-NB would repeat it for each of them. data: of `_data`."""
    figure = _figure(cell)
    del cell.metadata.mystnb["figure"]
    cell.metadata["figure"] = {"name": figure.get("name", f"figure-{number}"), "number": number, "data": dict(data)}
    cell.outputs.append(_shown({"text/markdown": figure.get("caption", "")}))


def _shown(data: dict[str, str]) -> "NotebookNode":
    import nbformat

    output: NotebookNode = nbformat.v4.new_output("display_data", data={**data, "text/plain": ""})
    return output


def _executions(name: str, node: "NotebookNode") -> dict[str, float]:
    """Return the scales that a page shows, each with the seconds of its execution; {"": seconds} if it has no scale."""
    if "executions" in node.metadata:
        return dict(node.metadata.executions)
    default = _parameters(notebooks.find(name)).get("scale", ("", ""))[0] if name in notebooks.names() else ""
    given = node.metadata.get("papermill", {}).get("parameters", {}).get("scale")
    return {str(given or default): merging.seconds_of(node)}


def _recompute(name: str, last: list["NotebookNode"], executions: Mapping[str, float]) -> list["NotebookNode"]:
    """Return the folded block at the end of a page: one cell with the outputs of those tagged "provenance"."""
    import nbformat

    if name not in notebooks.names():
        return last
    commands = {scale: [_shown({"text/markdown": command(name, scale, took)})] for scale, took in executions.items()}
    first = merging.both(commands) if len(commands) > 1 else next(iter(commands.values()))
    outputs = [*first, _shown({"text/markdown": parameters(name)}), *(output for cell in last for output in cell.outputs)]
    # MyST-NB leaves out cells without a source.
    source = "\n".join(cell.source for cell in last) or f"# {name}"
    block = nbformat.v4.new_code_cell(source, outputs=outputs)
    block.metadata.tags = ["hide-output", PROVENANCE, "remove-input"]
    block.metadata.mystnb = {"code_prompt_show": _RECOMPUTE, "code_prompt_hide": _RECOMPUTE}
    return [block]


def command(name: str, scale: str, took: float) -> str:
    """Return in Markdown how to rerun a notebook at a scale, "" for one without, and what that takes.

    took: the seconds of its execution here, 0 if unknown. At a scale that is only read, the hours of the recording are stated.
    """
    values = {key: value for key, (value, _) in _parameters(notebooks.find(name)).items() if value is not None}
    values |= {"scale": scale} if scale else {}
    given = " ".join(f"{key}={json.dumps(value)}" for key, value in values.items())
    options = f" P='{given}'" if given else ""
    only_read = scale in SCALES and SCALES[scale].only_read
    runs_are = "it reads the recorded results and computes none" if only_read else "finished runs are not computed again"
    lines = [
        f"The command writes one HTML file and leaves the book unchanged; {runs_are}.",
        f"The page took {_duration(took)} here; the training of its runs is not included." if took else "",
    ]
    if only_read and name in registry.SECTIONS:
        lines += [runs.recording(recorded_part(registry.request(name, scale))), f"{how_to_record(scale)}."]
    return f"```bash\nmake notebook NB={name}{options}\n```\n\n{' '.join(filter(None, lines))}"


def parameters(name: str) -> str:
    """Return in Markdown the parameters of a notebook with their values and meanings; "" if it has none."""
    values = _parameters(notebooks.find(name))
    rows = [f"| `{key}` | `{value!r}` | {meaning} |" for key, (value, meaning) in values.items()]
    return "\n".join(["| parameter | default | meaning |\n|---|---|---|", *rows]) if rows else ""


def _duration(took: float) -> str:
    return f"{took:.0f} seconds" if took < 90 else f"{took / 60:.1f} minutes"


def _parameters(path: Path) -> dict[str, tuple[Any, str]]:
    """Return the value and the comment of each parameter of a notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    lines = [line for cell in cells if "parameters" in cell["metadata"].get("tags", []) for line in cell["source"]]
    result: dict[str, tuple[Any, str]] = {}
    for line in lines:
        code, _, meaning = line.partition("  # ")
        for node in ast.parse(code.strip()).body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                result[node.target.id] = (ast.literal_eval(node.value), meaning.strip().replace("|", "or"))
    return result
