"""Faster networks: batch norm fused into convolutions for attacks, bfloat16 and compilation."""

import copy
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_conv_bn_weights

from classwise.core.errors import UserError, check_known

PRECISIONS = ("float32", "bfloat16")

# The largest difference between the logits of a fused network and its original, relative to their standard deviation.
_TOLERANCE = 1e-3


def fuse_for_search(model: nn.Module, x: Tensor, precision: str = "float32") -> nn.Module:
    """Return a faster network for the search of an attack on a model in eval mode; success is judged with the model itself.

    Batch norm is fused into convolutions. `x` are some images on which the result is compared with the model: where it cannot be
    fused, or the logits differ, the model itself is returned. precision: "bfloat16" runs convolutions and linear layers in it if
    the layers between them allow it; images, logits and gradients stay in float32. A UserError names an unknown precision.
    """
    check_known("precision", [precision], PRECISIONS)
    network = _fused(model, x)
    if precision == "float32":
        return network
    converted = BFloat16Copy(network)
    try:
        with torch.no_grad():
            converted(x)
    except RuntimeError:  # other layers may not accept bfloat16
        return network
    return converted


def _fused(model: nn.Module, x: Tensor) -> nn.Module:
    """Return a model with batch norm fused into convolutions, or the model itself where that fails or changes the logits."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traced = fx.symbolic_trace(model)
        pairs = [pair for pair in _pairs(traced) if not pair[1].training]
        for conv, norm, before, node in pairs:
            layer = fuse_conv_bn_eval(conv, norm).requires_grad_(False).to(memory_format=torch.channels_last)
            traced.set_submodule(str(before.target), layer)
            node.replace_all_uses_with(before)
            traced.graph.erase_node(node)
        traced.recompile()
        with torch.no_grad():
            logits, fused = model(x), traced(x)
    except Exception:  # a forward pass that cannot be traced may raise anything
        return model
    tolerance = _TOLERANCE * logits.std().clamp_min(1e-6)
    return traced.eval() if pairs and (logits - fused).abs().max() <= tolerance else model


def _pairs(network: fx.GraphModule) -> list[tuple[nn.Conv2d, nn.BatchNorm2d, fx.Node, fx.Node]]:
    """Return each convolution that only a batch norm reads, with that one and the nodes of both, where each is called once."""
    modules, pairs = dict(network.named_modules()), []
    calls = Counter(id(modules[str(node.target)]) for node in network.graph.nodes if node.op == "call_module")
    for node in network.graph.nodes:
        before = node.args[0] if node.args else None
        if node.op != "call_module" or not isinstance(before, fx.Node) or before.op != "call_module":
            continue
        conv, norm = modules[str(before.target)], modules[str(node.target)]
        once = len(before.users) == calls[id(conv)] == calls[id(norm)] == 1
        if once and type(conv) is nn.Conv2d and type(norm) is nn.BatchNorm2d and norm.track_running_stats:
            pairs.append((conv, norm, before, node))
    return pairs


Fusions = Sequence[tuple[nn.Conv2d, nn.BatchNorm2d]]


def fusions(model: nn.Module) -> Fusions:
    """Return the convolutions of a model in eval mode with the batch norms that `fuse_in_place` puts into them, if any."""
    try:
        return [(conv, norm) for conv, norm, *_ in _pairs(fx.symbolic_trace(model))]
    except Exception:  # a forward pass that cannot be traced may raise anything
        return []


@contextmanager
def fuse_in_place(pairs: Fusions) -> Iterator[None]:
    """Put the running statistics of batch norms into the weights of the convolutions before them for the duration of the block.

    Inside it the network has the outputs of eval mode up to rounding, and no gradients of these weights.
    """
    saved = [(conv, norm, conv.weight, conv.bias) for conv, norm in pairs]
    try:
        for conv, norm in pairs:
            mean, var = cast("Tensor", norm.running_mean), cast("Tensor", norm.running_var)
            conv.weight, conv.bias = fuse_conv_bn_weights(conv.weight, conv.bias, mean, var, norm.eps, norm.weight, norm.bias)
            vars(norm)["forward"] = nn.Identity().forward
        yield
    finally:
        for conv, norm, weight, bias in saved:
            conv.weight, conv.bias = weight, bias
            vars(norm).pop("forward", None)


class BFloat16Copy(nn.Module):
    """A frozen copy of a network for attacks, whose convolutions and linear layers have bfloat16 weights.

    Their inputs are cast to bfloat16 and the logits back to float32; all other layers run in the type of their input.
    """

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


class BFloat16Autocast(nn.Module):
    """A classifier for training, whose body runs under autocast to bfloat16; its parameters, head and logits stay in float32.

    Autocast is entered for each pass: its cache would reuse the weights cast in a pass without gradients in the next one.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def features(self, x: Tensor) -> Tensor:
        """Return the penultimate layer in float32, as `models.Classifier.features`."""
        with torch.autocast(x.device.type, torch.bfloat16):
            features: Tensor = self.network.features(x)  # type: ignore[operator]
        return features.float()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network.head(self.features(x))  # type: ignore[operator]
        return logits


def compile_backend() -> str | None:
    """Return CLASSWISE_COMPILE, a backend of torch.compile, None where it is not set; a UserError names an unknown one."""
    backend = os.environ.get("CLASSWISE_COMPILE")
    if not backend:
        return None
    known = [*torch.compiler.list_backends(), "eager", "aot_eager"]
    if backend not in known:
        raise UserError(f"CLASSWISE_COMPILE={backend!r} is no backend of torch.compile; there are: {', '.join(known)}")
    return backend


def training_network(model: nn.Module, precision: str) -> nn.Module:
    """Return the network that training steps call, which shares the model's parameters; for float32 it is the model itself.

    CLASSWISE_COMPILE names a backend of torch.compile ("inductor"), whose results are the same up to rounding. A UserError names
    an unknown backend.
    """
    if precision == "bfloat16" or next(model.parameters()).is_cuda:
        model.to(memory_format=torch.channels_last)
    network = BFloat16Autocast(model) if precision == "bfloat16" else model
    backend = compile_backend()
    if backend is None:
        return network
    compiled = torch.compile(network, backend=backend)
    assert isinstance(compiled, nn.Module)
    return compiled


@contextmanager
def seed_random_state(generator: torch.Generator, epoch: int) -> Iterator[None]:
    """Seed the global random state, which dropout draws from, by the generator's seed and the epoch; restore it afterwards."""
    device = generator.device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed((generator.initial_seed() * 10_007 + epoch) % 2**63)
        yield
