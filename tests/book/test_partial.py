"""Every page of a section on recordings of which only parts are there: a missing result is named, and nothing else fails."""

import ast
import re
import shutil

import mocks
import nbformat
import pytest

from classwise import images
from classwise.book import execution, notebooks, scale_switch
from classwise.book.notebooks import NotebookFailed
from classwise.core.paths import checkout
from classwise.papers import registry
from classwise.papers.sections import CLEAN_AND_PGD
from classwise.runs.recorded import keep_stored

SCALE, PER_CLASS = "laptop", 8


def least(request):
    """Yield the runs of one defence and one seed with the evaluations without which they do not count."""
    first = next((spec for spec in request.specs if spec.defence == "pgd-at"), request.specs[0])
    needed = [one for one in request.evaluations if one in CLEAN_AND_PGD]
    needed = needed if len(needed) == len(CLEAN_AND_PGD) else request.evaluations
    for spec in request.specs:
        if (spec.defence, spec.seed) == (first.defence, first.seed):
            yield spec, needed


def scattered(request):
    """Yield the runs of one seed of the section and those of another seed of its parts, each with some evaluations."""
    seeds = sorted({spec.seed for spec in request.specs})
    for place, spec in enumerate(spec for spec in request.specs if spec.seed == seeds[0]):
        some = [one for one in request.evaluations_of(spec) if one not in CLEAN_AND_PGD]
        kept = some if len(some) < len(request.evaluations_of(spec)) - 1 else []
        yield spec, [one for one in request.evaluations_of(spec) if one not in kept[place % 2 :: 2]]
    for part in request.parts.values():
        for spec in (spec for spec in part.specs if spec.seed == seeds[-1]):
            yield spec, part.evaluations_of(spec)


def refused(dataset, *given, **named):
    pytest.fail(f"the images of {dataset} are read")


@pytest.fixture
def recorded(data, monkeypatch):
    """Return a function that records runs with their evaluations; their images are not there."""
    monkeypatch.setattr(images, "load", refused)
    shutil.copytree(checkout() / "data" / "recorded" / "convergence", data / "recorded" / "convergence")

    def record(pairs):
        for spec, evaluations in pairs:
            mocks.record(spec, *evaluations, per_class=PER_CLASS)

    return record


def cells_of(name, change=lambda source: source, scale=SCALE):
    """Execute the code of a notebook at a recorded scale in this process and return its cells, with errors as outputs."""
    node = nbformat.read(notebooks.find(name), as_version=4)
    values = {}
    for cell in (cell for cell in node.cells if cell.cell_type == "code"):
        try:
            exec(compile(change(cell.source), name, "exec"), values)
        except Exception as error:  # kept as the output of the cell, as a kernel does
            raised = {"ename": type(error).__name__, "evalue": str(error), "traceback": []}
            cell.outputs = [nbformat.v4.new_output("error", **raised)]
        if "parameters" in cell.metadata.get("tags", []):
            values["scale"] = scale
    return node.cells


@pytest.mark.filterwarnings("ignore")  # a kernel prints them
@pytest.mark.parametrize(
    ("name", "which", "scale"),
    [
        *((name, least, SCALE) for name in registry.SECTIONS),
        *((name, scattered, SCALE) for name in registry.SECTIONS if "/4-" in name),
        *((name, least, "matched") for name in registry.SECTIONS if name.startswith("wei2023/")),
    ],
)
def test_a_partial_recording_leaves_out_cells_and_aborts_no_page(recorded, name, which, scale):
    request = registry.request(name, scale)
    recorded(which(request))
    part = keep_stored(request)
    assert part.specs
    assert len(part.pairs) < len(request.pairs)
    cells = cells_of(name, scale=scale)
    scale_switch.check(cells, name, scale, complete=False)
    failed = {number: cell for number, cell in enumerate(cells) if cell.get("outputs")}
    # The cells that load the outcomes and show the main result are executed.
    assert all(number > 3 for number in failed), failed
    assert len(failed) < sum(cell.cell_type == "code" for cell in cells) - 3
    lost = set()
    for cell in failed.values():
        undefined = re.match(r"name '(\w+)' is not defined", cell.outputs[0].evalue)
        assert undefined is None or undefined[1] in lost, cell
        named = (one for one in ast.walk(ast.parse(cell.source)) if isinstance(one, ast.Name))
        lost |= {one.id for one in named if isinstance(one.ctx, ast.Store)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "scale"),
    [
        ("tian2021/6-2-background", SCALE),  # which shows images, and so does this one
        ("wei2023/5-2-robustness-and-fairness", SCALE),
        ("wei2023/5-2-robustness-and-fairness", "matched"),
    ],
)
def test_a_page_that_is_complete_has_no_failed_cell(recorded, name, scale):
    request = registry.request(name, scale)
    recorded(request.pairs)
    assert execution._is_complete(name, scale)
    scale_switch.check(cells_of(name, scale=scale), name, scale, complete=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mistake", ["request.evaluation", "runs.outcome(request)"])
def test_an_error_of_a_cell_is_raised_at_a_partial_recording(recorded, mistake):
    name = "tian2021/4-2-class-relations"
    recorded(least(registry.request(name, SCALE)))
    cells = cells_of(name, lambda source: source.replace("dots.confused_pairs(", f"{mistake}\ndots.confused_pairs("))
    with pytest.raises(NotebookFailed, match=f"{name} failed at scale laptop in cell 14: AttributeError"):
        scale_switch.check(cells, name, SCALE, complete=False)
