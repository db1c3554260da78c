"""Notebooks at a scale that is only read: merged with another scale under a switch, or with notes where runs are missing."""

import json
import re

import nbformat
import pytest

from classwise.book import scale_switch
from classwise.book.notebooks import NotebookFailed, execute
from classwise.core.markup import CHART
from classwise.papers import registry

RECORDED, COMPUTED = SCALES = "laptop", "quick"
ONLY = "Not yet run on CIFAR-10; digits shown."
# A chart of three rows.
DRAWING = f"""import json
from IPython.display import display
rows = 'label,value' + ''.join(f'\\n{{one}},1' for one in range(3))
display({{'{CHART}': json.dumps({{'datasets': {{'a': rows}}}}), 'text/plain': 'a chart'}}, raw=True)
"""
CELLS = (
    "# A page",
    "scale = 'quick'",
    DRAWING + "names = {'quick': ['a', 'b'], 'laptop': ['a']}[scale]",
    "print(len(names), 'of', scale)",
    "print('the same at both')",
    "from classwise.core.errors import NotRecorded\nfor name in {'a', 'b'} - set(names):\n    raise NotRecorded(f'no {name}')\n"
    "result = 'y'; print('second', result)",
    "print('needs', result)",
)


@pytest.fixture(scope="module")
def both_executed(tmp_path_factory):
    """A notebook executed at the two scales; at the recorded one two cells fail."""
    folder, contents = tmp_path_factory.mktemp("executed"), []
    cells = [nbformat.v4.new_markdown_cell(CELLS[0]), *map(nbformat.v4.new_code_cell, CELLS[1:])]
    cells[1].metadata.tags = ["parameters"]
    content = nbformat.v4.new_notebook(cells=cells)
    content.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(content, folder / "page.ipynb")
    for scale in SCALES:
        target = folder / f"{scale}.ipynb"
        execute(folder / "page.ipynb", target, {"scale": scale}, folder / "failed.ipynb", tolerant=scale == RECORDED)
        contents.append(target.read_text())
    return contents


@pytest.fixture
def executed(both_executed, tmp_path):
    for scale, content in zip(SCALES, both_executed, strict=True):
        (tmp_path / f"{scale}.ipynb").write_text(content)
    return {scale: tmp_path / f"{scale}.ipynb" for scale in SCALES}


def merged(executed):
    scale_switch.merge(executed[RECORDED], executed[COMPUTED], SCALES, "page", complete=False)
    return nbformat.read(executed[COMPUTED], as_version=4).cells


def html(cell):
    return "".join(output.data.get("text/html", "") for output in cell.outputs if output.output_type == "display_data")


def text(cell):
    return [output.text for output in cell.outputs if output.output_type == "stream"]


def test_both_outputs_stand_under_a_switch_the_recorded_first(executed):
    cells = merged(executed)
    assert len(cells) == len(CELLS) + 1
    switch, recorded = cells[1].source, 'data-scale="laptop" aria-pressed="true">CIFAR-10 at 8/255, recorded<'
    assert switch.index(recorded) < switch.index('data-scale="quick" aria-pressed="false">digits, computed here<')
    both, same, only_computed = cells[4], cells[5], cells[6]
    assert text(both) == ["1 of laptop\n", "2 of quick\n"]
    assert html(both).count("scale-mark") == 2
    assert html(both).index('data-scale="laptop"') < html(both).index('data-scale="quick"') < html(both).index("scale-end")
    assert [len(some) for some in scale_switch.split_by_scale(both.outputs).values()] == [2, 2, 1]
    assert (text(same), html(same)) == (["the same at both\n"], "")
    assert text(only_computed) == ["second y\n"]
    note = f'<p class="scale-mark" data-scale="laptop" data-kept>{ONLY}</p>'
    assert html(only_computed) == note + '<span class="scale-end"></span>'
    assert "data-first" not in switch
    assert only_computed.outputs[2].output_type == "stream"  # behind the end: in both views


