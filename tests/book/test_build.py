"""What a build says beforehand, its bar, and the book as one file."""

import io
import os
import shutil
import threading
import zipfile

import pytest
from rich.console import Console

from classwise.book import build
from classwise.core.errors import UserError
from classwise.core.spec import Evaluation
from classwise.runs import store


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A build folder of the test's own."""
    monkeypatch.setattr(build, "build_folder", lambda: tmp_path)
    return tmp_path


def test_seconds_are_kept_and_a_damaged_file_counts_as_none(place):
    assert build.known_seconds() == {}
    assert build.seconds_after_runs([]) == 0
    assert build.seconds_after_runs(["a", "b"]) == build.NOTEBOOK + build.RENDER
    for name, value in (("a", 10.04), ("b", 30.0), ("render", 5.0)):
        build.record_seconds(name, value)
    assert build.known_seconds() == {"a": 10.0, "b": 30.0, "render": 5.0}
    assert build.seconds_after_runs(["a"]) == 15
    assert build.seconds_after_runs(["a", "new"]) == (10 + 20) / 2 + 5  # a new one like the median of the others
    (place / "timings.json").write_text("[1")
    assert build.known_seconds() == {}


def test_a_build_says_what_it_will_do_and_its_bar_goes_on_where_the_runs_ended(data, small):
    out = Console(file=io.StringIO())
    assert build.announce({}, [], out, 1) == 0
    assert out.file.getvalue() == ""
    build.record_seconds("a", 50)
    build.record_seconds("render", 70)
    assert build.announce({small: [store.Key(small, store.OUTCOMES, Evaluation())]}, ["a"], out, 1) > 0
    line = out.file.getvalue()
    assert line.startswith("1 run to train and 1 evaluation, about")
    assert "; 1 notebook to execute and the book to render, about 2.0 minutes; in all 2" in line
    for terminal in (True, False):
        shown = Console(file=io.StringIO(), force_terminal=terminal, width=100)
        with build.progress(["a", "b"], shown, 40) as advance:
            advance()
            advance()
        assert ("the book" in shown.file.getvalue()) == terminal


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


@pytest.mark.parametrize(("opening", "shown"), [({"matched", "laptop"}, "matched"), ({"laptop"}, "laptop"), (set(), "laptop")])
def test_a_page_shows_the_first_recorded_scale_at_which_it_begins(monkeypatch, opening, shown):
    """The last one, if none does, which `scale_switch.merge` marks."""
    name, executed, merged = "tian2021/4-1-class-bias", [], []
    monkeypatch.setattr(build, "execute", lambda *given: None)
    monkeypatch.setattr(build.runs, "shown_scales", lambda section, scale: ["matched", "laptop", "quick"])
    monkeypatch.setattr(build, "_is_complete", lambda section, scale: False)
    monkeypatch.setattr(build.notebooks, "execute", lambda source, out, given, *rest, **more: executed.append(given["scale"]))
    monkeypatch.setattr(build.scale_switch, "opens_with_chart", lambda out: executed[-1] in opening)
    monkeypatch.setattr(build.scale_switch, "merge", lambda *given, **more: merged.append((executed[-1], given[2])))
    build._execute(name, "quick")
    assert merged == [(shown, (shown, "quick"))]
