"""A folder imports only what stands left of it; reading results needs no torch, computing them none of the book's packages."""

import ast
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import networkx
import pytest

import classwise

PACKAGE = Path(classwise.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# What each folder, or module at the top, may import beside itself.
LABEL_HALF = ["core", "stats", "charts", "papers"]
TORCH_HALF = ["core", "images", "models", "attacks", "defences"]
ABOVE = ["runs", "book", "__main__"]
ALLOWED: dict[str, set[str]] = {"__init__": set()}
ALLOWED |= {name: set(half[: half.index(name)]) for half in (LABEL_HALF, TORCH_HALF) for name in half}
ALLOWED |= {name: {*LABEL_HALF, *TORCH_HALF, *ABOVE[: ABOVE.index(name)]} for name in ABOVE}

# Within runs: what a module or folder may import, from left to right; those of one group stand beside each other.
RUNS = [
    {"store"},
    {"recorded"},
    {"describe"},
    {"compute"},
    {"schedule", "audit_evaluation"},
    {"ensure"},
    {"load", "artifacts", "listing", "settings", "convergence"},
    {"audits", "judge"},
    {"record"},
]
# Within papers: the engine, then each paper, then what brings them together.
ENGINE = [
    "scales",
    "selection",
    "variants",
    "published",
    "claims",
    "sections",
    "measures",
    "say",
    "findings",
    "judging",
    "terms",
    "joined",
    "ledger",
]
REGISTRY = ["overview", "registry", "reports", "home", "leaderboard"]
ALTAIR = {"charts"}


def name_of(path: Path) -> str:
    """Return the name of a module below the package: "attacks.pgd", "attacks" for its __init__, "__init__" for the package's."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


NAMES = {name_of(path): path for path in MODULES}


def imported(code: str, package: str = "classwise") -> set[str]:
    """Return the full names that a module in `package` imports, wherever in its code: of modules and of what is in them."""
    result: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            result |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*start, *filter(None, [node.module])])
            result |= {f"{base}.{alias.name}" for alias in node.names}
    return result


def package_of(path: Path) -> str:
    """Return the name of the package that a file lies in: "classwise.attacks"."""
    return ".".join(["classwise", *path.relative_to(PACKAGE).parts[:-1]])


def imports(path: Path) -> set[str]:
    """Return the modules of the package that a file imports."""
    inside = {name.partition(".")[2] for name in imported(path.read_text(), package_of(path)) if name.startswith("classwise.")}
    return {name if name in NAMES else name.rpartition(".")[0] for name in inside} - {""}


def top(name: str) -> str:
    return name.split(".")[0]


def test_every_module_lies_in_a_folder_of_the_table():
    assert {top(name) for name in NAMES} == set(ALLOWED)
    assert {path.stem for path in PACKAGE.glob("*.py")} == {"__init__", "__main__"}


def test_a_folder_imports_only_what_stands_left_of_it():
    wrong = {name: {top(other) for other in imports(path)} - {top(name)} - ALLOWED[top(name)] for name, path in NAMES.items()}
    assert {name: folders for name, folders in wrong.items() if folders} == {}


def test_no_module_imports_itself_by_way_of_others():
    graph = networkx.DiGraph((name, other) for name, path in NAMES.items() for other in imports(path))
    # A package imports its modules, which may import the package's other modules: __init__ is no room of its own.
    graph.remove_nodes_from([name for name in NAMES if NAMES[name].name == "__init__.py"])
    assert list(networkx.simple_cycles(graph)) == []


def place_in(table: list[set[str]], name: str) -> int:
    return next(number for number, group in enumerate(table) if name in group)


def test_within_runs_imports_run_one_way():
    for name in (name for name in NAMES if name.startswith("runs.")):
        own = place_in(RUNS, name.split(".")[1])
        for other in imports(NAMES[name]):
            if other.startswith("runs.") and other.split(".")[1] != name.split(".")[1]:
                assert place_in(RUNS, other.split(".")[1]) <= own, f"{name} imports {other}"


PAPERS = sorted(path.name for path in (PACKAGE / "papers").iterdir() if path.is_dir() and path.name != "__pycache__")


def test_within_papers_the_engine_knows_no_paper_and_no_paper_another():
    for name in (name for name in NAMES if name.startswith("papers.")):
        place = name.split(".")[1]
        others = {other.split(".")[1] for other in imports(NAMES[name]) if other.startswith("papers.")} - {place}
        assert place in {*ENGINE, *PAPERS, *REGISTRY}, name
        allowed = set(ENGINE[: ENGINE.index(place)]) if place in ENGINE else set(ENGINE)
        assert others <= (allowed | set(PAPERS) | set(REGISTRY) if place in REGISTRY else allowed), name


def test_other_folders_know_no_single_paper():
    for name in (name for name in NAMES if top(name) != "papers"):
        others = [other.split(".") for other in imports(NAMES[name]) if other.startswith("papers.")]
        assert not {parts[1] for parts in others} & set(PAPERS), name


def test_only_charts_draw():
    for name in (name for name in NAMES if top(name) in LABEL_HALF):
        external = {other.split(".")[0] for other in imported(NAMES[name].read_text(), package_of(NAMES[name]))}
        last = name.rpartition(".")[2]
        of_paper = top(name) == "papers" and (last in CHARTS or last.startswith("charts_"))
        drawing = top(name) == "charts" or name in ALTAIR or of_paper
        assert drawing or "altair" not in external, name


CHARTS = {"charts", "trace_explorer", "theory_explorer"}


@pytest.mark.parametrize(
    ("code", "package", "names"),
    [
        ("import altair as alt", "classwise.stats", {"altair"}),
        ("from altair import Chart", "classwise.stats", {"altair.Chart"}),
        ("from altair.vegalite import v6", "classwise.stats", {"altair.vegalite.v6"}),
        ("from . import metrics", "classwise.stats", {"classwise.stats.metrics"}),
        ("from .metrics import cv", "classwise.stats", {"classwise.stats.metrics.cv"}),
        ("from .. import runs", "classwise.stats", {"classwise.runs"}),
        ("from ..runs.store import find", "classwise.stats", {"classwise.runs.store.find"}),
        ("from ...runs import store", "classwise.papers.tian2021", {"classwise.runs.store"}),
        ("def f():\n    from classwise import runs", "classwise.stats", {"classwise.runs"}),
    ],
)
def test_every_form_of_import_is_seen(code, package, names):
    assert imported(code, package) == names


def test_the_halves_are_as_the_readme_says():
    assert all(left in ALLOWED[right] for half in (LABEL_HALF, TORCH_HALF) for left, right in pairwise(half))


READS = [
    *(name for name in NAMES if top(name) in LABEL_HALF),
    "runs",
    "runs.load",
    "runs.listing",
    "book.notebooks",
    "book.build",
]


def test_reading_results_does_not_import_torch():
    code = f"import sys, {', '.join(f'classwise.{name}' for name in READS)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_computing_does_without_the_packages_of_the_book():
    barred = ["altair", "papermill", "jupyter_book", "ipywidgets", "nbconvert", "IPython", "dask", "distributed"]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({barred}));"
        "import classwise.defences.training, classwise.runs.schedule.pool, classwise.runs.record.recorder;"
        "import classwise.stats.bootstrap"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# Their arguments are the options of the command line.
MANY_ARGUMENTS = {("__main__", "audit_network"), ("__main__", "record_runs"), ("runs.audits", "audit")}


def arguments(node: ast.FunctionDef) -> list[str]:
    """Return the names of a function's arguments without self and cls."""
    given = node.args
    every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    return [argument.arg for argument in every if argument is not None and argument.arg not in ("self", "cls")]


def test_modules_and_functions_stay_small():
    for name, path in NAMES.items():
        source = path.read_text()
        assert len(source.splitlines()) <= 400, f"{name} is long"
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno + 1 <= 50, f"{name}.{node.name} is long"
                assert len(arguments(node)) <= 7 or (name, node.name) in MANY_ARGUMENTS, f"{name}.{node.name} has many arguments"
