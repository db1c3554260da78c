"""Notebooks with parameters: checked before anything runs, executed by papermill, exported as a standalone page."""

import ast
import hashlib
import json
import os
import re
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from classwise.core import files
from classwise.core.errors import UserError, check_known
from classwise.core.options import matches_type
from classwise.core.paths import checkout

# The longest suffix of the name of an output, in characters.
_LONGEST = 120


class NotebookFailed(RuntimeError):
    """A notebook raised an error; its output until then is kept."""


class Parameter(NamedTuple):
    """A parameter of a notebook: its annotation, such as "Optional[float]", its default, and its comment."""

    annotation: str
    default: Any
    comment: str


def folder() -> Path:
    """Return the folder of the notebooks."""
    return checkout() / "notebooks"


def names() -> list[str]:
    """Return the names of all notebooks, like "tian2021/4-1-class-bias"."""
    paths = (path for path in folder().glob("**/*.ipynb") if ".ipynb_" not in str(path))
    return sorted(str(path.relative_to(folder()).with_suffix("")) for path in paths)


def find(name: str) -> Path:
    """Return the file of a notebook, named with or without its folder and suffix."""
    short = re.sub(r"^notebooks/|\.ipynb$", "", name)
    check_known("notebook", [short], names())
    return folder() / f"{short}.ipynb"


def parse(text: str) -> dict[str, Any]:
    """Return parameters written as "seeds=[0,1] eps=0.1 dataset=digits": values are JSON if possible, else text."""
    given: dict[str, Any] = {}
    for word in re.findall(r"(?:\[[^\]]*\]|\"[^\"]*\"|[^\s\[\"])+", text):
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UserError(f"{word!r} is not of the form name=value, like eps=0.1 or seeds=[0,1]")
        if name in given:
            raise UserError(f"parameter {name} is given twice, as {given[name]!r} and as {_value(value)!r}; give it once")
        given[name] = _value(value)
    return given


def _value(text: str) -> Any:
    try:
        return json.loads({"None": "null", "True": "true", "False": "false"}.get(text, text))
    except json.JSONDecodeError:
        inner = re.fullmatch(r"\[(.*)\]", text)
        return [_value(part.strip().strip("'\"")) for part in inner[1].split(",") if part.strip()] if inner else text


def parameters(path: Path) -> dict[str, Parameter]:
    """Return the parameters of a notebook by their names."""
    # Not papermill.inspect_notebook: papermill takes a second to import, and a wrong parameter is reported at once without it.
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    source = "\n".join("".join(cell["source"]) for cell in cells if "parameters" in cell["metadata"].get("tags", []))
    result: dict[str, Parameter] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.AnnAssign) and node.value:
            comment = source.splitlines()[(node.end_lineno or 1) - 1].partition("  # ")[2]
            parameter = Parameter(ast.unparse(node.annotation), ast.literal_eval(node.value), comment.strip())
            result[ast.unparse(node.target)] = parameter
    return result


def suffix(path: Path, given: Mapping[str, Any]) -> str:
    """Return what distinguishes the output of a notebook with parameters: "_eps=0.1_seeds=0+1"; "" for defaults."""
    known = parameters(path)
    changed = {name: value for name, value in sorted(given.items()) if value != known[name].default}
    texts = {name: "+".join(map(str, value)) if isinstance(value, list) else str(value) for name, value in changed.items()}
    text = "".join(f"_{name}={value}" for name, value in texts.items())
    plain = re.sub(r"[^A-Za-z0-9.,+=_-]+", "-", text)[:_LONGEST]
    # What is shortened or replaced must not coincide with other parameters.
    digest = hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()[:8]
    return text if text == plain else f"{plain}-{digest}"


def check(path: Path, given: Mapping[str, Any]) -> None:
    """Raise a UserError if the notebook has no such parameter, or if a value is not of the type in its parameters cell."""
    known = parameters(path)
    for name, value in given.items():
        check_known("parameter", [name], known)
        wanted = known[name].annotation
        kind = eval(wanted, dict(vars(typing)))  # of a notebook that is executed next
        if not matches_type(value, kind):
            hint = f"; did you mean {name}=[{value}]?" if value != "" and matches_type([value], kind) else ""
            raise UserError(f"parameter {name} must be {wanted}, got {value!r} ({type(value).__name__}){hint}")


