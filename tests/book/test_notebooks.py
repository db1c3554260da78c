"""The form of the notebooks, and parameters that are checked before anything runs."""

import ast
import importlib
import re
import subprocess
import sys
import time
from collections import Counter
from contextlib import nullcontext, suppress
from pathlib import Path
from types import ModuleType

import nbformat
import papermill
import psutil
import pytest
import yaml

from classwise.book import notebooks
from classwise.core.errors import UserError
from classwise.core.paths import checkout
from classwise.papers import registry

NAMES = notebooks.names()


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_every_section_has_a_notebook_and_every_notebook_a_place_in_the_book():
    toc = yaml.safe_load((checkout() / "book" / "_toc.yml").read_text())
    listed = [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    assert sorted([toc["root"], *(name for name in listed if not name.startswith("guide/"))]) == sorted([*NAMES, "data"])
    assert set(registry.SECTIONS) <= set(NAMES)


# Readers do something themselves there: attack a network, or write an attack.
TRIED = ("attack", "pgd")


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_has_short_cells_without_outputs_prose_for_any_scale_and_parameters_with_a_type_and_a_comment(name):
    notebook = nbformat.read(notebooks.find(name), as_version=4)
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code(notebook))
    assert notebook.metadata.kernelspec.name == "python3"
    assert (10 if name in (*TRIED, "claims") else 15) <= len(notebook.cells) <= 28
    assert notebook.cells[0].source.startswith("# ")
    prose = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    # Answers and limitations are prose, too, whose numbers are computed.
    computed = [cell for cell in code(notebook) if "\nMarkdown(" in f"\n{cell.source}"]
    assert len(prose) + len(computed) >= 0.45 * len(notebook.cells)
    for text in prose:
        assert not re.search(r"\b\d+ epochs\b|\bscale \*quick\*", text), text
        assert text.count("<details>") == text.count("</details>")
    for cell in code(notebook):
        tree, given = ast.parse(cell.source), "parameters" in cell.metadata.get("tags", [])
        imports = all(isinstance(node, ast.Import | ast.ImportFrom) for node in tree.body)
        assert len(cell.source.splitlines()) <= (16 if given else 15 if name == "pgd" else 10 if imports else 6), cell.source
        assert not given or all(isinstance(node, ast.AnnAssign) for node in tree.body)
        for node in ast.walk(tree) if name != "pgd" else ():  # where the code is the content
            assert not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda), cell.source
            assert not (isinstance(node, ast.Import | ast.ImportFrom) and "torch" in ast.unparse(node)), cell.source
    assert sum("parameters" in cell.metadata.get("tags", []) for cell in code(notebook)) == 1
    known = notebooks.parameters(notebooks.find(name))
    assert all(one.annotation and one.comment for one in known.values())
    assert set(papermill.inspect_notebook(str(notebooks.find(name)))) == set(known)


# The list of claims begins with the numbers of its verdicts, and the settings are tables.
FORMED = [name for name in NAMES if name not in ("claims", "papers", "settings", *TRIED)]
EXPLORERS = ("class_explorer", "explorers", "theory_explorer", "trace_explorer")
PLOTS = ("charts", "curves", "dots", "gallery", "heatmaps", "ledger", "plots")
WORDS = {"markdown", "summary", "not_tested", "notes"}  # of these modules


def figure(cell):
    return cell.metadata.get("mystnb", {}).get("figure")


def shown(cell):
    """Return the expression that a cell shows, as the module and the function that it calls; None for a set-up cell."""
    last = ast.parse(cell.source).body[-1]
    if not isinstance(last, ast.Expr):
        return None
    call = last.value.body if isinstance(last.value, ast.IfExp) else last.value
    function = call.func if isinstance(call, ast.Call) else call
    return tuple(ast.unparse(function).partition(".")[::2])


