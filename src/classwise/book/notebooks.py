"""Notebooks with parameters: checked before anything runs, executed by papermill, exported as a standalone page."""

import ast
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from classwise.core import files
from classwise.core.errors import UserError, unknown
from classwise.core.options import matches_type
from classwise.core.paths import checkout

# The plain types that an annotation in a parameters cell may name.
_KINDS: dict[str, Any] = {"int": int, "float": float, "str": str, "bool": bool}
# The longest suffix of the name of an output, in characters.
_LONGEST = 120


class NotebookFailed(RuntimeError):
    """A notebook raised an error; its output until then is kept."""


def folder() -> Path:
    """Return the folder of the notebooks."""
    return checkout() / "notebooks"


def names() -> list[str]:
    """Return the names of all notebooks, like "tian2021/4-1-class-bias"."""
    return sorted(
        str(path.relative_to(folder()).with_suffix("")) for path in folder().glob("**/*.ipynb") if ".ipynb_" not in str(path)
    )


def find(name: str) -> Path:
    """Return the file of a notebook, named with or without its folder and suffix."""
    short = re.sub(r"^notebooks/|\.ipynb$", "", name)
    if short not in names():
        raise unknown("notebook", short, names())
    return folder() / f"{short}.ipynb"


def parse(text: str | Sequence[str]) -> dict[str, Any]:
    """Return parameters written as "seeds=[0,1] eps=0.1 dataset=digits": values are JSON if possible, else text."""
    words = re.findall(r"(?:\[[^\]]*\]|\"[^\"]*\"|[^\s\[\"])+", text) if isinstance(text, str) else list(text)
    given: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UserError(f"{word!r} is not of the form name=value, like eps=0.1 or seeds=[0,1]")
        if name in given:
            raise UserError(f"parameter {name} is given twice, as {given[name]!r} and as {_value(value)!r}; give it once")
        given[name] = _value(value)
    return given


def _value(text: str) -> Any:
    if text in ("None", "True", "False"):
        return {"None": None, "True": True, "False": False}[text]
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        inner = re.fullmatch(r"\[(.*)\]", text)
        return [_value(part.strip().strip("'\"")) for part in inner[1].split(",") if part.strip()] if inner else text


def parameters(path: Path) -> dict[str, str]:
    """Return the parameters of a notebook with their annotations, such as {"eps": "Optional[float]"}; "" if there is none."""
    result: dict[str, str] = {}
    for node in _parameter_cells(path):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            result[node.target.id] = ast.unparse(node.annotation)
        elif isinstance(node, ast.Assign):
            result |= {target.id: "" for target in node.targets if isinstance(target, ast.Name)}
    return result


def _parameter_cells(path: Path) -> list[ast.stmt]:
    """Return the statements of the parameters cell of a notebook."""
    # Not papermill.inspect_notebook: papermill takes a second to import, and a wrong parameter is reported at once without it.
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
    return [node for source in sources for node in ast.parse(source).body]


def suffix(path: Path, given: Mapping[str, Any]) -> str:
    """Return what distinguishes the output of a notebook with parameters: "_eps=0.1_seeds=0+1"; "" for defaults."""
    assigned = [node for node in _parameter_cells(path) if isinstance(node, ast.AnnAssign)]
    defaults = {ast.unparse(node.target): ast.literal_eval(node.value) for node in assigned if node.value is not None}
    changed = {name: value for name, value in sorted(given.items()) if value != defaults.get(name)}
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
        if name not in known:
            raise unknown("parameter", name, known)
        wanted = known[name]
        kind = ast.parse(wanted or "object", mode="eval").body
        if not _fits(value, kind):
            hint = f"; did you mean {name}=[{value}]?" if value != "" and _fits([value], kind) else ""
            raise UserError(f"parameter {name} must be {wanted}, got {value!r} ({type(value).__name__}){hint}")


def _fits(value: Any, wanted: ast.expr) -> bool:
    """Return whether a value matches an annotation of plain types, list[...], Optional[...], Union[...] and "|"."""
    match wanted:
        case ast.Name(id="list"):
            return isinstance(value, list)
        case ast.Name(id=name):
            return matches_type(value, _KINDS.get(name, Any))
        case ast.Constant(value=None):
            return value is None
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _fits(value, left) or _fits(value, right)
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
            return value is None or _fits(value, inner)
        case ast.Subscript(value=ast.Name(id="Union"), slice=ast.Tuple(elts=members)):
            return any(_fits(value, member) for member in members)
        case ast.Subscript(value=ast.Name(id="list"), slice=inner):
            return isinstance(value, list) and all(_fits(part, inner) for part in value)
    return True