def execute(
    source: Path, target: Path, given: Mapping[str, Any], failed: Path, *, tolerant: bool = False, bar: bool = False
) -> None:
    """Run a notebook and write it with its outputs to `target`; if it raises, to `failed`, and raise NotebookFailed.

    tolerant: a cell that raises keeps its error as output, and the cells behind it are run. bar: a bar on standard error counts
    the cells.
    """
    from filelock import FileLock

    part = target.with_suffix(".part.ipynb")
    part.parent.mkdir(parents=True, exist_ok=True)
    # Charts must be static even if a Jupyter server started this process: nobody can use their controls.
    os.environ.pop("JPY_SESSION_NAME", None)
    with FileLock(target.with_name(f".{target.stem}.lock")):  # another process may write the same page
        reason = _run(source, part, given, tolerant=tolerant, bar=bar)
        place = failed if reason else target
        place.parent.mkdir(parents=True, exist_ok=True)
        if part.exists():
            part.replace(place)
    if reason:
        raise NotebookFailed(f"{source.name} failed: {reason}; see {failed}")


def _run(source: Path, target: Path, given: Mapping[str, Any], *, tolerant: bool, bar: bool) -> str:
    """Run a notebook with papermill and return in a line what ended it, "" for nothing."""
    import papermill  # slow to import

    from classwise.book import kernels

    options: dict[str, Any] = {"parameters": dict(given), "kernel_name": "python3", "cwd": str(checkout())}
    options |= {"progress_bar": bar, "extra_arguments": ["--IPKernelApp.log_level=50"], "allow_errors": tolerant}
    options["start_timeout"] = 600  # seconds: the first kernel waits for the imports of all, long on a busy machine
    for attempt in (1, 2):
        try:
            papermill.execute_notebook(str(source), str(target), kernel_manager_class=kernels.ForkedKernels, **options)
            break
        except papermill.PapermillExecutionError as error:
            return "" if tolerant else f"{error.ename}: {error.evalue}".splitlines()[0]
        except Exception as error:  # a timeout and a dead kernel have no common kind
            # The port that was chosen for the kernel may be in use by the time it listens.
            if attempt == 2 or "Kernel died before" not in str(error):
                return f"{type(error).__name__}: {error}".splitlines()[0]
    return ""


# Text between dollars is mathematics; MathJax reads this when it starts.
_MATH = r"window.MathJax = {tex: {inlineMath: [['$', '$'], ['\\(', '\\)']]}};"


def standalone(
    notebook: Path, page: Path, scripts: Sequence[Path], style: str = "", title: str = "", *, code: bool = True
) -> None:
    """Write an executed notebook as one HTML file that needs no network; `scripts` and `style` (CSS) are put inside it.

    title: of the window, "" for the name of the file. code: whether the page has standard error and, folded, code.
    """
    import nbformat  # slow to import
    from nbconvert import HTMLExporter

    content, hidden = nbformat.read(notebook, as_version=4), not code
    for cell in content.cells if hidden else []:
        cell.update({"outputs": [part for part in cell.outputs if part.get("name") != "stderr"]} if "outputs" in cell else {})
    exporter = HTMLExporter(template_name="lab", exclude_input=hidden, exclude_output_prompt=True, exclude_input_prompt=True)
    html, _ = exporter.from_notebook_node(content, {"metadata": {"name": title or notebook.stem}})
    html = html if hidden else html.replace("<main>", '<main><details class="code"><summary>Code</summary></details>', 1)
    html = re.sub(r"<script[^>]*\bsrc=[^>]*>\s*</script>", "", html)
    texts = [_MATH, *(script.read_text() for script in scripts)]
    inside = f"<style>{style}</style>" + "\n".join(f"<script>{text}</script>" for text in texts)
    head = html.index("</head>")
    files.write(page, (html[:head] + inside + html[head:]).encode())
