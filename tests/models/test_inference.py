"""A folded network answers as its original does, and gives way where it cannot."""

from contextlib import suppress
from itertools import count

import pytest
import torch
from layers import Layer
from torch import nn

from classwise import models
from classwise.attacks.losses import cross_entropy
from classwise.attacks.pgd import input_gradient
from classwise.core.errors import UserError
from classwise.images import Images
from classwise.models import inference

PIXELS = torch.randint(0, 256, (40, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
SOME = Images(PIXELS, torch.arange(40) % 10, torch.arange(40), tuple("0123456789"))


def settled(name, width=8):
    """A network whose batch norms have seen something."""
    model = models.build(name, SOME, width)
    for _ in range(3):
        model(SOME.batch(slice(None))[0])
    return model.eval()


@pytest.mark.parametrize(("name", "pairs"), [("small-cnn", 3), ("resnet10-s2", 12), ("preact-resnet18", 8), ("lenet", 0)])
def test_a_network_that_is_fused_in_place_is_as_before_afterwards(name, pairs):
    x, model = SOME.batch(slice(None))[0].double(), settled(name).double()
    fused = inference.fusions(model)
    parameters, exact = dict(model.named_parameters()), model(x)
    with suppress(KeyError), inference.fuse_in_place(fused):
        for _, norm in fused:
            norm.running_mean += 1  # no longer read
        inside = model(x)
        raise KeyError
    assert torch.allclose(inside, exact, atol=1e-10)
    assert len(fused) == pairs
    assert all(value is parameters[key] for key, value in model.named_parameters())
    for _, norm in fused:
        norm.running_mean -= 1
    assert torch.allclose(model(x), exact, atol=1e-10)


def test_bfloat16_is_near_and_its_gradients_are_float32():
    model = settled("resnet18")
    x, y = SOME.batch(slice(None))
    narrow = inference.fuse_for_search(model, x, "bfloat16")
    logits, gradient = input_gradient(narrow, x, y, cross_entropy)
    assert logits.dtype == gradient.dtype == torch.float32
    exact = input_gradient(model, x, y, cross_entropy)
    assert 0 < (logits - exact[0]).abs().max() < 0.05 * exact[0].std()
    assert (gradient.sign() == exact[1].sign()).float().mean() > 0.9
    assert all(one.dtype == torch.float32 for one in model.state_dict().values() if one.is_floating_point())
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_layers_that_are_called_twice_are_not_fused():
    conv, one, other = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.BatchNorm2d(3)
    for layers, pairs in (([conv, one], 1), ([conv, one, conv, other], 0), ([conv, one, nn.Conv2d(3, 3, 1), one], 0)):
        assert len(inference.fusions(nn.Sequential(*layers))) == pairs


def branching():
    """Return a network that cannot be traced."""
    return nn.Sequential(settled("small-cnn"), Layer(lambda logits: logits if logits.mean() > 0 else -logits))


def counting():
    """Return a network that a trace does not reproduce: it adds how often it was called."""
    calls = count()
    return nn.Sequential(settled("small-cnn"), Layer(lambda logits: logits + next(calls)))


class Twice(nn.Module):
    """A network with a convolution that two layers read."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, x):
        out = self.conv(x)
        return (self.norm(out) + out).mean((2, 3))


@pytest.mark.parametrize("network", [branching, counting, Twice])
def test_a_network_that_cannot_be_fused_is_taken_as_it_is(network):
    model = network().eval()
    with pytest.raises(UserError, match=r"unknown .*'float16'"):
        inference.fuse_for_search(model, SOME.batch(slice(0, 8))[0], "float16")
    assert inference.fuse_for_search(model, SOME.batch(slice(0, 8))[0]) is model
