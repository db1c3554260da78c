"""Notebooks at a scale that is only read: merged with another scale under a switch, or with notes where runs are missing."""

import nbformat
import pytest

from classwise.book import merging
from classwise.book.notebooks import NotebookFailed, execute

RECORDED, COMPUTED = "laptop", "quick"
# A chart of three rows.
CHART = """from IPython.display import HTML, display
spec = '{"datasets": {"a": "label,value' + ''.join(fr'\\n{one},1' for one in range(3)) + '"}}'
display(HTML(f'<script>(function(spec) {{vegaEmbed(spec)}})({spec})</script>'))
"""
CELLS = (
    "# A page",
    "scale = 'quick'",
    CHART + "names = {'quick': ['a', 'b'], 'laptop': ['a']}[scale]",
    "print(len(names), 'of', scale)",
    "print('the same at both')",
    "from classwise.core.errors import NotRecorded\nfor name in {'a', 'b'} - set(names):\n    raise NotRecorded(f'no {name}')\n"
    "result = 'y'; print('second', result)",
    "print('needs', result)",
)


@pytest.fixture
def notebook(tmp_path):
    cells = [nbformat.v4.new_markdown_cell(CELLS[0]), *map(nbformat.v4.new_code_cell, CELLS[1:])]
    cells[1].metadata.tags = ["parameters"]
    content = nbformat.v4.new_notebook(cells=cells)
    content.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(content, tmp_path / "page.ipynb")
    return tmp_path / "page.ipynb"


@pytest.fixture
def executed(notebook, tmp_path):
    """The notebook executed at the two scales; at the recorded one two cells fail."""
    paths = {}
    for scale in (RECORDED, COMPUTED):
        paths[scale] = tmp_path / f"{scale}.ipynb"
        execute(notebook, paths[scale], {"scale": scale}, tmp_path / "failed.ipynb", tolerant=scale == RECORDED)
    return paths


def html(cell):
    return "".join(output.data["text/html"] for output in cell.outputs if output.output_type == "display_data")


def text(cell):
    return [output.text for output in cell.outputs if output.output_type == "stream"]


def test_both_outputs_stand_under_a_switch_the_recorded_first(executed, tmp_path):
    failures = merging.merge(executed[RECORDED], executed[COMPUTED], (RECORDED, COMPUTED), tmp_path / "merged.ipynb")
    cells = nbformat.read(tmp_path / "merged.ipynb", as_version=4).cells
    assert len(cells) == len(CELLS) + 1
    switch = cells[1].source
    assert switch.index('data-scale="laptop" aria-pressed="true">CIFAR-10, recorded<') < switch.index(
        'data-scale="quick" aria-pressed="false">digits, computed here<'
    )
    both, same, only_computed = cells[4], cells[5], cells[6]
    assert text(both) == ["1 of laptop\n", "2 of quick\n"]
    assert html(both).count("scale-mark") == 2
    assert html(both).index('data-scale="laptop"') < html(both).index('data-scale="quick"') < html(both).index("scale-end")
    assert (text(same), html(same)) == (["the same at both\n"], "")
    assert text(only_computed) == ["second y\n"]
    note = '<p class="scale-mark" data-scale="laptop" data-kept>digits, computed here; not recorded on CIFAR-10</p>'
    assert html(only_computed) == note + '<span class="scale-end"></span>'
    line = "Parts with an edge: digits, computed here; not recorded on CIFAR-10."
    assert f'<p class="scale-mark" data-scale="laptop" data-kept hidden>{line}</p>' in switch
    assert "data-first" not in switch
    assert only_computed.outputs[2].output_type == "stream"  # behind the end: in both views
    assert [(failure.cell, failure.kind, failure.missing) for failure in failures] == [
        (5, "NotRecorded", True),
        (6, "NameError", True),
    ]
    merging.check(failures, "page", RECORDED, complete=False)


@pytest.mark.parametrize("complete", [True, False])
def test_a_failure_that_no_missing_result_explains_is_raised(complete):
    failures = [merging.Failure(2, "NotRecorded", "no run", missing=True), merging.Failure(3, "KeyError", "'b'")]
    with pytest.raises(NotebookFailed, match=f"page failed at scale laptop in cell {2 if complete else 3}: "):
        merging.check(failures, "page", RECORDED, complete=complete)