@pytest.mark.parametrize("name", NAMES)
def test_what_a_notebook_takes_from_the_package_is_there(name):
    cells = nbformat.read(notebooks.find(name), as_version=4).cells
    tree = ast.parse("\n".join(cell.source for cell in cells if cell.cell_type == "code"))
    modules = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("classwise"):
            for one in node.names:
                with suppress(ModuleNotFoundError):
                    importlib.import_module(f"{node.module}.{one.name}")
                found = getattr(importlib.import_module(node.module), one.name)
                modules |= {one.asname or one.name: found} if isinstance(found, ModuleType) else {}
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    assert [
        ast.unparse(node) for node in used if node.value.id in modules and not hasattr(modules[node.value.id], node.attr)
    ] == []


@pytest.mark.parametrize("name", FORMED)
def test_a_page_is_a_question_its_answer_its_chart_and_its_limitations_and_its_captions_type_no_result(name):
    cells = nbformat.read(notebooks.find(name), as_version=4).cells
    title, _, about = cells[0].source.partition("\n")
    assert title.endswith("?")
    assert len(title.split()) <= 11
    assert len(about.split()) <= 45
    first = next(place for place, cell in enumerate(cells) if figure(cell))
    assert "parameters" in cells[2].metadata.tags
    assert all(cell.cell_type == "code" for cell in cells[1:first])
    (answer,) = [cell for cell in cells[3:first] if shown(cell) is not None]
    assert re.search(r"^Markdown\((findings|say|answer)", answer.source, re.MULTILINE)
    assert "**Limitations.**" in cells[first + 1].source
    assert name == "index" or cells[-1].metadata.tags == ["provenance"]
    if name in registry.SECTIONS and registry.paper_of(name):
        heading, claims, how = cells[-4:-1]
        assert heading.source == "## Claims"
        assert "ledger.claims_list(" in claims.source
        assert how.source.startswith("<details>\n<summary>How we measured</summary>\n")
    for cell in (cell for cell in cells if cell.cell_type == "code"):
        module, function = shown(cell) or ("", "")
        assert bool(figure(cell)) or module not in (*EXPLORERS, *PLOTS) or function in WORDS, cell.source
        if figure(cell):
            assert re.fullmatch(r"fig(-[a-z]+)+", figure(cell)["name"])
            caption = figure(cell)["caption"]
            assert 60 <= len(caption) <= 420
            assert caption.endswith(".")
            assert set(re.findall(r"\d+ %", caption)) <= {"95 %"}


def test_the_names_of_figures_are_unique_and_each_explorer_stands_on_one_page():
    cells = [cell for name in NAMES for cell in code(nbformat.read(notebooks.find(name), as_version=4))]
    names = [figure(cell)["name"] for cell in cells if figure(cell)]
    assert len(names) == len(set(names))
    explorers = Counter(
        kind for cell in cells for kind in ("epoch_explorer(", "radius_explorer(", "explore(") if kind in cell.source
    )
    assert set(explorers.values()) == {1}
    assert len(explorers) == 3


@pytest.mark.parametrize("name", registry.SECTIONS)
def test_the_parameters_of_a_section_are_those_of_its_request(name):
    known = notebooks.parameters(notebooks.find(name))
    assert known["seeds"].annotation == "Optional[list[int]]"
    assert registry.request(name, **dict.fromkeys(set(known) - {"scale"})) == registry.request(name)


def test_notebooks_and_parameters_are_read_as_people_write_them():
    assert notebooks.find("notebooks/tian2021/4-1-class-bias.ipynb") == notebooks.find("tian2021/4-1-class-bias")
    text = 'dataset=digits seeds=[0,1] eps=0.1 eval_eps=8/255 defences=[standard, pgd-at] scale="quick" x=None'
    given = {"dataset": "digits", "seeds": [0, 1], "eps": 0.1, "eval_eps": "8/255", "defences": ["standard", "pgd-at"]}
    assert notebooks.parse(text) == {**given, "scale": "quick", "x": None}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("seeds=", r"seeds must be Optional\[list\[int\]\], got '' \(str\)$"),
        ("seeds=a", r"seeds must be Optional\[list\[int\]\], got 'a' \(str\)$"),
        ("seeds=[a]", r"seeds must be Optional\[list\[int\]\], got \['a'\]"),
        ("dataset=7", r"dataset must be Optional\[str\], got 7"),
        ("eps=[0.1]", r"eps must be Union\[float, str, None\]"),
    ],
)
def test_values_of_another_type_are_named(text, says):
    """Of more mistakes, tests/test_invalid_input.py has a table."""
    with pytest.raises(UserError, match=says):
        notebooks.check(notebooks.find("tian2021/4-1-class-bias"), notebooks.parse(text))


