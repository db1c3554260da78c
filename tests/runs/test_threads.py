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
        ({1: 0.02, 2: 0.2}, 8, 1),  # numbers above the first slower one are not tried
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


def test_a_measurement_draws_no_random_numbers_of_the_process(monkeypatch):
    monkeypatch.setattr(threads, "_SECONDS", 0.01)
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    threads.fastest(lambda: torch.rand(5), 1)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("used", "idle"),
    [((0, 0, 0, 0), 4), ((5, 2, 2, 0), 4), ((40, 40, 40, 0), 2), ((100, 0, 100, 90), 1), ((100, 100, 100, 100), 1)],
)
def test_busy_cores_are_not_idle(monkeypatch, used, idle):
    """Core 4 is idle, but this process may not use it."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(threads.psutil, "cpu_percent", lambda seconds, percpu: [*used, 0.0])
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