@pytest.mark.parametrize(
    ("last", "kinds"),
    [
        ("print(1 / 0)", [("NotRecorded", True), ("ZeroDivisionError", False)]),
        ("print(results)", [("NotRecorded", True), ("NameError", False)]),
        ("print({}['b'])", [("NotRecorded", True), ("KeyError", False)]),
        (
            "import xarray as xr\nxr.Dataset(coords={'defence': ['a']}).sel(defence=['b'])",
            [("NotRecorded", True), ("KeyError", True)],
        ),
        ("more = result\nprint(more)", [("NotRecorded", True), ("NameError", True)]),
    ],
)
def test_only_a_missing_result_and_what_needs_it_count_as_not_recorded(notebook, tmp_path, last, kinds):
    content = nbformat.read(notebook, as_version=4)
    content.cells[-1].source = last
    nbformat.write(content, notebook)
    execute(notebook, tmp_path / "out.ipynb", {"scale": RECORDED}, tmp_path / "failed.ipynb", tolerant=True)
    failures = merging.note_missing(tmp_path / "out.ipynb")
    assert [(failure.kind, failure.missing) for failure in failures] == kinds
    if not all(missing for _, missing in kinds):
        with pytest.raises(NotebookFailed, match=f"in cell 7: {kinds[-1][0]}"):
            merging.check(failures, "page", RECORDED, complete=False)


def test_without_a_chart_at_the_recorded_scale_the_page_shows_the_other_alone(executed, tmp_path):
    content = nbformat.read(executed[RECORDED], as_version=4)
    for cell in content.cells:
        cell.get("outputs", [])[:] = [output for output in cell.get("outputs", []) if output.output_type != "display_data"]
    nbformat.write(content, executed[RECORDED])
    failures = merging.merge(executed[RECORDED], executed[COMPUTED], (RECORDED, COMPUTED), tmp_path / "merged.ipynb")
    cells = nbformat.read(tmp_path / "merged.ipynb", as_version=4).cells
    assert len(cells) == len(CELLS) + 1
    assert cells[1].source == '<p class="scale-mark">digits, computed here; not recorded on CIFAR-10</p>'
    assert not any("scale-" in html(cell) for cell in cells if cell.cell_type == "code")
    assert len(failures) == 2


def test_a_page_of_which_nothing_is_recorded_names_its_dataset_below_the_title(executed):
    merging.mark_computed(executed[COMPUTED], (RECORDED, COMPUTED))
    cells = nbformat.read(executed[COMPUTED], as_version=4).cells
    assert cells[1].source == '<p class="scale-mark">digits, computed here; not recorded on CIFAR-10</p>'


def test_at_a_scale_that_is_only_read_cells_say_what_is_missing(executed):
    failures = merging.note_missing(executed[RECORDED])
    cells = [cell for cell in nbformat.read(executed[RECORDED], as_version=4).cells if cell.cell_type == "code"]
    assert [failure.kind for failure in failures] == ["NotRecorded", "NameError"]
    assert "Not shown: not all runs that this cell shows are recorded." in html(cells[-1])
    assert all(output.output_type != "error" for cell in cells for output in cell.outputs)
    assert text(cells[3]) == ["1 of laptop\n"]


def not_drawn(cells, place):
    """Move the chart of a cell to the next."""
    charts = [output for output in cells[place].outputs if output.output_type == "display_data"]
    cells[place].outputs = [output for output in cells[place].outputs if output not in charts]
    cells[place + 1].outputs += charts


def of_two_values(cells, place):
    (chart,) = (output for output in cells[place].outputs if output.output_type == "display_data")
    chart.data["text/html"] = chart.data["text/html"].replace(r"\n2,1", "")


def without_finding(cells, place):
    above = next(cell for cell in cells[:place] if cell.source == CELLS[1])
    above.outputs = [nbformat.v4.new_output("error", ename="NotRecorded", evalue="no run")]


@pytest.mark.parametrize("lacking", [not_drawn, of_two_values, without_finding])
def test_a_page_without_a_finding_or_a_first_chart_at_the_recorded_scale_opens_with_the_other(executed, tmp_path, lacking):
    content = nbformat.read(executed[RECORDED], as_version=4)
    lacking(content.cells, next(number for number, cell in enumerate(content.cells) if cell.source.startswith(CHART)))
    nbformat.write(content, executed[RECORDED])
    merging.merge(executed[RECORDED], executed[COMPUTED], (RECORDED, COMPUTED), tmp_path / "merged.ipynb")
    buttons = nbformat.read(tmp_path / "merged.ipynb", as_version=4).cells[1].source
    assert 'data-first="quick"' in buttons
    assert 'data-scale="quick" aria-pressed="true"' in buttons
    assert 'data-scale="laptop" aria-pressed="false"' in buttons
