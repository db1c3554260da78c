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


@pytest.mark.parametrize(("load", "idle"), [(0.1, 4), (1.2, 3), (3.9, 1), (40.0, 1)])
def test_busy_cores_are_not_idle(monkeypatch, load, idle):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    assert threads.idle_cores() == idle


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
