"""A paper is one folder: a made-up one of a single section gets its request, its place in the book, its verdict and its page."""

import importlib
import json

import nbformat
import yaml

from classwise import runs
from classwise.book import build, notebooks
from classwise.core.paths import checkout
from classwise.papers import registry

MODULE = """
from classwise.core.spec import Evaluation
from classwise.papers import overview
from classwise.papers.claims import Claim
from classwise.papers.measures import overall
from classwise.papers.sections import Paper, Section

NAME = "made2026/1-first"
SECTION = Section(
    title="A first section",
    defences=("standard",),
    evaluations=(Evaluation(), Evaluation(attack="fgsm")),
    run={"width": 4, "epochs": 1},
    max_seeds=1,
)
CLAIMS = (Claim("below-chance", NAME, "1", "Attacked, it is no better than chance.", overall, high=10, attacks=("fgsm",)),)
PAPER = Paper(name="made2026", title="Made et al. 2026", recipe=overview.RECIPE, sections={NAME: SECTION}, claims=CLAIMS)
"""
CELLS = (
    "import sys\nsys.path.insert(0, {folder!r})\nfrom made2026 import NAME, PAPER",
    "from classwise import runs\nfrom classwise.papers import registry\nfrom classwise.stats import aggregate, metrics",
    "registry.PAPERS[PAPER.name] = PAPER\nregistry.SECTIONS.update(PAPER.sections)",
    "outcomes = runs.outcomes(registry.request(NAME))",
    "metrics.overall(aggregate.counts(outcomes).sum('seed')).to_series().to_frame('accuracy of the made-up paper')",
)


def page(folder):
    """Execute a notebook of the paper, render it and return the page."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.format(folder=str(folder))) for cell in CELLS])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    source, executed = folder / "1-first.ipynb", folder / "executed" / "1-first.ipynb"
    nbformat.write(notebook, source)
    notebooks.execute(source, executed, {}, folder / "failed.ipynb")
    notebooks.standalone(executed, folder / "1-first.html", [])
    return (folder / "1-first.html").read_text()


def test_a_paper_of_one_section_is_a_folder_a_notebook_and_a_line_of_the_registry(data, tmp_path, monkeypatch):
    (tmp_path / "made2026").mkdir()
    (tmp_path / "made2026" / "__init__.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    paper = importlib.import_module("made2026").PAPER
    monkeypatch.setitem(registry.PAPERS, paper.name, paper)
    monkeypatch.setitem(registry.SECTIONS, "made2026/1-first", paper.sections["made2026/1-first"])
    monkeypatch.setattr(registry, "CLAIMS", (*registry.CLAIMS, *paper.claims))

    request = registry.request("made2026/1-first")
    (spec,) = request.specs
    assert (spec.dataset, spec.width, spec.epochs, spec.defence, spec.seed) == ("digits", 4, 1, "standard", 0)
    assert [evaluation.attack for evaluation in request.evaluations] == ["clean", "fgsm"]
    assert registry.scale_of(spec) == "quick"
    part = {"caption": "Made et al. 2026", "chapters": [{"file": "made2026/1-first"}]}
    assert part in yaml.safe_load(build.table_of_contents())["parts"]
    assert "accuracy of the made-up paper" in page(tmp_path)
    executed = json.loads((tmp_path / "executed" / "1-first.ipynb").read_text())
    assert "fgsm" in str(executed["cells"][-1]["outputs"])
    (verdict,) = runs.verdicts(sections=["made2026/1-first"], others=[])
    assert verdict.verdict in ("holds", "fails", "open")
    assert verdict.claim.theirs is None


def test_the_table_of_contents_is_written_from_the_papers():
    assert (checkout() / "book" / "_toc.yml").read_text() == build.table_of_contents()
