"""The number of threads of an audit: all idle cores where they are faster than one."""

import pytest
import torch

from classwise.runs.compute import threads


@pytest.fixture(autouse=True)
def _four_threads(monkeypatch):
    """A process of four threads, in which a measurement is short."""
    monkeypatch.setattr(threads, "_SECONDS", 0.01)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("used", "seconds", "chosen"),
    [
        ((0, 2, 5, 0), {1: 0.1, 4: 0.05}, 4),
        ((0, 0, 0, 0), {1: 0.1, 4: 0.095}, 1),
        ((0, 0, 0, 0), {1: 0.02, 4: 0.2}, 1),
        ((40, 40, 40, 0), {1: 0.1, 2: 0.05}, 2),
        ((100, 100, 90, 100), {}, 1),  # one is taken without a measurement
        ((0,) * 64, {1: 0.1, 4: 0.05}, 4),  # no more than this process may use
    ],
)
def test_idle_cores_are_used_where_that_saves_time_and_the_former_number_is_restored(monkeypatch, used, seconds, chosen):
    monkeypatch.setattr(threads.psutil, "cpu_percent", lambda seconds, percpu: [float(share) for share in used])
    monkeypatch.setattr(threads, "seconds_of_step", lambda step, number: seconds[number])
    with threads.fastest_threads(lambda: None) as number:
        assert number == torch.get_num_threads() == chosen
    assert torch.get_num_threads() == 4


def test_a_measurement_tries_both_numbers_and_draws_no_random_numbers_of_the_process(monkeypatch):
    monkeypatch.setattr(threads, "idle_cores", lambda: 2)
    torch.manual_seed(0)
    expected, tried = torch.rand(3), set()
    torch.manual_seed(0)
    with threads.fastest_threads(lambda: (tried.add(torch.get_num_threads()), torch.rand(5))):
        assert torch.equal(torch.rand(3), expected)
    assert tried == {1, 2}
