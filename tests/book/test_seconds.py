"""What a build says beforehand, and its bar."""

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from classwise.book import seconds
from classwise.core.spec import Evaluation


@pytest.fixture(autouse=True)
def build(tmp_path, monkeypatch):
    """A build folder of the test's own."""
    monkeypatch.setattr(seconds, "build_folder", lambda: tmp_path)
    return tmp_path


def test_seconds_are_kept_and_a_damaged_file_counts_as_none(build):
    assert seconds.stored() == {}
    assert seconds.after_runs([]) == 0
    assert seconds.after_runs(["a", "b"]) == seconds.NOTEBOOK + seconds.RENDER
    for name, value in (("a", 10.04), ("b", 30.0), ("render", 5.0)):
        seconds.record(name, value)
    assert seconds.stored() == {"a": 10.0, "b": 30.0, "render": 5.0}
    assert seconds.after_runs(["a"]) == 15
    assert seconds.after_runs(["a", "new"]) == (10 + 20) / 2 + 5  # a new one like the median of the others
    (build / "timings.json").write_text("[1")
    assert seconds.stored() == {}


def said(pairs: Sequence[object], stale: Sequence[str]) -> str:
    out = io.StringIO()
    seconds.announce(pairs, stale, Console(file=out), 1)  # type: ignore[arg-type]
    return out.getvalue()


def test_a_build_says_what_it_will_do(data, small):
    assert said([], []) == ""
    seconds.record("a", 50)
    seconds.record("render", 70)
    line = said([(small, [Evaluation()])], ["a"])
    assert line.startswith("1 run to train and 1 evaluation, about")
    assert "; 1 notebook to execute and the book to render, about 2.0 minutes; in all 2" in line


def test_the_bar_goes_on_where_the_runs_ended():
    out = io.StringIO()
    with seconds.progress(["a", "b"], Console(file=out, force_terminal=True, width=100), 40) as advance:
        advance()
        advance()
    assert "the book" in out.getvalue()
    plain = io.StringIO()
    with seconds.progress(["a"], Console(file=plain), 0) as advance:
        advance()
    assert plain.getvalue() == ""