@pytest.fixture
def written(tmp_path):
    def write(*cells):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, tmp_path / "source.ipynb")
        return tmp_path / "source.ipynb"

    return write


@pytest.mark.parametrize(
    ("code", "says", "kept"),
    [
        ("x / 0", "source.ipynb failed: ZeroDivisionError: division by zero; see .*failed", "Traceback"),
        ("import os; os._exit(3)", "source.ipynb failed: DeadKernelError", "_exit"),
    ],
)
def test_a_notebook_that_fails_is_kept_aside(written, tmp_path, code, says, kept):
    good, failed = tmp_path / "out.ipynb", tmp_path / "failed" / "out.ipynb"
    good.write_text("the last good one")
    with pytest.raises(notebooks.NotebookFailed, match=says):
        notebooks.execute(written("x = 1", code), good, {}, failed)
    assert good.read_text() == "the last good one"
    assert kept in failed.read_text()
    assert not list(tmp_path.glob("*.part*"))


def test_a_standalone_page_needs_no_network(written, tmp_path):
    source = written("import altair as alt", "alt.Chart(alt.Data(values=[{'x': 1}])).mark_point().encode(x='x:Q')")
    notebooks.execute(source, tmp_path / "out.ipynb", {}, tmp_path / "failed.ipynb")
    script = tmp_path / "script.js"
    script.write_text("window.mine = 1;")
    notebooks.standalone(tmp_path / "out.ipynb", tmp_path / "page.html", [script], ".mine { color: red; }")
    page = (tmp_path / "page.html").read_text()
    assert all(part in page for part in ("vegaEmbed", ".mine { color: red; }"))
    assert page.index("inlineMath") < page.index("window.mine = 1;")
    assert not any(part in page for part in ('src="http', '<link rel="stylesheet" href="http'))
    assert page.count('<main><details class="code">') == 1
    notebooks.standalone(tmp_path / "out.ipynb", tmp_path / "page.html", [], code=False)
    assert "<details" not in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("reason", "deaths", "calls"),
    [("Kernel died before replying", 1, 2), ("Kernel died before replying", 2, 2), ("Kernel died", 1, 1)],
)
def test_a_kernel_that_dies_before_it_answers_is_started_once_more(tmp_path, monkeypatch, reason, deaths, calls):
    made = []

    def dies(source, target, **how):
        made.append(target)
        if len(made) <= deaths:
            raise RuntimeError(reason)
        Path(target).write_text("{}")

    monkeypatch.setattr(papermill, "execute_notebook", dies)
    expected = pytest.raises(notebooks.NotebookFailed, match=f"RuntimeError: {reason}") if calls == deaths else nullcontext()
    with expected:
        notebooks.execute(tmp_path / "a.ipynb", tmp_path / "out.ipynb", {}, tmp_path / "failed.ipynb")
    assert (len(made), (tmp_path / "out.ipynb").exists()) == (calls, calls > deaths)


BEFORE_THE_FORK = """
import importlib, threading
from classwise.book import kernels
for name in kernels.IMPORTED:
    importlib.import_module(name)
import torch, zmq
assert threading.active_count() == 1
assert zmq.Context._instance is None
assert not torch.cuda.is_initialized()
"""


