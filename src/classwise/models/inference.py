"""The same network, faster to attack: batch norm folded into the convolutions, and on request in bfloat16."""

import copy
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from classwise.core.errors import UserError, unknown

PRECISIONS = ("float32", "bfloat16")

# How far the logits of a folded network may lie from those of its original, as a share of their spread.
_ROOM = 1e-3


def fused_for_search(model: nn.Module, x: Tensor, precision: str = "float32") -> nn.Module:
    """Return a network for the search of an attack on a model in eval mode; its answers are no verdict.

    `x` are some images, on which the folded network is compared with the model: where it cannot be folded, or answers
    differently, the model itself is taken. precision: "bfloat16" lets convolutions and linear layers run in it, where the
    layers between them take that; images, logits and gradients stay in float32.
    """
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    network = _folded(model, x)
    if precision == "float32":
        return network
    narrow = _BFloat16Copy(network)
    try:
        with torch.no_grad():
            narrow(x)
    except RuntimeError:  # layers that are neither convolutions nor linear do not take what those give
        return network
    return narrow


def _folded(model: nn.Module, x: Tensor) -> nn.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traced = fx.symbolic_trace(model)
        folds = _fold(traced)
        with torch.no_grad():
            logits, same = model(x), traced(x)
    except Exception:  # a forward with branches, hooks or a style that cannot be traced: anything may be raised
        return model
    room = _ROOM * logits.std().clamp_min(1e-6)
    return traced.eval() if folds and (logits - same).abs().max() <= room else model


def _fold(network: fx.GraphModule) -> int:
    """Fold each batch norm that alone reads a convolution into a copy of it; return how many there were."""
    modules, folds = dict(network.named_modules()), 0
    for node in list(network.graph.nodes):
        before = node.args[0] if node.args else None
        if node.op != "call_module" or not isinstance(before, fx.Node) or before.op != "call_module":
            continue
        conv, norm = modules[str(before.target)], modules[str(node.target)]
        if not isinstance(conv, nn.Conv2d) or not isinstance(norm, nn.BatchNorm2d) or len(before.users) > 1:
            continue
        if norm.training or not norm.track_running_stats:
            continue
        folded = fuse_conv_bn_eval(conv, norm).requires_grad_(False).to(memory_format=torch.channels_last)
        _put(network, str(before.target), folded)
        node.replace_all_uses_with(before)
        network.graph.erase_node(node)
        folds += 1
    network.recompile()
    return folds


def _put(network: nn.Module, name: str, layer: nn.Module) -> None:
    home, _, last = name.rpartition(".")
    setattr(network.get_submodule(home), last, layer)


class _BFloat16Copy(nn.Module):
    """A copy of a network whose convolutions and linear layers run in bfloat16."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = copy.deepcopy(network).requires_grad_(False)
        for layer in self.network.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                layer.to(torch.bfloat16)
                layer.register_forward_pre_hook(lambda _, inputs: (inputs[0].to(torch.bfloat16), *inputs[1:]))
        self.to(memory_format=torch.channels_last)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network(x.contiguous(memory_format=torch.channels_last))
        return logits.float()


class BFloat16(nn.Module):
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
    network = BFloat16(model) if precision == "bfloat16" else model
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