def test_an_execution_opens_unless_something_up_to_its_first_chart_failed(executed, tmp_path):
    assert scale_switch.opens_with_chart(executed[RECORDED])  # only cells below the chart failed
    node = nbformat.read(executed[RECORDED], as_version=4)
    nothing = nbformat.v4.new_notebook(cells=[cell for cell in node.cells if not html_or_chart(cell)])
    nbformat.write(nothing, tmp_path / "nothing.ipynb")
    assert not scale_switch.opens_with_chart(tmp_path / "nothing.ipynb")
    failing = next(cell for cell in node.cells if any(one.output_type == "error" for one in cell.get("outputs", [])))
    node.cells.remove(failing)
    node.cells.insert(1, failing)
    nbformat.write(node, tmp_path / "late.ipynb")
    assert not scale_switch.opens_with_chart(tmp_path / "late.ipynb")


def html_or_chart(cell):
    return any(output.output_type == "display_data" for output in cell.get("outputs", []))


def test_what_a_scale_cannot_have_is_shown_of_the_other(executed):
    executed[RECORDED].write_text(executed[RECORDED].read_text().replace("NotRecorded", "NotAtScale"))
    assert "data-kept>Not available on CIFAR-10; digits shown.</p>" in html(merged(executed)[6])


@pytest.mark.parametrize("recorded", [True, False])
def test_without_a_chart_at_the_recorded_scale_the_page_shows_the_other_alone(executed, recorded):
    content = nbformat.read(executed[RECORDED], as_version=4)
    for cell in content.cells:
        cell.get("outputs", [])[:] = [output for output in cell.get("outputs", []) if output.output_type != "display_data"]
    nbformat.write(content, executed[RECORDED])
    merged(executed) if recorded else scale_switch.mark_computed(executed[COMPUTED], SCALES)
    cells = nbformat.read(executed[COMPUTED], as_version=4).cells
    assert len(cells) == len(CELLS) + 1
    assert cells[1].source == f'<p class="scale-mark">{ONLY}</p>'
    assert not any("scale-" in html(cell) for cell in cells if cell.cell_type == "code")


def test_at_a_scale_that_is_only_read_cells_say_what_is_missing(executed):
    scale_switch.note_missing(executed[RECORDED], "page", RECORDED, complete=False)
    cells = [cell for cell in nbformat.read(executed[RECORDED], as_version=4).cells if cell.cell_type == "code"]
    assert html(cells[-2]) == html(cells[-1]) == '<p class="scale-mark">Not yet run on CIFAR-10.</p>'
    assert all(output.output_type != "error" for cell in cells for output in cell.outputs)
    assert text(cells[3]) == ["1 of laptop\n"]


MISSING = ("NotRecorded", "no run")


@pytest.mark.parametrize(
    ("errors", "complete", "place"),
    [
        ([MISSING], False, None),
        ([MISSING, ("NameError", "name 'result' is not defined")], False, None),
        ([("KeyError", "\"not all values found in index 'defence'\"")], False, 0),
        ([MISSING], True, 0),
        ([("NotAtScale", "no two methods"), ("NameError", "name 'gain' is not defined")], True, None),
        ([("NotAtScale", "this scale has no runs for 'epochs'")], True, None),
        ([("NotAtScale", "this scale has no runs for 'epochs'"), MISSING], True, 1),
        ([MISSING, ("NotAtScale", "no two methods")], True, 0),
        ([("KeyError", "'b'")], True, 0),
        ([MISSING, ("ZeroDivisionError", "division by zero")], False, 1),
        ([("NameError", "name 'result' is not defined"), MISSING], False, 0),
    ],
)
def test_only_a_missing_result_and_what_follows_from_it_are_left_out(errors, complete, place):
    outputs = [nbformat.v4.new_output("error", ename=kind, evalue=words) for kind, words in errors]
    cells = [nbformat.v4.new_code_cell(outputs=[output]) for output in outputs]
    if place is None:
        scale_switch.check(cells, "page", RECORDED, complete=complete)
    else:
        with pytest.raises(NotebookFailed, match=f"page failed at scale laptop in cell {place}: {errors[place][0]}: "):
            scale_switch.check(cells, "page", RECORDED, complete=complete)


def not_drawn(cells, place):
    """Move the chart of a cell to the next."""
    charts = [output for output in cells[place].outputs if output.output_type == "display_data"]
    cells[place].outputs = [output for output in cells[place].outputs if output not in charts]
    cells[place + 1].outputs += charts


