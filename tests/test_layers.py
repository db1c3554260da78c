"""Imports keep to the contracts of pyproject.toml; reading results needs no torch, computing them none of the book's packages."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
from importlinter.cli import lint_imports

import classwise
from classwise.core.paths import checkout

PROJECT = checkout() / "pyproject.toml"
PACKAGE = Path(classwise.__file__).parent
MODULES = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in sorted(PACKAGE.rglob("*.py"))}
READS = ["runs", "runs.load", "runs.listing", "book.notebooks", "book.build"]
READS += [name.removesuffix(".__init__") for name in MODULES if name.startswith(("core.", "stats.", "charts.", "papers."))]
BOOK = ["altair", "papermill", "jupyter_book", "ipywidgets", "nbconvert", "IPython", "dask", "distributed"]
# Their arguments are the options of the command line.
MANY_ARGUMENTS = {("__main__", "audit_network"), ("__main__", "record_runs"), ("runs.audits", "audit")}


def executed(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_imports_keep_to_the_contracts(capsys):
    assert lint_imports(str(PROJECT), no_cache=True) == 0, capsys.readouterr().out


def test_the_registry_alone_knows_the_papers():
    contracts = tomllib.loads(PROJECT.read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (one["layers"] for one in contracts if one.get("containers") == ["classwise.papers"])
    registry, *engine = ({f"classwise.papers.{name}" for name in re.findall(r"\w+", layer)} for layer in layers)
    graph = grimp.build_graph("classwise", cache_dir=None)
    papers = {f"classwise.papers.{path.parent.name}" for path in PACKAGE.glob("papers/*/__init__.py")}
    assert graph.find_children("classwise.papers") == papers.union(registry, *engine)
    for paper in papers:
        inside = {paper, *graph.find_descendants(paper)}
        assert {other for one in inside for other in graph.find_modules_that_directly_import(one)} <= inside | registry, paper


def test_reading_results_does_not_import_torch():
    executed("import sys, classwise; assert not [name for name in sys.modules if name.startswith('classwise.')]")
    executed(f"import sys, {', '.join(f'classwise.{name}' for name in READS)}; assert 'torch' not in sys.modules")


def test_computing_does_without_the_packages_of_the_book():
    executed(
        f"import sys; sys.modules.update(dict.fromkeys({BOOK}));"
        "import classwise.defences.training, classwise.runs.schedule.pool, classwise.runs.record.recorder;"
        "import classwise.stats.bootstrap"
    )


def arguments(node: ast.FunctionDef) -> list[str]:
    """Return the names of a function's arguments without self and cls."""
    given = node.args
    every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    return [argument.arg for argument in every if argument is not None and argument.arg not in ("self", "cls")]


def test_modules_and_functions_stay_small():
    for name, path in MODULES.items():
        source = path.read_text()
        assert len(source.splitlines()) <= 400, f"{name} is long"
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno + 1 <= 50, f"{name}.{node.name} is long"
                assert len(arguments(node)) <= 7 or (name, node.name) in MANY_ARGUMENTS, f"{name}.{node.name} has many arguments"


def test_functions_do_not_begin_with_a_preposition():
    """A function is a verb, or the noun that it returns."""
    trees = (ast.parse(path.read_text()) for path in MODULES.values())
    names = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert not [name for name in names if re.match("(of|by|at|with|in|as|over|on|under|within|without)(_|$)", name)]
