"""The plain loop of `quick_run` takes the same steps as the project's training."""

from dataclasses import replace

import pytest
import torch

from benchmarks import quick
from classwise.papers import registry


def test_both_sides_of_quick_run_take_the_same_steps():
    spec = replace(registry.training("quick", "pgd-at", 0), epochs=1)
    data = quick.split(spec)
    ours, theirs = quick.trained(spec, data), quick.plain(spec, data)
    x, _ = data["test"].batch(slice(None))
    with torch.no_grad():
        first, second = ours.eval()(x), theirs.eval()(x)
    assert (first - second).abs().max() < 0.1 * first.std()
    assert (first.argmax(1) == second.argmax(1)).float().mean() > 0.97


def test_quick_run_refuses_a_run_that_the_plain_loop_would_train_otherwise():
    with pytest.raises(ValueError, match="norm"):
        quick.plainly(replace(registry.training("quick", "pgd-at", 0), norm="l2"))