def test_what_is_imported_before_the_fork_starts_no_thread_no_socket_and_no_gpu():
    done = subprocess.run([sys.executable, "-c", BEFORE_THE_FORK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_kernels_have_the_folder_and_the_environment_of_the_caller_and_share_nothing(written, tmp_path, monkeypatch):
    monkeypatch.setenv("CLASSWISE_SEEN", "yes")
    cells = (
        "import builtins, os, random\n[vars(builtins).get('left'), os.getcwd(), os.environ['CLASSWISE_SEEN'], random.random()]"
    )
    source, answers = written(cells, "builtins.left = 1"), []
    for number in range(2):
        target = tmp_path / f"{number}.ipynb"
        notebooks.execute(source, target, {}, tmp_path / "failed.ipynb")
        answers.append(ast.literal_eval(nbformat.read(target, as_version=4).cells[0].outputs[0].data["text/plain"]))
    assert [answer[:3] for answer in answers] == [[None, str(checkout()), "yes"]] * 2
    assert answers[0][3] != answers[1][3]


# As an audit executes a notebook, and as a build does.
DIRECT = "import pathlib; from classwise.book import notebooks; notebooks.execute({})"
POOL = "concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context('spawn'), processes.end_with_parent)"
POOLED = f"import concurrent.futures, multiprocessing; from classwise.runs.compute import processes; {DIRECT}".replace(
    "notebooks.execute({})", f"{POOL}.submit(notebooks.execute, {{}}).result()"
)


@pytest.mark.parametrize("how", [DIRECT, POOLED])
def test_no_kernel_outlives_the_process_that_started_it(written, tmp_path, how):
    ids = tmp_path / "ids"
    source = written(
        f"import os, time\nprint(os.getppid(), os.getpid(), file=open({str(ids)!r}, 'w'), flush=True)\ntime.sleep(600)"
    )
    code = how.format(f"pathlib.Path({str(source)!r}), pathlib.Path({str(tmp_path / 'out.ipynb')!r}), {{}}, pathlib.Path()")
    begun = subprocess.Popen([sys.executable, "-c", code])
    try:
        while not (ids.exists() and ids.read_text().endswith("\n")):
            assert begun.poll() is None
            time.sleep(0.2)
        forked = [psutil.Process(int(number)) for number in ids.read_text().split()]
    finally:
        begun.kill()
        begun.wait()
    left = [one for one in psutil.wait_procs(forked, timeout=60)[1] if one.status() != psutil.STATUS_ZOMBIE]
    for one in left:
        one.kill()
    assert not left


def test_a_kernel_computes_with_several_workers(written, tmp_path, data):
    made = "[Spec(dataset='digits', eps='0.1', width=2, epochs=1, defence='standard', seed=seed) for seed in (0, 1)]"
    source = written(f"from classwise import runs\nfrom classwise.core.spec import Spec\nruns.history({made}).sizes['seed']")
    notebooks.execute(source, tmp_path / "out.ipynb", {}, tmp_path / "failed.ipynb")
    assert nbformat.read(tmp_path / "out.ipynb", as_version=4).cells[0].outputs[-1].data["text/plain"] == "2"


@pytest.mark.parametrize(
    ("given", "suffix"),
    [
        ({}, ""),
        ({"scale": "quick", "eps": None}, ""),
        ({"seeds": [0, 1], "eps": 0.1}, "_eps=0.1_seeds=0+1"),
        ({"defences": ["trades", "pgd-at"], "scale": "short"}, "_defences=trades+pgd-at_scale=short"),
    ],
)
def test_the_output_of_a_notebook_is_named_by_what_is_not_a_default(given, suffix):
    assert notebooks.suffix(notebooks.find("tian2021/4-1-class-bias"), given) == suffix


def test_names_that_are_shortened_do_not_coincide():
    source = notebooks.find("tian2021/4-1-class-bias")
    given = [{"eps": "8/255"}, {"eps": "8-255"}, {"seeds": list(range(100))}, {"seeds": list(range(101))}]
    suffixes = [notebooks.suffix(source, one) for one in given]
    assert len(set(suffixes)) == len(suffixes)
    assert all(len(suffix) < 140 and "/" not in suffix for suffix in suffixes)
    assert suffixes[0].startswith("_eps=8-255-")
