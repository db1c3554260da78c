"""The network as the training steps call it: in bfloat16 and compiled where that is asked for."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from classwise.errors import UserError


class Narrow(nn.Module):
    """A classifier whose body runs in bfloat16; its head, its parameters, images and logits stay in float32.

    Autocast is entered for each pass: its cache of narrowed weights would hand those of a pass without gradients to the next.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def features(self, x: Tensor) -> Tensor:
        """Return the penultimate layer in float32: as `models.Classifier.features`."""
        with torch.autocast(x.device.type, torch.bfloat16):
            found: Tensor = self.network.features(x)  # type: ignore[operator]
        return found.float()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network.head(self.features(x))  # type: ignore[operator]
        return logits


def stepping(model: nn.Module, precision: str) -> nn.Module:
    """Return the network that training steps call, with the model's own parameters; "float32" uncompiled is the model itself.

    CLASSWISE_COMPILE names a backend of torch.compile ("inductor"): other bits, the same mathematics. A UserError says where
    torch knows no such backend.
    """
    if precision == "bfloat16" or next(model.parameters()).is_cuda:
        model.to(memory_format=torch.channels_last)
    network = Narrow(model) if precision == "bfloat16" else model
    backend = os.environ.get("CLASSWISE_COMPILE")
    if not backend:
        return network
    known = [*torch.compiler.list_backends(), "eager", "aot_eager"]
    if backend not in known:
        raise UserError(f"CLASSWISE_COMPILE={backend!r} is no backend of torch.compile; there are: {', '.join(known)}")
    compiled = torch.compile(network, backend=backend)
    assert isinstance(compiled, nn.Module)
    return compiled


@contextmanager
def seeded(generator: torch.Generator, epoch: int) -> Iterator[None]:
    """Let dropout depend on the seed of a training and the epoch alone: it draws from the global state, which is given back."""
    device = generator.device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed((generator.initial_seed() * 10_007 + epoch) % 2**63)
        yield