def of_two_values(cells, place):
    (chart,) = (output for output in cells[place].outputs if output.output_type == "display_data")
    chart.data[CHART] = json.dumps({"datasets": {"a": "label,value\n0,1\n1,1"}})


def without_finding(cells, place):
    above = next(cell for cell in cells[:place] if cell.source == CELLS[1])
    above.outputs = [nbformat.v4.new_output("error", ename="NotRecorded", evalue="no run")]


@pytest.mark.parametrize("lacking", [not_drawn, of_two_values, without_finding])
def test_a_page_without_a_finding_or_a_first_chart_at_the_recorded_scale_opens_with_the_other(executed, lacking):
    content = nbformat.read(executed[RECORDED], as_version=4)
    lacking(content.cells, next(number for number, cell in enumerate(content.cells) if cell.source.startswith(DRAWING)))
    nbformat.write(content, executed[RECORDED])
    buttons = merged(executed)[1].source
    assert 'data-first="quick"' in buttons
    assert 'data-scale="quick" aria-pressed="true"' in buttons
    assert 'data-scale="laptop" aria-pressed="false"' in buttons


BIAS = "tian2021/4-1-class-bias"


def shown(answer, chart):
    return [scale_switch.output(answer, "text/markdown")], [scale_switch.output(chart, CHART)]


def page(path, *outputs, **parameters):
    cells = [nbformat.v4.new_markdown_cell("# A page"), *(nbformat.v4.new_code_cell(outputs=some) for some in outputs)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"papermill": {"parameters": parameters}}), path)
    return path


def words(path):
    """Return the outputs of the cells of a notebook, and what stands below its title, each as text without tags."""
    cells = nbformat.read(path, as_version=4).cells
    outputs = [["".join(one.data.values()) for one in cell.get("outputs", [])] for cell in cells]
    return [[re.sub("<[^>]*>", "", one) for one in some] for some in outputs if some], cells[1].source


@pytest.fixture
def rerun(tmp_path, data, monkeypatch):
    """A page executed with other parameters; of the runs of the book, all are there."""
    monkeypatch.setattr(scale_switch, "keep_stored", lambda request: request)
    return page(tmp_path / "rerun.ipynb", *shown("**Wide.**", "{}"), eps=0.1, seeds=[0])


def test_the_answer_and_the_chart_of_the_book_at_the_same_scale_stand_below_those_of_other_parameters(rerun, tmp_path):
    at = dict(zip(SCALES, (shown("**Recorded.**", "{1}"), shown("**Narrow.**", "{2}")), strict=True))
    merged = [scale_switch.mark_scales({scale: some[place] for scale, some in at.items()}) for place in range(2)]
    scale_switch.put_beside(BIAS, rerun, page(tmp_path / "book.ipynb", *merged), {"eps": 0.1, "seeds": [0]})
    request = registry.request(BIAS, "quick")
    radius, seeds = request.specs[0].eps, sorted({spec.seed for spec in request.specs})
    assert len(seeds) > 1
    labels = "eps = 0.1, seeds = [0]", f"The book: eps = {radius}, seeds = {seeds}"
    assert words(rerun)[0] == [[labels[0], "**Wide.**", labels[1], "**Narrow.**"], [labels[0], "{}", labels[1], "{2}"]]


@pytest.mark.parametrize("scale", [None, "laptop"])
def test_a_page_says_how_to_get_the_comparison_where_the_book_is_not_built_at_its_scale(rerun, tmp_path, scale):
    if scale:
        page(tmp_path / "book.ipynb", *shown("**Recorded.**", "{1}"), scale=scale)
    scale_switch.put_beside(BIAS, rerun, tmp_path / "book.ipynb", {"eps": 0.1})
    outputs, head = words(rerun)
    assert outputs == [["**Wide.**"], ["{}"]]
    assert "<code>make book SCALE=quick</code>" in head


def test_a_page_at_its_usual_parameters_is_compared_with_nothing(rerun, tmp_path):
    before = rerun.read_bytes()
    scale_switch.put_beside(BIAS, rerun, tmp_path / "book.ipynb", {"scale": "laptop", "eps": None})
    assert rerun.read_bytes() == before
