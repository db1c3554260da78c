"""Pages made from executed notebooks."""

import altair as alt
import nbformat
import pandas as pd

from classwise.book import pages, scale_switch
from classwise.charts import style

NAME = "tian2021/4-1-class-bias"


def cell(source, text, **metadata):
    return nbformat.v4.new_code_cell(source, outputs=[nbformat.v4.new_output("stream", text=text)], metadata=metadata)


def prepared(folder, *cells, **metadata):
    """Return the cells of the page that is made of executed cells."""
    nbformat.write(nbformat.v4.new_notebook(cells=list(cells), metadata=metadata), folder / "executed.ipynb")
    pages.to_sphinx(NAME, folder / "executed.ipynb", folder / "sub" / "page.ipynb", folder)
    return nbformat.read(folder / "sub" / "page.ipynb", as_version=4).cells


def test_code_is_folded_figures_are_numbered_and_the_last_block_says_how_to_recompute_the_page(tmp_path):
    figure = {"figure": {"name": "fig-one", "caption": "All *classes*."}}
    one = cell("chart", "a chart", mystnb=figure)
    summary = cell("summary", "two runs", tags=["provenance"])
    two = cell("other", "another", mystnb={"figure": {"name": "fig-two", "caption": "Some."}})
    secret = cell("secret", "", tags=["hide-cell"])
    title, first, *code, last = prepared(tmp_path, nbformat.v4.new_markdown_cell("# A page"), one, summary, two, secret)
    assert title.cell_type == "markdown"
    assert [cell.metadata.tags for cell in (first, *code)] == [["hide-input"], ["hide-input"], ["hide-cell"]]
    assert dict(first.metadata.figure) == {"name": "fig-one", "number": "4.1-1", "data": {}}
    assert dict(code[0].metadata.figure) == {"name": "fig-two", "number": "4.1-2", "data": {}}
    assert first.outputs[0].text == "a chart"
    assert first.outputs[-1].data["text/markdown"] == "All *classes*."
    assert "figure" not in first.metadata.mystnb
    assert last.source == "summary"
    assert {"hide-output", "provenance"} <= set(last.metadata.tags)
    words = last.outputs[0].data["text/markdown"]
    assert f"make notebook NB={NAME} P='scale=\"quick\"'" in words
    assert "recorded" not in words
    assert "| `seeds` | `None` |" in last.outputs[1].data["text/markdown"]
    assert last.outputs[2].text == "two runs"


def test_the_data_of_a_figure_is_a_file_for_each_dataset(tmp_path):
    style.setup()
    rows = {name: pd.DataFrame({"label": [name], "value": [1.0]}) for name in ("cat", "8")}
    charts = {name: alt.Chart(some).mark_point().encode(x="label:N", y="value:Q") for name, some in rows.items()}
    shown = (nbformat.v4.new_output("display_data", data=chart._repr_mimebundle_(None, None)) for chart in charts.values())
    cat, eight = ([output] for output in shown)
    chart = cell("chart", "", mystnb={"figure": {"name": "fig-one", "caption": "All."}})
    chart.outputs = scale_switch.mark_scales({"laptop": cat, "quick": eight})
    files = prepared(tmp_path, chart)[0].metadata.figure.data
    folder = f"data/figures/{NAME}"
    assert files == {"CIFAR-10": f"{folder}/one-cifar10.csv", "digits": f"{folder}/one-digits.csv"}
    assert (tmp_path / files["CIFAR-10"]).read_text() == "quantity,class,value\nvalue,cat,1\n"
    assert (tmp_path / files["digits"]).read_text() == "quantity,class,value\nvalue,8,1\n"


def test_figures_have_the_section_of_their_page_in_their_number():
    numbers = {"tian2021/5-temperature-pgd": "5-", "benz2020/3-1-over-training": "3.1b-"}
    numbers |= {"entropy2022/3-2-2a-similarity-and-variance": "3.2.2a-", "entropy2022/A-3-more-data": "A.3-"}
    assert {name: pages._section(name) for name in (*numbers, "claims", "audit")} == {**numbers, "claims": "", "audit": ""}


def test_a_page_of_two_scales_has_the_command_of_each_under_the_switch(tmp_path):
    summary = nbformat.v4.new_code_cell("summary", metadata={"tags": ["provenance"]})
    (last,) = prepared(tmp_path, summary, executions={"laptop": 12.4, "quick": 150.0})
    texts = [output.data.get("text/markdown", output.data.get("text/html", "")) for output in last.outputs]
    assert 'data-scale="laptop"' in texts[0]
    assert f"make notebook NB={NAME} P='scale=\"laptop\"'" in texts[1]
    assert "It reads recorded results. The page took 12 seconds here" in texts[1]
    assert "`classwise record --scale laptop`" in texts[1]
    assert 'data-scale="quick"' in texts[2]
    assert f"make notebook NB={NAME} P='scale=\"quick\"'" in texts[3]
    assert "Finished runs are not computed again. The page took 2.5 minutes here" in texts[3]
    assert "hours of training" not in texts[3]
