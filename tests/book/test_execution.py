"""Notebooks executed for the book: at which scales, when again, in which order, and how a page is put together."""

import io
import json
from concurrent.futures import ThreadPoolExecutor

import mocks
import nbformat
import pytest
from rich.console import Console

from classwise import runs
from classwise.book import execution, notebooks, scale_switch
from classwise.core.errors import NotRecorded
from classwise.papers import registry, scales
from classwise.papers.sections import CLEAN_AND_PGD
from classwise.runs import store

SECTION = "tian2021/4-1-class-bias"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A build folder of the test's own, and a machine of reference."""
    monkeypatch.setattr(execution, "build_folder", lambda: tmp_path)
    (tmp_path / "reference.json").write_text(json.dumps({"executions": {"c": 7, "d": 50, "e": 7, "render": 30}}))
    monkeypatch.setattr(execution, "REFERENCE", tmp_path / "reference.json")
    return tmp_path


def test_seconds_are_kept_and_a_damaged_file_counts_as_none(place):
    assert execution.known_seconds() == {}
    assert execution.expected_seconds([]) == 0
    assert execution.expected_seconds(["c", "d", "new"]) == (7 + 50 + 7) / 2 + 30  # a new one like the median of all
    for name, value in (("a", 10.04), ("b", 30.0), ("render", 5.0)):
        execution.record_seconds(name, value)
    assert execution.known_seconds() == {"a": 10.0, "b": 30.0, "render": 5.0}
    assert execution.expected_seconds(["a"]) == 15
    assert execution.expected_seconds(["a", "d"]) == (10 + 50) / 2 + 5
    (place / "timings.json").write_text("[1")
    assert execution.known_seconds() == {}


def test_the_bar_of_a_build_goes_on_where_the_runs_ended():
    for terminal in (True, False):
        shown = Console(file=io.StringIO(), force_terminal=terminal, width=100)
        with execution.progress(["a", "b"], shown, 40) as advance:
            advance()
            advance()
        assert ("the book" in shown.file.getvalue()) == terminal


def record(*sections, scale="laptop"):
    for section in sections:
        for spec in registry.request(section, scale).specs[:2]:
            mocks.record(spec, *CLEAN_AND_PGD, per_class=4)


def changed(before, after):
    return {one for name in before for one in after[name] if before[name].get(one) != after[name][one]}


def test_what_a_page_depends_on_is_its_own_and_that_of_ledgers_everything(data):
    nothing = execution.executions("quick")
    assert nothing[SECTION].keys() == {f"computed/{SECTION}"}
    record(SECTION)
    recorded = execution.executions("quick")
    ledgers = {f"computed/{name}" for name in ("index", "claims", "papers")}
    assert changed(nothing, recorded) >= {f"recorded/{SECTION}", *ledgers}
    assert f"computed/{SECTION}" in changed(nothing, recorded)  # which says how much of it is recorded
    assert "computed/wei2023/2-theory" not in changed(nothing, recorded)
    spec = registry.request(SECTION).specs[0]
    mocks.record(spec, *CLEAN_AND_PGD, per_class=4)
    computed = changed(recorded, execution.executions("quick"))
    assert computed >= {f"computed/{SECTION}", *ledgers}
    assert not any(one.startswith("recorded/") for one in computed)


def test_the_first_book_shows_what_is_recorded_of_pages_that_wait_for_digits(data):
    record(SECTION)
    shown = {page.name: page for page in execution.pages("quick", execution.executions("quick"), first=True)}
    waits, theory = shown["tian2021/6-2-background"], shown["wei2023/2-theory"]
    assert (shown[SECTION].coming, list(shown[SECTION].parts)) == (True, [f"recorded/{SECTION}"])
    assert (waits.coming, waits.parts) == (True, {})
    assert (theory.coming, list(theory.parts)) == (False, ["computed/wei2023/2-theory"])
    assert (shown["claims"].coming, list(shown["claims"].parts)) == (True, ["computed/claims"])
    last = {page.name: page for page in execution.pages("quick", execution.executions("quick"))}
    assert last["claims"].parts != shown["claims"].parts  # executed again, whatever is stored by then
    assert last["wei2023/2-theory"].parts == theory.parts
    assert last[SECTION].parts[f"recorded/{SECTION}"] == shown[SECTION].parts[f"recorded/{SECTION}"]


def write_notebook(path, *outputs):
    cells = [nbformat.v4.new_markdown_cell("# Title"), nbformat.v4.new_code_cell("show()", outputs=list(outputs))]
    node = nbformat.v4.new_notebook(cells=cells, metadata={"papermill": {"parameters": {}}})
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(node, path)


def test_a_page_that_waits_says_so_below_its_title(place):
    error = nbformat.v4.new_output("error", ename="NotRecorded", evalue="no run", traceback=[])
    write_notebook(place / f"recorded/{SECTION}.ipynb", error)
    page = execution.Page(SECTION, "quick", {f"recorded/{SECTION}": "digest"}, coming=True)
    page.compose()
    node = nbformat.read(page.target, as_version=4)
    assert [execution.COMING in cell.source for cell in node.cells] == [False, True, False]
    assert "Not yet run on digits." in node.cells[2].outputs[0].data["text/html"]
    assert execution.is_made(page.target, page.digest)
    assert not execution.is_made(page.target, execution.Page(SECTION, "quick", page.parts, coming=False).digest)
    nothing = execution.Page(SECTION, "quick", {}, coming=True)
    nothing.compose()
    node = nbformat.read(nothing.target, as_version=4)
    assert execution.COMING in node.cells[1].source
    assert len(node.cells) == 1 + len(json.loads(notebooks.find(SECTION).read_text())["cells"])


