"""Pages made from executed notebooks."""

import altair as alt
import nbformat
import pandas as pd
import pytest

from classwise.book import merging, pages
from classwise.charts import style

NAME = "tian2021/4-1-class-bias"


@pytest.fixture
def prepared(tmp_path):
    """The page of a notebook with a figure and a cell of provenance, and the metadata that decide them."""
    cells = [
        nbformat.v4.new_markdown_cell("# A page"),
        nbformat.v4.new_code_cell("import os"),
        nbformat.v4.new_code_cell("chart", metadata={"mystnb": {"figure": {"name": "fig-one", "caption": "All *classes*."}}}),
        nbformat.v4.new_code_cell("summary", metadata={"tags": ["provenance"]}),
        nbformat.v4.new_code_cell("other", metadata={"mystnb": {"figure": {"name": "fig-two", "caption": "Some."}}}),
        nbformat.v4.new_code_cell("secret", metadata={"tags": ["hide-cell"]}),
    ]
    for cell, text in zip(cells[2:5], ("a chart", "two runs", "another"), strict=True):
        cell.outputs = [nbformat.v4.new_output("stream", text=text)]
    source, target = tmp_path / "executed.ipynb", tmp_path / "sub" / "page.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), source)
    pages.prepare(NAME, source, target, tmp_path / "extra")
    return nbformat.read(target, as_version=4).cells


def test_the_code_of_every_cell_is_folded(prepared):
    tags = [cell.metadata.tags for cell in prepared if cell.cell_type == "code"]
    assert tags[:3] == [["hide-input"], ["hide-input"], ["hide-input"]]
    assert "hide-cell" in tags[3]
    assert "hide-input" not in tags[3]


def test_figures_are_numbered_by_the_section_of_the_page_and_their_captions_follow_their_outputs(prepared):
    figures = [cell for cell in prepared if "figure" in cell.metadata]
    assert [dict(cell.metadata.figure) for cell in figures] == [
        {"name": "fig-one", "number": "4.1-1", "data": {}},
        {"name": "fig-two", "number": "4.1-2", "data": {}},
    ]
    assert figures[0].outputs[0].text == "a chart"
    assert figures[0].outputs[-1].data["text/markdown"] == "All *classes*."
    assert all("figure" not in cell.metadata.get("mystnb", {}) for cell in prepared)


def test_the_data_of_a_figure_is_a_file_for_each_dataset(tmp_path):
    style.setup()
    rows = {name: pd.DataFrame({"label": [name], "value": [1.0]}) for name in ("cat", "8")}
    charts = {name: alt.Chart(some).mark_point().encode(x="label:N", y="value:Q") for name, some in rows.items()}
    cat, eight = ([merging.html_output(chart._repr_mimebundle_(None, None)["text/html"])] for chart in charts.values())
    cell = nbformat.v4.new_code_cell("chart", metadata={"mystnb": {"figure": {"name": "fig-one", "caption": "All."}}})
    cell.outputs = merging.both({"laptop": cat, "quick": eight})
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "executed.ipynb")
    pages.prepare(NAME, tmp_path / "executed.ipynb", tmp_path / "page.ipynb", tmp_path)
    files = nbformat.read(tmp_path / "page.ipynb", as_version=4).cells[0].metadata.figure.data
    folder = f"data/figures/{NAME}"
    assert files == {"CIFAR-10": f"{folder}/one-cifar10.csv", "digits": f"{folder}/one-digits.csv"}
    assert (tmp_path / files["CIFAR-10"]).read_text() == "quantity,class,value\nvalue,cat,1\n"
    assert (tmp_path / files["digits"]).read_text() == "quantity,class,value\nvalue,8,1\n"


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("tian2021/5-temperature-pgd", "5-"),
        ("tian2021/A-settings", "A-"),
        ("benz2020/3-1-over-training", "3.1b-"),
        ("entropy2022/3-2-2a-similarity-and-variance", "3.2.2a-"),
        ("entropy2022/A-3-more-data", "A.3-"),
        ("claims", ""),
        ("audit", ""),
    ],
)
def test_figures_have_the_section_of_their_page_in_their_number(name, number):
    assert pages._section(name) == number


def test_the_last_block_has_the_command_the_parameters_and_what_the_notebook_says_of_its_runs(prepared):
    last = prepared[-1]
    assert last.source == "summary"
    assert {"hide-output", "provenance"} <= set(last.metadata.tags)
    words = last.outputs[0].data["text/markdown"]
    assert f"make notebook NB={NAME} P='scale=\"quick\"'" in words
    assert "recorded" not in words
    assert "| `seeds` | `None` |" in last.outputs[1].data["text/markdown"]
    assert last.outputs[2].text == "two runs"
    assert sum("provenance" in cell.metadata.get("tags", []) for cell in prepared) == 1


def test_a_page_of_two_scales_has_the_command_of_each_under_the_switch(tmp_path):
    node = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("summary", metadata={"tags": ["provenance"]})])
    node.metadata.executions = {"laptop": 12.4, "quick": 150.0}
    nbformat.write(node, tmp_path / "executed.ipynb")
    pages.prepare(NAME, tmp_path / "executed.ipynb", tmp_path / "page.ipynb", tmp_path)
    (last,) = nbformat.read(tmp_path / "page.ipynb", as_version=4).cells
    texts = [output.data.get("text/markdown", output.data.get("text/html", "")) for output in last.outputs]
    assert 'data-scale="laptop"' in texts[0]
    assert f"make notebook NB={NAME} P='scale=\"laptop\"'" in texts[1]
    assert "it reads the recorded results and computes none. The page took 12 seconds here" in texts[1]
    assert "hours of training" in texts[1]
    assert "`classwise record --scale laptop`" in texts[1]
    assert 'data-scale="quick"' in texts[2]
    assert f"make notebook NB={NAME} P='scale=\"quick\"'" in texts[3]
    assert "finished runs are not computed again. The page took 2.5 minutes here" in texts[3]
    assert "hours of training" not in texts[3]
