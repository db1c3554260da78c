"""A paper is one folder: a made-up one of a single section, added to a copy of the project, gets its runs, verdict and page."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml

from classwise.book import build
from classwise.core.paths import checkout

MODULE = """
from classwise.core.spec import Evaluation
from classwise.papers.claims import Claim
from classwise.papers.scales import COMMON
from classwise.papers.sections import Paper, Section
from classwise.papers.terms import value
from classwise.stats.metrics import overall

NAME = "made2026/1-first"
SECTION = Section(
    title="A first section",
    defences=("standard",),
    evaluations=(Evaluation(), Evaluation(attack="fgsm")),
    run={"width": 4, "epochs": 1},
    max_seeds=1,
)
ATTACKED = {"measure": value(overall, "standard", "fgsm"), "defences": ("standard",), "attacks": ("fgsm",)}
CLAIMS = (Claim("below-chance", NAME, "1", "Attacked, it is no better than chance.", high=10, **ATTACKED),)
PAPER = Paper(name="made2026", title="Made et al. 2026", recipe=COMMON, sections={NAME: SECTION}, claims=CLAIMS)
"""
CELLS = (
    "from classwise import runs\nfrom classwise.papers import registry\nfrom classwise.stats import aggregate, metrics",
    "outcomes = runs.outcomes(registry.request('made2026/1-first'))",
    "metrics.overall(aggregate.counts(outcomes).sum('seed')).to_series().to_frame('accuracy of the made-up paper')",
)
REPORT = """
import json
from classwise import runs
from classwise.book import build
from classwise.papers import registry
request = registry.request("made2026/1-first")
(spec,) = request.specs
(verdict,) = runs.verdicts(sections=["made2026/1-first"], others=[])
report = {"spec": [spec.dataset, spec.width, spec.epochs, spec.defence, spec.seed], "scale": registry.scale_of(spec)}
report |= {"attacks": [one.attack for one in request.evaluations], "verdict": verdict.verdict, "toc": build.table_of_contents()}
print(json.dumps(report))
"""


@pytest.fixture
def copy(tmp_path):
    """A copy of the project with a paper more: its folder, its notebook, and its name in the registry."""
    root = tmp_path / "project"
    for name in ("book", "notebooks", "src"):
        shutil.copytree(checkout() / name, root / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    (root / "tests").mkdir()
    for name in ("pyproject.toml", "tests/test_layers.py"):
        shutil.copy(checkout() / name, root / name)
    (root / "src" / "classwise" / "papers" / "made2026").mkdir()
    (root / "src" / "classwise" / "papers" / "made2026" / "__init__.py").write_text(MODULE)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    (root / "notebooks" / "made2026").mkdir()
    nbformat.write(notebook, root / "notebooks" / "made2026" / "1-first.ipynb")
    registry = root / "src" / "classwise" / "papers" / "registry.py"
    text = registry.read_text()
    for old, new in (
        ("import benz2020, ", "import benz2020, made2026, "),
        ("entropy2022.PAPER)", "entropy2022.PAPER, made2026.PAPER)"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    registry.write_text(text)
    return root


@pytest.fixture
def python(copy):
    """A function that runs Python in the copy and returns what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "CLASSWISE_DATA": str(copy / "data")}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=copy, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_a_paper_of_one_section_is_a_folder_a_notebook_and_its_name_in_the_registry(copy, python):
    python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_layers.py", "-k", "not readme and not torch and not packages"
    )
    report = json.loads(python("-c", REPORT).splitlines()[-1])
    assert report["spec"] == ["digits", 4, 1, "standard", 0]
    assert (report["scale"], report["attacks"]) == ("quick", ["clean", "fgsm"])
    assert report["verdict"] in ("holds", "fails", "open")
    part = {"caption": "Made et al. 2026", "chapters": [{"file": "made2026/1-first"}]}
    assert part in yaml.safe_load(report["toc"])["parts"]
    page = python("-m", "classwise", "render", "made2026/1-first").splitlines()[-1].rpartition(": ")[2]
    assert "accuracy of the made-up paper" in (copy / page).read_text()


def test_a_new_page_from_the_templates_has_a_claim_and_a_place_in_the_book(copy, python):
    for folder in ("tests/papers/tian2021", "tests/papers/wei2023"):
        (copy / folder).mkdir(parents=True)
    for page in ("tian2021/7-new-question", "wei2023/6-1-another-one"):
        written = python("-m", "classwise.book.new_page", page).split()
        assert len(written) == 5
        module, words = written[0], re.sub(r"^.*\d-", "", page)
        ask = (
            f"from classwise.papers import registry as r; print([c.name for c in r.claims_of({page!r})], {page!r} in r.SECTIONS)"
        )
        assert python("-c", ask).split("\n")[0] == f"['{words}-gap'] True"
        code = "".join(cell.source for cell in nbformat.read(copy / written[1], as_version=4).cells)
        assert "$" not in code
        assert nbformat.read(copy / written[1], as_version=4).cells[-2].source.startswith("<details>")
        assert f"import {Path(module).stem} as section" in code
    guide = (checkout() / "book" / "guide" / "extending.md").read_text()
    assert (copy / "src/classwise/papers/tian2021/new_question.py").read_text() in guide
    assert "tian2021/7-new-question" in python("-c", "from classwise.book import build; print(build.table_of_contents())")


def test_the_table_of_contents_is_written_from_the_papers():
    assert (checkout() / "book" / "_toc.yml").read_text() == build.table_of_contents()