@pytest.fixture
def executed(place, monkeypatch):
    """A function that executes made-up pages in this process and returns the executions; pages in `fail` raise."""
    done = []

    def execute(one, scale, made):
        if one in executed.fail:
            raise notebooks.NotebookFailed(f"{one} failed")
        done.append(one)
        (place / one).parent.mkdir(parents=True, exist_ok=True)
        (place / f"{one}.ipynb").write_text("{}")
        (place / f"{one}.digest").write_text(made)
        return 1.0

    monkeypatch.setattr(execution, "ProcessPoolExecutor", lambda *given: ThreadPoolExecutor(1))
    monkeypatch.setattr(execution, "_execute", execute)
    monkeypatch.setattr(execution.data, "write_files", lambda *given: done.append("files"))
    monkeypatch.setattr(execution.Page, "compose", lambda page: done.append(page.name))

    def executed(*pages, fail=()):
        executed.fail = fail
        done.clear()
        try:
            execution.execute_pages(pages, Console(quiet=True))
        except notebooks.NotebookFailed as error:
            done.append(str(error).splitlines()[0])
        return list(done)

    return executed


def test_only_what_changed_is_executed_the_longest_first_and_ledgers_last(executed):
    page = execution.Page("a", "quick", {"recorded/a": "1", "computed/a": "1"}, coming=False)
    ledger = execution.Page("index", "quick", {"computed/index": "1"}, coming=False)
    execution.record_seconds("computed/a", 90)
    order = ["computed/a", "recorded/a", "a", "files", "computed/index", "index"]
    assert [one for one in executed(ledger, page) if one != "a"] == [one for one in order if one != "a"]
    again = execution.Page("a", "quick", {"recorded/a": "1", "computed/a": "2"}, coming=False)
    assert executed(again) == ["computed/a", "files", "a"]
    assert executed(again) == ["a"]  # whose page is not there


def test_an_execution_that_fails_leaves_the_others_for_the_next_call(executed):
    pages = [execution.Page(name, "quick", {f"computed/{name}": "1"}, coming=False) for name in ("a", "b")]
    assert set(executed(*pages, fail=["computed/a"])) == {"files", "computed/b", "b", "computed/a failed"}
    assert set(executed(*pages)) == {"files", "computed/a", "a", "b"}


@pytest.mark.parametrize(("opening", "last"), [({"matched", "laptop"}, "matched"), ({"laptop"}, "laptop"), (set(), "laptop")])
def test_a_page_shows_the_first_recorded_scale_at_which_it_begins(place, monkeypatch, opening, last):
    """The last one, if none does, which `scale_switch.merge` marks."""
    tried = []
    monkeypatch.setattr(execution.runs, "shown_scales", lambda section, scale: ["matched", "laptop", "quick"])
    monkeypatch.setattr(execution.notebooks, "execute", lambda source, out, given, *rest, **more: tried.append(given["scale"]))
    monkeypatch.setattr(scale_switch, "opens_with_chart", lambda out: tried[-1] in opening)
    monkeypatch.setattr(scale_switch, "check_executed", lambda *given, **more: None)
    execution._execute(f"recorded/{SECTION}", "quick", "digest")
    assert tried[-1] == last
    assert (place / f"recorded/{SECTION}.digest").read_text() == "digest"


def test_an_execution_with_an_error_that_is_no_missing_result_is_not_kept(place, data, monkeypatch):
    record(SECTION)
    error = nbformat.v4.new_output("error", ename="OSError", evalue="no space left", traceback=[])
    monkeypatch.setattr(execution.notebooks, "execute", lambda source, out, *rest, **more: write_notebook(out, error))
    with pytest.raises(notebooks.NotebookFailed, match="no space left"):
        execution._execute(f"recorded/{SECTION}", "quick", "digest")
    assert not (place / f"recorded/{SECTION}.digest").exists()


def test_where_nothing_may_be_computed_results_are_missing_and_no_verdict_on_them_is_kept(data, monkeypatch):
    monkeypatch.setenv(scales.READ_ONLY, "1")
    request = registry.request(SECTION)
    with pytest.raises(NotRecorded, match="are not recorded"):
        runs.outcomes(request)
    with pytest.raises(NotRecorded, match="no run of this section"):
        runs.keep_recorded(request)
    assert {verdict.verdict for verdict in runs.verdicts(sections=[SECTION])} == {"not tested"}
    assert not any((data / "verdicts").glob("*.json"))
    assert store.Key(request.specs[0]).path is None


@pytest.mark.parametrize("name", ["attack", "pgd"])
def test_a_book_that_trains_nothing_says_that_networks_of_digits_are_missing(place, data, monkeypatch, name):
    monkeypatch.setenv(scales.READ_ONLY, "1")
    execution._execute(f"computed/{name}", "laptop", "digest")
    words = (place / f"computed/{name}.ipynb").read_text()
    assert ("not trained yet" if name == "attack" else "Not yet run on ") in words