def execute(source: Path, target: Path, given: Mapping[str, Any], failed: Path, *, tolerant: bool = False) -> None:
    """Run a notebook and write it with its outputs to `target`; if it raises, to `failed`, and raise NotebookFailed.

    tolerant: a cell that raises keeps its error as output, and the cells behind it are run.
    """
    from filelock import FileLock

    part = target.with_suffix(".part.ipynb")
    part.parent.mkdir(parents=True, exist_ok=True)
    # Charts must be static even if a Jupyter server started this process: nobody can use their controls.
    os.environ.pop("JPY_SESSION_NAME", None)
    with FileLock(target.with_name(f".{target.stem}.lock")):  # another process may write the same page
        error = _run(_tolerant(source, target.with_suffix(".source.ipynb")) if tolerant else source, part, given)
        if error is None or (tolerant and _is_of_a_cell(error)):
            part.replace(target)
            return
        failed.parent.mkdir(parents=True, exist_ok=True)
        if part.exists():
            part.replace(failed)
    raise NotebookFailed(f"{source.name} failed: {_reason(error)}; see {failed}")


def _run(source: Path, target: Path, given: Mapping[str, Any]) -> Exception | None:
    """Run a notebook with papermill and return the error that ended it, None if there was none."""
    import papermill  # slow to import

    from classwise.book import kernels

    quiet: dict[str, Any] = {"progress_bar": False, "extra_arguments": ["--IPKernelApp.log_level=50"]}
    quiet["kernel_manager_class"] = kernels.manager()
    options = {"parameters": dict(given), "kernel_name": "python3", "cwd": str(checkout()), **quiet}
    try:
        try:
            papermill.execute_notebook(str(source), str(target), **options)
        except RuntimeError as error:
            # The port that was chosen for the kernel may be in use by the time it listens.
            if "Kernel died before" not in str(error):
                raise
            papermill.execute_notebook(str(source), str(target), **options)
    except Exception as error:  # a failed cell, a timeout and a dead kernel have no common kind
        return error
    return None


def _tolerant(source: Path, target: Path) -> Path:
    """Write a copy of a notebook all of whose cells may raise, and return it."""
    content = json.loads(source.read_text(encoding="utf-8"))
    for cell in content["cells"]:
        cell["metadata"]["tags"] = [*cell["metadata"].get("tags", []), "raises-exception"]
    files.write(target, json.dumps(content).encode())
    return target


def _is_of_a_cell(error: Exception) -> bool:
    from papermill import PapermillExecutionError

    return isinstance(error, PapermillExecutionError)


def _reason(error: Exception) -> str:
    text = f"{error.ename}: {error.evalue}" if _is_of_a_cell(error) else f"{type(error).__name__}: {error}"  # type: ignore[attr-defined]
    return text.splitlines()[0]


# Text between dollars is mathematics; MathJax reads this when it starts.
_MATH = r"window.MathJax = {tex: {inlineMath: [['$', '$'], ['\\(', '\\)']]}};"


def standalone(
    notebook: Path, page: Path, scripts: Sequence[Path], style: str = "", title: str = "", *, code: bool = True
) -> None:
    """Write an executed notebook as one HTML file that needs no network; `scripts` and `style` (CSS) are put inside it.

    title: of the window, "" for the name of the file. code: whether the page shows code and standard error.
    """
    import nbformat  # slow to import
    from nbconvert import HTMLExporter

    content = nbformat.read(notebook, as_version=4)
    if not code:
        for cell in content.cells:
            cell.update({"outputs": [part for part in cell.outputs if part.get("name") != "stderr"]} if "outputs" in cell else {})
    options = {} if code else {"exclude_input": True, "exclude_output_prompt": True, "exclude_input_prompt": True}
    html, _ = HTMLExporter(template_name="lab", **options).from_notebook_node(
        content, {"metadata": {"name": title or notebook.stem}}
    )
    html = re.sub(r"<script[^>]*\bsrc=[^>]*>\s*</script>", "", html)
    texts = [_MATH, *(script.read_text() for script in scripts)]
    inside = f"<style>{style}</style>" + "\n".join(f"<script>{text}</script>" for text in texts)
    head = html.index("</head>")
    files.write(page, (html[:head] + inside + html[head:]).encode())
