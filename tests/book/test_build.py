"""What a build says beforehand, the order of its parts, and the book as one file."""

import io
import os
import shutil
import threading
import zipfile

import nbformat
import pytest
from rich.console import Console

from classwise.book import build, execution, notebooks
from classwise.core.errors import UserError
from classwise.core.spec import Evaluation
from classwise.papers import registry, scales
from classwise.runs import store
from classwise.runs.schedule import plan, pool

ENSURE_RUNS = build.ensure_runs


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A build folder of the test's own."""
    for module in (build, execution):
        monkeypatch.setattr(module, "build_folder", lambda: tmp_path)
    return tmp_path


def test_a_build_says_what_it_will_do(data, small):
    out = Console(file=io.StringIO())
    assert build.announce({}, [], out, 1) == 0
    assert out.file.getvalue() == ""
    execution.record_seconds("computed/a", 50)
    execution.record_seconds("render", 70)
    left = plan.missing({small: [store.Key(small, store.OUTCOMES, Evaluation())]})
    assert build.announce(left, ["computed/a"], out, 1) > 0
    line = out.file.getvalue()
    assert line.startswith("1 run to train and 1 evaluation, about")
    assert "; 1 notebook to execute and the book to render, about 2.0 minutes; in all 2" in line
    build.announce({}, ["computed/a"], out, 1, renders=False)
    assert out.file.getvalue().splitlines()[-1] == "1 notebook to execute, about 50 seconds"
    execution.record_seconds("recorded/a", 110)
    build.announce(left, ["computed/a"], out, 1, first=["recorded/a"])
    line = out.file.getvalue().splitlines()[-1]
    assert line.startswith("a first book of what is recorded, about 3.0 minutes; 1 run to train")
    assert "; 1 notebook to execute and the book to render, about 2.0 minutes; in all 5" in line


@pytest.fixture
def built(place, data, monkeypatch):
    """A function that builds a book whose parts only note that they were called, and returns the notes."""
    steps = []

    def note(name, result=True):
        read_only = bool(os.environ.get(scales.READ_ONLY))
        steps.append(f"{name}, read only" if read_only else name)
        return result

    def render(scale, console):
        (place / "html").mkdir(exist_ok=True)
        (place / "html" / "index.html").write_text("")
        return note("render")

    monkeypatch.setattr(build, "write_table_of_contents", lambda: None)

    def execute(shown, *given):
        if built.fails and shown[0].coming:
            raise notebooks.NotebookFailed("a cell failed")
        return note(f"execute {[one.coming for one in shown]}")

    monkeypatch.setattr(execution, "executions", lambda scale: {"audit": dict.fromkeys(built.parts, "digest")})
    monkeypatch.setattr(execution, "execute_pages", execute)
    monkeypatch.setattr(build, "ensure_runs", lambda *given, **more: note("compute"))
    monkeypatch.setattr(build, "_render", render)

    def built(scale="quick", **options):
        steps.clear()
        build.build(scale, Console(quiet=True), **options)
        return list(steps)

    built.fails, built.parts = False, ["recorded/audit", "computed/audit"]
    return built


def test_a_first_book_of_what_is_recorded_comes_before_anything_is_computed(built):
    """It is rendered where there is none, by processes that compute nothing."""
    rest = ["compute", "execute [False]", "render"]
    assert built(scheduler="tcp://none:1") == rest  # which is asked first whether it answers
    assert built() == rest  # the book that is there is read meanwhile
    shutil.rmtree(build.build_folder() / "html")
    assert built() == ["execute [True], read only", "render, read only", *rest]
    shutil.rmtree(build.build_folder() / "html")
    built.fails = True  # the whole book may not
    assert built() == rest
    shutil.rmtree(build.build_folder() / "html")
    built.parts = ["computed/audit"]  # nothing is recorded
    assert built() == rest


def test_a_book_of_a_scale_that_is_only_read_computes_nothing(built, monkeypatch):
    monkeypatch.setattr(build, "ensure_runs", ENSURE_RUNS)
    monkeypatch.setattr(pool, "ensure_runs", lambda *given, **more: pytest.fail("runs are computed"))
    assert built("laptop") == ["execute [False], read only", "render, read only"]


def book(folder):
    (folder / "guide").mkdir(parents=True)
    for name in ("index.html", "guide/reading.html", ".buildinfo"):
        (folder / name).write_text(name)
    return folder


def test_the_same_book_gives_the_same_bytes_with_its_first_page_at_the_top(place):
    html, out = book(place / "html"), Console(quiet=True)
    first = build.pack(out).read_bytes()
    shutil.rmtree(html)
    os.utime(book(html) / "index.html", (0, 0))
    (html / "guide" / "reading.html").chmod(0o600)
    assert build.pack(out).read_bytes() == first
    assert sorted(zipfile.ZipFile(io.BytesIO(first)).namelist()) == ["guide/reading.html", "index.html"]
    (html / "index.html").write_text("changed")
    assert build.pack(out).read_bytes() != first


def test_a_book_is_packed_once_no_build_is_at_work_and_without_one_a_sentence_says_what_to_do(place):
    said, packed = Console(record=True, width=200), []
    with pytest.raises(UserError, match="`make book` builds it"):
        build.pack(said)
    with build.lock(Console(quiet=True)):  # the moment at which the old book is gone
        other = threading.Thread(target=lambda: packed.append(build.pack(said)))
        other.start()
        other.join(0.5)
        assert packed == []
        book(place / "html")
    other.join(60)
    assert zipfile.ZipFile(packed[0]).namelist() == ["guide/reading.html", "index.html"]
    assert "another build of the book is at work" in said.export_text()
    (place / "html" / "index.html").write_text(execution.COMING)
    with pytest.raises(UserError, match="`make book` completes it"):
        build.pack(said)


def test_a_page_with_parameters_says_how_long_it_takes_and_then_which_file_to_open(place, data, monkeypatch, command, capsys):
    name = "tian2021/4-1-class-bias"
    monkeypatch.setattr("classwise.core.paths.build_folder", lambda: place)
    monkeypatch.setattr(build, "ensure_runs", lambda wanted, scale, console: console.print(f"{len(wanted)} runs, {scale}"))

    def execute(name, target, given, failed):
        target.parent.mkdir(parents=True)
        nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# A page")]), target)

    monkeypatch.setattr(execution, "execute", execute)
    execution.record_seconds(f"computed/{name}", 50)
    assert command("render", name, "-p", "seeds=[0] eps=0.1") == 0
    out, said = capsys.readouterr()
    runs = len(registry.request(name, seeds=[0], eps=0.1).specs)
    first, second = said.splitlines()
    assert first.startswith(f"{runs} runs to train and ")
    assert "; 1 notebook to execute, about 50 seconds; in all " in first
    assert second == f"{runs} runs, quick"
    page = place / "notebooks" / f"{name}_eps=0.1_seeds=0.html"
    assert out == f"open this page in a browser: {page}\n"
    assert "make book SCALE=quick" in page.read_text()
