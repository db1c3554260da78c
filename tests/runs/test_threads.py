"""The number of threads of an audit: that of the fastest steps, and never more than cores are idle."""

import os
import time

import pytest
import torch

from classwise.runs.compute import threads


def step_of(seconds):
    """Return a step that takes so many seconds on each number of threads."""
    return lambda: time.sleep(seconds[torch.get_num_threads()])


@pytest.mark.parametrize(
    ("seconds", "most", "best"),
    [
        ({1: 0.02, 2: 0.2}, 2, 1),
        ({1: 0.1, 2: 0.05}, 2, 2),
        ({1: 0.1, 2: 0.05}, 1, 1),
        ({1: 0.1, 2: 0.095}, 2, 1),
        ({1: 0.1, 2: 0.05, 3: 0.1}, 3, 2),
        ({1: 0.1, 2: 0.08, 4: 0.05, 6: 0.02}, 6, 6),
    ],
)
def test_the_fastest_number_of_threads_is_taken_and_the_former_one_restored(monkeypatch, seconds, most, best):
    monkeypatch.setattr(threads, "_SECONDS", 0.05)
    before = torch.get_num_threads()
    assert threads.fastest(step_of(seconds), most) == best
    assert torch.get_num_threads() == before


def test_numbers_above_the_first_slower_one_are_not_tried(monkeypatch):
    monkeypatch.setattr(threads, "_SECONDS", 0.01)
    tried = set()

    def step():
        tried.add(torch.get_num_threads())
        time.sleep(0.02 * torch.get_num_threads())

    assert threads.fastest(step, 8) == 1
    assert tried == {1, 2}


def test_a_measurement_draws_no_random_numbers_of_the_process(monkeypatch):
    monkeypatch.setattr(threads, "_SECONDS", 0.01)
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    threads.fastest(lambda: torch.rand(5), 1)
    assert torch.equal(torch.rand(3), expected)


@pytest.fixture
def four_cores(monkeypatch):
    monkeypatch.setattr(threads, "_WATCHED", 0.01)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)


@pytest.mark.parametrize(("load", "idle"), [(0.1, 4), (1.2, 2), (2.0, 2), (3.9, 1), (40.0, 1)])
def test_busy_cores_are_not_idle(monkeypatch, four_cores, tmp_path, load, idle):
    monkeypatch.setattr(threads, "_TIMES", tmp_path / "none")
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    assert threads.idle_cores() == idle


def test_the_load_of_other_cores_is_not_subtracted_from_those_of_this_process(monkeypatch, four_cores, tmp_path):
    monkeypatch.setattr(threads, "_TIMES", tmp_path / "none")
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(os, "getloadavg", lambda: (8.0, 0.0, 0.0))
    assert threads.idle_cores() == 4


@pytest.mark.parametrize(
    ("used", "idle"),
    [((0, 0, 0, 0), 4), ((0.05, 0.02, 0.02, 0), 4), ((0.4, 0.4, 0.4, 0), 2), ((1, 0, 1, 0.9), 1), ((1, 1, 1, 1), 1)],
)
def test_idle_cores_are_watched_where_the_system_counts_their_time(monkeypatch, four_cores, tmp_path, used, idle):
    """Core 4, which this process may not use, is busy; so was the past minute."""
    monkeypatch.setattr(os, "getloadavg", lambda: (40.0, 0.0, 0.0))
    monkeypatch.setattr(threads, "_TIMES", tmp_path / "stat")
    shares = dict(enumerate((*used, 1)))

    def write(ticks):
        rows = [f"cpu{core} {round(used * ticks)} 0 0 {round((1 - used) * ticks)} 0 0 0 0 0 0" for core, used in shares.items()]
        (tmp_path / "stat").write_text("\n".join(["cpu 1 2 3 4 5 6 7 8 9 10", *rows, "btime 1"]))

    write(1000)
    monkeypatch.setattr(threads.time, "sleep", lambda _: write(1100))
    assert threads.idle_cores() == idle


def test_counts_that_stand_still_are_not_believed(monkeypatch, four_cores, tmp_path):
    (tmp_path / "stat").write_text("\n".join(f"cpu{core} 0 0 0 0 0 0 0 0" for core in range(4)))
    monkeypatch.setattr(threads, "_TIMES", tmp_path / "stat")
    monkeypatch.setattr(os, "getloadavg", lambda: (1.0, 0.0, 0.0))
    assert threads.idle_cores() == 3


def test_a_busy_machine_gets_one_thread_without_a_measurement(monkeypatch):
    monkeypatch.setattr(threads, "idle_cores", lambda: 1)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threads.measured(pytest.fail) as number:
            assert number == torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
