"""What the tests of attacks share."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn


def _state(model):
    """All of a model and of the random states that a call may change, as lists."""
    layers, parameters = list(model.modules()), list(model.parameters())
    tensors = [*model.state_dict().values(), torch.get_rng_state(), torch.from_numpy(np.random.get_state()[1])]
    flags = [layer.training for layer in layers], [one.requires_grad for one in parameters], [one.grad for one in parameters]
    return [value.clone() for value in tensors], flags


@pytest.fixture
def untouched():
    """A context that leaves a model as it was, in mode, weights and gradients, and the random states."""

    @contextmanager
    def watched(model, *, train=False):
        model.zero_grad(set_to_none=True)
        model.train(train)
        first, last = next(layer for layer in model.modules() if isinstance(layer, nn.Conv2d)), list(model.parameters())[-1]
        first.train(not train)
        last.requires_grad_(False)
        (before, flags), calm = _state(model), False
        try:
            yield
            after, now = _state(model)
            calm = flags == now and all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
        finally:
            last.requires_grad_(True)
            model.eval()
        assert calm, "the model or a random state has changed"

    return watched
