"""Imports run one way: the label half knows no torch, only `run` knows both halves, nothing below imports what is above."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import classwise

PACKAGE = Path(classwise.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
# From bottom to top: a module may import those that stand before it, in its own half or among the shared ones.
SHARED = ["errors", "options", "places", "superclasses"]
TORCH_HALF = ["backgrounds", "images", "models", "balls", "attacks", "folding", "outcomes", "representation", "defences"]
TORCH_HALF += ["training"]
LABEL_HALF = [
    "spec",
    "audits",
    "results",
    "checks",
    "metrics",
    "sampling",
    "pooling",
    "answers",
    "pairing",
    "chance",
    "intervals",
]
LABEL_HALF += ["homing", "published", "claims", "benches", "scales", "variants", "sections", "study", "charts", "panels", "grids"]
LABEL_HALF += ["tallies", "explore", "following", "figures", "ledger", "radii", "report"]
ABOVE = ["run", "notebooks", "book", "__main__"]


def part(path: Path) -> str:
    """Return the module or folder of the package that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Return the parts of the package that a file imports, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "classwise":
            inner = node.module.split(".")[1:]
            found |= {inner[0]} if inner else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("classwise.")}
    return {name for name in found if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").exists()}


def allowed(name: str) -> list[str]:
    """Return what a part may import beside itself."""
    if name in SHARED:
        return SHARED[: SHARED.index(name)]
    for half in (TORCH_HALF, LABEL_HALF):
        if name in half:
            return SHARED + half[: half.index(name)]
    return SHARED + TORCH_HALF + LABEL_HALF + ABOVE[: ABOVE.index(name)]


def test_every_module_has_its_place():
    assert {part(path) for path in MODULES} == {*SHARED, *TORCH_HALF, *LABEL_HALF, *ABOVE, "__init__"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_arrow_runs_back(path):
    name = part(path)
    if name == "__init__":
        assert imported(path) == set()
    else:
        assert imported(path) - {name} <= set(allowed(name))


@pytest.mark.parametrize("name", [*LABEL_HALF, "run", "notebooks", "book"])
def test_reading_results_does_not_import_torch(name):
    code = f"import sys, classwise.{name}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_torch_half_and_run_do_without_the_packages_of_the_book():
    barred = ["altair", "papermill", "jupyter_book", "ipywidgets", "nbconvert", "IPython", "dask", "distributed"]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({barred}));"
        "import classwise.training, classwise.run.pool, classwise.run.recording, classwise.study, classwise.intervals"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_and_functions_stay_small(path):
    assert len(path.read_text().splitlines()) <= 290
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno + 1 <= 50, f"{node.name} is long"
